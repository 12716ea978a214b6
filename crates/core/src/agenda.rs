//! The next deadlines, in memory: a bounded window over what the store holds.
//!
//! The window knows every deadline before its **horizon**; what lies beyond is only in the store, so memory does not
//! grow with what is pending. The agenda proposes and never decides: a stale or doubled proposal is harmless, because
//! firing is a command that looks at the state. A *missing* one would be a late timer, so the rules here only ever err
//! towards proposing too much.

use crate::{id::ItemId, time::Timestamp};
use std::collections::{BTreeSet, HashMap};

#[derive(Debug)]
pub struct Agenda {
    window: BTreeSet<(Timestamp, ItemId)>,
    due_of: HashMap<ItemId, Timestamp>,
    /// Proposed and not yet settled. The store still shows these as due, so no page is loaded meanwhile.
    in_flight: usize,
    horizon: Horizon,
    window_max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Horizon {
    /// Nothing was loaded yet.
    Unknown,
    /// Deadlines before this instant are all in the window.
    Before(Timestamp),
    Complete,
}

impl Agenda {
    /// `window_max` deadlines are kept in memory (about 100 bytes each).
    pub fn new(window_max: usize) -> Self {
        Self {
            window: BTreeSet::new(),
            due_of: HashMap::new(),
            in_flight: 0,
            horizon: Horizon::Unknown,
            window_max: window_max.max(1),
        }
    }

    /// An item changed: this is its deadline now, if it has one.
    pub fn learn(&mut self, id: &ItemId, due: Option<Timestamp>) {
        self.forget(id);
        let Some(due) = due else { return };
        let inside = match self.horizon {
            Horizon::Unknown => false,
            Horizon::Before(horizon) => due < horizon,
            Horizon::Complete => true,
        };
        if inside {
            self.insert(due, id.clone());
            self.trim();
        }
    }

    /// The window is used up and the store has more.
    pub fn needs_page(&self) -> bool {
        self.may_refill() && self.window.is_empty() && self.horizon != Horizon::Complete
    }

    /// Nothing is under way that the store does not show yet.
    pub fn may_refill(&self) -> bool {
        self.in_flight == 0
    }

    pub fn page_size(&self) -> usize {
        self.window_max
    }

    /// The earliest deadlines of the store, `page_size` of them; fewer means there are no more.
    pub fn refill(&mut self, page: Vec<(Timestamp, ItemId)>) {
        self.window.clear();
        self.due_of.clear();
        self.horizon = match page.last() {
            // More rows may share the last deadline, so the window is only complete before it.
            Some((last, _)) if page.len() >= self.window_max => Horizon::Before(*last),
            _ => Horizon::Complete,
        };
        for (due, id) in page {
            self.insert(due, id);
        }
    }

    /// When to look again; `None`: nothing is pending.
    pub fn next(&self) -> Option<Timestamp> {
        self.window.first().map(|(due, _)| *due)
    }

    /// Takes deadlines that have passed, earliest first. They are in flight until [`Agenda::settled`].
    pub fn take_due(&mut self, now: Timestamp, max: usize) -> Vec<ItemId> {
        let mut taken = Vec::new();
        while taken.len() < max {
            match self.window.first() {
                Some((due, _)) if *due <= now => {}
                _ => break,
            }
            let Some((_, id)) = self.window.pop_first() else { break };
            self.due_of.remove(&id);
            taken.push(id);
        }
        self.in_flight += taken.len();
        taken
    }

    /// The proposal was carried out (or found stale).
    pub fn settled(&mut self, ids: &[ItemId]) {
        self.in_flight = self.in_flight.saturating_sub(ids.len());
    }

    /// The proposal could not be carried out; propose again at `at`.
    pub fn postpone(&mut self, ids: &[ItemId], at: Timestamp) {
        self.settled(ids);
        for id in ids {
            // Whatever was learned meanwhile is newer than this.
            if !self.due_of.contains_key(id) {
                self.insert(at, id.clone());
            }
        }
    }

    pub fn len(&self) -> usize {
        self.window.len()
    }

    pub fn is_empty(&self) -> bool {
        self.window.is_empty()
    }

    fn insert(&mut self, due: Timestamp, id: ItemId) {
        self.due_of.insert(id.clone(), due);
        self.window.insert((due, id));
    }

    fn forget(&mut self, id: &ItemId) {
        if let Some(due) = self.due_of.remove(id) {
            self.window.remove(&(due, id.clone()));
        }
    }

    /// Gives the latest deadlines back to the store when there are too many.
    fn trim(&mut self) {
        while self.window.len() > self.window_max {
            let Some((due, id)) = self.window.pop_last() else { break };
            self.due_of.remove(&id);
            self.horizon = Horizon::Before(due);
        }
    }
}
