//! What befell the nodes, as far as it excuses anything.

use crate::trace::{Event, Process};
use std::collections::BTreeMap;

/// What was under way when the weather cleared up may take this long; so may a node that has to find out that another is
/// gone. Far less than the engine's safety net, which looks at everything once a minute: that must not hide a bug.
const SETTLED_MS: u64 = 20_000;

#[derive(Default)]
pub struct Sky {
    now: u64,
    storm: bool,
    /// The last time that anything happened to anybody.
    disturbed: u64,
    clock_set: Option<u64>,
    /// When something last happened to a process.
    hit: BTreeMap<Process, u64>,
}

impl Sky {
    pub fn hear(&mut self, at: u64, event: &Event) {
        self.now = at;
        match event {
            Event::Weather { storm } => (self.storm, self.disturbed) = (*storm, at),
            Event::Peace => (self.storm, self.disturbed) = (false, at),
            Event::ClockSet(_) => (self.clock_set, self.disturbed) = (Some(at), at),
            Event::Started(by) | Event::Ended(by, _) | Event::Frozen(by) | Event::Thawed(by) => {
                self.disturbed = at;
                self.hit.insert(*by, at);
            }
            _ => {}
        }
    }

    /// How long all has been well, up to now.
    fn fair_for(&self) -> u64 {
        if self.storm { 0 } else { self.now - self.disturbed }
    }

    /// Whether something that had to be done `late_ms` ago should have been done by now.
    pub fn too_late(&self, late_ms: i64) -> bool {
        late_ms > SETTLED_MS as i64 && self.fair_for() > SETTLED_MS
    }

    /// Whether nothing kept this process from finishing within a moment what it began then.
    pub fn was_fair_since(&self, then: u64) -> bool {
        !self.storm && self.disturbed < then
    }

    /// Whether time was what it seemed to be for this process.
    pub fn was_steady_since(&self, by: Process, then: u64) -> bool {
        self.clock_set.is_none_or(|at| at < then) && self.hit.get(&by).is_none_or(|at| *at < then)
    }
}
