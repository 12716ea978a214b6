//! One command at a time per session, within this process, and a memory of the last session that each lock served.
//!
//! Both only save work. Versions in the store keep decisions right without them: a decision made on what was remembered
//! wrongly does not commit, and is made again on what is there.

use reveille_core::{Needs, Session, SessionId, command::Select, command::State};
use std::hash::{DefaultHasher, Hash, Hasher};
use tokio::sync::{Mutex, MutexGuard};

/// Sessions share a lock when their hashes meet; with this many, few do.
const STRIPES: usize = 4096;

pub struct Locks {
    stripes: Box<[Mutex<Option<Session>>]>,
    /// Nobody outside can choose names that meet.
    salt: u64,
}

impl Locks {
    pub fn new(salt: u64) -> Self {
        Self { stripes: (0..STRIPES).map(|_| Mutex::new(None)).collect(), salt }
    }

    /// How many are held now.
    pub fn taken(&self) -> usize {
        self.stripes.iter().filter(|stripe| stripe.try_lock().is_err()).count()
    }

    fn place(&self, session: &SessionId) -> usize {
        let mut hasher = DefaultHasher::new();
        (self.salt, session).hash(&mut hasher);
        hasher.finish() as usize % STRIPES
    }

    pub async fn take(&self, session: &SessionId) -> Turn<'_> {
        let mut slot = self.stripes[self.place(session)].lock().await;
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
