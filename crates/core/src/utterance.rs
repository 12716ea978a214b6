//! What was said in a session: the conversation of an agent that Reveille runs, and the messages its timers send. It is
//! the context of the next turn. No protocol's form of it; whoever calls a model writes that.

use crate::{id::ItemId, time::Timestamp};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Utterance {
    pub id: Arc<str>,
    pub at: Timestamp,
    pub role: Role,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub content: String,
    /// Tools that the model wants called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Asked>,
    /// Of a tool's result: which call it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<String>,
    /// The session timer that said it, if no turn did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer: Option<ItemId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    User,
    Assistant,
    Tool,
}

/// One tool call, as the model wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    pub id: String,
    pub name: String,
    /// JSON, or what the model took for it.
    pub arguments: String,
}

impl Role {
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }
}

impl Utterance {
    pub fn new(id: impl Into<Arc<str>>, role: Role, content: impl Into<String>, at: Timestamp) -> Self {
        let (calls, answers, timer) = (Vec::new(), None, None);
        Self { id: id.into(), at, role, content: content.into(), calls, answers, timer }
    }
}
