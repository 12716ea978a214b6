//! Everything that happened in a run, in the order in which it did: what the store took, what clients asked and were told,
//! and what befell the nodes. All that the oracle knows is from here.

use crate::time::Wall;
use reveille_core::{Batch, SessionId};
use serde_json::Value;
use std::{
    fmt::Write,
    hash::{DefaultHasher, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A process: the number of its node and which life of it this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    pub node: usize,
    pub life: u32,
}

#[derive(Clone, Debug)]
pub enum Event {
    /// The store took it. `highest`: the latest that this node's clock had shown by then.
    Committed {
        by: Process,
        highest: i64,
        batch: Arc<Batch>,
    },
    Started(Process),
    /// How its life ended: `crash` or `stop`.
    Ended(Process, &'static str),
    Frozen(Process),
    Thawed(Process),
    ClockSet(i64),
    Weather {
        storm: bool,
    },
    /// Nothing bad happens from now on.
    Peace,
    Asked {
        call: u64,
        by: Process,
        session: SessionId,
        what: Ask,
    },
    /// `highest`: as of a commit.
    Answered {
        call: u64,
        highest: i64,
        answer: Answer,
    },
    /// An answer that carried this lease reached its client (`told`), or did not.
    Delivery {
        by: Process,
        lease: String,
        told: bool,
        /// By its name: whether that is ever written down is up to the client.
        by_name: bool,
    },
    /// A request left for an endpoint, with this key.
    Called {
        by: Process,
        request: u64,
        key: String,
    },
    /// The endpoint did its work.
    Worked {
        request: u64,
    },
    CallOver {
        request: u64,
        status: Option<u16>,
    },
    /// A model got a request.
    Prompted {
        by: Process,
        request: u64,
        body: Arc<str>,
    },
    /// … and its answer began.
    Spoke {
        request: u64,
    },
    /// A process that was stopped did not come to its end.
    Stuck(Process),
    /// An engine that nobody calls any more.
    Left {
        by: Process,
        what: String,
    },
}

/// What a client asked for.
#[derive(Clone, Debug)]
pub enum Ask {
    Tool { name: &'static str, arguments: Value, key: Option<String> },
    Task { id: String, cancel: bool },
    Lease,
    Commit { lease: String },
    Release { lease: String },
    Message,
    Response,
    Close,
    Model,
}

#[derive(Clone, Debug)]
pub enum Answer {
    Ok(Value),
    /// Refused, with the code.
    Refused(String),
    /// The store failed; whether it was done nobody knows.
    Failed(String),
    /// The client left.
    Left,
    /// The node died, or the connection did.
    Gone,
}

pub struct Trace {
    wall: Arc<Wall>,
    entries: Mutex<Vec<(u64, Event)>>,
}

impl Trace {
    pub fn new(wall: Arc<Wall>) -> Self {
        Self { wall, entries: Mutex::default() }
    }

    pub fn note(&self, event: Event) {
        let passed = self.wall.passed();
        self.entries().push((passed, event));
    }

    pub fn take(&self) -> Vec<(u64, Event)> {
        std::mem::take(&mut self.entries())
    }

    fn entries(&self) -> MutexGuard<'_, Vec<(u64, Event)>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of the whole trace: two runs are the same if these are.
pub fn hash(trace: &[(u64, Event)]) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut line = String::new();
    for entry in trace {
        line.clear();
        let _ = write!(line, "{entry:?}");
        hasher.write(line.as_bytes());
    }
    hasher.finish()
}
