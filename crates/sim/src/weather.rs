//! How bad it is right now: storms, in which stores refuse and answers are lost, and calm between them.

use std::sync::atomic::{AtomicBool, Ordering};

/// Everything in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    /// A commit or a read is refused and nothing was done.
    pub refuse: u64,
    /// A commit was done, and nobody is told so.
    pub unanswered: u64,
    /// Somebody else seems to have been faster.
    pub conflict: u64,
    /// The process dies right before or right after a commit.
    pub crash: u64,
    /// It takes long.
    pub slow: u64,
    /// Word of a commit does not come.
    pub missed: u64,
    /// A call to the outside goes wrong.
    pub outside: u64,
}

#[derive(Debug, Default)]
pub struct Weather {
    storm: AtomicBool,
    /// At the end of a run nothing goes wrong any more.
    peace: AtomicBool,
}

impl Weather {
    pub fn set(&self, storm: bool) {
        self.storm.store(storm, Ordering::Relaxed);
    }

    pub fn end(&self) {
        self.peace.store(true, Ordering::Relaxed);
    }

    pub fn is_peace(&self) -> bool {
        self.peace.load(Ordering::Relaxed)
    }

    pub fn rates(&self) -> Rates {
        match (self.is_peace(), self.storm.load(Ordering::Relaxed)) {
            (true, _) => Rates::default(),
            (false, true) => {
                Rates { refuse: 80, unanswered: 60, conflict: 40, crash: 5, slow: 150, missed: 60, outside: 500 }
            }
            (false, false) => Rates { conflict: 10, outside: 150, ..Rates::default() },
        }
    }
}
