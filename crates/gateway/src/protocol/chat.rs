//! OpenAI Chat Completions: `data: {chunk}` without names, then `data: [DONE]`.

use super::{Finish, Kind, Seen, WireUsage, counts};
use crate::sse;
use memchr::memmem::Finder;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Map, Value, value::RawValue};
use std::{borrow::Cow, sync::LazyLock};

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Vec<Choice<'a>>,
    #[serde(default, deserialize_with = "counts")]
    usage: Option<WireUsage>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    index: u64,
    #[serde(borrow)]
    finish_reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
}

impl Choice<'_> {
    fn says(&self) -> bool {
        let delta = self.delta.and_then(|delta| serde_json::from_str::<Map<String, Value>>(delta.get()).ok());
        delta.is_some_and(|delta| says(&delta))
    }
}

/// A delta holds something of the answer. Whose it is, some upstreams say in every chunk.
pub(crate) fn says(delta: &Map<String, Value>) -> bool {
    let is_something = |value: &Value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    };
    delta.iter().any(|(name, value)| name != "role" && is_something(value))
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
finder!(FUNCTION, "\"function_call\":");
finder!(NAME, "\"name\":");
finder!(ERROR, "\"error\":");
finder!(INDEX, "\"index\":");

pub fn read(frame: &[u8], seen: &mut Seen) -> Kind {
    let Some(data) = sse::field(frame, b"data") else { return Kind::Other };
    if data.starts_with(b"[DONE]") {
        return Kind::End;
    }
    let closes = has_value(data, &FINISH) || has_value(data, &USAGE) || has_value(data, &ERROR);
    if closes || seen.finish.is_some() || has_further(data) {
        return closing(data, seen);
    }
    seen.choices |= bit(0);
    content(data, seen)
}

fn content(data: &[u8], seen: &Seen) -> Kind {
    match TOOL.find(data).and_then(|_| NAME.find(data)) {
        Some(_) => Kind::ToolCall,
        None if !seen.begun => Kind::Begin,
        None => Kind::Content,
    }
}

/// The key is there and says something.
fn has_value(data: &[u8], key: &Finder<'_>) -> bool {
    let Some(at) = key.find(data) else { return false };
    let value = data[at + key.needle().len()..].trim_ascii_start();
    !value.starts_with(b"null") && !value.starts_with(b"\"\"")
}

/// Something in it is not the first of its kind: a choice, perhaps.
fn has_further(data: &[u8]) -> bool {
    INDEX.find_iter(data).any(|at| !data[at + INDEX.needle().len()..].trim_ascii_start().starts_with(b"0"))
}

/// A choice among those that were seen. Nobody asks for so many that the last ones matter apart.
fn bit(choice: u64) -> u64 {
    1 << choice.min(63)
}

fn closing(data: &[u8], seen: &mut Seen) -> Kind {
    let Ok(chunk) = serde_json::from_slice::<Chunk<'_>>(data) else { return Kind::Content };
    if chunk.error.is_some() {
        return Kind::Error;
    }
    if let Some(usage) = chunk.usage {
        usage.note(seen);
    }
    let mut reason = None;
    for choice in &chunk.choices {
        seen.choices |= bit(choice.index);
        // Some upstreams say of every chunk that nothing finished it.
        if let Some(said) = choice.finish_reason.as_deref().filter(|said| !said.is_empty()) {
            seen.finished |= bit(choice.index);
            reason = reason.or(Some(said));
        }
    }
    match reason {
        Some(reason) => {
            seen.finish = Some(finish(reason));
            Kind::Finish
        }
        None if chunk.choices.is_empty() => Kind::Other,
        // Some upstreams put the counts after the finish into a chunk of the usual form.
        None if is_finished(seen) && !chunk.choices.iter().any(Choice::says) => Kind::Other,
        // Some upstreams say in every chunk what was used so far.
        None => content(data, seen),
    }
}

/// Every choice that began has come to its end.
pub fn is_finished(seen: &Seen) -> bool {
    seen.finish.is_some() && seen.choices & !seen.finished == 0
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
    // Some upstreams say that they stopped, and call.
    if seen.finish == Some(Finish::Stop) && calls(body) {
        seen.finish = Some(Finish::ToolCalls);
    }
}

/// Whether a whole answer calls tools.
fn calls(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Answer {
        choices: Vec<Said>,
    }
    #[derive(Deserialize)]
    struct Said {
        message: Message,
    }
    #[derive(Deserialize)]
    struct Message {
        tool_calls: Option<Vec<IgnoredAny>>,
        function_call: Option<IgnoredAny>,
    }
    if TOOL.find(body).or_else(|| FUNCTION.find(body)).is_none() {
        return false;
    }
    let answer = serde_json::from_slice::<Answer>(body).ok();
    let calls = |said: &Said| {
        said.message.function_call.is_some() || said.message.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty())
    };
    answer.is_some_and(|answer| answer.choices.iter().any(calls))
}
