//! A request on its way upstream, and the few ways in which it may be changed. Every change is a splice: all other bytes
//! stay as the client wrote them, because prompt caches are keyed by bytes.

use crate::{
    outline::{Outline, is_empty_array},
    protocol::Protocol,
    rounds,
    stage::{ToolResult, Words},
};
use bytes::{Bytes, BytesMut};
use serde_json::Value;
use std::{cmp::Reverse, ops::Range};

/// What to put in place of a range.
type Edit = (Range<usize>, String);

#[derive(Debug)]
pub struct Draft {
    pub protocol: Protocol,
    pub outline: Outline,
    body: Bytes,
    /// Several at one place come in the order they were made.
    edits: Vec<Edit>,
    /// The tools that stages serve.
    served: Vec<String>,
    /// What there was before anything was said to the model: its edits, and whether messages had begun.
    untold: Option<(Vec<Edit>, bool)>,
    /// Whether the array that is being appended to has an element before the next one.
    tools_begun: bool,
    messages_begun: bool,
}

impl Draft {
    pub fn new(protocol: Protocol, outline: Outline, body: Bytes) -> Self {
        let begun = |range: &Option<Range<usize>>| range.clone().is_some_and(|range| !is_empty_array(&body[range]));
        let (tools_begun, messages_begun) = (begun(&outline.tools), begun(&outline.messages));
        let (edits, served) = (Vec::new(), Vec::new());
        Self { protocol, outline, body, edits, served, untold: None, tools_begun, messages_begun }
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

    /// The same draft, of which a stage serves these tools.
    pub(crate) fn serving(self, served: Vec<String>) -> Self {
        Self { served, ..self }
    }

    /// Says something to the model at the end of the conversation. An upstream that refuses the request is asked once more
    /// without it.
    pub fn tell(&mut self, words: &Words) {
        if self.untold.is_none() {
            self.untold = Some((self.edits.clone(), self.messages_begun));
        }
        let message = rounds::told(self, words);
        let lengthened = self.protocol == Protocol::Chat && message["role"] == "user";
        if !(lengthened && self.lengthen(&words.text)) {
            self.append_message(&message.to_string());
        }
    }

    /// Takes back what was told; whether anything was.
    pub(crate) fn untell(&mut self) -> bool {
        let Some((edits, begun)) = self.untold.take() else { return false };
        (self.edits, self.messages_begun) = (edits, begun);
        true
    }

    /// Chat: some templates refuse two messages of the user in a row, so what ends with one of them is made longer. Whether
    /// it does.
    fn lengthen(&mut self, text: &str) -> bool {
        let Some(content) = self.users_last() else { return false };
        let part = |text: &str| Value::from(text).to_string();
        match self.body[content.start] {
            b'"' => {
                let added = part(&format!("\n\n{text}"));
                let added = &added[1..added.len() - 1];
                // What takes the place of the text, if anything does, is a text too.
                match self.edits.iter_mut().find(|(at, _)| *at == content) {
                    Some((_, written)) => written.insert_str(written.len() - 1, added),
                    None => self.insert(content.end - 1, added.to_owned()),
                }
                true
            }
            b'[' if !is_empty_array(&self.body[content.clone()]) => {
                self.insert(content.end - 1, format!(r#",{{"type":"text","text":{}}}"#, part(text)));
                true
            }
            _ => false,
        }
    }

    /// The answer before this one has another name upstream.
    pub fn rename_previous(&mut self, shown: &str, upstream: &str) {
        let previous = self.outline.previous_response.clone();
        if let Some(range) = previous.filter(|_| self.outline.ids.previous_response_id.as_deref() == Some(shown)) {
            self.edit(range, Value::from(upstream).to_string());
        }
    }

    /// Responses: answers to calls of an answer that the upstream keeps, before anything else.
    pub fn answer_first(&mut self, results: &[ToolResult]) {
        let Some(range) = self.outline.messages.clone() else { return };
        let items: String =
            results.iter().map(|result| format!("{},", rounds::answered(self.protocol, result))).collect();
        match self.body.get(range.start) {
            Some(b'[') if self.messages_begun => self.insert(range.start + 1, items),
            // A bare text is short for one message of the user.
            Some(b'"') if !self.messages_begun => {
                self.edit(range.start..range.start, format!(r#"[{items}{{"role":"user","content":"#));
                self.close_text(range.end, "}]".into());
            }
            _ => {}
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
                self.close_text(text.end, format!("}},{json}]"));
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

    /// Closes what a bare text was put into. It may end where the body does: what closes it goes before what is added to
    /// the body there. Further messages go before the bracket, which is the last thing in that edit.
    fn close_text(&mut self, end: usize, closing: String) {
        let place = self.edits.iter().position(|(at, _)| *at == (end..end)).unwrap_or(self.edits.len());
        self.edits.insert(place, (end..end, closing));
        self.messages_begun = true;
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
        // What is put before a part comes before what takes its place; what takes the place of more goes over what is inside.
        edits.sort_by_key(|(range, _)| (range.start, !range.is_empty(), Reverse(range.end)));
        let added: usize = edits.iter().map(|(_, text)| text.len()).sum();
        let mut body = BytesMut::with_capacity(self.body.len() + added);
        let mut at = 0;
        for (range, text) in edits {
            if range.start < at {
                // What it would change is not there any more.
                continue;
            }
            body.extend_from_slice(&self.body[at..range.start]);
            body.extend_from_slice(text.as_bytes());
            at = range.end;
        }
        body.extend_from_slice(&self.body[at..]);
        body.freeze()
    }
}
