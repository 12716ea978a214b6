//! Calls to the outside: every request belongs to an attempt that its own process began, no two of a call run at once, what
//! is done was done, and every call comes to its end.

use super::{Charges, Commit, Rule, sky::Sky, written};
use crate::trace::Process;
use reveille_core::{
    Item, ToolCall,
    call::{Phase, What},
};
use std::collections::BTreeMap;

/// Of one process at once, as its executor is set up.
const AT_ONCE_MAX: usize = 8;

struct Request {
    by: Process,
    key: String,
    began: u64,
    open: bool,
    status: Option<u16>,
}

#[derive(Default)]
pub struct Calls {
    known: BTreeMap<String, ToolCall>,
    sessions: BTreeMap<String, String>,
    /// Attempts begun and not yet made.
    begun: BTreeMap<(String, Process), i64>,
    requests: BTreeMap<u64, Request>,
}

impl Calls {
    pub fn commit(&mut self, commit: &Commit<'_>, sky: &Sky, charges: &mut Charges) {
        for call in written(commit.batch).filter_map(Item::as_call) {
            let id = call.id.to_string();
            // An attempt under way may be given more time; only another one counts as begun.
            let before = self.known.get(&id);
            let longer =
                before.is_some_and(|one| one.attempts == call.attempts && matches!(one.phase, Phase::Running { .. }));
            if let Some(before) = before {
                let ended = before.ended_at().is_some() && !matches!(before.phase, Phase::Failed { .. });
                charges.unless(!ended, Rule::Twice, || format!("{id} changed after its end"));
                let due = before.due().map(|due| due.as_millis());
                if let Phase::Running { .. } = call.phase
                    && !longer
                {
                    let due = due.unwrap_or(i64::MAX);
                    charges
                        .unless(commit.at >= due, Rule::Early, || format!("{id} is tried at {}, not {due}", commit.at));
                    charges.unless(!sky.too_late(commit.at - due), Rule::Late, || format!("{id} is tried late"));
                }
            }
            match &call.phase {
                Phase::Running { .. } if longer => {}
                Phase::Running { .. } => *self.begun.entry((id.clone(), commit.by)).or_default() += 1,
                Phase::Done { .. } => {
                    let mut heard = self.requests.values().filter(|request| request.key == id);
                    let fine = heard.any(|request| request.status.is_some_and(|status| (200..300).contains(&status)));
                    charges.unless(fine, Rule::Lost, || format!("{id} counts as done, and nobody did it"));
                }
                _ => {}
            }
            self.sessions.insert(id.clone(), commit.batch.session.id.to_string());
            self.known.insert(id, call.clone());
        }
    }

    pub fn called(&mut self, by: Process, request: u64, key: &str, sky: &Sky, charges: &mut Charges) {
        let begun = self.begun.entry((key.to_owned(), by)).or_default();
        *begun -= 1;
        let fine = *begun >= 0;
        charges.unless(fine, Rule::Twice, || format!("{by:?} calls {key} without having begun it"));
        let open = || self.requests.values().filter(|request| request.open);
        for other in open().filter(|other| other.key == key) {
            let steady = sky.was_steady_since(other.by, other.began);
            charges.unless(!steady, Rule::Twice, || {
                format!("{key} is called twice at once, by {:?} and {by:?}", other.by)
            });
        }
        charges.unless(open().filter(|other| other.by == by).count() < AT_ONCE_MAX, Rule::Limit, || {
            format!("{by:?} calls more than {AT_ONCE_MAX} at once")
        });
        if self.in_turn(key) {
            let session = self.sessions.get(key);
            let mut others = open().filter(|other| other.by == by && self.in_turn(&other.key));
            charges.unless(!others.any(|other| self.sessions.get(&other.key) == session), Rule::Order, || {
                format!("{key} is called before the one before it is over")
            });
        }
        let key = key.to_owned();
        self.requests.insert(request, Request { by, key, began: charges.now, open: true, status: None });
    }

    /// An agent's action, whose result enters the context.
    fn in_turn(&self, key: &str) -> bool {
        self.known.get(key).is_some_and(|call| matches!(call.what, What::Tool { silent: false, .. }))
    }

    pub fn over(&mut self, request: u64, status: Option<u16>) {
        if let Some(request) = self.requests.get_mut(&request) {
            (request.open, request.status) = (false, status);
        }
    }

    pub fn died(&mut self, by: Process) {
        self.requests.values_mut().filter(|request| request.by == by).for_each(|request| request.open = false);
    }

    pub fn end(&self, charges: &mut Charges) {
        for (id, call) in self.known.iter().filter(|(_, call)| call.ended_at().is_none()) {
            charges.say(Rule::Lost, format!("{id} never ended: {:?}", call.phase));
        }
    }
}
