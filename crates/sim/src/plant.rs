//! Bugs made on purpose, to show that the oracle finds them. Each is something that a store, a clock or the engine could do
//! wrong without anybody noticing at once.

use reveille_core::{Batch, MessageWrite, command::State};
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A completion is written without its message.
    LosesMessages,
    /// The engine believes it to be a millisecond later than it is.
    FiresEarly,
    /// Leases are not seen, so that two channels tell the same.
    ForgetsLeases,
    /// A commit is answered and not made durable in full: its items are lost.
    LosesItems,
    /// Word of commits is swallowed without a sign.
    SwallowsWord,
    /// The oldest message is skipped.
    SkipsOldest,
    /// A delivered message turns up again.
    Undelivers,
    /// The counters of a session are wrong by one, so that its limit is.
    Miscounts,
}

impl Bug {
    pub const ALL: [Bug; 8] = [
        Bug::LosesMessages,
        Bug::FiresEarly,
        Bug::ForgetsLeases,
        Bug::LosesItems,
        Bug::SwallowsWord,
        Bug::SkipsOldest,
        Bug::Undelivers,
        Bug::Miscounts,
    ];
}

#[derive(Debug)]
pub struct Plant {
    pub bug: Bug,
    /// Occasions so far: a bug that shows only now and then is the harder one to see.
    seen: AtomicU64,
}

/// Every so many occasions it shows.
const EVERY: u64 = 4;

impl Plant {
    pub fn new(bug: Bug) -> Self {
        Self { bug, seen: AtomicU64::new(0) }
    }

    fn shows(&self) -> bool {
        self.seen.fetch_add(1, Ordering::Relaxed) % EVERY == EVERY - 1
    }

    /// What is committed instead of this.
    pub fn instead(&self, batch: &Batch) -> Option<Batch> {
        let mut batch = batch.clone();
        match self.bug {
            Bug::LosesMessages => {
                let before = batch.messages.len();
                batch.messages.retain(|write| !matches!(write, MessageWrite::Insert(_)));
                (batch.messages.len() < before && self.shows()).then_some(batch)
            }
            Bug::LosesItems => {
                let any = !batch.items.is_empty();
                batch.items.clear();
                (any && self.shows()).then_some(batch)
            }
            Bug::Undelivers => {
                let mut any = false;
                for write in &mut batch.messages {
                    if let MessageWrite::Update(message) = write {
                        any |= message.delivered.take().is_some();
                    }
                }
                (any && self.shows()).then_some(batch)
            }
            Bug::Miscounts => {
                batch.session.live_timers = batch.session.live_timers.saturating_sub(1);
                self.shows().then_some(batch)
            }
            _ => None,
        }
    }

    /// What is read is not what is there.
    pub fn spoil(&self, state: &mut State) {
        match self.bug {
            Bug::ForgetsLeases => state.inbox.iter_mut().for_each(|message| message.lease = None),
            Bug::SkipsOldest if state.inbox.len() > 1 && self.shows() => drop(state.inbox.remove(0)),
            _ => {}
        }
    }

    pub fn swallows_word(&self) -> bool {
        self.bug == Bug::SwallowsWord && self.shows()
    }
}
