//! Messages: several answers as one, and what is said in between.

mod blocks;
mod merge;
mod reader;

pub(crate) use blocks::Blocks;
pub(crate) use merge::merge;
pub(crate) use reader::{Reader, hear_whole};

use crate::stage::{ToolResult, Voice, Words};
use serde_json::{Value, json};

/// All results and words in one message of the user, as the protocol wants it, and what may stand for itself after it.
pub(crate) fn between(results: &[ToolResult], words: &[Words], model: &str) -> Vec<Value> {
    let mut blocks: Vec<Value> = results.iter().map(result).collect();
    let (system, user): (Vec<&Words>, Vec<&Words>) =
        words.iter().partition(|words| words.voice == Voice::System && !results.is_empty() && takes_system(model));
    blocks.extend(user.iter().map(|words| json!({"type": "text", "text": words.text})));
    let mut messages = vec![json!({"role": "user", "content": blocks})];
    messages.extend(system.iter().map(|words| json!({"role": "system", "content": words.text})));
    messages
}

pub(crate) fn result(result: &ToolResult) -> Value {
    let mut block = json!({"type": "tool_result", "tool_use_id": result.call, "content": result.text});
    if result.failed {
        block["is_error"] = json!(true);
    }
    block
}

/// At the end of a request, after the user's turn.
pub(crate) fn words(words: &Words, model: &str) -> Value {
    let role = match words.voice {
        Voice::System if takes_system(model) => "system",
        Voice::System | Voice::User => "user",
    };
    json!({"role": role, "content": words.text})
}

/// Only these take a system message in the middle of a conversation; the others answer 400.
fn takes_system(model: &str) -> bool {
    ["opus-4-8", "opus-5", "fable-5", "mythos-5"].iter().any(|family| model.contains(family))
}
