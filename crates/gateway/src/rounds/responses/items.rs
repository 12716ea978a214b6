//! Several streams of items as one.

use crate::{
    protocol::{Kind, Protocol, event_name, responses::sequence},
    rounds::{
        heard::{Heard, event, frame, sum},
        shown,
        weave::{Fate, Served, Weave},
    },
    sse::is_comment,
    stage::ToolResult,
};
use bytes::Bytes;
use serde_json::{Map, Value, json};

#[derive(Default)]
pub(crate) struct Items {
    served: Served,
    head: Map<String, Value>,
    spent: Value,
    round: u32,
    /// A later round has said nothing yet.
    opening: bool,
    /// Items the client saw in earlier rounds.
    shown: Vec<Value>,
    /// The upstream's places of this round's hidden items.
    hidden: Vec<u64>,
    /// The number of the last event that went out.
    last: Option<u64>,
    /// Events of ours have numbers too, so all after them have others.
    renumbered: bool,
}

impl Items {
    pub fn new(served: Served) -> Self {
        Self { served, ..Self::default() }
    }

    fn number(&mut self) -> u64 {
        let next = self.last.map_or(0, |last| last.saturating_add(1));
        self.last = Some(next);
        next
    }

    fn is_ours(&self, item: &Value) -> bool {
        item["type"] == "function_call" && item["name"].as_str().is_some_and(|name| self.served.has(name))
    }

    fn changed(&mut self, mut event: Value) -> Bytes {
        if let Some(place) = event["output_index"].as_u64() {
            let hidden = self.hidden.iter().filter(|hidden| **hidden < place).count() as u64;
            event["output_index"] = (self.shown.len() as u64).saturating_add(place - hidden).into();
        }
        self.name(&mut event);
        event["sequence_number"] = self.number().into();
        frame(event["type"].as_str(), &event)
    }

    /// An item of ours, between two rounds.
    fn whole_item(&mut self, item: Value) -> Vec<Bytes> {
        let mut begun = item.clone();
        (begun["arguments"], begun["output"], begun["error"]) = (json!(""), Value::Null, Value::Null);
        begun["status"] = json!("in_progress");
        let (id, arguments) = (item["id"].clone(), item["arguments"].clone());
        let events = [
            json!({"type": "response.output_item.added", "output_index": 0, "item": begun}),
            json!({"type": "response.mcp_call.in_progress", "output_index": 0, "item_id": id}),
            json!({"type": "response.mcp_call_arguments.done", "output_index": 0, "item_id": id, "arguments": arguments}),
            json!({"type": format!("response.mcp_call.{}", item["status"].as_str().unwrap_or_default()), "output_index": 0, "item_id": id}),
            json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        ];
        let out = events.into_iter().map(|event| self.changed(event)).collect();
        self.shown.push(item);
        out
    }

    /// Whose answer it is: always the first one's.
    fn name(&self, event: &mut Value) {
        if let Some(response) = event.get_mut("response").filter(|response| response.is_object()) {
            for (name, value) in &self.head {
                response[name] = value.clone();
            }
        }
    }
}

impl Weave for Items {
    fn take(&mut self, raw: &[u8], kind: Kind) -> Fate {
        match kind {
            Kind::End => return Fate::Close,
            // A later round begins unseen.
            Kind::Begin if self.round > 0 => return Fate::Drop,
            Kind::Alive if self.round > 0 && !is_comment(raw) => {
                // These carry a response that would take the place of what the client has of it.
                let repeats = matches!(event_name(raw), b"response.in_progress" | b"response.queued");
                return if repeats && self.opening { Fate::Drop } else { Fate::Replace(self.alive()) };
            }
            Kind::Alive => {}
            _ => self.opening = false,
        }
        let begins = kind == Kind::ToolCall && self.served.mentioned(raw);
        if self.is_plain() && !begins {
            self.last = sequence(raw).or(self.last);
            return Fate::Pass;
        }
        let Some(event) = event(raw) else { return Fate::Pass };
        let place = event["output_index"].as_u64();
        if begins && self.is_ours(&event["item"]) {
            self.hidden.extend(place.filter(|place| !self.hidden.contains(place)));
            return Fate::Drop;
        }
        if place.is_some_and(|place| self.hidden.contains(&place)) {
            return Fate::Drop;
        }
        if self.is_plain() {
            self.last = sequence(raw).or(self.last);
            return Fate::Pass;
        }
        Fate::Replace(self.changed(event))
    }

    fn is_plain(&self) -> bool {
        self.round == 0 && self.hidden.is_empty() && !self.renumbered
    }

    fn alive(&mut self) -> Bytes {
        self.renumbered = true;
        let number = self.number();
        frame(Some("keepalive"), &json!({"type": "keepalive", "sequence_number": number}))
    }

    fn again(&mut self, _closing: Vec<Bytes>, heard: &Heard, results: &[ToolResult]) -> Vec<Bytes> {
        if self.round == 0 {
            self.head.clone_from(&heard.head);
        }
        self.spent = sum(&self.spent, &heard.usage);
        let shown = heard.said.iter().filter(|item| !self.is_ours(item)).cloned().collect::<Vec<_>>();
        self.shown.extend(shown);
        self.hidden.clear();
        self.round += 1;
        self.opening = true;
        let ours = shown::of(heard, results, Protocol::Responses, &self.served);
        ours.into_iter().flat_map(|item| self.whole_item(item)).collect()
    }

    fn close(&mut self, closing: Vec<Bytes>, heard: Option<&Heard>) -> Vec<Bytes> {
        let Some(heard) = heard else { return closing };
        let usage = sum(&self.spent, &heard.usage);
        let last = heard.said.iter().filter(|item| !self.is_ours(item));
        let output: Vec<Value> = self.shown.iter().chain(last).cloned().collect();
        let mut out = Vec::new();
        for raw in closing {
            let Some(mut event) = event(&raw) else {
                out.push(raw);
                continue;
            };
            if event["response"].is_object() {
                event["response"]["output"] = output.clone().into();
                event["response"]["usage"] = usage.clone();
            }
            out.push(self.changed(event));
        }
        out
    }

    fn sequence(&self) -> Option<u64> {
        self.last
    }
}
