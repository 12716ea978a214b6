//! One small vocabulary, three wire protocols. What the rest of the gateway knows of an answer is a [`Kind`] per event
//! and what was [`Seen`] so far; the adapters know the bytes.

pub(crate) mod chat;
mod messages;
pub(crate) mod responses;

use crate::{fault::Fault, sse};
use bytes::Bytes;
use http::StatusCode;
use serde::{Deserialize, Deserializer};
use serde_json::{json, value::RawValue};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// OpenAI Chat Completions.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Messages,
}

/// One event of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Its bytes, as they came.
    pub raw: &'a [u8],
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Keeps the connection alive, says nothing.
    Alive,
    /// The answer begins.
    Begin,
    /// The model says something.
    Content,
    /// The model begins to call a tool.
    ToolCall,
    /// The model is done; what follows closes the answer.
    Finish,
    /// The last event of a complete answer.
    End,
    /// The upstream reports an error, after which nothing comes.
    Error,
    Other,
}

/// A tool that the model wants called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    /// JSON, as the model wrote it.
    pub arguments: String,
}

/// Why the model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    Stop,
    ToolCalls,
    Length,
    Other,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
}

/// What a client gets that is kept waiting for the rest of its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waiting {
    /// Signs of life that every known client counts, for as long as it takes.
    #[default]
    Alive,
    /// Only pings, of which some clients have enough after a while.
    Pinged,
    /// Nothing: the answer comes in one piece.
    Silent,
}

/// What was seen of an answer so far.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Something of the answer came, not only keep-alives.
    pub begun: bool,
    pub finish: Option<Finish>,
    /// The answer is complete, or the upstream said itself that it failed.
    pub ended: bool,
    /// It said so.
    pub failed: bool,
    pub usage: Option<Usage>,
    /// Calls to tools that a stage serves ([`Draft::serve_tool`](crate::Draft::serve_tool)). The client sees none of
    /// them. Known when the model is done.
    pub calls: Vec<ToolCall>,
    /// The ids of calls that the client has to answer.
    pub client_calls: Vec<String>,
    /// What the upstream calls its answer, where that is known.
    pub answer_id: Option<String>,
    /// Chat: the choices that began, and those that came to their end; one bit each.
    pub(crate) choices: u64,
    pub(crate) finished: u64,
    /// Known when the model is done.
    pub waiting: Waiting,
    /// Responses: the number of the last event, and whose answer it is.
    pub(crate) sequence: Option<u64>,
    pub(crate) response: Option<Box<responses::Head>>,
}

impl Protocol {
    pub const ALL: [Protocol; 3] = [Protocol::Chat, Protocol::Responses, Protocol::Messages];

