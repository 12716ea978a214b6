//! OpenAI Responses. Nothing is left with the upstream: the conversation is sent whole, as in the other protocols.

use super::{Question, Reader, Spoken};
use reveille_core::{
    Utterance,
    utterance::{Asked, Role},
};
use serde::Deserialize;
use serde_json::{Value, json};

pub fn request(question: &Question<'_>) -> Value {
    let Question { agent, model, said, tools } = question;
    // A conversation that was cut must not begin with the result of a call that is not there.
    let begins = said.iter().position(|said| said.role != Role::Tool).unwrap_or(said.len());
    let input: Vec<Value> = said[begins..].iter().flat_map(items).collect();
    let mut body = json!({"model": model, "input": input, "store": false});
    if let Some(max) = agent.config.max_tokens {
        body["max_output_tokens"] = json!(max);
    }
    if let Some(system) = &agent.config.system_prompt {
        body["instructions"] = json!(system);
    }
    if !agent.tools.is_empty() {
        let described = agent.tools.iter().map(|(name, tool)| {
            // Strict schemas are another dialect, which nobody asked the operator for.
            json!({"type": "function", "name": name, "description": tool.description, "parameters": tool.parameters,
                   "strict": false})
        });
        body["tools"] = described.collect();
        if !tools {
            body["tool_choice"] = json!("none");
        }
    }
    body
}

fn items(said: &Utterance) -> Vec<Value> {
    if let Some(answers) = &said.answers {
        return vec![json!({"type": "function_call_output", "call_id": answers, "output": said.content})];
    }
    let text = (!said.content.is_empty()).then(|| json!({"role": said.role.as_str(), "content": said.content}));
    let calls = said.calls.iter().map(
        |call| json!({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}),
    );
    text.into_iter().chain(calls).collect()
}

#[derive(Deserialize)]
struct Answer {
    output: Vec<Output>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Output {
    Message {
        content: Vec<Part>,
    },
    FunctionCall {
        call_id: String,
        name: String,
        #[serde(default)]
        arguments: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part {
    OutputText {
        text: String,
    },
    Refusal {
        refusal: String,
    },
    #[serde(other)]
    Other,
}

pub fn read(bytes: &[u8]) -> Result<Spoken, String> {
    let answer: Answer = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let mut spoken = Spoken::default();
    for output in answer.output {
        match output {
            Output::Message { content } => {
                for part in content {
                    match part {
                        Part::OutputText { text } | Part::Refusal { refusal: text } => spoken.content.push_str(&text),
                        Part::Other => {}
                    }
                }
            }
            Output::FunctionCall { call_id, name, arguments } => {
                spoken.calls.push(Asked { id: call_id, name, arguments });
            }
            Output::Other => {}
        }
    }
    Ok(spoken)
}

#[derive(Default)]
pub struct Stream(Spoken);

impl Reader for Stream {
    fn event(&mut self, event: &Value) -> Option<String> {
        match event["type"].as_str()? {
            "response.output_text.delta" | "response.refusal.delta" => {
                let text = event["delta"].as_str()?;
                self.0.content.push_str(text);
                Some(text.to_owned())
            }
            "response.output_item.done" => {
                if let Ok(Output::FunctionCall { call_id, name, arguments }) = Output::deserialize(&event["item"]) {
                    self.0.calls.push(Asked { id: call_id, name, arguments });
                }
                None
            }
            _ => None,
        }
    }

    fn finish(self: Box<Self>) -> Spoken {
        self.0
    }
}
