//! What a model said in a stream of chunks, or in a whole answer.

use crate::{protocol::ToolCall, rounds::heard::Heard};
use serde_json::{Map, Value, json};

/// What all chunks of one answer have in common.
const HEAD: [&str; 3] = ["id", "created", "model"];

#[derive(Default)]
pub(crate) struct Reader {
    head: Map<String, Value>,
    usage: Value,
    message: Map<String, Value>,
    /// By the upstream's index.
    calls: Vec<(u64, Map<String, Value>)>,
}

impl Reader {
    pub fn event(&mut self, chunk: Value) {
        if self.head.is_empty() {
            self.head = head(&chunk);
        }
        if chunk["usage"].is_object() {
            self.usage = chunk["usage"].clone();
        }
        let choices = chunk["choices"].as_array().into_iter().flatten();
        for choice in choices.filter(|choice| choice["index"].as_u64().unwrap_or(0) == 0) {
            for (name, value) in choice["delta"].as_object().into_iter().flatten() {
                match (name.as_str(), value) {
                    ("role", _) | (_, Value::Null) => {}
                    ("tool_calls", Value::Array(calls)) => calls.iter().for_each(|call| self.call(call)),
                    (_, value) => grow(&mut self.message, name, value),
                }
            }
        }
    }

    fn call(&mut self, part: &Value) {
        let index = part["index"].as_u64().unwrap_or(0);
        let found = self.calls.iter().position(|(known, _)| *known == index);
        let place = found.unwrap_or_else(|| {
            self.calls.push((index, Map::new()));
            self.calls.len() - 1
        });
        let call = &mut self.calls[place].1;
        for (name, value) in part.as_object().into_iter().flatten().filter(|(name, _)| *name != "index") {
            match (name.as_str(), value) {
                (_, Value::Null) => {}
                ("function", Value::Object(function)) => {
                    let known = call.entry("function").or_insert_with(|| json!({"name": "", "arguments": ""}));
                    for (name, value) in function {
                        if let Some(known) = known.as_object_mut() {
                            grow(known, name, value);
                        }
                    }
                }
                (name, value) => drop(call.insert(name.to_owned(), value.clone())),
            }
        }
    }

    pub fn finish(self) -> Heard {
        let Self { head, usage, mut message, calls } = self;
        if !calls.is_empty() {
            let calls: Vec<Value> = calls.into_iter().map(|(_, call)| Value::Object(call)).collect();
            message.insert("tool_calls".into(), calls.into());
        }
        said(message, usage, head)
    }
}

/// A delta's part of a field: texts and lists grow, anything else is as said last.
fn grow(fields: &mut Map<String, Value>, name: &str, more: &Value) {
    match (fields.get_mut(name), more) {
        (Some(Value::String(text)), Value::String(more)) => text.push_str(more),
        (Some(Value::Array(list)), Value::Array(more)) => list.extend(more.iter().cloned()),
        _ => drop(fields.insert(name.to_owned(), more.clone())),
    }
}

fn head(answer: &Value) -> Map<String, Value> {
    HEAD.iter().filter_map(|name| Some(((*name).to_owned(), answer.get(*name)?.clone()))).collect()
}

fn said(message: Map<String, Value>, usage: Value, head: Map<String, Value>) -> Heard {
    let mut assistant = Map::from_iter([("role".to_owned(), json!("assistant"))]);
    let text = message.get("content").and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    assistant.insert("content".into(), message.get("content").cloned().unwrap_or(Value::Null));
    assistant.extend(message);
    let calls = assistant.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
    let calls = calls.map(|call| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let function = &call["function"];
        ToolCall { id: text(&call["id"]), name: text(&function["name"]), arguments: text(&function["arguments"]) }
    });
    let calls: Vec<ToolCall> = calls.collect();
    if calls.is_empty() && assistant["content"].is_null() {
        assistant.insert("content".into(), json!(""));
    }
    Heard { calls, said: vec![assistant.into()], usage, head, text }
}

pub(crate) fn hear_whole(body: &Value) -> Option<Heard> {
    let message = body["choices"].as_array()?.first()?["message"].as_object()?;
    let message = message.iter().filter(|(_, value)| !value.is_null());
    let message = message.map(|(name, value)| (name.clone(), value.clone())).collect();
    Some(said(message, body["usage"].clone(), head(body)))
}
