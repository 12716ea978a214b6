//! Timers as the documents have them: a stopwatch that stands still while paused, ends once, and never before its time.

use super::{
    Charges, Commit, Rule,
    recurring::{self, Recurring},
    sky::Sky,
    written,
};
use crate::trace::Ask;
use reveille_core::{HistoryEntry, Item, MessageWrite, SessionId, SubjectKind};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running { due: i64 },
    Paused { left: i64, until: i64 },
    Completed,
    Stopped,
}

struct Timer {
    session: SessionId,
    total: i64,
    state: State,
    background: bool,
    recurring: Option<Recurring>,
}

#[derive(Default)]
pub struct Timers {
    /// What recurs, by its text.
    recurring: BTreeMap<String, recurring::Asked>,
    known: BTreeMap<String, Timer>,
    /// Each creation has a text of its own.
    labels: BTreeMap<String, String>,
    /// How often each of these was asked for, less how often it was done.
    wanted: BTreeMap<(String, &'static str), i64>,
    /// How often each of these was done.
    done: BTreeMap<(String, &'static str), u64>,
}

/// Seconds as they are written, in milliseconds.
fn ms(data: &Value, field: &str) -> Option<i64> {
    data.get(field)?.as_f64().map(|seconds| (seconds * 1000.0).round() as i64)
}

impl Timer {
    fn left(&self, at: i64) -> i64 {
        match self.state {
            State::Running { due } => match &self.recurring {
                // It fired in this commit, and was then stopped with its session: what is left is the time to the next one.
                Some(recurring) if recurring.passes() => recurring.interval() - (at - due) % recurring.interval(),
                _ => (due - at).clamp(0, self.total),
            },
            State::Paused { left, .. } => left,
            State::Completed | State::Stopped => 0,
        }
    }

    /// Runs from then on with so much left, or by what recurs.
    fn again(&mut self, from: i64, left: i64) {
        let due = self.recurring.as_ref().map_or(from + left, |recurring| recurring.again(from, left));
        (self.total, self.state) = (self.total - left + (due - from), State::Running { due });
    }

    fn is_live(&self) -> bool {
        matches!(self.state, State::Running { .. } | State::Paused { .. })
    }

    fn status(&self) -> &'static str {
        match self.state {
            State::Running { .. } if self.background => "running_background",
            State::Running { .. } => "running",
            State::Paused { .. } => "paused",
            State::Completed => "completed",
            State::Stopped => "stopped",
        }
    }
}

impl Timer {
    /// One time of what recurs, with its message.
    fn fired(&mut self, commit: &Commit<'_>, id: &str, data: &Value, charges: &mut Charges) {
        let State::Running { due } = self.state else {
            return charges.say(Rule::Wrong, format!("{id} fired while {}", self.status()));
        };
        self.recurring.iter_mut().for_each(|recurring| recurring.fired(id, due, data, commit.at, charges));
        let told = data["message"]["id"].as_str();
        let written = commit
            .batch
            .messages
            .iter()
            .any(|write| matches!(write, MessageWrite::Insert(message) if Some(message.id.as_ref()) == told));
        charges.unless(written || told.is_none(), Rule::Lost, || format!("{id} fired, and {told:?} is not written"));
    }

    /// What recurs goes on from the last time that passed, or is over.
    fn passed(&mut self, id: &str, at: i64, sky: &Sky, charges: &mut Charges) {
        let (State::Running { due }, Some(recurring)) = (self.state, &mut self.recurring) else { return };
        let Some((next, told)) = recurring.passed(id, due, at, charges) else { return };
        charges.unless(!sky.too_late(at - due), Rule::Late, || format!("{id} fired {} ms late", at - due));
        self.background |= told;
        if recurring.is_over() {
            self.state = State::Completed;
        } else {
            (self.total, self.state) = (recurring.interval(), State::Running { due: next });
        }
    }
}

impl Timers {
    pub fn asked(&mut self, ask: &Ask) {
        if let Ask::Tool { arguments, .. } = ask
            && let (Some(label), Some(asked)) = (arguments["mission"].as_str(), recurring::Asked::read(arguments))
        {
            self.recurring.insert(label.to_owned(), asked);
        }
        if let Ask::Tool { name, arguments, .. } = ask
            && let Some(id) = arguments["timer_id"].as_str()
        {
            *self.wanted.entry((id.to_owned(), name)).or_default() += 1;
        }
    }

