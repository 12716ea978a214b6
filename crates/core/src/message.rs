//! What the system has to tell an agent, and the right to deliver it.

use crate::{
    id::{ItemId, LeaseId},
    reminder::{self, Reminder},
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
    ReminderDue,
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
            MessageKind::ReminderDue => "reminder_due",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [MessageKind::TimerCompleted, MessageKind::ReminderDue].into_iter().find(|kind| kind.as_str() == text)
    }
}

impl Message {
    pub fn timer_completed(timer: &Timer, now: Timestamp, lease: Option<Lease>) -> Message {
        let (label, text) = match &timer.purpose {
            Purpose::Waiting(reason) => ("Reason", reason),
            Purpose::Mission(mission) => ("Mission", mission),
        };
        Message {
            id: message_id(&timer.id),
            kind: MessageKind::TimerCompleted,
            text: format!(
                "[Timer Completed] Timer '{}' has finished.\n{label}: {text}\nDuration: {} seconds\nElapsed: {} seconds",
                timer.id,
                timer.total,
                timer.elapsed(now),
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

fn message_id(source: &ItemId) -> Arc<str> {
    let name = source.as_str();
    let short = name.split_once('_').map_or(name, |(_, short)| short);
    format!("msg_{short}").into()
}
