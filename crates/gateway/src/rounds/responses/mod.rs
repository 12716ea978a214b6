//! Responses: several answers as one, and what is said in between.

mod items;
mod merge;
mod reader;

pub(crate) use items::Items;
pub(crate) use merge::merge;
pub(crate) use reader::{Reader, hear_whole};

use super::role;
use crate::stage::{ToolResult, Words};
use serde_json::{Value, json};

/// What a model may be given back of its own. Reasoning that is kept nowhere, neither here nor there, is refused.
pub(crate) fn given_back(item: &Value, stored: bool) -> bool {
    stored || item["type"] != "reasoning" || item["encrypted_content"].is_string()
}

pub(crate) fn result(result: &ToolResult) -> Value {
    json!({"type": "function_call_output", "call_id": result.call, "output": result.text})
}

pub(crate) fn words(words: &Words, model: &str) -> Value {
    let role = role(words.voice, model);
    json!({"type": "message", "role": role, "content": [{"type": "input_text", "text": words.text}]})
}
