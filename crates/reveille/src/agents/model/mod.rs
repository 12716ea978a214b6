//! One question to the model, by the gateway's own path and in process. What was said so far has no protocol's form; the
//! files below give it one, and read what comes back, whole or as a stream.

mod chat;
mod messages;
mod responses;

use super::Agent;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, header};
use http_body_util::{BodyExt, Full, Limited, combinators::UnsyncBoxBody};
use reveille_core::{Utterance, utterance::Asked};
use reveille_gateway::{
    Alone, Fault, Gateway, Protocol as Wire, Seen,
    sse::{self, Splitter},
};
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
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Messages,
}

/// What the model is asked.
pub struct Question<'a> {
    pub agent: &'a Agent,
    pub model: &'a str,
    pub said: &'a [Utterance],
    /// Whether it may call tools. It is told of them in any case: it may have called some before.
    pub tools: bool,
}

/// Told every piece of text as it comes.
pub type Heard<'a> = &'a (dyn Fn(&str) + Send + Sync);

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
    pub code: &'static str,
    pub detail: String,
    /// When the upstream wants to be asked again, in its own words.
    pub retry_after: Option<HeaderValue>,
}

impl ModelError {
    pub fn new(status: u16, detail: impl Into<String>) -> Self {
        Self { status, code: "model_failed", detail: detail.into(), retry_after: None }
    }
}

/// A stream of one protocol being read. What it says more, if this event says anything.
trait Reader: Send {
    fn event(&mut self, event: &Value) -> Option<String>;
    fn finish(self: Box<Self>) -> Spoken;
}

impl Protocol {
    fn wire(self) -> Wire {
        match self {
            Protocol::Chat => Wire::Chat,
            Protocol::Responses => Wire::Responses,
            Protocol::Messages => Wire::Messages,
        }
    }

    fn request(self, question: &Question<'_>) -> Value {
        match self {
            Protocol::Chat => chat::request(question),
            Protocol::Responses => responses::request(question),
            Protocol::Messages => messages::request(question),
        }
    }

    fn read(self, bytes: &[u8]) -> Result<Spoken, String> {
        match self {
            Protocol::Chat => chat::read(bytes),
            Protocol::Responses => responses::read(bytes),
            Protocol::Messages => messages::read(bytes),
        }
    }

    fn reader(self) -> Box<dyn Reader> {
        match self {
            Protocol::Chat => Box::<chat::Stream>::default(),
            Protocol::Responses => Box::<responses::Stream>::default(),
            Protocol::Messages => Box::<messages::Stream>::default(),
        }
    }
}

/// `keys`: of the client, where the upstream has none of its own. With `heard`, the answer is streamed.
pub async fn ask(
    gateway: &Gateway,
    question: &Question<'_>,
    keys: &HeaderMap,
    heard: Option<Heard<'_>>,
) -> Result<Spoken, ModelError> {
    let (agent, protocol) = (question.agent, question.agent.config.protocol);
    let mut body = protocol.request(question);
    if heard.is_some() {
        body["stream"] = Value::Bool(true);
    }
    let request = Request::post(protocol.wire().path())
        .header(header::CONTENT_TYPE, "application/json")
        .header("anthropic-version", "2023-06-01")
        .header("x-reveille-agent", agent.id.as_str())
        // Its tools are the agent's own, and its answer is not to be held.
        .extension(Alone)
        .body(Full::new(Bytes::from(body.to_string())));
    let mut request = request.map_err(|error| ModelError::new(500, error.to_string()))?;
    for name in [header::AUTHORIZATION, HeaderName::from_static("x-api-key")] {
        request.headers_mut().extend(keys.get(&name).map(|value| (name.clone(), value.clone())));
    }
    let (head, body) = gateway.handle(request).await.into_parts();
    let streams = head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let streams = streams.is_some_and(|kind| kind.starts_with("text/event-stream"));
    match heard {
        Some(heard) if head.status.is_success() && streams => stream(protocol, body, heard).await,
        heard => {
            let read = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
            let bytes = read.map_err(|error| broken(format!("broke off: {error}")))?.to_bytes();
            if !head.status.is_success() {
                let retry_after = head.headers.get(header::RETRY_AFTER).cloned();
                return Err(ModelError { retry_after, ..refused(head.status.as_u16(), &bytes) });
            }
            let spoken = protocol.read(&bytes).map_err(|why| broken(format!("makes no sense: {why}")))?;
            // An upstream that does not stream says everything at once.
            if let Some(heard) = heard.filter(|_| !spoken.content.is_empty()) {
                heard(&spoken.content);
            }
            Ok(spoken)
        }
    }
}

