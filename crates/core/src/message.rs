//! What the system has to tell an agent, and the right to deliver it.

use crate::{
    id::{ItemId, LeaseId},
    recurrence::LATE_MAX,
    reminder::{self, Reminder},
    schedule::Schedule,
    time::Timestamp,
    timer::{Purpose, Timer},
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One message of a session's inbox. It stays there until a channel has delivered it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Derived from what caused it, so that the same cause can never make two.
    pub id: Arc<str>,
    pub kind: MessageKind,
    pub text: String,
    /// The item it speaks of.
    pub source: ItemId,
    pub created_at: Timestamp,
    /// From then on it is not to be told any more; it is withdrawn soon.
    pub expires_at: Option<Timestamp>,
    pub lease: Option<Lease>,
    pub delivered: Option<Delivered>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    TimerCompleted,
    /// A recurring timer, which goes on.
    TimerFired,
    ReminderDue,
}

/// One time of a recurring timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occurrence {
    pub number: u32,
    pub due: Timestamp,
    /// From then on it was to be told.
    pub opened: Timestamp,
    pub next: Option<Timestamp>,
}

/// When a timer's time was up, and from when on that was to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    pub due: Timestamp,
    pub opened: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub id: LeaseId,
    pub until: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivered {
    pub at: Timestamp,
    /// The way out it took: `standby`, `tool_result`, `inbox`.
    pub channel: String,
}

impl MessageKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            MessageKind::TimerCompleted => "timer_completed",
            MessageKind::TimerFired => "timer_fired",
            MessageKind::ReminderDue => "reminder_due",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [MessageKind::TimerCompleted, MessageKind::TimerFired, MessageKind::ReminderDue]
            .into_iter()
            .find(|kind| kind.as_str() == text)
    }
}

impl Message {
    /// `ended`: by its time, which is told beside it where that is long ago.
    pub fn timer_completed(timer: &Timer, ended: Option<Ended>, now: Timestamp, lease: Option<Lease>) -> Message {
        let (label, text) = purpose(timer);
        let mut text = format!(
            "[Timer Completed] Timer '{}' has finished.\n{label}: {text}\nDuration: {} seconds\nElapsed: {} seconds",
            timer.id,
            timer.total,
            timer.elapsed(now),
        );
        if let Some(watch) = &timer.until {
            text.push_str(&match &watch.seen {
                Some(seen) => format!("\nMet: {seen}"),
                None => format!("\nNot met in this time: {}", watch.wanted.condition),
            });
        }
        if let Some(Ended { due, opened }) = ended.filter(|ended| now.since(ended.due) > LATE_MAX) {
            text.push_str(&format!("\nDue: {}{}", shown(timer, due), late(due, opened)));
        }
        Message {
            id: message_id(&timer.id).into(),
            kind: MessageKind::TimerCompleted,
            text,
            source: timer.id.clone(),
            created_at: now,
            expires_at: None,
            lease,
            delivered: None,
        }
    }

    /// One time of a recurring timer; the last one completes it.
    pub fn timer_fired(timer: &Timer, fired: &Occurrence, now: Timestamp, lease: Option<Lease>) -> Message {
        let recurrence = timer.schedule.as_deref().and_then(Schedule::recurrence);
        let (label, text) = purpose(timer);
        let of = recurrence.and_then(|recurrence| recurrence.max_fires).map(|max| format!(" of {max}"));
        let number = format!("{}{}", fired.number, of.unwrap_or_default());
        let (kind, said, next) = match fired.next {
            Some(next) => (MessageKind::TimerFired, "[Timer Fired]", format!("\nNext: {}", shown(timer, next))),
            None => (MessageKind::TimerCompleted, "[Timer Completed]", "\nThis was the last time.".to_owned()),
        };
        let late = if now.since(fired.due) > LATE_MAX { late(fired.due, fired.opened) } else { "" };
        Message {
            id: format!("{}.{}", message_id(&timer.id), fired.number).into(),
            kind,
            text: format!(
                "{said} Timer '{}' has fired, time {number}.\n{label}: {text}\nDue: {}{late}{next}",
                timer.id,
                shown(timer, fired.due),
            ),
            source: timer.id.clone(),
            created_at: now,
            expires_at: None,
            lease,
            delivered: None,
        }
    }

    pub fn reminder_due(reminder: &Reminder, now: Timestamp) -> Message {
        // With the whole id, since a timer's may be the same but for its first word.
        let id = match reminder.revision {
            0 => format!("msg_{}", reminder.id),
            revision => format!("msg_{}.{revision}", reminder.id),
        };
        Message {
            id: id.into(),
            kind: MessageKind::ReminderDue,
            text: reminder::text(reminder),
            source: reminder.id.clone(),
            created_at: now,
            expires_at: reminder.keep_until(),
            lease: None,
            delivered: None,
        }
    }

    /// Nobody holds it: it is not delivered, no lease on it is still good, and it may still be told.
    pub fn is_free(&self, now: Timestamp) -> bool {
        self.delivered.is_none() && self.held_until(now).is_none() && self.expires_at.is_none_or(|at| at > now)
    }

    /// Until when somebody has the right to deliver it.
    pub fn held_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.lease.as_ref().map(|lease| lease.until).filter(|until| *until > now)
    }

    /// Settling this lease changes the item the message speaks of, so that has to be loaded for it.
    pub fn settles_source(&self, lease: &LeaseId) -> bool {
        self.kind == MessageKind::ReminderDue && self.is_leased_by(lease)
    }

    pub fn is_leased_by(&self, lease: &LeaseId) -> bool {
        self.delivered.is_none() && self.lease.as_ref().is_some_and(|held| held.id == *lease)
    }
}

/// Why it is told so much later than it was due.
fn late(due: Timestamp, opened: Timestamp) -> &'static str {
    if opened > due { " (quiet hours then, told now)" } else { " (missed then, told now)" }
}

/// An instant as the timer's own zone has it.
fn shown(timer: &Timer, at: Timestamp) -> String {
    let zone = timer.schedule.as_deref().and_then(Schedule::zone);
    zone.map_or_else(|| at.to_iso(), |zone| zone.show(at))
}

fn purpose(timer: &Timer) -> (&'static str, &str) {
    match &timer.purpose {
        Purpose::Waiting(reason) => ("Reason", reason),
        Purpose::Mission(mission) => ("Mission", mission),
    }
}

fn message_id(source: &ItemId) -> String {
    let name = source.as_str();
    let short = name.split_once('_').map_or(name, |(_, short)| short);
    format!("msg_{short}")
}
