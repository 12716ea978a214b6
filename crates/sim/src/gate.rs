//! Whether a node lives. Everything through which a node can act outside of its own memory passes here: its store, its
//! clock, its connections. A node that is dead never passes again, whatever its tasks would do next; a frozen one goes on
//! later, as if nothing had been, with all that it believed then.

use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    Running,
    Frozen,
    Dead,
}

/// Wakes in the order of waiting: a watch channel would not, and no run would repeat.
#[derive(Clone, Debug)]
pub struct Gate(Arc<(Mutex<Life>, Notify)>);

impl Default for Gate {
    fn default() -> Self {
        Self(Arc::new((Mutex::new(Life::Running), Notify::new())))
    }
}

impl Gate {
    pub fn life(&self) -> Life {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The dead stay dead. Whether anything changed.
    pub fn set(&self, life: Life) -> bool {
        let mut now = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = *now != Life::Dead && *now != life;
        if changes {
            *now = life;
            self.0.1.notify_waiters();
        }
        changes
    }

    /// Waits as long as the node stands still.
    pub async fn pass(&self) {
        if self.life() != Life::Running {
            self.until(Life::Running).await;
        }
    }

    pub async fn dead(&self) {
        self.until(Life::Dead).await;
    }

    async fn until(&self, life: Life) {
        loop {
            let changed = self.0.1.notified();
            if self.life() == life {
                return;
            }
            changed.await;
        }
    }
}
