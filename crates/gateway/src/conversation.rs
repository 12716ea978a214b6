//! What a request says about its conversation, beyond what routing needs: read only by those who ask.

use crate::{
    draft::Draft,
    outline::{self, is_empty_array},
    protocol::Protocol,
};
use memchr::memmem;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use std::{borrow::Cow, ops::Range};

/// Something the user wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserText {
    /// Of the JSON text in the body, quotes included.
    pub range: Range<usize>,
    pub text: String,
    /// Nothing of the model comes after it.
    pub newest: bool,
}

/// One message or input item, as far as it matters here.
#[derive(Deserialize)]
pub(crate) struct Entry<'a> {
    #[serde(borrow)]
    pub role: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "type")]
    pub kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub tool_calls: Option<&'a RawValue>,
    #[serde(borrow)]
    pub id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub call_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub text: Option<&'a RawValue>,
    #[serde(borrow)]
    pub output: Option<&'a RawValue>,
}

/// A tool of the client.
#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    function: Option<Box<Named<'a>>>,
}

impl Entry<'_> {
    pub fn read(raw: &RawValue) -> Option<Entry<'_>> {
        serde_json::from_str(raw.get()).ok()
    }

    fn is_models(&self) -> bool {
        let kind = self.kind.as_deref().unwrap_or_default();
        self.role.as_deref() == Some("assistant") || kind == "reasoning" || kind.ends_with("_call")
    }
}

/// The elements of a JSON list.
pub(crate) fn list(raw: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(raw.get()).ok()
}

/// The texts in a content: itself, its parts, what is answered in one of them. Of the user's only the last.
fn words<'a>(content: &'a RawValue, users: bool, found: &mut Vec<&'a RawValue>) {
    let Some(parts) = list(content) else { return found.extend((!users).then_some(content)) };
    for part in parts.into_iter().filter_map(Entry::read) {
        match (part.kind.as_deref(), part.text, part.content) {
            (Some("text" | "input_text" | "output_text"), Some(text), _) if !users => found.push(text),
            (Some("tool_result"), _, Some(content)) => words(content, false, found),
            _ => {}
        }
    }
}

impl Draft {
    /// The messages or input items, one by one; empty if there is no such list.
    pub(crate) fn entries(&self) -> Vec<&RawValue> {
        let Some(range) = self.outline.messages.clone() else { return Vec::new() };
        serde_json::from_slice(&self.original()[range]).unwrap_or_default()
    }

    pub(crate) fn place(&self, raw: &RawValue) -> Range<usize> {
        outline::range(self.original(), raw)
    }

    /// The conversation, or what stands before it, has these bytes somewhere. Cheap; for looking closer only where it is
    /// worth it.
    pub fn mentions(&self, bytes: &[u8]) -> bool {
        let ranges = [self.outline.messages.clone(), self.outline.system.clone()];
        ranges.into_iter().flatten().any(|range| memmem::find(&self.original()[range], bytes).is_some())
    }

    /// Everything in words that the user did not write and that has one of these marks in it: the system's, the model's, what
    /// tools answered. Not what a model thought or called: that goes back to it as it was, to the byte.
    pub fn others_texts(&self, marks: &[&[u8]]) -> Vec<(Range<usize>, String)> {
        let mut found = Vec::new();
        let system = self.outline.system.clone().and_then(|range| serde_json::from_slice(&self.original()[range]).ok());
        if let Some(system) = system {
            words(system, false, &mut found);
        }
        for entry in self.entries().into_iter().filter_map(Entry::read) {
            let users = entry.role.as_deref() == Some("user");
            entry.content.into_iter().for_each(|content| words(content, users, &mut found));
            entry.output.into_iter().for_each(|output| words(output, false, &mut found));
        }
        let marked = |raw: &&RawValue| marks.iter().any(|mark| memmem::find(raw.get().as_bytes(), mark).is_some());
        let text = |raw: &RawValue| Some((self.place(raw), serde_json::from_str(raw.get()).ok()?));
        found.into_iter().filter(marked).filter_map(text).collect()
    }

