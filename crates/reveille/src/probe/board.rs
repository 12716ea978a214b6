//! What this node saw last of the conditions it looks at: to be shown, and lost with the process.

use reveille_core::{ItemId, Timestamp};
use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::watch;

/// Of conditions that are over, so many are remembered: the call that waited for one is about to tell of it.
const OVER_MAX: usize = 1024;

#[derive(Default)]
pub struct Board {
    inner: Mutex<Inner>,
    awaited: AtomicUsize,
    looks: watch::Sender<u64>,
}

#[derive(Default)]
struct Inner {
    seen: HashMap<ItemId, Seen>,
    over: VecDeque<ItemId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Of the condition it was.
    pub since: Timestamp,
    pub at: Timestamp,
    pub text: String,
    pub looks: u64,
}

impl Board {
    /// What was seen last of the condition that this timer has since then.
    pub fn seen(&self, id: &ItemId, since: Timestamp) -> Option<Seen> {
        self.inner().seen.get(id).filter(|seen| seen.since == since).cloned()
    }

    /// How many conditions are waited for, by all nodes.
    pub fn awaited(&self) -> usize {
        self.awaited.load(Ordering::Relaxed)
    }

    /// How many looks this process has finished, to be watched.
    pub fn looks(&self) -> watch::Receiver<u64> {
        self.looks.subscribe()
    }

    pub(super) fn count(&self, awaited: usize) {
        self.awaited.store(awaited, Ordering::Relaxed);
    }

    pub(super) fn note(&self, id: &ItemId, since: Timestamp, at: Timestamp, text: String) {
        let mut inner = self.inner();
        let before = inner.seen.get(id).filter(|seen| seen.since == since).map_or(0, |seen| seen.looks);
        inner.seen.insert(id.clone(), Seen { since, at, text, looks: before + 1 });
        drop(inner);
        self.looks.send_modify(|looks| *looks += 1);
    }

    /// It is not waited for any more.
    pub(super) fn over(&self, id: &ItemId) {
        let mut inner = self.inner();
        if !inner.seen.contains_key(id) {
            return;
        }
        inner.over.push_back(id.clone());
        if inner.over.len() > OVER_MAX
            && let Some(oldest) = inner.over.pop_front()
        {
            inner.seen.remove(&oldest);
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
