//! Reminders: what each command does to one, what is written about it, and how its message follows.
//!
//! A reminder is `due` exactly as long as its message is in the inbox undelivered: both change in one commit.

use super::{Draft, Fired, Reply, Scheduled};
use crate::{
    batch::{ItemWrite, MessageWrite, RequestKey, tally},
    history::SubjectKind,
    id::ItemId,
    item::Item,
    message::Message,
    quiet::Quiet,
    reject::Reject,
    reminder::{Answered, Ask, Reminder, Settled, Status},
    time::Timestamp,
};
use serde_json::{Map, Value, json};
use std::collections::HashSet;

impl Draft<'_> {
    pub(super) fn schedule(&mut self, asks: &[Ask], key: Option<&RequestKey>) -> Result<Reply, Reject> {
        if let Some((made, used)) = &self.state.keyed {
            return repeated(made, used, asks, key, |due_at| self.opening(due_at));
        }
        let asked = asks.iter().filter(|ask| matches!(ask, Ask::New { .. })).count() as u32;
        let (live, max) = (self.session.live_reminders, self.limits.live_reminders_max);
        if asked > 0 && live.saturating_add(asked) > max {
            return Err(Reject::TooManyReminders { live, asked, max });
        }
        if asked > 0 {
            self.inbox_has_room()?;
        }
        let mut named = HashSet::new();
        if let Some(twice) = asks.iter().find(|ask| !named.insert(ask.id())) {
            let why = format!("names '{}' twice; send one item for each task", twice.id());
            return Err(Reject::InvalidArgument { field: "taskId".into(), why });
        }
        let ready = asks.iter().map(|ask| self.ready(ask)).collect::<Result<Vec<_>, _>>()?;
        if asked > 0 {
            self.open();
        }
        let answered = |(ask, (_, after)): (&Ask, &(_, Reminder))| Answered {
            id: after.id.clone(),
            due_at: after.due_at,
            task: ask.task().is_none().then(|| after.content.task.clone()),
        };
        let answered: Vec<Answered> = asks.iter().zip(&ready).map(answered).collect();
        let mut key = key.cloned();
        let mut scheduled = Vec::new();
        for (before, mut after) in ready {
            let (id, due_at, task) = (after.id.clone(), after.due_at, after.content.task.clone());
            scheduled.push(Scheduled { id, due_at, opens_at: self.opening(due_at), task });
            match before {
                Some(before) => self.replaced(before, after),
                None => {
                    let key = key.take();
                    if key.is_some() {
                        after.answered.clone_from(&answered);
                    }
                    self.made(after, key);
                }
            }
        }
        Ok(Reply::Scheduled(scheduled))
    }

    /// When a reminder of that time is told, if quiet hours have it wait.
    fn opening(&self, due_at: Timestamp) -> Option<Timestamp> {
        Quiet::opening(self.quiet().as_ref(), due_at.minus(self.limits.due_window), None, self.now)
    }

    /// The reminder as it was, if it was, and as it is asked to be.
    fn ready(&self, ask: &Ask) -> Result<(Option<Reminder>, Reminder), Reject> {
        match ask {
            Ask::New { id, due, content } => {
                Ok((None, Reminder::schedule(id.clone(), *due, content.clone(), self.now, self.limits)?))
            }
            Ask::Replace { id, change } => {
                let before = self.reminder(id)?;
                let mut after = before.clone();
                after.replace(change.clone(), self.now, self.limits)?;
                Ok((Some(before), after))
            }
        }
    }

    fn made(&mut self, mut reminder: Reminder, key: Option<RequestKey>) {
        self.session.live_reminders += 1;
        self.count(tally::REMINDERS_CREATED, 1);
        self.count(tally::reminders(Status::Scheduled), 1);
        self.note(SubjectKind::Reminder, &reminder.id, "reminder.scheduled", described(&reminder));
        let before = reminder.status();
        self.settle(&mut reminder);
        self.tally_reminder(before, reminder.status());
        self.items.push(ItemWrite::Insert { item: Item::Reminder(reminder), key });
    }

    fn replaced(&mut self, before: Reminder, mut after: Reminder) {
        self.withdraw_message_of(&before);
        self.note(SubjectKind::Reminder, &after.id, "reminder.replaced", described(&after));
        self.settle(&mut after);
        self.write_reminder(before.status(), after);
    }

    pub(super) fn cancel_reminder(&mut self, mut reminder: Reminder, why: Option<&str>) -> Result<Reminder, Reject> {
        let before = reminder.status();
        reminder.cancel(self.now)?;
        self.withdraw_message_of(&reminder);
        let data = Map::from_iter(why.map(|why| ("reason".to_owned(), json!(why))));
        self.note(SubjectKind::Reminder, &reminder.id, "reminder.cancelled", data);
        self.write_reminder(before, reminder.clone());
        Ok(reminder)
    }

    pub(super) fn clear_reminders(&mut self) -> Result<Reply, Reject> {
        let live: Vec<Reminder> =
            self.state.items.iter().filter_map(Item::as_reminder).filter(|one| one.is_live()).cloned().collect();
        let count = live.len();
        for reminder in live {
            self.cancel_reminder(reminder, None)?;
        }
        Ok(Reply::Cleared(count))
    }

    pub(super) fn fire_reminder(&mut self, reminder: &Reminder, fired: &mut Vec<Fired>) {
        let mut reminder = reminder.clone();
        let (before, opens_at) = (reminder.status(), reminder.opens_at);
        let steps = self.settle(&mut reminder);
        match reminder.opens_at.filter(|_| steps.is_empty() && reminder.opens_at != opens_at) {
            Some(until) => self.waits(SubjectKind::Reminder, &reminder.id, until, Map::new()),
            None if steps.is_empty() => return,
            None => {}
        }
        fired.extend(steps.into_iter().map(|due| Fired { id: reminder.id.clone(), due, agent: None }));
        self.write_reminder(before, reminder);
    }

    /// Lets time act on a reminder, and its message with it; the deadlines that were acted on.
    fn settle(&mut self, reminder: &mut Reminder) -> Vec<Timestamp> {
        reminder.hold(self.quiet().as_ref(), self.now, self.limits);
        let message = self.message_of(&reminder.id).cloned();
        let held = message.as_ref().and_then(|message| message.held_until(self.now));
        let steps = reminder.settle(held, self.now, self.limits);
        let missed = matches!(steps.last(), Some(Settled::Missed { .. }));
        for step in &steps {
            match *step {
                // So late that it is missed already: there is nothing to tell any more.
                Settled::Due { .. } if missed => {}
                Settled::Due { due } => self.due(reminder, due),
                Settled::Held { .. } => {}
                Settled::Missed { .. } => {
                    if let Some(message) = &message {
                        self.withdraw(message.clone());
                    }
                    self.missed(reminder);
                }
            }
        }
        let due = |step: &Settled| match *step {
            Settled::Due { due } | Settled::Held { due } | Settled::Missed { due } => due,
        };
        steps.iter().map(due).collect()
    }

    fn due(&mut self, reminder: &Reminder, due: Timestamp) {
        let message = Message::reminder_due(reminder, self.now);
        let data = Map::from_iter([
            ("due".to_owned(), json!(due.as_millis())),
            ("lateness_ms".to_owned(), json!(self.now.since(due).get())),
            ("message".to_owned(), json!({ "id": message.id, "kind": message.kind, "text": message.text })),
        ]);
        self.tell(message);
        self.happened(due);
        self.note(SubjectKind::Reminder, &reminder.id, "reminder.due", data);
    }

    fn missed(&mut self, reminder: &Reminder) {
        self.note(SubjectKind::Reminder, &reminder.id, "reminder.missed", described(reminder));
    }

    /// A message was delivered; if it is a reminder's, that is delivered in the same commit.
    pub(super) fn source_delivered(&mut self, message: &Message, channel: &str) {
        let Some(mut reminder) = self.source(message) else { return };
        let before = reminder.status();
        reminder.delivered(self.now);
        let data = Map::from_iter([("channel".to_owned(), json!(channel)), ("message".to_owned(), json!(message.id))]);
        self.note(SubjectKind::Reminder, &reminder.id, "reminder.delivered", data);
        self.write_reminder(before, reminder);
    }

    /// A message was given back undelivered. If it is a reminder's that only that delivery kept from being missed, both
    /// end here.
    pub(super) fn source_given_up(&mut self, message: &Message) -> bool {
        let Some(mut reminder) = self.source(message) else { return false };
        if reminder.keep_until().is_none_or(|until| until > self.now) {
            return false;
        }
        let before = reminder.status();
        reminder.given_up(self.now);
        self.withdraw(message.clone());
        self.missed(&reminder);
        self.write_reminder(before, reminder);
        true
    }

    /// The reminder that this message tells, as long as it does.
    fn source(&self, message: &Message) -> Option<Reminder> {
        let mut reminders = self.state.items.iter().filter_map(Item::as_reminder);
        reminders.find(|reminder| reminder.id == message.source && reminder.status() == Status::Due).cloned()
    }

    pub(super) fn reminder(&self, id: &ItemId) -> Result<Reminder, Reject> {
        let found = self.item(id).and_then(Item::as_reminder);
        found.cloned().ok_or_else(|| Reject::UnknownReminder { id: id.clone(), live: Vec::new() })
    }

    fn withdraw_message_of(&mut self, reminder: &Reminder) {
        if let Some(message) = self.message_of(&reminder.id).cloned() {
            self.withdraw(message);
        }
    }

    /// The reminder's message, as this decision has left it so far.
    fn message_of(&self, id: &ItemId) -> Option<&Message> {
        match self.messages.iter().rev().find(|write| write.message().source == *id) {
            Some(MessageWrite::Insert(message) | MessageWrite::Update(message)) => Some(message),
            Some(MessageWrite::Withdraw(_)) => None,
            None => self.state.inbox.iter().find(|message| message.source == *id),
        }
    }

    fn write_reminder(&mut self, before: Status, reminder: Reminder) {
        self.tally_reminder(before, reminder.status());
        if before.is_live() && !reminder.is_live() {
            self.session.live_reminders = self.session.live_reminders.saturating_sub(1);
        }
        self.items.push(ItemWrite::Update(Item::Reminder(reminder)));
    }

    fn tally_reminder(&mut self, before: Status, after: Status) {
        if before != after {
            self.count(tally::reminders(before), -1);
            self.count(tally::reminders(after), 1);
        }
    }
}