    /// The content of the last message, if that is the user's.
    pub(crate) fn users_last(&self) -> Option<Range<usize>> {
        let last = self.entries().pop().and_then(Entry::read)?;
        let content = last.content.filter(|_| last.role.as_deref() == Some("user"))?;
        Some(self.place(content))
    }

    /// The conversation ends with what tools of the client answered.
    pub fn ends_with_results(&self) -> bool {
        let Some(last) = self.entries().pop().and_then(Entry::read) else { return false };
        let is_result = |part: &Entry<'_>| part.kind.as_deref() == Some("tool_result");
        let parts = last.content.and_then(list).unwrap_or_default();
        last.role.as_deref() == Some("tool")
            || last.kind.as_deref().is_some_and(|kind| kind.ends_with("_call_output"))
            || parts.into_iter().filter_map(Entry::read).any(|part| is_result(&part))
    }

    /// Everything the user wrote, in order. What tools answered is not among it.
    pub fn user_texts(&self) -> Vec<UserText> {
        let entries = self.entries();
        if let (true, Some(range)) = (entries.is_empty(), self.outline.messages.clone()) {
            // Responses: a bare text.
            let text = serde_json::from_slice(&self.original()[range.clone()]);
            return text.map(|text| vec![UserText { range, text, newest: true }]).unwrap_or_default();
        }
        let entries: Vec<Option<Entry<'_>>> = entries.into_iter().map(Entry::read).collect();
        let last = entries.iter().rposition(|entry| entry.as_ref().is_some_and(Entry::is_models));
        let mut texts = Vec::new();
        for (place, entry) in entries.iter().enumerate() {
            let Some(entry) = entry.as_ref().filter(|entry| entry.role.as_deref() == Some("user")) else { continue };
            let newest = last.is_none_or(|last| place > last);
            let mut push = |raw: &RawValue| {
                if let Ok(text) = serde_json::from_str(raw.get()) {
                    texts.push(UserText { range: self.place(raw), text, newest });
                }
            };
            let Some(content) = entry.content else { continue };
            match list(content) {
                None => push(content),
                Some(parts) => parts.into_iter().filter_map(Entry::read).for_each(|part| {
                    if let (Some("text" | "input_text"), Some(text)) = (part.kind.as_deref(), part.text) {
                        push(text);
                    }
                }),
            }
        }
        texts
    }

    /// The model is to go on from words put into its mouth; nothing may come after them.
    pub fn ends_with_model(&self) -> bool {
        let last = self.entries().pop().and_then(Entry::read);
        last.is_some_and(|entry| entry.role.as_deref() == Some("assistant"))
    }

    /// The client has a tool of this name.
    pub fn has_tool(&self, name: &str) -> bool {
        let Some(range) = self.outline.tools.clone() else { return false };
        let tools = &self.original()[range];
        if memmem::find(tools, format!("\"{name}\"").as_bytes()).is_none() {
            return false;
        }
        let tools: Vec<Named<'_>> = serde_json::from_slice(tools).unwrap_or_default();
        let is = |tool: &Named<'_>| tool.name.as_deref() == Some(name);
        tools.iter().any(|tool| is(tool) || tool.function.as_deref().is_some_and(is))
    }

    /// The model must not call tools of its own choice, or there is nobody who would go on after one.
    pub fn forbids_tools(&self) -> bool {
        let choice =
            self.outline.tool_choice.clone().and_then(|range| serde_json::from_slice(&self.original()[range]).ok());
        // One that is named, or the named ones only, are not ours.
        let free = |choice: &Value| matches!(choice["type"].as_str(), None | Some("auto" | "any" | "required"));
        let none = choice.is_some_and(|choice: Value| choice == "none" || !free(&choice));
        let several = self.protocol == Protocol::Chat && self.outline.choices.is_some_and(|choices| choices > 1);
        none || several || self.outline.background || !self.has_conversation()
    }

    fn has_conversation(&self) -> bool {
        let messages = self.outline.messages.clone().map(|range| &self.original()[range]);
        messages.is_some_and(|messages| messages.starts_with(b"\"") || !is_empty_array(messages))
    }
}