    /// How often this was done to a timer.
    pub fn done(&self, id: &str, tool: &'static str) -> u64 {
        self.done.get(&(id.to_owned(), tool)).copied().unwrap_or(0)
    }

    pub fn made_for(&self, label: &str) -> Option<&str> {
        self.labels.get(label).map(String::as_str)
    }

    pub fn status(&self, id: &str) -> Option<&'static str> {
        self.known.get(id).map(Timer::status)
    }

    pub fn due(&self, id: &str) -> Option<i64> {
        match self.known.get(id)?.state {
            State::Running { due } => Some(due),
            State::Paused { left, until } => Some(until + left),
            State::Completed | State::Stopped => None,
        }
    }

    pub fn live(&self, session: &SessionId) -> usize {
        self.known.values().filter(|timer| timer.session == *session && timer.is_live()).count()
    }

    pub fn commit(&mut self, commit: &Commit<'_>, sky: &Sky, charges: &mut Charges) {
        let closes = commit.batch.history.iter().any(|entry| entry.event == "session.closed");
        for entry in commit.batch.history.iter().filter(|entry| entry.kind == SubjectKind::Timer) {
            self.entry(commit, entry, closes, sky, charges);
        }
        for item in written(commit.batch).filter_map(Item::as_timer) {
            let Some(timer) = self.known.get_mut(item.id.as_str()) else {
                charges.say(Rule::Wrong, format!("{} was written and never made", item.id));
                continue;
            };
            timer.passed(item.id.as_str(), commit.at, sky, charges);
            let due = match timer.state {
                State::Running { due } => Some(due),
                State::Paused { until, .. } => Some(until),
                _ => None,
            };
            let written = (item.status().as_str(), item.due().map(|due| due.as_millis()), item.total.get() as i64);
            charges.unless(written == (timer.status(), due, timer.total), Rule::Wrong, || {
                format!("{} is written as {written:?} and should be {:?} {due:?}", item.id, timer.state)
            });
        }
    }

