//! Several streams of blocks as one.

use crate::{
    protocol::{Kind, Protocol, event_name},
    rounds::{
        heard::{Heard, event, frame, sum},
        shown,
        weave::{Fate, Served, Weave},
    },
    stage::ToolResult,
};
use bytes::Bytes;
use serde_json::{Value, json};

#[derive(Default)]
pub(crate) struct Blocks {
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
        event["index"] = self.base.saturating_add(index).saturating_sub(self.hidden).into();
        Some(named(&event))
    }

    fn start(&mut self, raw: &[u8], kind: Kind) -> Fate {
        let block = event(raw).map(|mut event| event["content_block"].take()).unwrap_or_default();
        self.begun += 1;
        if kind == Kind::ToolCall && block["type"] == "tool_use" {
            // Of the client's blocks the last one is still the last.
            if block["name"].as_str().is_some_and(|name| self.served.has(name)) {
                self.hidden += 1;
                self.hiding = true;
                return Fate::Drop;
            }
            self.client_calls = true;
        }
        self.open = None;
        self.is_text = block["type"] == "text";
        self.shift(raw).map_or(Fate::Pass, Fate::Replace)
    }

    /// A block of ours, between two rounds.
    fn whole_block(&mut self, mut block: Value) -> Vec<Bytes> {
        let index = self.base;
        self.base += 1;
        let input = block.get_mut("input").map(|input| std::mem::replace(input, json!({})).to_string());
        let mut events = vec![json!({"type": "content_block_start", "index": index, "content_block": block})];
        events.extend(input.map(|input| {
            let delta = json!({"type": "input_json_delta", "partial_json": input});
            json!({"type": "content_block_delta", "index": index, "delta": delta})
        }));
        events.push(json!({"type": "content_block_stop", "index": index}));
        events.iter().map(named).collect()
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

    fn lasts(&self) -> bool {
        self.open.is_some()
    }

    fn again(&mut self, closing: Vec<Bytes>, heard: &Heard, results: &[ToolResult]) -> Vec<Bytes> {
        self.spent = sum(&self.spent, &heard.usage);
        self.base = (self.base + self.begun).saturating_sub(self.hidden);
        (self.begun, self.hidden, self.open, self.client_calls) = (0, 0, None, false);
        self.round += 1;
        let mut out: Vec<Bytes> = closing.into_iter().filter(|raw| event_name(raw) == b"content_block_stop").collect();
        let shown = shown::of(heard, results, Protocol::Messages, &self.served);
        out.extend(shown.into_iter().flat_map(|block| self.whole_block(block)));
        out
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
