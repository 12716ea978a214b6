//! Chat Completions: several answers as one, and what is said in between.

mod chunks;
mod merge;
mod reader;

pub(crate) use chunks::Chunks;
pub(crate) use merge::merge;
pub(crate) use reader::{Reader, hear_whole};

use super::role;
use crate::stage::{ToolResult, Words};
use serde_json::{Value, json};

pub(crate) fn result(result: &ToolResult) -> Value {
    json!({"role": "tool", "tool_call_id": result.call, "content": result.text})
}

pub(crate) fn words(words: &Words, model: &str) -> Value {
    json!({"role": role(words.voice, model), "content": words.text})
}

/// The same for several: what one role says after another is one message, since some templates want roles to alternate.
pub(crate) fn all_words(all: &[Words], model: &str) -> Vec<Value> {
    let by_role = all.chunk_by(|one, next| role(one.voice, model) == role(next.voice, model));
    let joined = by_role.map(|same| {
        let texts: Vec<&str> = same.iter().map(|words| words.text.as_str()).collect();
        words(&Words { voice: same[0].voice, text: texts.join("\n\n") }, model)
    });
    joined.collect()
}
