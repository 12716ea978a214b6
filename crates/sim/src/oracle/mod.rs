//! Judges a run by its trace alone: nothing early, nothing lost, nothing twice, order kept, limits kept, no leak. Written
//! apart from the engine: it shares the form of the data with it and none of its rules. Each file has the rules of one kind
//! of thing, told anew from the documents.

mod answers;
mod calls;
mod inbox;
mod recurring;
mod reminders;
mod session_timers;
mod sessions;
mod sky;
mod timers;

use crate::{
    plan::Plan,
    trace::{Event, Process},
};
use answers::Told;
use inbox::Carried;
use reveille_core::{Batch, Item, ItemId, ItemWrite, Message, SessionId};
use reveille_store::Found;
use sky::Sky;
use std::fmt;

/// What was still there at the end.
pub struct Rest {
    pub items: Vec<Found>,
    pub inbox: Vec<(SessionId, Message)>,
    /// Clients whose last call did not come back.
    pub unanswered: usize,
    /// Everything came to an end.
    pub ended: bool,
}

/// A rule that was broken, when, and how.
#[derive(Clone, Debug)]
pub struct Guilt {
    pub rule: Rule,
    pub at: u64,
    pub what: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    Early,
    Late,
    Lost,
    Twice,
    Order,
    Limit,
    Leak,
    /// What is written contradicts itself or what was asked for.
    Wrong,
}

impl fmt::Display for Guilt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {} ms: {}", self.rule, self.at, self.what)
    }
}

/// Broken rules as they are found.
#[derive(Default)]
pub struct Charges {
    pub now: u64,
    found: Vec<Guilt>,
}

impl Charges {
    pub fn say(&mut self, rule: Rule, what: String) {
        self.found.push(Guilt { rule, at: self.now, what });
    }

    pub fn unless(&mut self, fine: bool, rule: Rule, what: impl FnOnce() -> String) {
        if !fine {
            self.say(rule, what());
        }
    }
}

/// The last that a commit writes of each item.
pub fn written(batch: &Batch) -> impl Iterator<Item = &Item> {
    let later = |at: usize, id: &ItemId| batch.items[at + 1..].iter().any(|write| write.item().id() == id);
    let items = batch.items.iter().map(ItemWrite::item).enumerate();
    items.filter(move |(at, item)| !later(*at, item.id())).map(|(_, item)| item)
}

/// One commit, as all rules look at it.
pub struct Commit<'a> {
    pub by: Process,
    pub batch: &'a Batch,
    /// When it was decided, by the clock of its node.
    pub at: i64,
}

pub fn judge(plan: &Plan, trace: &[(u64, Event)], rest: &Rest) -> Vec<Guilt> {
    let mut judge = Judge {
        plan,
        charges: Charges::default(),
        sky: Sky::default(),
        sessions: sessions::Sessions::default(),
        timers: timers::Timers::default(),
        reminders: reminders::Reminders::default(),
        session_timers: session_timers::SessionTimers::default(),
        inbox: inbox::Inbox::default(),
        calls: calls::Calls::default(),
        answers: answers::Answers::default(),
    };
    for (at, event) in trace {
        judge.hear(*at, event);
    }
    judge.end(rest);
    judge.charges.found
}

struct Judge<'a> {
    plan: &'a Plan,
    charges: Charges,
    sky: Sky,
    sessions: sessions::Sessions,
    timers: timers::Timers,
    reminders: reminders::Reminders,
    session_timers: session_timers::SessionTimers,
    inbox: inbox::Inbox,
    calls: calls::Calls,
    answers: answers::Answers,
}

impl Judge<'_> {
    fn hear(&mut self, at: u64, event: &Event) {
        self.charges.now = at;
        self.sky.hear(at, event);
        let charges = &mut self.charges;
        match event {
            Event::Committed { by, highest, batch } => self.commit(*by, *highest, batch),
            Event::Asked { call, what, .. } => {
                self.timers.asked(what);
                self.answers.asked(*call, what, &self.timers, charges.now);
            }
            Event::Answered { call, highest, answer } => {
                let told =
                    Told { timers: &self.timers, reminders: &self.reminders, inbox: &self.inbox, sky: &self.sky };
                self.answers.answered(*call, (answer, *highest), &told, charges);
            }
            Event::Delivery { by, lease, told, by_name } => {
                self.inbox.delivery(lease, Carried { by: *by, told: *told, by_name: *by_name, at });
            }
            Event::Prompted { request, body, .. } => self.inbox.prompted(*request, body),
            Event::Spoke { request } => self.inbox.spoke(*request),
            Event::Called { by, request, key } => self.calls.called(*by, *request, key, &self.sky, charges),
            Event::CallOver { request, status } => self.calls.over(*request, *status),
            Event::Ended(by, _) => self.calls.died(*by),
            Event::Stuck(by) => charges.say(Rule::Leak, format!("{by:?} was told to stop and did not")),
            Event::Left { by, what } => charges.say(Rule::Leak, format!("nobody calls, and {by:?} keeps {what}")),
            _ => {}
        }
    }

    fn commit(&mut self, by: Process, highest: i64, batch: &Batch) {
        let at = batch.session.active_at.as_millis();
        let charges = &mut self.charges;
        charges.unless(at <= highest, Rule::Early, || {
            format!("{by:?} decided at {at}, and its clock has shown {highest} at most")
        });
        for entry in batch.history.iter().filter(|entry| entry.at.as_millis() != at) {
            charges.say(Rule::Wrong, format!("{} is dated otherwise than its commit", entry.event));
        }
        let commit = Commit { by, batch, at };
        self.timers.commit(&commit, &self.sky, charges);
        self.inbox.commit(&commit, &self.sky, charges);
        self.reminders.commit(&commit, self.plan, &self.inbox, &self.sky, charges);
        self.session_timers.commit(&commit, &self.sky, charges);
        self.calls.commit(&commit, &self.sky, charges);
        let (timers, reminders) = (self.timers.live(&batch.session.id), self.reminders.live(&batch.session.id));
        let pending = self.inbox.pending(&batch.session.id);
        self.sessions.commit(&commit, self.plan, [timers, reminders, pending], charges);
    }

    fn end(&mut self, rest: &Rest) {
        let charges = &mut self.charges;
        if rest.unanswered > 0 {
            charges.say(Rule::Lost, format!("{} calls were never answered", rest.unanswered));
        }
        if !rest.ended {
            let due: Vec<String> = rest
                .items
                .iter()
                .filter(|found| found.item.due().is_some())
                .map(|found| format!("{} {}", found.item.id(), found.item.status()))
                .collect();
            charges.say(Rule::Lost, format!("these never ended: {due:?}; undelivered {}", rest.inbox.len()));
        }
        self.timers.end(charges);
        self.reminders.end(charges);
        self.inbox.end(rest, charges);
        self.calls.end(charges);
    }
}
