//! What an answer is to be. JSON in the header `x-script`, else in the last message that begins with `script:`; else what
//! the upstream was told to say by itself, or a greeting. What the model said after that message decides which of the
//! script's answers is next.

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// Another status than 200 answers with the vendor's error.
    pub status: Option<u16>,
    /// Only so many times; then the script is carried out as if it had no `status`.
    pub times: Option<u32>,
    pub headers: Vec<(String, String)>,
    /// Other than the protocol's; empty: none.
    pub content_type: Option<String>,
    /// Milliseconds before the head.
    pub head_after: u64,
    /// Whole answers: a body other than the protocol's.
    pub body: Option<String>,
    /// Adds to the length that is promised.
    pub lie: i64,
    pub steps: Vec<Step>,
    /// The answers after this one, each when the model is asked again.
    pub then: Vec<Script>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The model says this.
    Text(String),
    Tool {
        name: String,
        arguments: Value,
    },
    /// The model says `text` so many times, each after so many milliseconds.
    Repeat {
        text: String,
        times: u64,
        every: u64,
    },
    /// Milliseconds of silence.
    Wait(u64),
    /// A comment, as keep-alive.
    Comment,
    /// The protocol's own keep-alive event.
    Ping,
    /// These bytes, whatever they are.
    Raw(String),
    /// Silence until the other side goes.
    Stall,
    /// A proper end of the body, in the middle of the answer.
    Close,
    /// The connection ends, in the middle of the body.
    Cut,
    /// The same, with a reset where there is such a thing.
    Reset,
}

impl Script {
    /// The script, its text, and how many answers came before in the same turn. Without one: what `improvise` says.
    pub fn find(
        header: Option<&str>,
        body: &Value,
        improvise: impl FnOnce(&Value) -> Option<Self>,
    ) -> Result<(Self, String, usize), String> {
        let (text, answers) = match header {
            Some(header) => (Some(header.to_owned()), 0),
            None => last_script(body),
        };
        match text {
            // What a gateway adds to the message is none of it.
            Some(text) => match serde_json::Deserializer::from_str(&text)
                .into_iter::<Self>()
                .next()
                .unwrap_or(Ok(Self::default()))
            {
                Ok(script) if answers == 0 => Ok((script, text, 0)),
                Ok(mut script) if answers <= script.then.len() => {
                    Ok((script.then.swap_remove(answers - 1), text, answers))
                }
                Ok(_) => Ok((Self::greeting(body), String::new(), answers)),
                Err(error) => Err(format!("the script does not fit: {error}")),
            },
            None => match improvise(body) {
                Some(script) => Ok((script, String::new(), answers)),
                None => Ok((Self::greeting(body), String::new(), 0)),
            },
        }
    }

    /// One answer that is this text.
    pub fn says(text: &str) -> Self {
        Self::of(vec![Step::Text(text.to_owned())])
    }

    /// One answer of these steps.
    pub fn of(steps: Vec<Step>) -> Self {
        Self { steps, ..Self::default() }
    }

    /// Says what was asked, so that a test sees what arrived.
    fn greeting(body: &Value) -> Self {
        let count = |key: &str| body[key].as_array().map_or(0, Vec::len);
        let images = body.to_string().matches("image_url").count().max(body.to_string().matches("base64").count());
        let text =
            format!("{} messages, {} tools, {images} images", count("messages").max(count("input")), count("tools"));
        Self { steps: vec![Step::Text("Hello! ".into()), Step::Text(text)], ..Self::default() }
    }
}

/// The last script of a conversation, and how often the model spoke since.
fn last_script(body: &Value) -> (Option<String>, usize) {
    let messages = body.get("messages").or_else(|| body.get("input"));
    let Some(messages) = messages.and_then(Value::as_array) else {
        let text = messages.and_then(Value::as_str).and_then(script);
        return (text, 0);
    };
    let place = messages.iter().rposition(|message| text(message).and_then(script).is_some());
    let mut answers = 0;
    let mut speaking = false;
    for message in &messages[place.unwrap_or(0)..] {
        let model =
            message["role"] == "assistant" || matches!(message["type"].as_str(), Some("function_call" | "reasoning"));
        answers += usize::from(model && !speaking);
        speaking = model;
    }
    (place.and_then(|place| text(&messages[place])).and_then(script), answers)
}

fn script(text: &str) -> Option<String> {
    text.strip_prefix("script:").map(str::to_owned)
}

fn text(message: &Value) -> Option<&str> {
    let content = &message["content"];
    content.as_str().or_else(|| content.as_array()?.iter().rev().find_map(|part| part["text"].as_str()))
}
