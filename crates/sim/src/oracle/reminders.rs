//! Reminders as the documents have them: told from a little before they are due until a while after, then missed, and
//! never silently gone.

use super::{Charges, Commit, Rule, inbox::Inbox, sky::Sky, written};
use crate::plan::Plan;
use reveille_core::{HistoryEntry, Item, MessageWrite, SessionId, SubjectKind};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Scheduled { tell_at: i64 },
    Due { message: String },
    Delivered,
    Missed,
    Cancelled,
}

struct Reminder {
    session: SessionId,
    due_at: i64,
    state: State,
}

#[derive(Default)]
pub struct Reminders {
    known: BTreeMap<String, Reminder>,
    labels: BTreeMap<String, String>,
}

impl Reminder {
    fn is_live(&self) -> bool {
        matches!(self.state, State::Scheduled { .. } | State::Due { .. })
    }
}

impl Reminders {
    pub fn live(&self, session: &SessionId) -> usize {
        self.known.values().filter(|one| one.session == *session && one.is_live()).count()
    }

    pub fn exists(&self, id: &str) -> bool {
        self.known.contains_key(id)
    }

    pub fn commit(&mut self, commit: &Commit<'_>, plan: &Plan, inbox: &Inbox, sky: &Sky, charges: &mut Charges) {
        for entry in commit.batch.history.iter().filter(|entry| entry.kind == SubjectKind::Reminder) {
            self.entry(commit, entry, plan, inbox, sky, charges);
        }
        for item in written(commit.batch).filter_map(Item::as_reminder) {
            let Some(known) = self.known.get(item.id.as_str()) else {
                charges.say(Rule::Wrong, format!("{} was written and never scheduled", item.id));
                continue;
            };
            let status = match known.state {
                State::Scheduled { .. } => "scheduled",
                State::Due { .. } => "due",
                State::Delivered => "delivered",
                State::Missed => "missed",
                State::Cancelled => "cancelled",
            };
            let written = (item.status().as_str(), item.due_at.as_millis());
            charges.unless(written == (status, known.due_at), Rule::Wrong, || {
                format!("{} is written as {written:?} and should be {:?}", item.id, known.state)
            });
        }
    }

    fn entry(
        &mut self,
        commit: &Commit<'_>,
        entry: &HistoryEntry,
        plan: &Plan,
        inbox: &Inbox,
        sky: &Sky,
        charges: &mut Charges,
    ) {
        let (id, at) = (&*entry.subject, commit.at);
        let due_at = entry.data["due_at"].as_i64().unwrap_or(0);
        let early = due_at - plan.limits.due_window.get() as i64;
        let tell_at = if early > at { early } else { due_at.max(at) };
        if entry.event == "reminder.scheduled" {
            let label = entry.data["task"].as_str().unwrap_or_default().to_owned();
            if let Some(before) = self.labels.insert(label.clone(), id.to_owned()) {
                charges.say(Rule::Twice, format!("'{label}' made both {before} and {id}"));
            }
            let session = commit.batch.session.id.clone();
            let new =
                self.known.insert(id.to_owned(), Reminder { session, due_at, state: State::Scheduled { tell_at } });
            return charges.unless(new.is_none(), Rule::Twice, || format!("{id} was made twice"));
        }
        let Some(known) = self.known.get_mut(id) else {
            return charges.say(Rule::Wrong, format!("{} of {id}, which was never made", entry.event));
        };
        if !known.is_live() {
            return charges.say(Rule::Twice, format!("{} of {id}, which is {:?}", entry.event, known.state));
        }
        let withdrawn = |message: &str| {
            let is_it = |write: &MessageWrite| matches!(write, MessageWrite::Withdraw(one) if &*one.id == message);
            commit.batch.messages.iter().any(is_it)
        };
        match &*entry.event {
            "reminder.due" => {
                let State::Scheduled { tell_at } = known.state else {
                    return charges.say(Rule::Twice, format!("{id} became due when it was {:?}", known.state));
                };
                charges.unless(at >= tell_at, Rule::Early, || format!("{id} was told {} ms early", tell_at - at));
                charges.unless(!sky.too_late(at - tell_at), Rule::Late, || format!("{id}: {} ms late", at - tell_at));
                let message = entry.data["message"]["id"].as_str().unwrap_or_default().to_owned();
                charges.unless(inbox.exists(&message), Rule::Lost, || format!("{id} became due without a message"));
                known.state = State::Due { message };
            }
            "reminder.missed" => {
                let keep = known.due_at + plan.limits.reminder_retention.get() as i64;
                charges.unless(at >= keep, Rule::Lost, || format!("{id} was given up {} ms early", keep - at));
                if let State::Due { message } = &known.state {
                    charges.unless(withdrawn(message), Rule::Wrong, || format!("{id} is missed, its message is not"));
                }
                known.state = State::Missed;
            }
            "reminder.delivered" => {
                let told = matches!(&known.state, State::Due { message } if inbox.is_delivered(message));
                charges.unless(told, Rule::Lost, || format!("{id} counts as delivered, its message does not"));
                known.state = State::Delivered;
            }
            "reminder.cancelled" | "reminder.replaced" => {
                if let State::Due { message } = &known.state {
                    let gone = withdrawn(message);
                    charges.unless(gone, Rule::Twice, || format!("{id} is not to be told, its message still is"));
                }
                known.state = State::Cancelled;
                if entry.event == "reminder.replaced" {
                    (known.due_at, known.state) = (due_at, State::Scheduled { tell_at });
                }
            }
            _ => {}
        }
    }

    pub fn end(&self, charges: &mut Charges) {
        for (id, one) in self.known.iter().filter(|(_, one)| one.is_live()) {
            charges.say(Rule::Lost, format!("{id} never ended: {:?}", one.state));
        }
    }
}
