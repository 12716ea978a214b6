//! What is known of a session without asking the store, for those who ask on every model call: is there anything at all to
//! tell, to wait for, to put back? Exact for what this process commits; what others commit is learnt from the feed.

use super::{Engine, EngineError};
use reveille_core::{Batch, Item, Kind, Needs, Session, SessionId, Thread, command::Select, reminder};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// Sessions that are remembered, about 500 bytes each. Beyond it any one is forgotten, which costs it a look.
const SESSIONS_MAX: usize = 10_000;

#[derive(Clone, Debug, Default)]
pub struct Glance {
    /// `None`: nothing was ever written for it.
    pub session: Option<Arc<Session>>,
    pub thread: Option<Arc<Thread>>,
}

#[derive(Default)]
pub struct Glances {
    known: Mutex<HashMap<SessionId, Known>>,
    any: AtomicBool,
}

#[derive(Default)]
struct Known {
    glance: Glance,
    /// The thread was written since the look began, so what the look finds of it is older.
    thread_written: bool,
    /// The store was asked; until then only what was committed meanwhile is here.
    complete: bool,
}

impl Glance {
    /// Undelivered messages, at most.
    pub fn pending(&self) -> u32 {
        self.session.as_ref().map_or(0, |session| session.pending_messages)
    }

    pub fn reminders(&self) -> u32 {
        self.session.as_ref().map_or(0, |session| session.live_reminders)
    }

    /// Time may turn something into a message at any moment.
    pub fn is_live(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.live_timers > 0 || session.live_reminders > 0)
    }
}

impl Glances {
    /// Something was committed.
    pub fn note(&self, batch: &Batch) {
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        let mut known = self.known();
        let Some(known) = known.get_mut(&batch.session.id) else { return };
        let newer = known.glance.session.as_ref().is_none_or(|session| session.version < batch.session.version);
        if newer || batch.expected.is_none() {
            known.glance.session = Some(Arc::new(batch.session.clone()));
            if let Some(thread) = batch.items.iter().find_map(|write| write.item().as_thread()) {
                known.glance.thread = Some(Arc::new(thread.clone()));
                known.thread_written = true;
            }
        }
    }

    /// Others have committed what nobody told of here.
    pub fn forget(&self) {
        self.known().clear();
    }

    fn look(&self, session: &SessionId) -> Option<Glance> {
        let mut all = self.known();
        if let Some(known) = all.get(session) {
            return known.complete.then(|| known.glance.clone());
        }
        if all.len() >= SESSIONS_MAX {
            let any = all.iter().find(|(_, known)| known.complete).map(|(session, _)| session.clone());
            any.map(|any| all.remove(&any));
        }
        all.insert(session.clone(), Known::default());
        self.any.store(true, Ordering::Relaxed);
        None
    }

    /// What the store said; what was committed since then goes over it.
    fn learn(&self, id: &SessionId, session: Option<Session>, thread: Option<&Thread>) -> Glance {
        let mut all = self.known();
        let known = all.entry(id.clone()).or_default();
        let version = |session: &Option<Arc<Session>>| session.as_ref().map_or(0, |session| session.version);
        if session.as_ref().map_or(0, |session| session.version) > version(&known.glance.session) {
            known.glance.session = session.map(Arc::new);
        }
        if !known.thread_written && !known.complete {
            known.glance.thread = thread.map(|thread| Arc::new(thread.clone()));
        }
        known.complete = true;
        known.glance.clone()
    }

    fn known(&self) -> MutexGuard<'_, HashMap<SessionId, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// A reminder of this session is still to become due. Those that are due already are somebody's to tell.
    pub async fn expects_reminder(&self, session: &SessionId) -> Result<bool, EngineError> {
        if self.glance(session).await?.reminders() == 0 {
            return Ok(false);
        }
        let needs = Needs { items: Select::LiveOf(Kind::Reminder), ..Needs::default() };
        let state = self.store.load(session, needs).await?;
        Ok(state.items.iter().filter_map(Item::as_reminder).any(|one| one.status() == reminder::Status::Scheduled))
    }

    pub async fn glance(&self, session: &SessionId) -> Result<Glance, EngineError> {
        if let Some(glance) = self.glances.look(session) {
            return Ok(glance);
        }
        let needs = Needs { items: Select::Ids(vec![Thread::id_of(session)]), ..Needs::default() };
        let state = self.store.load(session, needs).await?;
        let thread = state.items.iter().find_map(Item::as_thread);
        Ok(self.glances.learn(session, state.session.clone(), thread))
    }
}
