//! Who hears of commits, in the order in which they were made.

use crate::Committed;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;

/// What was committed together, in the order of the commits.
pub type Group = Arc<[Arc<Committed>]>;

/// What a feed tells.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    Committed(Group),
    /// Commits were made elsewhere that could not be followed: whatever depends on them has to be looked at anew.
    Missed,
}

/// News as they come, commits of other nodes among them. Unbounded: its readers route and never wait for anything.
pub type Feed = mpsc::UnboundedReceiver<News>;

impl News {
    /// The commits it tells of; none if they were missed.
    pub fn commits(&self) -> &[Arc<Committed>] {
        match self {
            News::Committed(group) => group,
            News::Missed => &[],
        }
    }
}

#[derive(Default)]
pub(crate) struct Listeners(Mutex<Vec<mpsc::UnboundedSender<News>>>);

impl Listeners {
    pub fn add(&self) -> Feed {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        receiver
    }

    pub fn tell(&self, committed: Vec<Arc<Committed>>) {
        if !committed.is_empty() {
            self.send(&News::Committed(committed.into()));
        }
    }

    pub fn tell_missed(&self) {
        self.send(&News::Missed);
    }

    /// Ends all feeds.
    pub fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn send(&self, news: &News) {
        let mut listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| listener.send(news.clone()).is_ok());
    }
}
