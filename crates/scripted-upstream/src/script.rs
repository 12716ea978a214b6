//! What an answer is to be. JSON in the header `x-script`, else in the last message after `script:`; else a greeting.

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
    /// Milliseconds before the head.
    pub head_after: u64,
    /// Whole answers: a body other than the protocol's.
    pub body: Option<String>,
    /// Adds to the length that is promised.
    pub lie: i64,
    pub steps: Vec<Step>,
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
}

impl Script {
    /// The script and its text.
    pub fn find(header: Option<&str>, body: &Value) -> Result<(Self, String), String> {
        let text = match header {
            Some(header) => Some(header.to_owned()),
            None => last_text(body).and_then(|text| text.strip_prefix("script:").map(str::to_owned)),
        };
        match text {
            Some(text) => match serde_json::from_str(&text) {
                Ok(script) => Ok((script, text)),
                Err(error) => Err(format!("the script does not fit: {error}")),
            },
            None => Ok((Self::greeting(body), String::new())),
        }
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

fn last_text(body: &Value) -> Option<&str> {
    let messages = body.get("messages").or_else(|| body.get("input"))?;
    if let Some(text) = messages.as_str() {
        return Some(text);
    }
    let content = &messages.as_array()?.last()?["content"];
    content.as_str().or_else(|| content.as_array()?.last()?["text"].as_str())
}
