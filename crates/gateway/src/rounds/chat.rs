//! Chat Completions: several answers as one, and what is said in between.

use super::{
    heard::{Heard, event, frame, sum},
    weave::{Fate, Served, Weave},
};
use crate::{
    protocol::{Kind, ToolCall},
    stage::{ToolResult, Voice, Words},
};
use bytes::Bytes;
use memchr::memmem;
use serde_json::{Map, Value, json};

/// What all chunks of one answer have in common.
const HEAD: [&str; 3] = ["id", "created", "model"];

#[derive(Default)]
pub(super) struct Reader {
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

pub(super) fn hear_whole(body: &Value) -> Option<Heard> {
    let message = body["choices"].as_array()?.first()?["message"].as_object()?;
    let message = message.iter().filter(|(_, value)| !value.is_null());
    let message = message.map(|(name, value)| (name.clone(), value.clone())).collect();
    Some(said(message, body["usage"].clone(), head(body)))
}

pub(super) fn result(result: &ToolResult) -> Value {
    json!({"role": "tool", "tool_call_id": result.call, "content": result.text})
}

pub(super) fn words(words: &Words, model: &str) -> Value {
    let role = match words.voice {
        Voice::System if takes_system(model) => "system",
        Voice::System | Voice::User => "user",
    };
    json!({"role": role, "content": words.text})
}

/// Templates of open models often refuse a system message that is not the first; OpenAI's models take them anywhere.
fn takes_system(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    ["gpt-", "chatgpt-", "o1", "o3", "o4", "codex"].iter().any(|family| name.starts_with(family))
}

/// Several streams of chunks as one.
#[derive(Default)]
pub(super) struct Chunks {
    served: Served,
    /// The names of the first answer, from its end on.
    head: Map<String, Value>,
    spent: Value,
    round: u32,
    /// Calls the client saw in earlier rounds.
    base: u64,
    /// What the upstream's calls of this round are to the client; `None`: nothing.
    calls: Vec<(u64, Option<u64>)>,
    /// Words of an earlier round went out, and none of this one yet.
    pause: bool,
}

impl Chunks {
    pub fn new(served: Served) -> Self {
        Self { served, ..Self::default() }
    }

    fn hides(&self) -> bool {
        self.calls.iter().any(|(_, shown)| shown.is_none())
    }

    /// Whether this frame begins a call that the client is not to see.
    fn calls_ours(&self, raw: &[u8]) -> bool {
        memmem::find(raw, b"\"tool_calls\"").is_some() && self.served.mentioned(raw)
    }

    fn change(&mut self, chunk: &mut Value) {
        if self.round > 0 {
            for (name, value) in &self.head {
                chunk[name] = value.clone();
            }
        }
        let Some(choice) = chunk["choices"].as_array_mut().and_then(|choices| choices.first_mut()) else { return };
        let Some(delta) = choice["delta"].as_object_mut() else { return };
        if self.round > 0 {
            delta.remove("role");
        }
        if self.pause
            && let Some(Value::String(text)) = delta.get_mut("content").filter(|text| **text != "")
        {
            text.insert_str(0, "\n\n");
            self.pause = false;
        }
        if let Some(Value::Array(calls)) = delta.remove("tool_calls") {
            let shown: Vec<Value> = calls.into_iter().filter_map(|call| self.shown(call)).collect();
            if !shown.is_empty() {
                delta.insert("tool_calls".into(), shown.into());
            }
        }
    }

    /// A part of a call, as the client sees it.
    fn shown(&mut self, mut call: Value) -> Option<Value> {
        let index = call["index"].as_u64().unwrap_or(0);
        let known = self.calls.iter().find(|(known, _)| *known == index).map(|(_, shown)| *shown);
        let shown = known.unwrap_or_else(|| {
            let ours = call["function"]["name"].as_str().is_some_and(|name| self.served.has(name));
            let before = self.calls.iter().filter(|(_, shown)| shown.is_some()).count() as u64;
            let shown = (!ours).then_some(self.base + before);
            self.calls.push((index, shown));
            shown
        });
        call["index"] = shown?.into();
        Some(call)
    }

