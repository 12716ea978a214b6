//! Anthropic Messages.

use super::Spoken;
use crate::agents::Agent;
use reveille_core::{
    Utterance,
    utterance::{Asked, Role},
};
use serde::Deserialize;
use serde_json::{Value, json};

/// The protocol wants a bound; answers of chatbots stay far below it.
const ANSWER_TOKENS_MAX: u32 = 8192;

pub fn request(agent: &Agent, model: &str, said: &[Utterance], tools: bool) -> Value {
    let mut body = json!({"model": model, "max_tokens": ANSWER_TOKENS_MAX, "messages": messages(said)});
    if let Some(system) = &agent.config.system_prompt {
        body["system"] = json!(system);
    }
    if tools && !agent.tools.is_empty() {
        let described = agent.tools.iter().map(
            |(name, tool)| json!({"name": name, "description": tool.description, "input_schema": tool.parameters}),
        );
        body["tools"] = described.collect();
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
        return vec![json!({"type": "tool_result", "tool_use_id": answers, "content": said.content})];
    }
    let text = (!said.content.is_empty()).then(|| json!({"type": "text", "text": said.content}));
    let calls = said.calls.iter().map(|call| {
        let input = serde_json::from_str::<Value>(&call.arguments).ok().filter(Value::is_object);
        json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input.unwrap_or_else(|| json!({}))})
    });
    text.into_iter().chain(calls).collect()
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
