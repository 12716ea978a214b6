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
    in_flight: HashMap<ItemId, Flight>,
    /// Proposals that failed, by when they come again. Not in the window: they say nothing about its horizon.
    retries: BTreeSet<(Timestamp, ItemId)>,
    retry_of: HashMap<ItemId, Retry>,
    horizon: Horizon,
    window_max: usize,
}

#[derive(Debug, Default)]
struct Flight {
    proposals: usize,
    /// The deadline proposed; `None` once the item was learned again, for that is newer.
    due: Option<Timestamp>,
}

#[derive(Debug)]
struct Retry {
    at: Timestamp,
    /// The deadline that could not be acted on. Another one in the store is news.
    due: Timestamp,
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
            in_flight: HashMap::new(),
            retries: BTreeSet::new(),
            retry_of: HashMap::new(),
            horizon: Horizon::Unknown,
            window_max: window_max.max(1),
        }
    }

    /// An item changed: this is its deadline now, if it has one.
    pub fn learn(&mut self, id: &ItemId, due: Option<Timestamp>) {
        self.forget(id);
        if let Some(flight) = self.in_flight.get_mut(id) {
            flight.due = None;
        }
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
        self.in_flight.is_empty()
    }

    /// Room for a window behind whatever fails and stays due.
    pub fn page_size(&self) -> usize {
        self.window_max + self.retries.len()
    }

    /// The earliest deadlines of the store, `page_size` of them; fewer means there are no more.
    pub fn refill(&mut self, page: Vec<(Timestamp, ItemId)>) {
        self.window.clear();
        self.due_of.clear();
        self.horizon = match page.last() {
            // More rows may share the last deadline, so the window is only complete before it.
            Some((last, _)) if page.len() >= self.page_size() => Horizon::Before(*last),
            _ => Horizon::Complete,
        };
        for (due, id) in page {
            if self.retry_of.get(&id).is_none_or(|retry| retry.due != due) {
                self.forget(&id);
                self.insert(due, id);
            }
        }
        self.trim();
    }

    /// When to look again; `None`: nothing is pending.
    pub fn next(&self) -> Option<Timestamp> {
        self.first().map(|(due, _)| *due)
    }

    /// Takes deadlines that have passed, earliest first. They are in flight until [`Agenda::settled`].
    pub fn take_due(&mut self, now: Timestamp, max: usize) -> Vec<ItemId> {
        let mut taken = Vec::new();
        while taken.len() < max {
            let Some((due, id)) = self.first().filter(|(due, _)| *due <= now).cloned() else { break };
            let due = self.retry_of.get(&id).map_or(due, |retry| retry.due);
            self.forget(&id);
            let flight = self.in_flight.entry(id.clone()).or_default();
            (flight.proposals, flight.due) = (flight.proposals + 1, Some(due));
            taken.push(id);
        }
        taken
    }

    /// The deadline that was proposed, as long as it is the last word.
    pub fn proposed(&self, id: &ItemId) -> Option<Timestamp> {
        self.in_flight.get(id).and_then(|flight| flight.due)
    }

    /// The proposal was carried out (or found stale).
    pub fn settled(&mut self, ids: &[ItemId]) {
        for id in ids {
            self.land(id);
        }
    }

    /// The proposal could not be carried out; propose again at `at`.
    pub fn postpone(&mut self, ids: &[ItemId], at: Timestamp) {
        for id in ids {
            // Whatever was learned meanwhile is newer than this.
            if let Some(due) = self.land(id) {
                self.retry(id, due, at);
            }
        }
    }

    /// The proposal was carried out and the item is as it was, with this deadline: it was not due yet, or something else
    /// came first. Nobody will tell of it, since nothing was written; it is proposed again at `at`.
    pub fn stands(&mut self, id: &ItemId, due: Timestamp, at: Timestamp) {
        if self.land(id).is_none() {
            return;
        }
        if at > due {
            self.retry(id, due, at);
        } else {
            self.learn(id, Some(due));
        }
    }

    fn retry(&mut self, id: &ItemId, due: Timestamp, at: Timestamp) {
        // The clock may have been set back meanwhile, and before its deadline nothing can be done.
        let at = at.max(due);
        self.forget(id);
        self.retry_of.insert(id.clone(), Retry { at, due });
        self.retries.insert((at, id.clone()));
    }

    /// One proposal less under way; the deadline it was made for, if that is still the last word.
    fn land(&mut self, id: &ItemId) -> Option<Timestamp> {
        let flight = self.in_flight.get_mut(id)?;
        let due = flight.due;
        flight.proposals -= 1;
        if flight.proposals == 0 {
            self.in_flight.remove(id);
        }
        due
    }

    fn first(&self) -> Option<&(Timestamp, ItemId)> {
        self.window.first().into_iter().chain(self.retries.first()).min()
    }

    pub fn len(&self) -> usize {
        self.window.len() + self.retries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.first().is_none()
    }

    fn insert(&mut self, due: Timestamp, id: ItemId) {
        self.due_of.insert(id.clone(), due);
        self.window.insert((due, id));
    }

    fn forget(&mut self, id: &ItemId) {
        if let Some(due) = self.due_of.remove(id) {
            self.window.remove(&(due, id.clone()));
        }
        if let Some(retry) = self.retry_of.remove(id) {
            self.retries.remove(&(retry.at, id.clone()));
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