    fn entry(&mut self, commit: &Commit<'_>, entry: &HistoryEntry, closes: bool, sky: &Sky, charges: &mut Charges) {
        let (id, at, data) = (&*entry.subject, commit.at, &entry.data);
        if entry.event == "timer.created" {
            return self.created(commit, id, data, charges);
        }
        let Some(timer) = self.known.get_mut(id) else {
            return charges.say(Rule::Wrong, format!("{} of {id}, which was never made", entry.event));
        };
        let recorded = matches!(&*entry.event, "timer.checked" | "timer.task_cancelled");
        if !recorded && !timer.is_live() {
            return charges.say(Rule::Twice, format!("{} of {id}, which is {}", entry.event, timer.status()));
        }
        let left = timer.left(at);
        let said = ms(data, "remaining_time");
        let frozen = |charges: &mut Charges| {
            charges.unless(said == Some(left), Rule::Wrong, || {
                format!("{} of {id} leaves {said:?} ms; it should be {left}", entry.event)
            });
        };
        let tool = match &*entry.event {
            "timer.missed" => {
                timer.recurring.iter_mut().for_each(|recurring| recurring.missed(data));
                return;
            }
            "timer.fired" | "timer.completed" if timer.recurring.is_some() => {
                return timer.fired(commit, id, data, charges);
            }
            "timer.completed" => {
                let State::Running { due } = timer.state else {
                    return charges.say(Rule::Wrong, format!("{id} completed while {}", timer.status()));
                };
                charges.unless(at >= due, Rule::Early, || format!("{id} ended at {at}, {} ms early", due - at));
                charges.unless(!sky.too_late(at - due), Rule::Late, || format!("{id} ended {} ms late", at - due));
                let told =
                    commit.batch.messages.iter().filter(
                        |write| matches!(write, MessageWrite::Insert(message) if message.source.as_str() == id),
                    );
                let told = told.count();
                charges.unless(told == 1, Rule::Lost, || format!("{id} ended with {told} messages"));
                timer.state = State::Completed;
                return;
            }
            "timer.resumed" if data.get("due").is_some() => {
                let State::Paused { left, until } = timer.state else {
                    return charges.say(Rule::Wrong, format!("the pause of {id} is over, which is {}", timer.status()));
                };
                charges.unless(at >= until, Rule::Early, || format!("{id} resumed {} ms early", until - at));
                charges
                    .unless(!sky.too_late(at - until), Rule::Late, || format!("{id} resumed {} ms late", at - until));
                timer.again(until, left);
                return;
            }
            "timer.continued" => {
                if let Some(total) = ms(data, "total_duration") {
                    let (elapsed, left) = (timer.total - left, said.unwrap_or(-1));
                    charges.unless(total == elapsed + left, Rule::Wrong, || {
                        format!("{id} has run for {elapsed} of {total}, and {left} are left")
                    });
                    timer.total = total;
                    timer.state = match timer.state {
                        State::Paused { until, .. } => State::Paused { left, until },
                        _ => State::Running { due: at + left },
                    };
                }
                timer.background &= data.get("timeout_duration").is_none();
                return;
            }
            "timer.background" => {
                frozen(charges);
                timer.background = true;
                "cancel_timer"
            }
            "timer.paused" => {
                frozen(charges);
                let until = commit.batch.items.iter().rev().map(|write| write.item()).find_map(|item| match item {
                    Item::Timer(item) if item.id.as_str() == id => item.due(),
                    _ => None,
                });
                timer.state = State::Paused { left, until: until.map_or(at, |until| until.as_millis()) };
                "pause_timer"
            }
            "timer.resumed" => {
                frozen(charges);
                charges.unless(matches!(timer.state, State::Paused { .. }), Rule::Wrong, || {
                    format!("{id} resumed while {}", timer.status())
                });
                timer.again(at, left);
                "resume_timer"
            }
            "timer.stopped" => {
                frozen(charges);
                timer.state = State::Stopped;
                "stop_timer"
            }
            _ => return,
        };
        *self.done.entry((id.to_owned(), tool)).or_default() += 1;
        if !(closes && tool == "stop_timer") {
            let wanted = self.wanted.entry((id.to_owned(), tool)).or_default();
            *wanted -= 1;
            let fine = *wanted >= 0;
            charges.unless(fine, Rule::Twice, || format!("{} of {id} was done more often than asked for", entry.event));
        }
    }

    fn created(&mut self, commit: &Commit<'_>, id: &str, data: &Value, charges: &mut Charges) {
        let label = data["reason"].as_str().or(data["mission"].as_str()).unwrap_or_default().to_owned();
        if let Some(before) = self.labels.insert(label.clone(), id.to_owned()) {
            charges.say(Rule::Twice, format!("'{label}' made both {before} and {id}"));
        }
        let total = ms(data, "total_duration").unwrap_or(0);
        let (session, state) = (commit.batch.session.id.clone(), State::Running { due: commit.at + total });
        let recurring = self.recurring.get(&label).cloned().map(Recurring::new);
        let timer = Timer { session, total, state, background: false, recurring };
        charges
            .unless(self.known.insert(id.to_owned(), timer).is_none(), Rule::Twice, || format!("{id} was made twice"));
    }

    pub fn end(&self, charges: &mut Charges) {
        for (id, timer) in self.known.iter().filter(|(_, timer)| timer.is_live()) {
            charges.say(Rule::Lost, format!("{id} never ended: {:?}", timer.state));
        }
    }
}