/// The same request again under its key: what was answered then.
fn repeated(
    made: &Item,
    used: &RequestKey,
    asks: &[Ask],
    key: Option<&RequestKey>,
    opening: impl Fn(Timestamp) -> Option<Timestamp>,
) -> Result<Reply, Reject> {
    let reused = || Reject::RequestKeyReused { key: used.key.clone() };
    let reminder = made.as_reminder().ok_or_else(reused)?;
    if key.is_none_or(|key| key.fingerprint != used.fingerprint) || reminder.answered.len() != asks.len() {
        return Err(reused());
    }
    let scheduled = reminder.answered.iter().zip(asks).map(|(answered, ask)| Scheduled {
        id: answered.id.clone(),
        due_at: answered.due_at,
        opens_at: opening(answered.due_at),
        task: ask.task().or(answered.task.as_deref()).unwrap_or_default().to_owned(),
    });
    Ok(Reply::Scheduled(scheduled.collect()))
}

fn described(reminder: &Reminder) -> Map<String, Value> {
    let mut data = Map::from_iter([
        ("task".to_owned(), json!(reminder.content.task)),
        ("due_at".to_owned(), json!(reminder.due_at.as_millis())),
    ]);
    data.extend(reminder.content.tool.iter().map(|tool| ("tool".to_owned(), json!(tool))));
    data.extend(reminder.content.arguments.iter().map(|arguments| ("arguments".to_owned(), json!(arguments))));
    data
}
