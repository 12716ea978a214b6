//! What is known of a session without asking the store, for those who ask on every model call: is there anything at all to
//! tell, to wait for, to put back? Exact for what this process commits; what others commit is learnt from the feed.

use super::{Engine, EngineError};
use reveille_core::{
    Batch, Item, Kind, Needs, Session, SessionId, Thread,
    command::{Select, State},
    reminder,
};
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
    all: Mutex<All>,
    any: AtomicBool,
}

#[derive(Default)]
struct All {
    known: HashMap<SessionId, Known>,
    /// Raised whenever everything is forgotten: what was read before that may lack what nobody told of.
    epoch: u64,
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

    /// A turn that ends now may have to go on.
    pub fn goes_on(&self) -> bool {
        let armed = self.thread.as_ref().is_some_and(|thread| thread.stop_message.is_some());
        armed || self.pending() > 0 || self.reminders() > 0
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
        let mut all = self.all();
        let Some(known) = all.known.get_mut(&batch.session.id) else { return };
        let newer = known.glance.session.as_ref().is_none_or(|session| session.version < batch.session.version);
        if newer || batch.expected.is_none() {
            known.glance.session = Some(Arc::new(batch.session.clone()));
            let own = Thread::id_of(&batch.session.id);
            let mut threads = batch.items.iter().filter_map(|write| write.item().as_thread());
            if let Some(thread) = threads.find(|thread| thread.id == own) {
                known.glance.thread = Some(Arc::new(thread.clone()));
                known.thread_written = true;
            }
        }
    }

    /// Others have committed what nobody told of here.
    pub fn forget(&self) {
        let mut all = self.all();
        all.known.clear();
        all.epoch += 1;
    }

    /// What is known; otherwise the epoch in which the store is asked.
    fn look(&self, session: &SessionId) -> Result<Glance, u64> {
        let mut all = self.all();
        let All { known, epoch } = &mut *all;
        if let Some(known) = known.get(session) {
            return if known.complete { Ok(known.glance.clone()) } else { Err(*epoch) };
        }
        if known.len() >= SESSIONS_MAX {
            let any = known.iter().find(|(_, known)| known.complete).map(|(session, _)| session.clone());
            any.map(|any| known.remove(&any));
        }
        known.insert(session.clone(), Known::default());
        self.any.store(true, Ordering::Relaxed);
        Err(*epoch)
    }

    /// What the store said when it was asked in this epoch; what was committed since then goes over it.
    fn learn(&self, epoch: u64, id: &SessionId, session: Option<Session>, thread: Option<&Thread>) -> Glance {
        let mut all = self.all();
        if all.epoch != epoch {
            // True when it was read, and not to be kept.
            return Glance { session: session.map(Arc::new), thread: thread.cloned().map(Arc::new) };
        }
        let known = all.known.entry(id.clone()).or_default();
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

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// The session in which this answer was given, and what is known of it.
    pub async fn answer(&self, answer: &str) -> Result<Option<(SessionId, Thread)>, EngineError> {
        let found = self.store.load_items(vec![Thread::id_of_answer(answer)]).await?;
        let thread = |(session, state): (SessionId, State)| {
            Some((session, state.items.into_iter().find_map(Item::into_thread)?))
        };
        Ok(found.into_iter().find_map(thread))
    }

    pub async fn glance(&self, session: &SessionId) -> Result<Glance, EngineError> {
        let epoch = match self.glances.look(session) {
            Ok(glance) => return Ok(glance),
            Err(epoch) => epoch,
        };
        let needs = Needs { items: Select::Ids(vec![Thread::id_of(session)]), ..Needs::default() };
        let state = self.store.load(session, needs).await?;
        let thread = state.items.iter().find_map(Item::as_thread);
        Ok(self.glances.learn(epoch, session, state.session.clone(), thread))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reveille_core::{Timestamp, command::State};

    /// Others commit, word of it is lost, and a read from before that comes in last.
    #[test]
    fn what_was_read_before_something_was_missed_is_not_kept() {
        let id = SessionId::parse("chat").expect("a name");
        let stored = State::default().session_or_new(&id, Timestamp::from_millis(1));
        let session = Session { version: 1, ..stored };
        let glances = Glances::default();
        let before = glances.look(&id).expect_err("nothing is known yet");
        glances.forget();
        let after = glances.look(&id).expect_err("nor is anything now");
        glances.learn(before, &id, Some(session.clone()), None);
        assert!(glances.look(&id).is_err(), "the store has to be asked");
        glances.learn(after, &id, Some(session), None);
        assert!(glances.look(&id).is_ok_and(|glance| glance.session.is_some()));
    }
}
