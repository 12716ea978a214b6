//! Messages: several answers as one, and what is said in between.

use super::{
    heard::{Heard, event, frame, sum},
    weave::{Fate, Served, Weave},
};
use crate::{
    protocol::{Kind, ToolCall, event_name},
    stage::{ToolResult, Voice, Words},
};
use bytes::Bytes;
use memchr::memmem;
use serde_json::{Map, Value, json};

#[derive(Default)]
pub(super) struct Reader {
    head: Map<String, Value>,
    usage: Value,
    blocks: Vec<Value>,
    /// Arguments of the call being written.
    arguments: String,
}

impl Reader {
    pub fn event(&mut self, event: Value) {
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => {
                let message = &event["message"];
                self.head.insert("id".into(), message["id"].clone());
                self.usage = message["usage"].clone();
            }
            "content_block_start" => self.blocks.push(event["content_block"].clone()),
            "content_block_delta" => self.delta(&event["delta"]),
            "content_block_stop" => {
                let arguments = std::mem::take(&mut self.arguments);
                if let (Some(block), false) = (self.blocks.last_mut(), arguments.is_empty()) {
                    block["input"] = serde_json::from_str(&arguments).unwrap_or_else(|_| json!({}));
                }
            }
            "message_delta" => {
                // Later figures are the whole so far.
                for (name, value) in event["usage"].as_object().into_iter().flatten().filter(|(_, v)| !v.is_null()) {
                    self.usage[name] = value.clone();
                }
            }
            _ => {}
        }
    }

    fn delta(&mut self, delta: &Value) {
        let Some(block) = self.blocks.last_mut() else { return };
        let text = |name: &str| delta[name].as_str().unwrap_or_default();
        let mut grow = |name: &str| {
            let said = block[name].as_str().unwrap_or_default();
            block[name] = format!("{said}{}", text(name)).into();
        };
        match delta["type"].as_str().unwrap_or_default() {
            "text_delta" => grow("text"),
            "thinking_delta" => grow("thinking"),
            "signature_delta" => block["signature"] = delta["signature"].clone(),
            "input_json_delta" => self.arguments.push_str(text("partial_json")),
            "citations_delta" => match block["citations"].as_array_mut() {
                Some(citations) => citations.push(delta["citation"].clone()),
                None => block["citations"] = json!([delta["citation"]]),
            },
            _ => {}
        }
    }

    pub fn finish(self) -> Heard {
        said(self.blocks, self.usage, self.head)
    }
}

fn said(blocks: Vec<Value>, usage: Value, head: Map<String, Value>) -> Heard {
    let calls = blocks.iter().filter(|block| block["type"] == "tool_use").map(|block| {
        let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
        ToolCall { id: text("id"), name: text("name"), arguments: block["input"].to_string() }
    });
    let calls = calls.collect();
    // Empty texts are said but not taken back.
    let empty =
        |block: &Value| block["type"] == "text" && block["text"].as_str().is_none_or(|text| text.trim().is_empty());
    let blocks: Vec<Value> = blocks.into_iter().filter(|block| !empty(block)).collect();
    let text = blocks.iter().any(|block| block["type"] == "text");
    let said = if blocks.is_empty() { vec![] } else { vec![json!({"role": "assistant", "content": blocks})] };
    Heard { said, calls, usage, head, text }
}

pub(super) fn hear_whole(body: &Value) -> Option<Heard> {
    let head = Map::from_iter([("id".to_owned(), body["id"].clone())]);
    Some(said(body["content"].as_array()?.clone(), body["usage"].clone(), head))
}

/// All results and words in one message of the user, as the protocol wants it, and what may stand for itself after it.
pub(super) fn between(results: &[ToolResult], words: &[Words], model: &str) -> Vec<Value> {
    let mut blocks: Vec<Value> = results.iter().map(result).collect();
    let (system, user): (Vec<&Words>, Vec<&Words>) =
        words.iter().partition(|words| words.voice == Voice::System && !results.is_empty() && takes_system(model));
    blocks.extend(user.iter().map(|words| json!({"type": "text", "text": words.text})));
    let mut messages = vec![json!({"role": "user", "content": blocks})];
    messages.extend(system.iter().map(|words| json!({"role": "system", "content": words.text})));
    messages
}

pub(super) fn result(result: &ToolResult) -> Value {
    let mut block = json!({"type": "tool_result", "tool_use_id": result.call, "content": result.text});
    if result.failed {
        block["is_error"] = json!(true);
    }
    block
}

/// At the end of a request, after the user's turn.
pub(super) fn words(words: &Words, model: &str) -> Value {
    let role = match words.voice {
        Voice::System if takes_system(model) => "system",
        Voice::System | Voice::User => "user",
    };
    json!({"role": role, "content": words.text})
}

/// Only these take a system message in the middle of a conversation; the others answer 400.
fn takes_system(model: &str) -> bool {
    ["opus-4-8", "opus-5", "fable-5", "mythos-5"].iter().any(|family| model.contains(family))
}

