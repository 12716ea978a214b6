//! A request on its way upstream, and the few ways in which it may be changed. Every change is a splice: all other bytes
//! stay as the client wrote them, because prompt caches are keyed by bytes.

use crate::{
    outline::{Outline, is_empty_array},
    protocol::Protocol,
    rounds,
    stage::Words,
};
use bytes::{Bytes, BytesMut};
use serde_json::Value;
use std::ops::Range;

#[derive(Debug)]
pub struct Draft {
    pub protocol: Protocol,
    pub outline: Outline,
    body: Bytes,
    /// What to put in place of a range; several at one place come in the order they were made.
    edits: Vec<(Range<usize>, String)>,
    /// The tools that stages serve.
    served: Vec<String>,
    /// Whether the array that is being appended to has an element before the next one.
    tools_begun: bool,
    messages_begun: bool,
}

impl Draft {
    pub fn new(protocol: Protocol, outline: Outline, body: Bytes) -> Self {
        let begun = |range: &Option<Range<usize>>| range.clone().is_some_and(|range| !is_empty_array(&body[range]));
        let (tools_begun, messages_begun) = (begun(&outline.tools), begun(&outline.messages));
        Self { protocol, outline, body, edits: Vec::new(), served: Vec::new(), tools_begun, messages_begun }
    }

    /// The body as the client sent it.
    pub fn original(&self) -> &Bytes {
        &self.body
    }

    pub fn is_changed(&self) -> bool {
        !self.edits.is_empty()
    }

    /// Adds a tool, in the protocol's own JSON, after the client's.
    pub fn append_tool(&mut self, json: &str) {
        let range = self.outline.tools.clone();
        let begun = std::mem::replace(&mut self.tools_begun, true);
        self.append("tools", range, begun, json);
    }

    /// The same, for a tool that a stage serves: the client sees nothing of calls to it.
    pub fn serve_tool(&mut self, name: &str, json: &str) {
        self.append_tool(json);
        self.served.push(name.to_owned());
    }

    pub(crate) fn served(&self) -> &[String] {
        &self.served
    }

    /// Says something to the model at the end of the conversation.
    pub fn tell(&mut self, words: &Words) {
        let json = rounds::told(self, words);
        self.append_message(&json);
    }

    /// The answer before this one has another name upstream.
    pub fn rename_previous(&mut self, shown: &str, upstream: &str) {
        let previous = self.outline.previous_response.clone();
        if let Some(range) = previous.filter(|_| self.outline.ids.previous_response_id.as_deref() == Some(shown)) {
            self.edit(range, Value::from(upstream).to_string());
        }
    }

    /// Only these, in place of the conversation so far.
    pub(crate) fn only_messages(&mut self, messages: &[Value]) {
        let Some(range) = self.outline.messages.clone() else { return };
        self.edits.retain(|(at, _)| at.start < range.start || at.end > range.end);
        self.edit(range, Value::from(messages).to_string());
    }

    /// Adds a message or an input item, in the protocol's own JSON, at the end of the conversation.
    pub fn append_message(&mut self, json: &str) {
        let range = self.outline.messages.clone();
        let text = range.clone().filter(|range| self.body[range.clone()].starts_with(b"\""));
        let name = match self.protocol {
            Protocol::Responses => "input",
            Protocol::Chat | Protocol::Messages => "messages",
        };
        match text {
            // A bare text is short for one message of the user.
            Some(text) if !self.messages_begun => {
                self.edit(text.start..text.start, r#"[{"role":"user","content":"#.into());
                // The text may end where the body does: what closes it goes before what is added to the body there.
                let after = text.end..text.end;
                let place = self.edits.iter().position(|(at, _)| *at == after).unwrap_or(self.edits.len());
                self.edits.insert(place, (after, format!("}},{json}]")));
                // Further ones go before the bracket, which is the last thing in that edit.
                self.messages_begun = true;
            }
            Some(text) => {
                let mut edits = self.edits.iter_mut();
                if let Some((_, written)) =
                    edits.find(|(at, written)| *at == (text.end..text.end) && written.starts_with('}'))
                {
                    written.pop();
                    written.push_str(&format!(",{json}]"));
                }
            }
            None => {
                let begun = std::mem::replace(&mut self.messages_begun, true);
                self.append(name, range, begun, json);
            }
        }
    }

    /// Puts other JSON in place of a part of the client's body.
    pub fn replace(&mut self, range: Range<usize>, json: &str) {
        self.edit(range, json.to_owned());
    }

    fn append(&mut self, name: &str, range: Option<Range<usize>>, begun: bool, json: &str) {
        let comma = if begun { "," } else { "" };
        let (place, opening) = match range {
            Some(range) if self.body[range.clone()].starts_with(b"[") => {
                return self.edit(range.end - 1..range.end - 1, format!("{comma}{json}"));
            }
            // A list of ours takes the place of the empty value: the key must not be there twice.
            Some(range) if &self.body[range.clone()] == b"null" => (range, "[".to_owned()),
            // No list: the upstream's to complain about.
            Some(_) => return,
            None => (self.outline.close..self.outline.close, format!(",\"{name}\":[")),
        };
        match self.edits.iter_mut().find(|(at, text)| *at == place && text.starts_with(&opening)) {
            Some((_, text)) => {
                text.pop();
                text.push_str(&format!("{comma}{json}]"));
            }
            None => self.edit(place, format!("{opening}{json}]")),
        }
    }

    pub(crate) fn insert(&mut self, at: usize, json: String) {
        self.edit(at..at, json);
    }

    fn edit(&mut self, range: Range<usize>, text: String) {
        self.edits.push((range, text));
    }

    /// The body as it goes upstream.
    pub fn body(&self) -> Bytes {
        if self.edits.is_empty() {
            return self.body.clone();
        }
        let mut edits: Vec<_> = self.edits.iter().collect();
        // What is put before a part comes before what takes its place.
        edits.sort_by_key(|(range, _)| (range.start, range.end));
        let added: usize = edits.iter().map(|(_, text)| text.len()).sum();
        let mut body = BytesMut::with_capacity(self.body.len() + added);
        let mut at = 0;
        for (range, text) in edits {
            body.extend_from_slice(&self.body[at..range.start.max(at)]);
            body.extend_from_slice(text.as_bytes());
            at = range.end.max(at);
        }
        body.extend_from_slice(&self.body[at..]);
        body.freeze()
    }
}
