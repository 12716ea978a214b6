//! What happened, one entry per change. The same entries are the history people read and the events clients follow.

use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{borrow::Cow, sync::Arc};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryEntry {
    pub at: Timestamp,
    pub kind: SubjectKind,
    /// Id of the timer, reminder or message, name of the session.
    pub subject: Arc<str>,
    /// `timer.completed`, `message.delivered`, `session.closed`, …
    pub event: Cow<'static, str>,
    /// Details, an object; `null` when there are none.
    pub data: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubjectKind {
    Timer,
    Reminder,
    Message,
    Session,
    SessionTimer,
    Call,
}

impl SubjectKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            SubjectKind::Timer => "timer",
            SubjectKind::Reminder => "reminder",
            SubjectKind::Message => "message",
            SubjectKind::Session => "session",
            SubjectKind::SessionTimer => "session_timer",
            SubjectKind::Call => "call",
        }
    }

    pub const ALL: [SubjectKind; 6] = [
        SubjectKind::Timer,
        SubjectKind::Reminder,
        SubjectKind::Message,
        SubjectKind::Session,
        SubjectKind::SessionTimer,
        SubjectKind::Call,
    ];

    pub fn parse(text: &str) -> Option<Self> {
        SubjectKind::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// Seconds as agents read them: `300`, not `300.0`; `0.25`.
pub fn seconds(length: crate::time::Millis) -> Value {
    let ms = length.get();
    if ms.is_multiple_of(1000) { Value::from(ms / 1000) } else { Value::from(ms as f64 / 1000.0) }
}
