//! Which sessions wait to be woken, and when each is looked at next. Pure bookkeeping: what is done about it, and whether
//! it is true, is decided by an attempt.

use reveille_core::{Millis, Session, SessionId, Timestamp, session::SessionState};
use std::collections::{BTreeSet, HashMap, HashSet};

/// After the first failure; doubled with each further one.
const BACKOFF_FIRST: Millis = Millis::from_secs(10);
const BACKOFF_MAX: Millis = Millis::from_secs(600);

#[derive(Default)]
pub struct Plan {
    entries: HashMap<SessionId, Entry>,
    due: BTreeSet<(Timestamp, SessionId)>,
    /// Waiting for the client that holds them to leave.
    held: HashSet<SessionId>,
}

struct Entry {
    /// Which rule serves it; `None`: the rules have changed, and none is known to.
    rule: Option<usize>,
    grace: Millis,
    due: Option<Timestamp>,
    not_before: Timestamp,
    /// Attempts that failed in a row.
    failures: u32,
    running: bool,
    /// Something happened while an attempt was running.
    touched: bool,
}

/// What came of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is nothing to tell, or nothing more to be tried.
    Nothing,
    /// A live client holds the session.
    Held,
    /// Look again then: somebody else is delivering, or there were too many.
    Later(Timestamp),
    Told,
    Failed,
}

impl Plan {
    /// A session has (`told`: a new) message, served by this rule.
    pub fn waits(&mut self, id: &SessionId, rule: usize, grace: Millis, new: bool, now: Timestamp) {
        let entry = self.entries.entry(id.clone()).or_insert_with(|| Entry {
            rule: Some(rule),
            grace,
            due: None,
            not_before: now,
            failures: 0,
            running: false,
            touched: false,
        });
        (entry.rule, entry.grace) = (Some(rule), grace);
        if new {
            entry.failures = 0;
        }
        if entry.running {
            entry.touched = true;
            return;
        }
        if !self.held.contains(id) {
            let soonest = now.plus(grace).max(entry.not_before);
            let due = entry.due.map_or(soonest, |due| due.min(soonest));
            self.set_due(id, Some(due));
        }
    }

    /// There are other rules now: whom they serve has to be found out. What runs goes on.
    pub fn forget_rules(&mut self) {
        let all: Vec<SessionId> = self.entries.keys().cloned().collect();
        for id in all {
            match self.entries.get_mut(&id).filter(|entry| entry.running) {
                Some(entry) => entry.rule = None,
                None => self.forget(&id),
            }
        }
    }

    /// Nothing is left to tell.
    pub fn is_settled(&mut self, session: &Session) -> bool {
        let settled = session.pending_messages == 0 || session.state == SessionState::Closed;
        if settled && self.entries.get(&session.id).is_some_and(|entry| !entry.running) {
            self.forget(&session.id);
        }
        settled
    }

    pub fn next(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The next session to be looked at now, if there is one: its rule, and how many attempts have failed.
    pub fn begin(&mut self, now: Timestamp) -> Option<(SessionId, usize, u32)> {
        let (_, id) = self.due.first().filter(|(at, _)| *at <= now)?.clone();
        self.set_due(&id, None);
        let entry = self.entries.get_mut(&id)?;
        (entry.running, entry.touched) = (true, false);
        Some((id, entry.rule?, entry.failures))
    }

    pub fn ended(&mut self, id: &SessionId, verdict: Verdict, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        entry.running = false;
        if entry.rule.is_none() {
            return self.forget(id);
        }
        let due = match verdict {
            Verdict::Nothing if !entry.touched => return self.forget(id),
            Verdict::Nothing | Verdict::Told => {
                entry.failures = 0;
                now.plus(entry.grace)
            }
            Verdict::Held => {
                self.held.insert(id.clone());
                return;
            }
            Verdict::Later(at) if entry.touched => at.min(now.plus(entry.grace)),
            Verdict::Later(at) => at,
            Verdict::Failed => {
                entry.not_before = now.plus(backoff(entry.failures));
                entry.failures += 1;
                entry.not_before
            }
        };
        self.set_due(id, Some(due));
    }

    /// Sessions that are no longer held wait their grace time anew.
    pub fn free(&mut self, is_held: impl Fn(&SessionId) -> bool, now: Timestamp) {
        let free: Vec<SessionId> = self.held.iter().filter(|id| !is_held(id)).cloned().collect();
        for id in free {
            self.held.remove(&id);
            if let Some(grace) = self.entries.get(&id).map(|entry| entry.grace) {
                self.set_due(&id, Some(now.plus(grace)));
            }
        }
    }

    /// The clock was set back: nothing waits longer than its grace time because of it.
    pub fn clock_set_back(&mut self, now: Timestamp) {
        let all: Vec<SessionId> = self.due.iter().map(|(_, id)| id.clone()).collect();
        for id in all {
            let grace = self.entries.get(&id).map_or(Millis::ZERO, |entry| entry.grace);
            self.set_due(&id, Some(now.plus(grace)));
        }
    }

    fn set_due(&mut self, id: &SessionId, due: Option<Timestamp>) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        if let Some(old) = std::mem::replace(&mut entry.due, due) {
            self.due.remove(&(old, id.clone()));
        }
        if let Some(due) = due {
            self.due.insert((due, id.clone()));
        }
    }

