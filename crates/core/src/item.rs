//! Anything in a session that has a state of its own, mostly with a deadline. Stores, the agenda and the driver know
//! items; only `decide` knows what a deadline means for each kind.

use crate::{
    call::ToolCall, id::ItemId, reminder::Reminder, session_timer::SessionTimer, thread::Thread, time::Timestamp,
    timer::Timer,
};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Item {
    Timer(Timer),
    Reminder(Reminder),
    Thread(Thread),
    SessionTimer(SessionTimer),
    Call(ToolCall),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Timer,
    Reminder,
    Thread,
    SessionTimer,
    Call,
}

/// A stored item that cannot be read: damage, or a newer version's data.
#[derive(Debug, thiserror::Error)]
#[error("unreadable {kind} in the database: {why}")]
pub struct Unreadable {
    pub kind: String,
    pub why: String,
}

impl Kind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Timer => "timer",
            Kind::Reminder => "reminder",
            Kind::Thread => "thread",
            Kind::SessionTimer => "session_timer",
            Kind::Call => "call",
        }
    }
}

impl Item {
    pub fn kind(&self) -> Kind {
        match self {
            Item::Timer(_) => Kind::Timer,
            Item::Reminder(_) => Kind::Reminder,
            Item::Thread(_) => Kind::Thread,
            Item::SessionTimer(_) => Kind::SessionTimer,
            Item::Call(_) => Kind::Call,
        }
    }

    pub fn id(&self) -> &ItemId {
        match self {
            Item::Timer(timer) => &timer.id,
            Item::Reminder(reminder) => &reminder.id,
            Item::Thread(thread) => &thread.id,
            Item::SessionTimer(timer) => &timer.id,
            Item::Call(call) => &call.id,
        }
    }

    pub fn status(&self) -> &'static str {
        match self {
            Item::Timer(timer) => timer.status().as_str(),
            Item::Reminder(reminder) => reminder.status().as_str(),
            Item::Thread(_) => "kept",
            Item::SessionTimer(timer) => timer.status().as_str(),
            Item::Call(call) => call.status().as_str(),
        }
    }

    pub fn due(&self) -> Option<Timestamp> {
        match self {
            Item::Timer(timer) => timer.due(),
            Item::Reminder(reminder) => reminder.due(),
            Item::Thread(_) => None,
            Item::SessionTimer(timer) => timer.due(),
            Item::Call(call) => call.due(),
        }
    }

    pub fn ended_at(&self) -> Option<Timestamp> {
        match self {
            Item::Timer(timer) => timer.ended_at(),
            Item::Reminder(reminder) => reminder.ended_at(),
            Item::Thread(thread) => thread.ended_at(),
            Item::SessionTimer(timer) => timer.ended_at(),
            Item::Call(call) => call.ended_at(),
        }
    }

    pub fn created_at(&self) -> Timestamp {
        match self {
            Item::Timer(timer) => timer.created_at,
            Item::Reminder(reminder) => reminder.created_at,
            Item::Thread(thread) => thread.created_at,
            Item::SessionTimer(timer) => timer.created_at,
            Item::Call(call) => call.created_at,
        }
    }

    pub fn as_timer(&self) -> Option<&Timer> {
        match self {
            Item::Timer(timer) => Some(timer),
            _ => None,
        }
    }

    pub fn as_reminder(&self) -> Option<&Reminder> {
        match self {
            Item::Reminder(reminder) => Some(reminder),
            _ => None,
        }
    }

    pub fn as_thread(&self) -> Option<&Thread> {
        match self {
            Item::Thread(thread) => Some(thread),
            _ => None,
        }
    }

    pub fn into_thread(self) -> Option<Thread> {
        match self {
            Item::Thread(thread) => Some(thread),
            _ => None,
        }
    }

    pub fn as_session_timer(&self) -> Option<&SessionTimer> {
        match self {
            Item::SessionTimer(timer) => Some(timer),
            _ => None,
        }
    }

    pub fn as_call(&self) -> Option<&ToolCall> {
        match self {
            Item::Call(call) => Some(call),
            _ => None,
        }
    }

    /// A condition besides its deadline may end it, and somebody has to look whether that holds.
    pub fn awaits(&self) -> bool {
        self.as_timer().is_some_and(|timer| timer.awaits().is_some())
    }

    /// To act on its deadline, everything live in its session and the inbox have to be loaded too, for all of it ends.
    pub fn ends_session(&self) -> bool {
        self.as_session_timer().is_some_and(|timer| timer.is_live() && timer.spec.action.closes())
    }

    /// Its next deadline means one thing or another depending on who holds its message: to act on it, the session's
    /// inbox has to be loaded too.
    pub fn watches_inbox(&self) -> bool {
        self.as_reminder().is_some_and(|reminder| reminder.keep_until().is_some())
    }

    /// The stored form. It is read by every later version: fields are only ever added, with defaults.
    pub fn encode(&self) -> String {
        let text = match self {
            Item::Timer(timer) => serde_json::to_string(timer),
            Item::Reminder(reminder) => serde_json::to_string(reminder),
            Item::Thread(thread) => serde_json::to_string(thread),
            Item::SessionTimer(timer) => serde_json::to_string(timer),
            Item::Call(call) => serde_json::to_string(call),
        };
        text.expect("an item is always representable as JSON")
    }

    pub fn decode(kind: &str, body: &str) -> Result<Item, Unreadable> {
        let unreadable = |why: String| Unreadable { kind: kind.to_owned(), why };
        let item = match kind {
            "timer" => serde_json::from_str(body).map(Item::Timer),
            "reminder" => serde_json::from_str(body).map(Item::Reminder),
            "thread" => serde_json::from_str(body).map(Item::Thread),
            "session_timer" => serde_json::from_str(body).map(Item::SessionTimer),
            "call" => serde_json::from_str(body).map(Item::Call),
            _ => return Err(unreadable("unknown kind".into())),
        };
        item.map_err(|error| unreadable(error.to_string()))
    }
}
