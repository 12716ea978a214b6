//! OpenAI Chat Completions.

use super::{Question, Reader, Spoken};
use crate::agents::check::Tool;
use reveille_core::{
    Utterance,
    utterance::{Asked, Role},
};
use serde::Deserialize;
use serde_json::{Value, json};

pub fn request(question: &Question<'_>) -> Value {
    let Question { agent, model, said, tools } = question;
    let system = agent.config.system_prompt.iter().map(|text| json!({"role": "system", "content": text}));
    // A conversation that was cut must not begin with the result of a call that is not there.
    let begins = said.iter().position(|said| said.role != Role::Tool).unwrap_or(said.len());
    let messages: Vec<Value> = system.chain(said[begins..].iter().map(message)).collect();
    let mut body = json!({"model": model, "messages": messages});
    if let Some(max) = agent.config.max_tokens {
        // `max_tokens` is its old name, which models that think refuse.
        body["max_completion_tokens"] = json!(max);
    }
    if !agent.tools.is_empty() {
        body["tools"] = agent.tools.iter().map(|(name, tool)| described(name, tool)).collect();
        if !tools {
            body["tool_choice"] = json!("none");
        }
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

#[derive(Default)]
pub struct Stream {
    content: String,
    /// By their index, in pieces.
    calls: Vec<Asked>,
}

impl Reader for Stream {
    fn event(&mut self, event: &Value) -> Option<String> {
        let delta = event["choices"].get(0)?.get("delta")?;
        for part in delta["tool_calls"].as_array().into_iter().flatten() {
            let index = part["index"].as_u64().map_or(self.calls.len(), |index| index as usize).min(self.calls.len());
            if index == self.calls.len() {
                self.calls.push(Asked { id: String::new(), name: String::new(), arguments: String::new() });
            }
            let call = &mut self.calls[index];
            let (id, function) = (part["id"].as_str(), &part["function"]);
            call.id.push_str(id.filter(|_| call.id.is_empty()).unwrap_or_default());
            call.name.push_str(function["name"].as_str().filter(|_| call.name.is_empty()).unwrap_or_default());
            call.arguments.push_str(function["arguments"].as_str().unwrap_or_default());
        }
        let text = delta["content"].as_str()?;
        self.content.push_str(text);
        Some(text.to_owned())
    }

    fn finish(self: Box<Self>) -> Spoken {
        Spoken { content: self.content, calls: self.calls }
    }
}