    /// What the client's finish is: a turn whose only calls were ours has none to answer.
    fn finish(&self, chunk: &mut Value) {
        let open = self.calls.iter().any(|(_, shown)| shown.is_some());
        if let Some(reason) = chunk.pointer_mut("/choices/0/finish_reason")
            && *reason == "tool_calls"
            && !open
        {
            *reason = json!("stop");
        }
    }
}

/// Nothing the client has not got already.
fn is_empty(chunk: &Value) -> bool {
    let choices = chunk["choices"].as_array().is_some_and(|choices| !choices.is_empty());
    let delta = chunk.pointer("/choices/0/delta").and_then(Value::as_object);
    let says = delta.is_some_and(|delta| delta.values().any(|value| !value.is_null() && *value != ""));
    choices && !says && chunk["choices"][0]["finish_reason"].is_null() && !chunk["usage"].is_object()
}

impl Weave for Chunks {
    fn take(&mut self, raw: &[u8], kind: Kind) -> Fate {
        match kind {
            Kind::Alive | Kind::Error => return Fate::Pass,
            Kind::End => return Fate::Close,
            // Counts, after the finish.
            Kind::Other => return Fate::Pass,
            // A call has its name in its first chunk.
            Kind::Begin | Kind::Content if self.is_plain() => return Fate::Pass,
            _ if self.is_plain() && !self.calls_ours(raw) => {
                // Calls are counted, since later ones may be shifted.
                if kind == Kind::ToolCall
                    && let Some(mut chunk) = event(raw)
                {
                    self.change(&mut chunk);
                }
                return if kind == Kind::Finish { Fate::Close } else { Fate::Pass };
            }
            _ => {}
        }
        let Some(mut chunk) = event(raw) else { return Fate::Pass };
        self.change(&mut chunk);
        match kind {
            Kind::Finish => Fate::CloseWith(frame(None, &chunk)),
            _ if is_empty(&chunk) => Fate::Drop,
            _ => Fate::Replace(frame(None, &chunk)),
        }
    }

    fn is_plain(&self) -> bool {
        self.round == 0 && !self.hides()
    }

    fn alive(&mut self) -> Bytes {
        Bytes::from_static(b": keep-alive\n\n")
    }

    fn again(&mut self, closing: Vec<Bytes>, heard: &Heard) -> Vec<Bytes> {
        if self.round == 0 {
            self.head.clone_from(&heard.head);
        }
        // Some upstreams say their last words in the chunk that ends them.
        let rest = closing.iter().filter_map(|raw| {
            let mut chunk = event(raw)?;
            *chunk.pointer_mut("/choices/0/finish_reason")? = Value::Null;
            chunk.as_object_mut()?.remove("usage");
            (!is_empty(&chunk)).then(|| frame(None, &chunk))
        });
        let rest = rest.collect();
        self.spent = sum(&self.spent, &heard.usage);
        self.base += self.calls.iter().filter(|(_, shown)| shown.is_some()).count() as u64;
        self.calls.clear();
        self.pause |= heard.text;
        self.round += 1;
        rest
    }

    fn close(&mut self, closing: Vec<Bytes>, heard: Option<&Heard>) -> Vec<Bytes> {
        let Some(heard) = heard else { return closing };
        let usage = sum(&self.spent, &heard.usage);
        let close = |raw: Bytes| {
            let Some(mut chunk) = event(&raw) else { return raw };
            for (name, value) in &self.head {
                chunk[name] = value.clone();
            }
            if chunk["usage"].is_object() {
                chunk["usage"] = usage.clone();
            }
            self.finish(&mut chunk);
            frame(None, &chunk)
        };
        closing.into_iter().map(close).collect()
    }
}

/// Several whole answers as one.
pub(super) fn merge(rounds: Vec<Value>, served: &Served) -> Value {
    let mut rounds = rounds.into_iter();
    let mut all = rounds.next().unwrap_or_default();
    for mut next in rounds {
        all["usage"] = sum(&all["usage"], &next["usage"]);
        let (Some(one), Some(two)) = (all.pointer_mut("/choices/0"), next.pointer_mut("/choices/0")) else { continue };
        hide(&mut one["message"], served);
        let (mut before, after) = (one["message"].take(), two["message"].take());
        for (name, value) in after.as_object().into_iter().flatten() {
            match (name.as_str(), before.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()), value) {
                ("content", Some(said), Value::String(more)) if !more.is_empty() => {
                    before[name] = format!("{said}\n\n{more}").into();
                }
                ("role", ..) | (_, _, Value::Null) => {}
                (_, Some(said), Value::String(more)) => before[name] = format!("{said}{more}").into(),
                ("tool_calls", _, Value::Array(more)) => match before.get_mut(name).and_then(Value::as_array_mut) {
                    Some(calls) => calls.extend(more.iter().cloned()),
                    None => before[name] = value.clone(),
                },
                _ => before[name] = value.clone(),
            }
        }
        one["message"] = before;
        one["finish_reason"] = two["finish_reason"].take();
    }
    if let Some(choice) = all.pointer_mut("/choices/0") {
        hide(&mut choice["message"], served);
        if choice["finish_reason"] == "tool_calls" && choice["message"].get("tool_calls").is_none() {
            choice["finish_reason"] = json!("stop");
        }
    }
    all
}

fn hide(message: &mut Value, served: &Served) {
    let Some(message) = message.as_object_mut() else { return };
    let Some(Value::Array(calls)) = message.get_mut("tool_calls") else { return };
    calls.retain(|call| !call["function"]["name"].as_str().is_some_and(|name| served.has(name)));
    if calls.is_empty() {
        message.remove("tool_calls");
        if message.get("content").is_some_and(Value::is_null) {
            message.insert("content".into(), json!(""));
        }
    }
}
