//! OpenAI Chat Completions: `data: {chunk}` without names, then `data: [DONE]`.

use super::{Finish, Kind, Seen, WireUsage};
use crate::sse;
use memchr::memmem::Finder;
use serde::Deserialize;
use std::{borrow::Cow, sync::LazyLock};

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Vec<Choice<'a>>,
    usage: Option<WireUsage>,
    #[serde(borrow)]
    error: Option<&'a serde_json::value::RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    finish_reason: Option<Cow<'a, str>>,
}

/// Quotes inside texts are escaped, so these are found only as keys.
macro_rules! finder {
    ($name:ident, $text:literal) => {
        static $name: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new($text));
    };
}
finder!(FINISH, "\"finish_reason\":");
finder!(USAGE, "\"usage\":");
finder!(TOOL, "\"tool_calls\":");
finder!(NAME, "\"name\":");
finder!(ERROR, "\"error\":");

pub fn read(frame: &[u8], seen: &mut Seen) -> Kind {
    let Some(data) = sse::field(frame, b"data") else { return Kind::Other };
    if data.starts_with(b"[DONE]") {
        return Kind::End;
    }
    if has_value(data, &FINISH) || has_value(data, &USAGE) || has_value(data, &ERROR) {
        return closing(data, seen);
    }
    content(data, seen)
}

fn content(data: &[u8], seen: &Seen) -> Kind {
    match TOOL.find(data).and_then(|_| NAME.find(data)) {
        Some(_) => Kind::ToolCall,
        None if !seen.begun => Kind::Begin,
        None => Kind::Content,
    }
}

/// The key is there and is not `null`.
fn has_value(data: &[u8], key: &Finder<'_>) -> bool {
    let Some(at) = key.find(data) else { return false };
    let value = data[at + key.needle().len()..].trim_ascii_start();
    !value.starts_with(b"null")
}

fn closing(data: &[u8], seen: &mut Seen) -> Kind {
    let Ok(chunk) = serde_json::from_slice::<Chunk<'_>>(data) else { return Kind::Content };
    if chunk.error.is_some() {
        return Kind::Error;
    }
    if let Some(usage) = chunk.usage {
        usage.note(seen);
    }
    match chunk.choices.iter().find_map(|choice| choice.finish_reason.as_deref()) {
        Some(reason) => {
            seen.finish = Some(finish(reason));
            Kind::Finish
        }
        None if chunk.choices.is_empty() => Kind::Other,
        // Some upstreams say in every chunk what was used so far.
        None => content(data, seen),
    }
}

fn finish(reason: &str) -> Finish {
    match reason {
        "stop" => Finish::Stop,
        "tool_calls" | "function_call" => Finish::ToolCalls,
        "length" => Finish::Length,
        _ => Finish::Other,
    }
}

pub fn whole(body: &[u8], seen: &mut Seen) {
    closing(body, seen);
}