async fn stream(protocol: Protocol, body: UnsyncBoxBody<Bytes, Fault>, heard: Heard<'_>) -> Result<Spoken, ModelError> {
    let (mut body, mut splitter) = (Limited::new(body, ANSWER_BYTES_MAX), Splitter::new(ANSWER_BYTES_MAX));
    let (mut reader, mut seen) = (protocol.reader(), Seen::default());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken(format!("broke off: {error}")))?;
        let Ok(chunk) = frame.into_data() else { continue };
        let (block, ends) = splitter.push(chunk).map_err(|_| broken("has an event that is too large".into()))?;
        let mut start = 0;
        for end in ends {
            event(protocol, &block[start..*end], &mut *reader, &mut seen, heard)?;
            start = *end;
        }
    }
    // A last event without its empty line.
    event(protocol, &splitter.finish(), &mut *reader, &mut seen, heard)?;
    match protocol.wire().is_complete(&seen) {
        true => Ok(reader.finish()),
        false => Err(broken("broke off before its end".into())),
    }
}

fn event(
    protocol: Protocol,
    frame: &[u8],
    reader: &mut dyn Reader,
    seen: &mut Seen,
    heard: Heard<'_>,
) -> Result<(), ModelError> {
    protocol.wire().read(frame, seen);
    let data = sse::field(frame, b"data").unwrap_or_default();
    if seen.failed {
        return Err(refused(502, data));
    }
    let Ok(event) = serde_json::from_slice::<Value>(data) else { return Ok(()) };
    if let Some(text) = reader.event(&event).filter(|text| !text.is_empty()) {
        heard(&text);
    }
    Ok(())
}

fn broken(why: String) -> ModelError {
    ModelError::new(502, format!("the model's answer {why}"))
}

/// What the upstream, or the gateway in its place, said instead of an answer.
fn refused(status: u16, bytes: &[u8]) -> ModelError {
    let said: Value = serde_json::from_slice(bytes).unwrap_or_default();
    // Where the protocols have their words.
    let places = ["/error/message", "/response/error/message", "/message"];
    let words = places.iter().find_map(|place| said.pointer(place)?.as_str());
    let detail = words.map_or_else(|| format!("the model answered {status}"), str::to_owned);
    ModelError::new(status, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn heard(protocol: Protocol, events: &[Value]) -> (Vec<String>, Spoken) {
        let mut reader = protocol.reader();
        let pieces = events.iter().filter_map(|event| reader.event(event)).collect();
        (pieces, reader.finish())
    }

    fn spoken() -> Spoken {
        let call =
            |id: &str, arguments: &str| Asked { id: id.into(), name: "read".into(), arguments: arguments.into() };
        Spoken { content: "你好👋".into(), calls: vec![call("c1", r#"{"id":7}"#), call("c2", "{}")] }
    }

    #[test]
    fn every_protocols_stream_is_read_the_same() {
        let chat = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]});
        let part = |index: u8, id: Option<&str>, name: Option<&str>, arguments: &str| {
            chat(
                json!({"tool_calls": [{"index": index, "id": id, "function": {"name": name, "arguments": arguments}}]}),
            )
        };
        let chat = [
            chat(json!({"role": "assistant", "content": "你好"})),
            chat(json!({"content": "👋"})),
            part(0, Some("c1"), Some("read"), ""),
            part(0, None, None, r#"{"id""#),
            part(1, Some("c2"), Some("read"), "{}"),
            part(0, None, None, ":7}"),
            json!({"choices": [], "usage": {}}),
        ];
        let block =
            |index: u8, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
        let delta = |index: u8, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
        let messages = [
            json!({"type": "message_start", "message": {}}),
            block(0, json!({"type": "text", "text": ""})),
            delta(0, json!({"type": "text_delta", "text": "你好"})),
            delta(0, json!({"type": "text_delta", "text": "👋"})),
            block(1, json!({"type": "tool_use", "id": "c1", "name": "read", "input": {}})),
            delta(1, json!({"type": "input_json_delta", "partial_json": r#"{"id""#})),
            delta(1, json!({"type": "input_json_delta", "partial_json": ":7}"})),
            block(2, json!({"type": "tool_use", "id": "c2", "name": "read", "input": {}})),
            json!({"type": "message_stop"}),
        ];
        let call = |id: &str, arguments: &str| {
            let item = json!({"type": "function_call", "call_id": id, "name": "read", "arguments": arguments});
            json!({"type": "response.output_item.done", "item": item})
        };
        let responses = [
            json!({"type": "response.created", "response": {}}),
            json!({"type": "response.output_text.delta", "delta": "你好"}),
            json!({"type": "response.output_text.delta", "delta": "👋"}),
            call("c1", r#"{"id":7}"#),
            call("c2", "{}"),
            json!({"type": "response.completed", "response": {}}),
        ];
        for (protocol, events) in
            [(Protocol::Chat, &chat[..]), (Protocol::Messages, &messages[..]), (Protocol::Responses, &responses[..])]
        {
            let (pieces, read) = heard(protocol, events);
            assert_eq!(pieces, ["你好", "👋"], "{protocol:?}");
            assert_eq!(read, spoken(), "{protocol:?}");
        }
    }

    #[test]
    fn errors_have_the_upstreams_words() {
        for said in [
            json!({"error": {"message": "忙"}}),
            json!({"type": "response.failed", "response": {"error": {"message": "忙"}}}),
            json!({"type": "error", "message": "忙"}),
        ] {
            assert_eq!(refused(502, said.to_string().as_bytes()).detail, "忙");
        }
        assert!(refused(500, b"<html>").detail.contains("500"));
    }
}
