//! One command at a time per session, within this process. Only a courtesy: versions in the store keep decisions
//! right without it, but taking turns is cheaper than deciding twice.

use reveille_core::SessionId;
use std::hash::{BuildHasher, RandomState};
use tokio::sync::{Mutex, MutexGuard};

/// Sessions share a lock when their hashes meet; with this many, few do.
const STRIPES: usize = 4096;

pub struct Locks {
    stripes: Box<[Mutex<()>]>,
    hasher: RandomState,
}

impl Default for Locks {
    fn default() -> Self {
        Self { stripes: (0..STRIPES).map(|_| Mutex::new(())).collect(), hasher: RandomState::new() }
    }
}

impl Locks {
    pub async fn take(&self, session: &SessionId) -> MutexGuard<'_, ()> {
        self.stripes[self.hasher.hash_one(session) as usize % STRIPES].lock().await
    }
}