/// Several streams of blocks as one.
#[derive(Default)]
pub(super) struct Blocks {
    served: Served,
    spent: Value,
    round: u32,
    /// Blocks the client saw in earlier rounds.
    base: u64,
    /// Blocks of this round that began, and how many of them are hidden.
    begun: u64,
    hidden: u64,
    /// The block being written is hidden.
    hiding: bool,
    /// The block being written is text.
    is_text: bool,
    /// The last block is text whose end waits, so that signs of life can be part of it.
    open: Option<u64>,
    client_calls: bool,
}

impl Blocks {
    pub fn new(served: Served) -> Self {
        Self { served, ..Self::default() }
    }

    fn shift(&self, raw: &[u8]) -> Option<Bytes> {
        if self.is_plain() {
            return None;
        }
        let mut event = event(raw)?;
        let index = event["index"].as_u64()?;
        event["index"] = (self.base + index).saturating_sub(self.hidden).into();
        Some(named(&event))
    }

    fn start(&mut self, raw: &[u8], kind: Kind) -> Fate {
        self.open = None;
        self.begun += 1;
        self.is_text = memmem::find(raw, b"\"text\"").is_some();
        if kind == Kind::ToolCall
            && let Some(event) = event(raw)
            && event["content_block"]["type"] == "tool_use"
        {
            if event["content_block"]["name"].as_str().is_some_and(|name| self.served.has(name)) {
                self.hidden += 1;
                self.hiding = true;
                return Fate::Drop;
            }
            self.client_calls = true;
        }
        self.shift(raw).map_or(Fate::Pass, Fate::Replace)
    }

    fn stop(&mut self, raw: &[u8]) -> Fate {
        if std::mem::take(&mut self.hiding) {
            return Fate::Drop;
        }
        let shifted = self.shift(raw);
        if !self.is_text {
            return shifted.map_or(Fate::Pass, Fate::Replace);
        }
        self.open = Some((self.base + self.begun).saturating_sub(self.hidden + 1));
        shifted.map_or(Fate::Close, Fate::CloseWith)
    }
}

fn named(event: &Value) -> Bytes {
    frame(event["type"].as_str(), event)
}

impl Weave for Blocks {
    fn take(&mut self, raw: &[u8], kind: Kind) -> Fate {
        match kind {
            Kind::Alive | Kind::Error => return Fate::Pass,
            Kind::Finish | Kind::End => return Fate::Close,
            Kind::Begin if self.round > 0 => return Fate::Drop,
            _ => {}
        }
        match event_name(raw) {
            b"content_block_start" => self.start(raw, kind),
            b"content_block_stop" => self.stop(raw),
            b"content_block_delta" if self.hiding => Fate::Drop,
            b"content_block_delta" => self.shift(raw).map_or(Fate::Pass, Fate::Replace),
            _ => Fate::Pass,
        }
    }

    fn is_plain(&self) -> bool {
        self.round == 0 && self.hidden == 0
    }

    fn alive(&mut self) -> Bytes {
        match self.open {
            // Long holds need it: some clients give up when only pings come.
            Some(index) => named(&json!({
                "type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": ""},
            })),
            None => named(&json!({"type": "ping"})),
        }
    }

    fn again(&mut self, closing: Vec<Bytes>, heard: &Heard) -> Vec<Bytes> {
        self.spent = sum(&self.spent, &heard.usage);
        self.base = (self.base + self.begun).saturating_sub(self.hidden);
        (self.begun, self.hidden, self.open, self.client_calls) = (0, 0, None, false);
        self.round += 1;
        closing.into_iter().filter(|raw| event_name(raw) == b"content_block_stop").collect()
    }

    fn close(&mut self, closing: Vec<Bytes>, heard: Option<&Heard>) -> Vec<Bytes> {
        let Some(heard) = heard else { return closing };
        let close = |raw: Bytes| {
            let Some(mut event) = event(&raw).filter(|event| event["type"] == "message_delta") else { return raw };
            if self.round > 0 {
                event["usage"] = sum(&self.spent, &heard.usage);
            }
            if event["delta"]["stop_reason"] == "tool_use" && !self.client_calls {
                event["delta"]["stop_reason"] = json!("end_turn");
            }
            named(&event)
        };
        closing.into_iter().map(close).collect()
    }
}

/// Several whole answers as one.
pub(super) fn merge(rounds: Vec<Value>, served: &Served) -> Value {
    let mut rounds = rounds.into_iter();
    let mut all = rounds.next().unwrap_or_default();
    for mut next in rounds {
        all["usage"] = sum(&all["usage"], &next["usage"]);
        for name in ["stop_reason", "stop_sequence"] {
            all[name] = next[name].take();
        }
        if let (Some(blocks), Value::Array(more)) = (all["content"].as_array_mut(), next["content"].take()) {
            blocks.extend(more);
        }
    }
    if let Some(blocks) = all["content"].as_array_mut() {
        let ours =
            |block: &Value| block["type"] == "tool_use" && block["name"].as_str().is_some_and(|name| served.has(name));
        blocks.retain(|block| !ours(block));
        let calls = blocks.iter().any(|block| block["type"] == "tool_use");
        if all["stop_reason"] == "tool_use" && !calls {
            all["stop_reason"] = json!("end_turn");
        }
    }
    all
}
