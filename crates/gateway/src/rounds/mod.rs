//! A turn in which stages take part: one response to the client, made of as many answers of the upstream as the stages ask
//! for. A stream's frames pass as they came as long as nothing needs changing; what closes it waits until the stages agree
//! that it is over, and meanwhile the client gets signs of life.
//!
//! Calls without stages do not come here; [`Relay`](crate::Relay) carries them.

mod again;
mod between;
mod chat;
mod frames;
mod heard;
mod messages;
mod pause;
mod recording;
mod refusal;
mod responses;
mod shelf;
mod shown;
mod stream;
mod weave;
pub(crate) mod whole;

pub(crate) use again::Again;
pub(crate) use refusal::refusal;
pub(crate) use stream::{Parts, Rounds};

use crate::{
    draft::Draft,
    protocol::{Protocol, Usage},
    stage::{ToolResult, Voice, Words},
};
use serde_json::Value;

/// A message at the end of a request, in its protocol's JSON.
pub(crate) fn told(draft: &Draft, words: &Words) -> Value {
    let model = &draft.outline.model;
    match draft.protocol {
        Protocol::Chat => chat::words(words, model),
        Protocol::Responses => responses::words(words, model),
        Protocol::Messages => messages::words(words, model),
    }
}

/// Whose message words are, behind the APIs of OpenAI. Its models take a system message anywhere; templates of open models
/// often refuse or drop one that is not the first, those of its own open ones too.
fn role(voice: Voice, model: &str) -> &'static str {
    let name = model.rsplit('/').next().unwrap_or(model);
    let takes = ["gpt-", "chatgpt-", "o1", "o3", "o4", "codex"].iter().any(|family| name.starts_with(family));
    if voice == Voice::System && takes && !name.starts_with("gpt-oss") { "system" } else { "user" }
}

/// The answer to a call, in its protocol's JSON.
pub(crate) fn answered(protocol: Protocol, result: &ToolResult) -> Value {
    match protocol {
        Protocol::Chat => chat::result(result),
        Protocol::Responses => responses::result(result),
        Protocol::Messages => messages::result(result),
    }
}

fn add(one: Option<Usage>, two: Option<Usage>) -> Option<Usage> {
    match (one, two) {
        (Some(one), Some(two)) => Some(Usage {
            input_tokens: one.input_tokens.saturating_add(two.input_tokens),
            output_tokens: one.output_tokens.saturating_add(two.output_tokens),
        }),
        (one, two) => one.or(two),
    }
}
