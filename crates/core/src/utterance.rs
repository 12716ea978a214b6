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
    /// Nobody's: the session was begun anew here, and what came before is no part of the conversation.
    Beginning,
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
            Role::Beginning => "beginning",
        }
    }
}

impl Utterance {
    pub fn new(id: impl Into<Arc<str>>, role: Role, content: impl Into<String>, at: Timestamp) -> Self {
        let (calls, answers, timer) = (Vec::new(), None, None);
        Self { id: id.into(), at, role, content: content.into(), calls, answers, timer }
    }

    fn words_of_timer(&self) -> Option<(&ItemId, &str)> {
        let words = self.calls.is_empty() && self.answers.is_none();
        self.timer.as_ref().filter(|_| words).map(|timer| (timer, self.content.as_str()))
    }

    /// There is nothing in it; protocols of models have no form for that.
    pub fn is_empty(&self) -> bool {
        self.content.trim().is_empty() && self.calls.is_empty() && self.answers.is_none()
    }
}

/// What a model is given of that: the latest, without what says nothing. What a timer says again and again in one silence is
/// there once, or a patient reminder would leave no room for anything else.
pub fn context(said: Vec<Utterance>, max: usize) -> Vec<Utterance> {
    let mut kept: Vec<Utterance> = Vec::new();
    for said in current(said).into_iter().filter(|said| !said.is_empty()) {
        let silence = kept.iter().rposition(|kept| kept.timer.is_none()).map_or(0, |at| at + 1);
        let same = |kept: &Utterance| kept.words_of_timer().is_some() && kept.words_of_timer() == said.words_of_timer();
        if let Some(before) = kept[silence..].iter().position(same) {
            kept.remove(silence + before);
        }
        kept.push(said);
    }
    kept.split_off(kept.len().saturating_sub(max))
}

/// The conversation that goes on now: what was said since the session was last begun.
pub fn current(mut said: Vec<Utterance>) -> Vec<Utterance> {
    let begins = said.iter().rposition(|said| said.role == Role::Beginning).map_or(0, |at| at + 1);
    said.split_off(begins)
}
