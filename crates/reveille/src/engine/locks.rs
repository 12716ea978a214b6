//! One command at a time per session, within this process, and a memory of the last session that each lock served.
//!
//! Both only save work. Versions in the store keep decisions right without them: a decision made on what was remembered
//! wrongly does not commit, and is made again on what is there.

use reveille_core::{Needs, Session, SessionId, command::Select, command::State};
use std::hash::{BuildHasher, RandomState};
use tokio::sync::{Mutex, MutexGuard};

/// Sessions share a lock when their hashes meet; with this many, few do.
const STRIPES: usize = 4096;

pub struct Locks {
    stripes: Box<[Mutex<Option<Session>>]>,
    hasher: RandomState,
}

impl Default for Locks {
    fn default() -> Self {
        Self { stripes: (0..STRIPES).map(|_| Mutex::new(None)).collect(), hasher: RandomState::new() }
    }
}

impl Locks {
    pub async fn take(&self, session: &SessionId) -> Turn<'_> {
        let mut slot = self.stripes[self.hasher.hash_one(session) as usize % STRIPES].lock().await;
        if slot.as_ref().is_some_and(|remembered| remembered.id != *session) {
            *slot = None;
        }
        Turn(slot)
    }
}

/// The right to change one session now.
pub struct Turn<'a>(MutexGuard<'a, Option<Session>>);

impl Turn<'_> {
    /// The state, if remembering the session alone is enough for it.
    pub fn recall(&self, needs: &Needs) -> Option<State> {
        let session = self.0.as_ref()?;
        let enough =
            needs.items == Select::None && needs.key.is_none() && (!needs.inbox || session.pending_messages == 0);
        enough.then(|| State { session: Some(session.clone()), ..State::default() })
    }

    pub fn remember(&mut self, session: &Session) {
        *self.0 = Some(session.clone());
    }

    pub fn forget(&mut self) {
        *self.0 = None;
    }
}
