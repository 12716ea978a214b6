//! What a model said in one round, read once it is done. Most rounds are never read: their frames only pass.

use super::{chat, messages, responses};
use crate::{
    protocol::{Protocol, ToolCall},
    sse::{self, Splitter},
};
use bytes::Bytes;
use serde_json::{Map, Value};

#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// What goes back to the model as its own, in the protocol's JSON: messages, or input items.
    pub said: Vec<Value>,
    pub calls: Vec<ToolCall>,
    /// The vendor's counts; `Null` if there were none.
    pub usage: Value,
    /// What all events of one answer have in common: its id, and whatever else names it.
    pub head: Map<String, Value>,
    /// Something was said in words.
    pub text: bool,
}

impl Heard {
    /// From all frames of a stream.
    pub fn stream(protocol: Protocol, frames: &[u8]) -> Self {
        let mut splitter = Splitter::new(usize::MAX);
        let mut heard = Reader::new(protocol);
        if let Ok((block, ends)) = splitter.push(Bytes::copy_from_slice(frames)) {
            let mut start = 0;
            for end in ends {
                heard.frame(&block[start..*end]);
                start = *end;
            }
        }
        // A last frame without its empty line.
        heard.frame(&splitter.finish());
        heard.finish()
    }

    /// From a whole answer; `None` if it is not one.
    pub fn whole(protocol: Protocol, body: &Value) -> Option<Self> {
        match protocol {
            Protocol::Chat => chat::hear_whole(body),
            Protocol::Responses => responses::hear_whole(body),
            Protocol::Messages => messages::hear_whole(body),
        }
    }

    pub fn id(&self) -> Option<String> {
        self.head.get("id").and_then(Value::as_str).map(str::to_owned)
    }
}

/// A stream being read, event by event.
enum Reader {
    Chat(chat::Reader),
    Responses(responses::Reader),
    Messages(messages::Reader),
}

impl Reader {
    fn new(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Chat => Self::Chat(chat::Reader::default()),
            Protocol::Responses => Self::Responses(responses::Reader::default()),
            Protocol::Messages => Self::Messages(messages::Reader::default()),
        }
    }

    fn frame(&mut self, frame: &[u8]) {
        let Some(event) = event(frame) else { return };
        match self {
            Self::Chat(reader) => reader.event(event),
            Self::Responses(reader) => reader.event(event),
            Self::Messages(reader) => reader.event(event),
        }
    }

    fn finish(self) -> Heard {
        match self {
            Self::Chat(reader) => reader.finish(),
            Self::Responses(reader) => reader.finish(),
            Self::Messages(reader) => reader.finish(),
        }
    }
}

/// The JSON of a frame.
pub(crate) fn event(frame: &[u8]) -> Option<Value> {
    serde_json::from_slice(sse::field(frame, b"data")?).ok().filter(Value::is_object)
}

/// The fields of what should be an object; what is none becomes an empty one.
pub(crate) fn fields(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(fields) => fields,
        _ => unreachable!("it is one now"),
    }
}

/// A frame again, with other JSON.
pub(crate) fn frame(event: Option<&str>, data: &Value) -> Bytes {
    sse::frame(event, &data.to_string())
}

/// Counts of several rounds as one: numbers add up, also inside; what is not a number is the later one's.
pub(crate) fn sum(spent: &Value, more: &Value) -> Value {
    match (spent, more) {
        (Value::Object(spent), Value::Object(more)) => {
            let mut all = spent.clone();
            for (name, value) in more {
                let before = all.get(name).unwrap_or(&Value::Null);
                let value = sum(before, value);
                all.insert(name.clone(), value);
            }
            Value::Object(all)
        }
        (Value::Number(spent), Value::Number(more)) => match (spent.as_u64(), more.as_u64()) {
            (Some(spent), Some(more)) => Value::from(spent.saturating_add(more)),
            _ => Value::from(spent.as_f64().unwrap_or_default() + more.as_f64().unwrap_or_default()),
        },
        (spent, Value::Null) => spent.clone(),
        (_, more) => more.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn counts_add_up_wherever_they_stand() {
        let one = json!({"input": 3, "details": {"cached": 1}, "tier": "a", "cost": 0.5, "none": null});
        let two = json!({"input": 4, "details": {"cached": 2, "read": 1}, "tier": "b", "cost": 0.25, "none": 1});
        let both = json!({"input": 7, "details": {"cached": 3, "read": 1}, "tier": "b", "cost": 0.75, "none": 1});
        assert_eq!(sum(&one, &two), both);
        assert_eq!(sum(&Value::Null, &one), one);
        assert_eq!(sum(&one, &Value::Null), one);
    }
}