    pub fn name(self) -> &'static str {
        match self {
            Protocol::Chat => "chat",
            Protocol::Responses => "responses",
            Protocol::Messages => "messages",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.name() == name)
    }

    /// Where answers are generated.
    pub fn path(self) -> &'static str {
        match self {
            Protocol::Chat => "/v1/chat/completions",
            Protocol::Responses => "/v1/responses",
            Protocol::Messages => "/v1/messages",
        }
    }

    /// Looks at one frame of a stream.
    pub fn read(self, frame: &[u8], seen: &mut Seen) -> Kind {
        if sse::is_comment(frame) {
            return Kind::Alive;
        }
        let kind = match self {
            Protocol::Chat => chat::read(frame, seen),
            Protocol::Responses => responses::read(frame, seen),
            Protocol::Messages => messages::read(frame, seen),
        };
        seen.begun |= !matches!(kind, Kind::Alive | Kind::Error);
        seen.ended |= matches!(kind, Kind::End | Kind::Error);
        seen.failed |= kind == Kind::Error;
        kind
    }

    /// Looks at a whole answer.
    pub fn read_whole(self, body: &[u8], seen: &mut Seen) {
        match self {
            Protocol::Chat => chat::whole(body, seen),
            Protocol::Responses => responses::whole(body, seen),
            Protocol::Messages => messages::whole(body, seen),
        }
    }

    /// The protocol's own error, for an answer that has not begun.
    pub fn error_body(self, fault: &Fault) -> Bytes {
        let message = fault.to_string();
        let body = match self {
            Protocol::Chat | Protocol::Responses => {
                json!({"error": {"message": message, "type": openai_type(fault), "param": null, "code": fault.code()}})
            }
            Protocol::Messages => {
                json!({"type": "error", "error": {"type": anthropic_type(fault), "message": message}})
            }
        };
        body.to_string().into()
    }

    /// The same for one that has; after it the stream ends.
    pub fn error_event(self, fault: &Fault, seen: &Seen) -> Bytes {
        match self {
            Protocol::Responses => responses::error(fault, seen),
            Protocol::Chat | Protocol::Messages => {
                let event = (self == Protocol::Messages).then_some("error");
                sse::frame(event, std::str::from_utf8(&self.error_body(fault)).unwrap_or("{}"))
            }
        }
    }

    /// Whether a stream that ended without a word was complete all the same.
    pub fn is_complete(self, seen: &Seen) -> bool {
        // Some servers of Chat leave out the closing `[DONE]`.
        seen.ended || (self == Protocol::Chat && chat::is_finished(seen))
    }

    /// The same for one whose last frame has no empty line after it. Half a frame completes nothing, and is not for the
    /// client: what is put behind it would become part of it.
    pub(crate) fn is_complete_with(self, rest: &[u8], seen: &Seen) -> bool {
        if rest.is_empty() {
            return self.is_complete(seen);
        }
        let mut seen = seen.clone();
        self.read(rest, &mut seen);
        self.is_complete(&seen)
    }
}

fn openai_type(fault: &Fault) -> &'static str {
    match fault.status() {
        StatusCode::GATEWAY_TIMEOUT => "timeout_error",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        status if status.is_client_error() => "invalid_request_error",
        _ => "server_error",
    }
}

fn anthropic_type(fault: &Fault) -> &'static str {
    match fault.status() {
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::NOT_FOUND => "not_found_error",
        StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
        StatusCode::GATEWAY_TIMEOUT => "timeout_error",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
        status if status.is_client_error() => "invalid_request_error",
        _ => "api_error",
    }
}

/// Both vendors' counts: one name or the other, whichever is there.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct WireUsage {
    #[serde(alias = "prompt_tokens")]
    input_tokens: Option<u64>,
    #[serde(alias = "completion_tokens")]
    output_tokens: Option<u64>,
}

/// Counts, if they are of the form they should be: everything else in an answer is worth more than they are.
fn counts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<WireUsage>, D::Error> {
    let raw = Option::<&RawValue>::deserialize(deserializer)?;
    Ok(raw.and_then(|raw| serde_json::from_str(raw.get()).ok()))
}

impl WireUsage {
    /// Later figures are the whole so far; a figure left out is as before.
    fn note(self, seen: &mut Seen) {
        let usage = seen.usage.get_or_insert_default();
        usage.input_tokens = self.input_tokens.unwrap_or(usage.input_tokens);
        usage.output_tokens = self.output_tokens.unwrap_or(usage.output_tokens);
    }
}

/// The name of an event: its own line, else the `type` of its data.
pub(crate) fn event_name(frame: &[u8]) -> &[u8] {
    #[derive(Deserialize)]
    struct Typed<'a> {
        #[serde(rename = "type")]
        kind: &'a str,
    }
    if let Some(name) = sse::field(frame, b"event") {
        return name;
    }
    let data = sse::field(frame, b"data").unwrap_or_default();
    let rest = data.strip_prefix(br#"{"type":""#).or_else(|| data.strip_prefix(br#"{"type": ""#));
    match rest.and_then(|rest| rest.split(|byte| *byte == b'"').next()) {
        Some(name) => name,
        // It need not come first.
        None => serde_json::from_slice::<Typed<'_>>(data).map(|typed| typed.kind.as_bytes()).unwrap_or_default(),
    }
}
