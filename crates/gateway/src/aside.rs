//! Calls that were answered here in a turn whose other calls went to the client. The client's history knows nothing of
//! them, so they are put back where the model made them, in every request that still has that place.

use crate::{
    conversation::{Entry, list},
    draft::Draft,
    protocol::{Protocol, ToolCall},
    rounds,
    stage::ToolResult,
};
use serde_json::{Value, json, value::RawValue};
use std::ops::Range;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aside {
    /// A call of the same turn that the client answers.
    pub anchor: String,
    pub answered: Vec<(ToolCall, ToolResult)>,
}

impl Draft {
    /// Puts them back; whether their place was there.
    pub fn put_back(&mut self, aside: &Aside) -> bool {
        if !self.mentions(aside.anchor.as_bytes()) {
            return false;
        }
        let inserts = match self.protocol {
            Protocol::Chat => self.chat_inserts(aside),
            Protocol::Responses => self.responses_inserts(aside),
            Protocol::Messages => self.messages_inserts(aside),
        };
        let found = inserts.is_some();
        for (at, json) in inserts.into_iter().flatten() {
            self.insert(at, json);
        }
        found
    }

    fn chat_inserts(&self, aside: &Aside) -> Option<Vec<(usize, String)>> {
        self.entries().into_iter().find_map(|message| {
            let calls = list(Entry::read(message)?.tool_calls?)?;
            let anchor = self.find(&calls, |call| call.id.as_deref() == Some(&aside.anchor))?;
            let ours = aside.answered.iter().map(|(call, _)| {
                json!({
                    "id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments},
                })
            });
            let results = aside.answered.iter().map(|(_, result)| rounds::answered(self.protocol, result));
            Some(vec![(anchor.start, before(ours)), (self.place(message).end, after(results))])
        })
    }

    fn responses_inserts(&self, aside: &Aside) -> Option<Vec<(usize, String)>> {
        let entries = self.entries();
        let called = |kind: &str| {
            let is = |entry: &Entry<'_>| {
                let suits = entry.kind.as_deref().is_some_and(|found| found.ends_with(kind));
                suits && entry.call_id.as_deref() == Some(&aside.anchor)
            };
            self.find(&entries, is)
        };
        let results = aside.answered.iter().map(|(_, result)| rounds::answered(self.protocol, result));
        if let Some(anchor) = called("_call") {
            let calls = aside.answered.iter().map(|(call, _)| {
                json!({
                    "type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments,
                })
            });
            return Some(vec![(anchor.start, before(calls.zip(results).flat_map(<[Value; 2]>::from)))]);
        }
        // The upstream keeps the calls itself and only waits for the answers.
        called("_call_output").map(|anchor| vec![(anchor.start, before(results))])
    }

    fn messages_inserts(&self, aside: &Aside) -> Option<Vec<(usize, String)>> {
        let entries = self.entries();
        entries.windows(2).find_map(|pair| {
            let blocks = list(Entry::read(pair[0])?.content?)?;
            let anchor = self.find(&blocks, |block| block.id.as_deref() == Some(&aside.anchor))?;
            let answers = list(Entry::read(pair[1])?.content?)?;
            let first = self.place(answers.first()?);
            let calls = aside.answered.iter().map(|(call, _)| {
                let input: Value = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
                json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
            });
            let results = aside.answered.iter().map(|(_, result)| rounds::answered(self.protocol, result));
            Some(vec![(anchor.start, before(calls)), (first.start, before(results))])
        })
    }

    fn find(&self, entries: &[&RawValue], is: impl Fn(&Entry<'_>) -> bool) -> Option<Range<usize>> {
        let found = entries.iter().find(|raw| Entry::read(raw).is_some_and(|entry| is(&entry)))?;
        Some(self.place(found))
    }
}

fn before(values: impl Iterator<Item = Value>) -> String {
    values.map(|value| format!("{value},")).collect()
}

fn after(values: impl Iterator<Item = Value>) -> String {
    values.map(|value| format!(",{value}")).collect()
}
