//! After the reply: what was really delivered is committed, everything else goes back into the inbox.

use super::{Engine, EngineError};
use reveille_core::{Call, Command, LeaseId, Millis, SessionId};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// Chores carried out at once; more wait their turn.
const CHORES_AT_ONCE_MAX: usize = 64;
/// Tries before a chore is given up: a lease that could not be released runs out by itself. What was delivered is
/// committed however long it takes, or it would be told again.
const TRIES_MAX: u32 = 5;
const RETRY: Millis = Millis::from_secs(1);
/// What is still under way when the server stops has this long; then its lease runs out.
const LAST_CHORES: Duration = Duration::from_secs(5);

/// Leased messages on their way out. Whoever writes the reply confirms it; dropped unconfirmed, they are released.
#[derive(Debug)]
pub struct Delivery {
    session: SessionId,
    lease: LeaseId,
    channel: &'static str,
    chores: mpsc::UnboundedSender<Chore>,
    confirmed: AtomicBool,
    /// The lease is in the store, or will never be: its commit has ended one way or the other.
    written: AtomicBool,
    /// The receiver commits or releases the lease by its name.
    by_name: AtomicBool,
}

/// What is left to do when a reply has gone out, or has not.
#[derive(Debug)]
pub enum Chore {
    Commit {
        session: SessionId,
        lease: LeaseId,
        channel: &'static str,
    },
    Release {
        session: SessionId,
        lease: LeaseId,
    },
    /// Whoever leased left while that was being written.
    Abandon {
        session: SessionId,
        lease: LeaseId,
    },
}

impl Delivery {
    pub(super) fn new(
        session: SessionId,
        lease: LeaseId,
        channel: &'static str,
        chores: mpsc::UnboundedSender<Chore>,
    ) -> Self {
        let (confirmed, written, by_name) = (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
        Self { session, lease, channel, chores, confirmed, written, by_name }
    }

    /// The reply was written. Once is enough, however many held it.
    pub fn confirm(&self) {
        if !self.confirmed.swap(true, Ordering::AcqRel) && !self.by_name.load(Ordering::Acquire) {
            let (session, lease) = (self.session.clone(), self.lease.clone());
            let _ = self.chores.send(Chore::Commit { session, lease, channel: self.channel });
        }
    }
}

impl Delivery {
    /// The reply names the lease, and whoever gets it says what became of the messages. A reply that is never written
    /// still releases them here.
    pub fn by_name(&self) -> &LeaseId {
        self.by_name.store(true, Ordering::Release);
        &self.lease
    }

    pub fn lease(&self) -> &LeaseId {
        &self.lease
    }

    /// The way out it counts as.
    pub fn channel(&self) -> &'static str {
        self.channel
    }

    /// The commit that leases has ended.
    pub(super) fn is_written(&self) {
        self.written.store(true, Ordering::Release);
    }

    /// There was nothing to deliver after all.
    pub(super) fn is_empty(&self) {
        self.confirmed.store(true, Ordering::Release);
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if !self.confirmed.load(Ordering::Acquire) {
            let (session, lease) = (self.session.clone(), self.lease.clone());
            let _ = self.chores.send(match self.written.load(Ordering::Acquire) {
                true => Chore::Release { session, lease },
                false => Chore::Abandon { session, lease },
            });
        }
    }
}

pub async fn run(engine: Arc<Engine>, mut chores: mpsc::UnboundedReceiver<Chore>, stop: CancellationToken) {
    let mut running = JoinSet::new();
    // A free place first: a chore that was taken and has none would be lost at the end.
    let mut next = async |running: &mut JoinSet<()>| {
        while running.len() >= CHORES_AT_ONCE_MAX {
            running.join_next().await;
        }
        chores.recv().await
    };
    while let Some(Some(chore)) = stop.run_until_cancelled(next(&mut running)).await {
        while running.try_join_next().is_some() {}
        let engine = engine.clone();
        running.spawn(async move { engine.do_chore(chore).await });
    }
    // Replies that went out just before the end are committed still, if the store lets them.
    while let Ok(chore) = chores.try_recv() {
        let engine = engine.clone();
        running.spawn(async move {
            let (session, command) = chore.command();
            let _ = engine.execute(&session, Call::new(command)).await;
        });
    }
    let _ = tokio::time::timeout(LAST_CHORES, async { while running.join_next().await.is_some() {} }).await;
}

impl Chore {
    fn command(self) -> (SessionId, Command) {
        match self {
            Chore::Commit { session, lease, channel } => {
                (session, Command::CommitLease { lease, channel: channel.to_owned() })
            }
            Chore::Release { session, lease } => (session, Command::ReleaseLease { lease }),
            Chore::Abandon { session, lease } => (session, Command::AbandonLease { lease }),
        }
    }
}

impl Engine {
    /// A lease that a reply is about to carry out of the house.
    pub fn delivering(&self, session: SessionId, lease: LeaseId, channel: &'static str) -> Arc<Delivery> {
        let delivery = Delivery::new(session, lease, channel, self.chores.clone());
        delivery.is_written();
        Arc::new(delivery)
    }

    async fn do_chore(&self, chore: Chore) {
        // What was told must not be told again.
        let told = matches!(chore, Chore::Commit { .. });
        let (session, command) = chore.command();
        for attempt in 1.. {
            match self.execute(&session, Call::new(command.clone())).await {
                Ok(_) | Err(EngineError::Reject(_)) => return,
                Err(error) if attempt >= TRIES_MAX && !told => {
                    tracing::warn!(%error, %session, "a lease could not be released; it runs out by itself");
                    return;
                }
                Err(_) => self.clock.sleep(RETRY).await,
            }
        }
    }
}
