//! Several streams of chunks as one.

use crate::{
    protocol::{Kind, chat::says},
    rounds::{
        heard::{Heard, event, frame, sum},
        weave::{Fate, Served, Weave},
    },
    stage::ToolResult,
};
use bytes::Bytes;
use memchr::memmem;
use serde_json::{Map, Value, json};

#[derive(Default)]
pub(crate) struct Chunks {
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
    /// The client has got something, and with it whose answer it is.
    begun: bool,
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
        let Some(Value::Object(delta)) = chunk.pointer_mut("/choices/0/delta") else { return };
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
        if let Some(call) = call.as_object_mut() {
            call.insert("index".into(), shown?.into());
        }
        Some(call)
    }

    /// Nothing the client has not got already.
    fn is_empty(&self, chunk: &Value) -> bool {
        let choices = chunk["choices"].as_array().is_some_and(|choices| !choices.is_empty());
        let delta = chunk.pointer("/choices/0/delta").and_then(Value::as_object);
        let says = delta.is_some_and(|delta| says(delta) || (!self.begun && delta.contains_key("role")));
        choices && !says && chunk["choices"][0]["finish_reason"].is_null() && !chunk["usage"].is_object()
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

/// What a chunk says, as one that ends nothing; the chunk itself is left with the end alone. `None`: it says nothing.
fn last_words(chunk: &mut Value) -> Option<Value> {
    let mut words = chunk.clone();
    words.as_object_mut()?.remove("usage");
    let (mut said, choices) = (false, chunk["choices"].as_array_mut()?);
    for (choice, words) in choices.iter_mut().zip(words["choices"].as_array_mut()?) {
        words.as_object_mut()?.insert("finish_reason".into(), Value::Null);
        let Some(Value::Object(delta)) = choice.get_mut("delta") else { continue };
        said |= says(delta);
        delta.clear();
    }
    said.then_some(words)
}

impl Weave for Chunks {
    fn take(&mut self, raw: &[u8], kind: Kind) -> Fate {
        match kind {
            Kind::Alive | Kind::Error => return Fate::Pass,
            Kind::End => return Fate::Close,
            // Counts, after the finish.
            Kind::Other => return Fate::Pass,
            // A call has its name in its first chunk.
            Kind::Begin | Kind::Content if self.is_plain() => {
                self.begun = true;
                return Fate::Pass;
            }
            _ if self.is_plain() && !self.calls_ours(raw) => {
                // Calls are counted, since later ones may be shifted.
                if kind == Kind::ToolCall
                    && let Some(mut chunk) = event(raw)
                {
                    self.change(&mut chunk);
                }
                if kind == Kind::Finish {
                    return Fate::Close;
                }
                self.begun = true;
                return Fate::Pass;
            }
            _ => {}
        }
        let Some(mut chunk) = event(raw) else { return Fate::Pass };
        self.change(&mut chunk);
        match kind {
            Kind::Finish => Fate::CloseWith(frame(None, &chunk)),
            _ if self.is_empty(&chunk) => Fate::Drop,
            _ => {
                self.begun = true;
                Fate::Replace(frame(None, &chunk))
            }
        }
    }

    fn is_plain(&self) -> bool {
        self.round == 0 && !self.hides()
    }

    fn alive(&mut self) -> Bytes {
        Bytes::from_static(b": keep-alive\n\n")
    }

    fn release(&mut self, closing: &mut [Bytes]) -> Vec<Bytes> {
        let mut released = Vec::new();
        for raw in closing {
            let Some(mut chunk) = event(raw) else { continue };
            if let Some(words) = last_words(&mut chunk) {
                released.push(frame(None, &words));
                *raw = frame(None, &chunk);
            }
        }
        self.begun |= !released.is_empty();
        released
    }

    fn again(&mut self, closing: Vec<Bytes>, heard: &Heard, _: &[ToolResult]) -> Vec<Bytes> {
        if self.round == 0 {
            self.head.clone_from(&heard.head);
        }
        let rest = closing.iter().filter_map(|raw| {
            let mut chunk = event(raw)?;
            *chunk.pointer_mut("/choices/0/finish_reason")? = Value::Null;
            chunk.as_object_mut()?.remove("usage");
            (!self.is_empty(&chunk)).then(|| frame(None, &chunk))
        });
        let rest: Vec<Bytes> = rest.collect();
        self.begun |= !rest.is_empty();
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
            if self.begun
                && let Some(Value::Object(delta)) = chunk.pointer_mut("/choices/0/delta")
            {
                delta.remove("role");
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