    fn forget(&mut self, id: &SessionId) {
        self.set_due(id, None);
        self.entries.remove(id);
        self.held.remove(id);
    }
}

/// How long to wait after this many failures and one more.
pub fn backoff(failures: u32) -> Millis {
    let doubled = BACKOFF_FIRST.get().saturating_mul(1_u64.checked_shl(failures).unwrap_or(u64::MAX));
    Millis::new(doubled).min(BACKOFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Millis = Millis::from_secs(5);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn waiting(plan: &mut Plan, name: &str, seconds: i64) -> SessionId {
        let id = SessionId::new(name);
        plan.waits(&id, 0, GRACE, true, at(seconds));
        id
    }

    #[test]
    fn a_message_waits_its_grace_time_and_only_once() {
        let mut plan = Plan::default();
        let id = waiting(&mut plan, "a", 0);
        waiting(&mut plan, "a", 3);
        assert_eq!(plan.next(), Some(at(5)));
        assert_eq!(plan.begin(at(4)), None);
        assert_eq!(plan.begin(at(5)), Some((id.clone(), 0, 0)));
        waiting(&mut plan, "a", 6);
        assert_eq!((plan.next(), plan.begin(at(99))), (None, None), "never two at once");
        plan.ended(&id, Verdict::Nothing, at(7));
        assert_eq!(plan.next(), Some(at(12)), "what came meanwhile is not forgotten");
        plan.begin(at(12));
        plan.ended(&id, Verdict::Nothing, at(13));
        assert!(plan.entries.is_empty() && plan.due.is_empty());
    }

    #[test]
    fn failures_wait_longer_and_longer() {
        let mut plan = Plan::default();
        let id = waiting(&mut plan, "a", 0);
        for (failures, now, next) in [(0, 5, 15), (1, 15, 35), (2, 35, 75)] {
            assert_eq!(plan.begin(at(now)), Some((id.clone(), 0, failures)));
            plan.ended(&id, Verdict::Failed, at(now));
            assert_eq!(plan.next(), Some(at(next)));
        }
        plan.waits(&id, 0, GRACE, false, at(36));
        assert_eq!(plan.next(), Some(at(75)), "a release is no reason to hurry");
        waiting(&mut plan, "a", 80);
        assert_eq!(plan.begin(at(85)), Some((id, 0, 0)), "a new message has attempts of its own");
        assert_eq!(backoff(60), BACKOFF_MAX);
        assert_eq!(backoff(70), BACKOFF_MAX);
    }

    #[test]
    fn a_held_session_waits_until_it_is_free() {
        let mut plan = Plan::default();
        let id = waiting(&mut plan, "a", 0);
        plan.begin(at(5));
        plan.ended(&id, Verdict::Held, at(5));
        waiting(&mut plan, "a", 6);
        plan.free(|_| true, at(7));
        assert_eq!(plan.next(), None);
        plan.free(|_| false, at(9));
        assert_eq!(plan.next(), Some(at(14)));
    }

    #[test]
    fn other_rules_serve_others() {
        let mut plan = Plan::default();
        let (running, left, kept) =
            (waiting(&mut plan, "a", 0), waiting(&mut plan, "b", 0), waiting(&mut plan, "c", 0));
        plan.begin(at(5));
        plan.begin(at(5));
        plan.forget_rules();
        assert_eq!((plan.next(), plan.entries.len()), (None, 2), "only what runs is known");
        plan.waits(&running, 7, GRACE, false, at(6));
        plan.ended(&running, Verdict::Told, at(8));
        plan.ended(&left, Verdict::Failed, at(8));
        assert_eq!(plan.begin(at(13)), Some((running, 7, 0)));
        assert_eq!(plan.begin(at(99_999)), None, "nobody serves it any more");
        plan.waits(&kept, 1, GRACE, false, at(13));
        assert_eq!(plan.begin(at(18)), Some((kept, 1, 0)));
    }

    #[test]
    fn a_release_brings_a_look_forward() {
        let mut plan = Plan::default();
        let id = waiting(&mut plan, "a", 0);
        plan.begin(at(5));
        plan.ended(&id, Verdict::Later(at(3600)), at(5));
        plan.waits(&id, 0, GRACE, false, at(10));
        assert_eq!(plan.next(), Some(at(15)));
        plan.begin(at(15));
        plan.waits(&id, 0, GRACE, false, at(16));
        plan.ended(&id, Verdict::Later(at(3600)), at(16));
        assert_eq!(plan.next(), Some(at(21)), "also one that came while it was looked at");
        plan.clock_set_back(at(-100));
        assert_eq!(plan.next(), Some(at(-95)));
    }
}
