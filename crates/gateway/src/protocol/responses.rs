//! OpenAI Responses: named, numbered events, from `response.created` to `response.completed`.

use super::{Finish, Kind, Seen, WireUsage, counts, event_name};
use crate::{fault::Fault, sse};
use bytes::Bytes;
use memchr::memmem::{self, Finder};
use serde::Deserialize;
use serde_json::json;
use std::sync::LazyLock;

/// Whose answer it is, for the event that says it failed.
#[derive(Clone, Debug, Deserialize)]
pub struct Head {
    pub id: String,
    #[serde(default)]
    created_at: serde_json::Value,
    #[serde(default)]
    model: serde_json::Value,
}

#[derive(Deserialize)]
struct Created {
    response: Head,
}

#[derive(Deserialize)]
struct Terminal {
    response: Whole,
}

#[derive(Deserialize)]
struct Whole {
    #[serde(default, deserialize_with = "counts")]
    usage: Option<WireUsage>,
    status: Option<String>,
    #[serde(default)]
    output: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(rename = "type", default)]
    kind: String,
}

/// Items that wait for the client's answer.
const CLIENT_CALLS: [&str; 7] = [
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "computer_call",
    "mcp_approval_request",
];
/// How the kinds of calls end, the upstream's own too.
const CALLS: [&[u8]; 2] = [b"_call\"", b"_approval_request\""];

pub fn waits_for_client(kind: &str) -> bool {
    CLIENT_CALLS.contains(&kind)
}

static SEQUENCE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"sequence_number\":"));

pub fn read(frame: &[u8], seen: &mut Seen) -> Kind {
    if let Some(number) = sequence(frame) {
        seen.sequence = Some(number);
    }
    let name = event_name(frame);
    match name {
        b"response.created" => {
            let data = sse::field(frame, b"data").unwrap_or_default();
            seen.response = serde_json::from_slice::<Created>(data).ok().map(|created| Box::new(created.response));
            Kind::Begin
        }
        b"response.completed" | b"response.incomplete" => {
            let data = sse::field(frame, b"data").unwrap_or_default();
            if let Ok(terminal) = serde_json::from_slice::<Terminal>(data) {
                note(&terminal.response, seen);
            }
            Kind::End
        }
        b"response.failed" | b"error" => Kind::Error,
        b"response.output_item.added" if CALLS.iter().any(|call| memmem::find(frame, call).is_some()) => Kind::ToolCall,
        b"keepalive" | b"ping" | b"response.in_progress" | b"response.queued" => Kind::Alive,
        _ if name.ends_with(b".delta") || name.ends_with(b".done") || name.ends_with(b".added") => Kind::Content,
        _ => Kind::Other,
    }
}

/// The number of an event.
pub fn sequence(frame: &[u8]) -> Option<u64> {
    let rest = frame[SEQUENCE.find(frame)? + SEQUENCE.needle().len()..].trim_ascii_start();
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}

fn note(response: &Whole, seen: &mut Seen) {
    if let Some(usage) = response.usage {
        usage.note(seen);
    }
    let calls = response.output.iter().any(|item| waits_for_client(&item.kind));
    seen.finish = Some(match response.status.as_deref() {
        Some("incomplete") => Finish::Length,
        _ if calls => Finish::ToolCalls,
        _ => Finish::Stop,
    });
}

pub fn whole(body: &[u8], seen: &mut Seen) {
    if let Ok(response) = serde_json::from_slice::<Whole>(body) {
        note(&response, seen);
    }
}

/// A response that was created fails as such, which is what clients wait for; before that there is only `error`.
pub fn error(fault: &Fault, seen: &Seen) -> Bytes {
    let (message, number) = (fault.to_string(), seen.sequence.map_or(0, |last| last.saturating_add(1)));
    match &seen.response {
        Some(head) => {
            let response = json!({
                "id": head.id, "object": "response", "created_at": head.created_at, "status": "failed",
                "error": {"code": "server_error", "message": message}, "incomplete_details": null,
                "model": head.model, "output": [], "parallel_tool_calls": true, "tool_choice": "auto", "tools": [],
                "usage": null, "metadata": {},
            });
            let data = json!({"type": "response.failed", "sequence_number": number, "response": response});
            sse::frame(Some("response.failed"), &data.to_string())
        }
        None => {
            let data = json!({
                "type": "error", "code": fault.code(), "message": message, "param": null, "sequence_number": number,
            });
            sse::frame(Some("error"), &data.to_string())
        }
    }
}
