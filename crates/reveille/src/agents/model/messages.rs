//! Anthropic Messages.

use super::{Question, Reader, Spoken};
use reveille_core::{
    Utterance,
    utterance::{Asked, Role},
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{borrow::Cow, collections::BTreeMap};

/// The protocol wants a bound; answers of most chatbots stay far below it.
const MAX_TOKENS_DEFAULT: u32 = 8192;

pub fn request(question: &Question<'_>) -> Value {
    let Question { agent, model, said, tools } = question;
    let max_tokens = agent.config.max_tokens.unwrap_or(MAX_TOKENS_DEFAULT);
    let mut body = json!({"model": model, "max_tokens": max_tokens, "messages": messages(said)});
    if let Some(system) = &agent.config.system_prompt {
        body["system"] = json!(system);
    }
    if !agent.tools.is_empty() {
        let described = agent.tools.iter().map(
            |(name, tool)| json!({"name": name, "description": tool.description, "input_schema": tool.parameters}),
        );
        body["tools"] = described.collect();
        if !tools {
            body["tool_choice"] = json!({"type": "none"});
        }
    }
    body
}

/// Blocks of one role together: all results of a round have to be in one message. The user begins.
fn messages(said: &[Utterance]) -> Vec<Value> {
    let begins = said.iter().position(|said| said.role == Role::User).unwrap_or(said.len());
    let mut messages: Vec<(&str, Vec<Value>)> = Vec::new();
    for said in &said[begins..] {
        let role = if said.role == Role::Assistant { "assistant" } else { "user" };
        let blocks = blocks(said);
        match messages.last_mut() {
            Some((last, together)) if *last == role => together.extend(blocks),
            _ => messages.push((role, blocks)),
        }
    }
    let message = |(role, content): (&str, Vec<Value>)| json!({"role": role, "content": content});
    messages.into_iter().map(message).collect()
}

fn blocks(said: &Utterance) -> Vec<Value> {
    if let Some(answers) = &said.answers {
        return vec![json!({"type": "tool_result", "tool_use_id": name(answers), "content": said.content})];
    }
    let text = (!said.content.trim().is_empty()).then(|| json!({"type": "text", "text": said.content}));
    let calls = said.calls.iter().map(|call| {
        let input = serde_json::from_str::<Value>(&call.arguments).ok().filter(Value::is_object);
        json!({"type": "tool_use", "id": name(&call.id), "name": call.name, "input": input.unwrap_or_else(|| json!({}))})
    });
    text.into_iter().chain(calls).collect()
}

/// A call's id as this protocol allows it. Those of timers have a dot; those of other protocols may have anything.
fn name(id: &str) -> Cow<'_, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    match id.chars().all(fits) {
        true => Cow::Borrowed(id),
        false => id.chars().map(|c| if fits(c) { c } else { '_' }).collect::<String>().into(),
    }
}

#[derive(Deserialize)]
struct Answer {
    content: Vec<Block>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        text: String,
    },
    ToolUse {
        id: String,
        name: String,
        input: Value,
    },
    #[serde(other)]
    Other,
}

pub fn read(bytes: &[u8]) -> Result<Spoken, String> {
    let answer: Answer = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let mut spoken = Spoken::default();
    for block in answer.content {
        match block {
            Block::Text { text } => spoken.content.push_str(&text),
            Block::ToolUse { id, name, input } => spoken.calls.push(Asked { id, name, arguments: input.to_string() }),
            Block::Other => {}
        }
    }
    Ok(spoken)
}

#[derive(Default)]
pub struct Stream {
    content: String,
    /// By the index of their block; arguments come in pieces.
    calls: BTreeMap<u64, Asked>,
}

impl Reader for Stream {
    fn event(&mut self, event: &Value) -> Option<String> {
        let index = event["index"].as_u64()?;
        let (begun, delta) = (&event["content_block"], &event["delta"]);
        if begun["type"] == "tool_use" {
            let text = |name: &str| begun[name].as_str().unwrap_or_default().to_owned();
            self.calls.insert(index, Asked { id: text("id"), name: text("name"), arguments: String::new() });
        }
        if let (Some(part), Some(call)) = (delta["partial_json"].as_str(), self.calls.get_mut(&index)) {
            call.arguments.push_str(part);
        }
        let text = delta["text"].as_str().or_else(|| begun["text"].as_str())?;
        self.content.push_str(text);
        Some(text.to_owned()).filter(|text| !text.is_empty())
    }

    fn finish(self: Box<Self>) -> Spoken {
        // A tool without parameters is called without a word.
        let whole = |mut call: Asked| {
            if call.arguments.is_empty() {
                call.arguments.push_str("{}");
            }
            call
        };
        Spoken { content: self.content, calls: self.calls.into_values().map(whole).collect() }
    }
}
