//! The calls that stand by, and what releases them: the timer's end, stop, cancel or pause, from whatever door. That there
//! is something to tell their session they hear as those who hold it.

use super::{Delivery, Held};
use reveille_core::{ItemId, Status, Timer};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{oneshot, watch};

/// Why a call no longer stands by: its timer came into this state.
#[derive(Clone, Debug)]
pub struct Released {
    pub timer: Arc<Timer>,
    /// The right to tell a completion, unless another channel has that.
    pub delivery: Option<Arc<Delivery>>,
    /// The session has other messages that the call could take along.
    pub more: bool,
}

#[derive(Default)]
pub struct Standbys {
    inner: Mutex<Inner>,
    count: watch::Sender<usize>,
}

#[derive(Default)]
struct Inner {
    /// In order, so that what is done to all is done in the same order everywhere.
    waiting: BTreeMap<ItemId, Vec<Waiter>>,
    last: u64,
}

struct Waiter {
    number: u64,
    since: Since,
    release: Option<oneshot::Sender<Released>>,
}

/// A waiter registers before its own command is committed, so it may see commits that came before it. It obeys only
/// those after its own.
enum Since {
    /// Not committed yet: what was seen meanwhile, by version.
    Unknown(Vec<(u64, Released)>),
    Version(u64),
}

impl Standbys {
    pub fn register(self: &Arc<Self>, id: &ItemId, held: Held) -> Standing {
        let (release, released) = oneshot::channel();
        let mut inner = self.inner();
        inner.last += 1;
        let number = inner.last;
        let waiter = Waiter { number, since: Since::Unknown(Vec::new()), release: Some(release) };
        inner.waiting.entry(id.clone()).or_default().push(waiter);
        Standing { id: id.clone(), number, released, counted: false, held, standbys: self.clone() }
    }

    pub fn is_waited_for(&self, id: &ItemId) -> bool {
        self.inner().waiting.contains_key(id)
    }

    pub fn waited_for(&self) -> Vec<ItemId> {
        self.inner().waiting.keys().cloned().collect()
    }

    /// Calls that are announced, whether or not they have begun to wait.
    pub fn waiting(&self) -> usize {
        self.inner().waiting.values().map(Vec::len).sum()
    }

    pub fn count(&self) -> watch::Receiver<usize> {
        self.count.subscribe()
    }

    /// A change to a timer was committed at this version of its session. What is made of it, only if somebody waits.
    pub fn observe(&self, timer: &Timer, version: u64, released: impl FnOnce() -> Released) {
        if timer.status() == Status::Running {
            return;
        }
        let mut inner = self.inner();
        let Some(waiters) = inner.waiting.get_mut(&timer.id) else { return };
        let released = released();
        for waiter in waiters {
            match &mut waiter.since {
                Since::Unknown(seen) => seen.push((version, released.clone())),
                Since::Version(since) if version > *since => waiter.release(released.clone()),
                Since::Version(_) => {}
            }
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    fn release(&mut self, released: Released) {
        if let Some(release) = self.release.take() {
            let _ = release.send(released);
        }
    }
}

/// One call that stands by. Dropping it is leaving.
pub struct Standing {
    id: ItemId,
    number: u64,
    released: oneshot::Receiver<Released>,
    counted: bool,
    held: Held,
    standbys: Arc<Standbys>,
}

impl Standing {
    /// `None`: its session has messages, as far as is known.
    pub async fn news(&mut self) -> Option<Released> {
        tokio::select! {
            biased;
            Ok(released) = &mut self.released => Some(released),
            () = self.held.changed() => None,
        }
    }

    pub fn id(&self) -> &ItemId {
        &self.id
    }

    /// The call's own command was committed at this version; whatever comes after it counts.
    pub fn begins(&mut self, version: u64) {
        let mut inner = self.standbys.inner();
        let waiters = inner.waiting.get_mut(&self.id);
        let waiter = waiters.and_then(|waiters| waiters.iter_mut().find(|waiter| waiter.number == self.number));
        if let Some(waiter) = waiter
            && let Since::Unknown(seen) = std::mem::replace(&mut waiter.since, Since::Version(version))
            && let Some((_, released)) = seen.into_iter().find(|(at, _)| *at > version)
        {
            waiter.release(released);
        }
        drop(inner);
        self.counted = true;
        self.standbys.count.send_modify(|count| *count += 1);
    }

    pub async fn released(&mut self) -> Released {
        match (&mut self.released).await {
            Ok(released) => released,
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        let mut inner = self.standbys.inner();
        if let Some(waiters) = inner.waiting.get_mut(&self.id) {
            waiters.retain(|waiter| waiter.number != self.number);
            if waiters.is_empty() {
                inner.waiting.remove(&self.id);
            }
        }
        drop(inner);
        if self.counted {
            self.standbys.count.send_modify(|count| *count -= 1);
        }
    }
}
