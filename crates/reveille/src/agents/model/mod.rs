//! One question to the model, by the gateway's own path and in process. What was said so far has no protocol's form; the
//! two files below give it one.

mod chat;
mod messages;

use super::Agent;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Request, header};
use http_body_util::{BodyExt, Full, Limited};
use reveille_core::{Utterance, utterance::Asked};
use reveille_gateway::{Alone, Gateway};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// An answer larger than this is none that a turn can use.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How the model is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// OpenAI Chat Completions.
    #[default]
    Chat,
    /// Anthropic Messages.
    Messages,
}

/// What the model says, or wants called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spoken {
    pub content: String,
    pub calls: Vec<Asked>,
}

/// The model could not be asked, or made no sense.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{detail}")]
pub struct ModelError {
    pub status: u16,
    pub detail: String,
}

/// `keys`: of the client, where the upstream has none of its own. `tools`: whether the model may call any.
pub async fn ask(
    gateway: &Gateway,
    agent: &Agent,
    model: &str,
    said: &[Utterance],
    tools: bool,
    keys: &HeaderMap,
) -> Result<Spoken, ModelError> {
    let protocol = agent.config.protocol;
    let (path, body) = match protocol {
        Protocol::Chat => ("/v1/chat/completions", chat::request(agent, model, said, tools)),
        Protocol::Messages => ("/v1/messages", messages::request(agent, model, said, tools)),
    };
    let request = Request::post(path)
        .header(header::CONTENT_TYPE, "application/json")
        .header("anthropic-version", "2023-06-01")
        .header("x-reveille-agent", agent.id.as_str())
        // Its tools are the agent's own, and its answer is not to be held.
        .extension(Alone)
        .body(Full::new(Bytes::from(body.to_string())));
    let mut request = request.map_err(|error| ModelError { status: 500, detail: error.to_string() })?;
    for name in [header::AUTHORIZATION, HeaderName::from_static("x-api-key")] {
        request.headers_mut().extend(keys.get(&name).map(|value| (name.clone(), value.clone())));
    }
    let (head, body) = gateway.handle(request).await.into_parts();
    let status = head.status.as_u16();
    let broken = |why: String| ModelError { status: 502, detail: format!("the model's answer {why}") };
    let read = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    let bytes = read.map_err(|error| broken(format!("broke off: {error}")))?.to_bytes();
    if !head.status.is_success() {
        // Both protocols have their words at the same place.
        let said: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let words = said["error"]["message"].as_str();
        return Err(ModelError {
            status,
            detail: words.map_or_else(|| format!("the model answered {status}"), str::to_owned),
        });
    }
    let spoken = match protocol {
        Protocol::Chat => chat::read(&bytes),
        Protocol::Messages => messages::read(&bytes),
    };
    spoken.map_err(|why| broken(format!("makes no sense: {why}")))
}
