//! Who hears of commits, in the order in which they were made.

use crate::Committed;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;

/// What was committed together, in the order of the commits.
pub type Group = Arc<[Arc<Committed>]>;

/// Groups of commits, as they are made. Unbounded: its readers route and never wait for anything.
pub type Feed = mpsc::UnboundedReceiver<Group>;

#[derive(Default)]
pub(crate) struct Listeners(Mutex<Vec<mpsc::UnboundedSender<Group>>>);

impl Listeners {
    pub fn add(&self) -> Feed {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        receiver
    }

    pub fn tell(&self, committed: Vec<Arc<Committed>>) {
        if committed.is_empty() {
            return;
        }
        let group: Group = committed.into();
        let mut listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| listener.send(group.clone()).is_ok());
    }
}
