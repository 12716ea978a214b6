//! Several streams of chunks as one.

use crate::{
    protocol::Kind,
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

    fn again(&mut self, closing: Vec<Bytes>, heard: &Heard, _: &[ToolResult]) -> Vec<Bytes> {
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
