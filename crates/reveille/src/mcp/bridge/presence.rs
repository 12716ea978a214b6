//! As long as the client lives its sessions are held, so that no wake command resumes a conversation that is open in a
//! window: two programs would write one transcript. And as long as it lives a daemon that dies is started again, so that
//! what the agent sleeps for comes in time.

use super::Daemon;
use reveille_core::SessionId;
use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// A bridge serves one conversation, or a client's few. Beyond this they are simply not held.
const SESSIONS_MAX: usize = 64;
const AGAIN: Duration = Duration::from_secs(1);
/// A daemon that cannot be started is tried more and more seldom, down to this.
const AGAIN_MAX: Duration = Duration::from_secs(600);

#[derive(Clone)]
pub struct Held {
    daemon: Arc<Daemon>,
    sessions: Arc<Mutex<HashSet<SessionId>>>,
    /// A daemon answers, or none can be had.
    started: CancellationToken,
}

impl Held {
    pub fn new(daemon: Arc<Daemon>, started: CancellationToken) -> Self {
        Self { daemon, sessions: Arc::default(), started }
    }

    /// Holds the session from now on, until the process ends.
    pub fn hold(&self, session: &SessionId) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() >= SESSIONS_MAX || !sessions.insert(session.clone()) {
            return;
        }
        let (daemon, session, started) = (self.daemon.clone(), session.clone(), self.started.clone());
        tokio::spawn(async move {
            started.cancelled().await;
            let mut pause = AGAIN;
            loop {
                daemon.presence(&session).await;
                pause = match daemon.revive_if_dead().await {
                    Ok(()) => AGAIN,
                    Err(_) => (pause * 2).min(AGAIN_MAX),
                };
                tokio::time::sleep(pause).await;
            }
        });
    }
}
