//! Who hears of commits, in the order in which they were made.

use crate::Committed;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;

/// Committed batches, in the order of their commits, as many at a time as were committed together. Unbounded: its readers
/// route and never wait for anything.
pub type Feed = mpsc::UnboundedReceiver<Arc<[Arc<Committed>]>>;

#[derive(Default)]
pub(crate) struct Listeners(Mutex<Vec<mpsc::UnboundedSender<Arc<[Arc<Committed>]>>>>);

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
        let group: Arc<[_]> = committed.into();
        let mut listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| listener.send(group.clone()).is_ok());
    }
}
