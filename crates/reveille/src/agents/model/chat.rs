//! OpenAI Chat Completions.

use super::Spoken;
use crate::agents::{Agent, check::Tool};
use reveille_core::{
    Utterance,
    utterance::{Asked, Role},
};
use serde::Deserialize;
use serde_json::{Value, json};

pub fn request(agent: &Agent, model: &str, said: &[Utterance], tools: bool) -> Value {
    let system = agent.config.system_prompt.iter().map(|text| json!({"role": "system", "content": text}));
    // A conversation that was cut must not begin with the result of a call that is not there.
    let begins = said.iter().position(|said| said.role != Role::Tool).unwrap_or(said.len());
    let messages: Vec<Value> = system.chain(said[begins..].iter().map(message)).collect();
    let mut body = json!({"model": model, "messages": messages});
    if tools && !agent.tools.is_empty() {
        body["tools"] = agent.tools.iter().map(|(name, tool)| described(name, tool)).collect();
    }
    body
}

fn described(name: &str, tool: &Tool) -> Value {
    let function = json!({"name": name, "description": tool.description, "parameters": tool.parameters});
    json!({"type": "function", "function": function})
}

fn message(said: &Utterance) -> Value {
    let mut message = json!({"role": said.role.as_str(), "content": said.content});
    if !said.calls.is_empty() {
        let call = |call: &Asked| json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}});
        message["tool_calls"] = said.calls.iter().map(call).collect();
    }
    if let Some(answers) = &said.answers {
        message["tool_call_id"] = json!(answers);
    }
    message
}

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<ToolCall>>,
}

#[derive(Deserialize)]
struct ToolCall {
    id: String,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    arguments: String,
}

pub fn read(bytes: &[u8]) -> Result<Spoken, String> {
    let completion: Completion = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let choice = completion.choices.into_iter().next().ok_or("it has no choices")?;
    let calls = choice.message.tool_calls.unwrap_or_default().into_iter().map(|call| Asked {
        id: call.id,
        name: call.function.name,
        arguments: call.function.arguments,
    });
    Ok(Spoken { content: choice.message.content.unwrap_or_default(), calls: calls.collect() })
}
