//! A session: the border nothing crosses, and the unit of consistency.
//!
//! Every change to anything in a session carries the session's version and raises it by one. Two writers can therefore
//! never both decide on the same state, on one node or on many.

use crate::{
    id::{AgentId, SessionId},
    quiet::Hours,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub id: SessionId,
    pub version: u64,
    pub state: SessionState,
    pub created_at: Timestamp,
    /// The last change of any kind.
    pub active_at: Timestamp,
    /// Kept here so that the limits need no counting.
    pub live_timers: u32,
    pub live_reminders: u32,
    /// At most this many messages are undelivered; kept here so that an empty inbox need not be looked into.
    pub pending_messages: u32,
    /// The kind of program its agent runs in (`claude-code`, `codex`), as last told by a call that changed something.
    pub client: Option<String>,
    /// Where its agent works: a directory, as last told in the same way.
    pub cwd: Option<String>,
    /// The configured agent whose timers run here; they were made when this was set.
    pub agent: Option<AgentId>,
    /// When its agent and its user are not to be disturbed.
    #[serde(default, skip_serializing_if = "Hours::is_none")]
    pub quiet: Hours,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    Open,
    Closed,
}

impl SessionState {
    pub const fn as_str(self) -> &'static str {
        match self {
            SessionState::Open => "open",
            SessionState::Closed => "closed",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [SessionState::Open, SessionState::Closed].into_iter().find(|state| state.as_str() == text)
    }
}
