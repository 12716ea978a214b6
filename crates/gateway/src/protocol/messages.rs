//! Anthropic Messages: named events, from `message_start` to `message_stop`.

use super::{Finish, Kind, Seen, WireUsage, counts, event_name};
use crate::sse;
use memchr::memmem;
use serde::Deserialize;
use std::borrow::Cow;

/// The parts of `message_start`, `message_delta` and of a whole message that matter here.
#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    message: Option<Box<Part<'a>>>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow)]
    stop_reason: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "counts")]
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    stop_reason: Option<Cow<'a, str>>,
}

pub fn read(frame: &[u8], seen: &mut Seen) -> Kind {
    match event_name(frame) {
        b"content_block_delta" => Kind::Content,
        b"content_block_start" => match memmem::find(frame, b"\"tool_use\"") {
            Some(_) => Kind::ToolCall,
            None => Kind::Content,
        },
        b"message_start" => {
            note(sse::field(frame, b"data").unwrap_or_default(), seen);
            Kind::Begin
        }
        b"message_delta" => {
            note(sse::field(frame, b"data").unwrap_or_default(), seen);
            Kind::Finish
        }
        b"message_stop" => Kind::End,
        b"error" => Kind::Error,
        b"ping" => Kind::Alive,
        _ => Kind::Other,
    }
}

fn note(data: &[u8], seen: &mut Seen) {
    let Ok(part) = serde_json::from_slice::<Part<'_>>(data) else { return };
    let usage = part.usage.or_else(|| part.message.as_ref().and_then(|message| message.usage));
    if let Some(usage) = usage {
        usage.note(seen);
    }
    let reason = part.stop_reason.or_else(|| part.delta.and_then(|delta| delta.stop_reason));
    if let Some(reason) = reason {
        seen.finish = Some(match &*reason {
            "end_turn" | "stop_sequence" => Finish::Stop,
            "tool_use" => Finish::ToolCalls,
            "max_tokens" => Finish::Length,
            _ => Finish::Other,
        });
    }
}

pub fn whole(body: &[u8], seen: &mut Seen) {
    note(body, seen);
    // Some upstreams say that they stopped, and call.
    if seen.finish == Some(Finish::Stop) && calls(body) {
        seen.finish = Some(Finish::ToolCalls);
    }
}

/// Whether a whole message calls tools.
fn calls(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        content: Vec<Block<'a>>,
    }
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
    }
    let mentioned = memmem::find(body, b"\"tool_use\"").is_some();
    let message = mentioned.then(|| serde_json::from_slice::<Message<'_>>(body).ok()).flatten();
    message.is_some_and(|message| message.content.iter().any(|block| block.kind == "tool_use"))
}
