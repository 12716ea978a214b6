//! Who hears of commits, in the order in which they were made.

use crate::Committed;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;

/// Committed batches, in the order of their commits. Unbounded: its readers route and never wait for anything.
pub type Feed = mpsc::UnboundedReceiver<Arc<Committed>>;

#[derive(Default)]
pub(crate) struct Listeners(Mutex<Vec<mpsc::UnboundedSender<Arc<Committed>>>>);

impl Listeners {
    pub fn add(&self) -> Feed {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        receiver
    }

    pub fn tell(&self, committed: &Arc<Committed>) {
        let mut listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| listener.send(committed.clone()).is_ok());
    }
}
