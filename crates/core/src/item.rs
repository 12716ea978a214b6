//! Anything in a session that has a deadline. Stores, the agenda and the driver know items; only `decide` knows what
//! a deadline means for each kind. Reminders and session timers are further kinds of the same thing.

use crate::{id::ItemId, time::Timestamp, timer::Timer};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    Timer(Timer),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Timer,
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
        }
    }
}

impl Item {
    pub fn kind(&self) -> Kind {
        match self {
            Item::Timer(_) => Kind::Timer,
        }
    }

    pub fn id(&self) -> &ItemId {
        match self {
            Item::Timer(timer) => &timer.id,
        }
    }

    pub fn status(&self) -> &'static str {
        match self {
            Item::Timer(timer) => timer.status().as_str(),
        }
    }

    pub fn due(&self) -> Option<Timestamp> {
        match self {
            Item::Timer(timer) => timer.due(),
        }
    }

    pub fn ended_at(&self) -> Option<Timestamp> {
        match self {
            Item::Timer(timer) => timer.ended_at(),
        }
    }

    pub fn created_at(&self) -> Timestamp {
        match self {
            Item::Timer(timer) => timer.created_at,
        }
    }

    pub fn as_timer(&self) -> Option<&Timer> {
        match self {
            Item::Timer(timer) => Some(timer),
        }
    }

    /// The stored form. It is read by every later version: fields are only ever added, with defaults.
    pub fn encode(&self) -> String {
        let text = match self {
            Item::Timer(timer) => serde_json::to_string(timer),
        };
        text.expect("a timer is always representable as JSON")
    }

    pub fn decode(kind: &str, body: &str) -> Result<Item, Unreadable> {
        let unreadable = |why: String| Unreadable { kind: kind.to_owned(), why };
        match kind {
            "timer" => serde_json::from_str(body).map(Item::Timer).map_err(|error| unreadable(error.to_string())),
            _ => Err(unreadable("unknown kind".into())),
        }
    }
}
