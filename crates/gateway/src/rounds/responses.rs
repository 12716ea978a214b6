//! Responses: several answers as one, and what is said in between.

use super::{
    heard::{Heard, event, frame, sum},
    weave::{Fate, Served, Weave},
};
use crate::{
    protocol::{Kind, ToolCall, responses::sequence},
    stage::{ToolResult, Voice, Words},
};
use bytes::Bytes;
use serde_json::{Map, Value, json};

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

#[derive(Default)]
pub(super) struct Reader {
    items: Vec<Value>,
    response: Value,
}

impl Reader {
    pub fn event(&mut self, mut event: Value) {
        match event["type"].as_str().unwrap_or_default() {
            "response.created" if self.response.is_null() => self.response = event["response"].take(),
            "response.output_item.done" => self.items.push(event["item"].take()),
            "response.completed" | "response.incomplete" => self.response = event["response"].take(),
            _ => {}
        }
    }

    pub fn finish(self) -> Heard {
        let Self { items, mut response } = self;
        // Where the end does not repeat the items, they were said one by one.
        if response["output"].as_array().is_none_or(Vec::is_empty) {
            response["output"] = items.into();
        }
        hear_whole(&response).unwrap_or_default()
    }
}

pub(super) fn hear_whole(response: &Value) -> Option<Heard> {
    let said = response["output"].as_array()?.clone();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let is_call = |item: &&Value| item["type"].as_str().is_some_and(|kind| CLIENT_CALLS.contains(&kind));
    let calls = said.iter().filter(is_call).map(|item| {
        let id = item.get("call_id").or_else(|| item.get("id")).map(text).unwrap_or_default();
        ToolCall { id, name: text(&item["name"]), arguments: text(&item["arguments"]) }
    });
    let calls = calls.collect();
    let names = ["id", "created_at"].iter().filter_map(|name| Some(((*name).to_owned(), response.get(*name)?.clone())));
    let head = names.collect();
    let text = said.iter().any(|item| item["type"] == "message");
    Some(Heard { said, calls, usage: response["usage"].clone(), head, text })
}

/// What a model may be given back of its own. Reasoning that is kept nowhere, neither here nor there, is refused.
pub(super) fn given_back(item: &Value, stored: bool) -> bool {
    stored || item["type"] != "reasoning" || item["encrypted_content"].is_string()
}

pub(super) fn result(result: &ToolResult) -> Value {
    json!({"type": "function_call_output", "call_id": result.call, "output": result.text})
}

pub(super) fn words(words: &Words) -> Value {
    let role = match words.voice {
        Voice::System => "system",
        Voice::User => "user",
    };
    json!({"type": "message", "role": role, "content": [{"type": "input_text", "text": words.text}]})
}

/// Several streams of items as one.
#[derive(Default)]
pub(super) struct Items {
    served: Served,
    head: Map<String, Value>,
    spent: Value,
    round: u32,
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
        let next = self.last.map_or(0, |last| last + 1);
        self.last = Some(next);
        next
    }

    fn is_ours(&self, item: &Value) -> bool {
        item["type"] == "function_call" && item["name"].as_str().is_some_and(|name| self.served.has(name))
    }

    fn changed(&mut self, mut event: Value) -> Bytes {
        if let Some(place) = event["output_index"].as_u64() {
            let hidden = self.hidden.iter().filter(|hidden| **hidden < place).count() as u64;
            event["output_index"] = (self.shown.len() as u64 + place - hidden).into();
        }
        self.name(&mut event);
        event["sequence_number"] = self.number().into();
        frame(event["type"].as_str(), &event)
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
            Kind::Begin | Kind::Alive if self.round > 0 => return Fate::Drop,
            _ => {}
        }
        let begins = kind == Kind::ToolCall && self.served.mentioned(raw);
        if self.is_plain() && !begins {
            self.last = sequence(raw).or(self.last);
            return Fate::Pass;
        }
        let Some(event) = event(raw) else { return Fate::Pass };
        let place = event["output_index"].as_u64();
        if begins && self.is_ours(&event["item"]) {
            self.hidden.extend(place);
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

    fn again(&mut self, _closing: Vec<Bytes>, heard: &Heard) -> Vec<Bytes> {
        if self.round == 0 {
            self.head.clone_from(&heard.head);
        }
        self.spent = sum(&self.spent, &heard.usage);
        let shown = heard.said.iter().filter(|item| !self.is_ours(item)).cloned().collect::<Vec<_>>();
        self.shown.extend(shown);
        self.hidden.clear();
        self.round += 1;
        Vec::new()
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

/// Several whole answers as one.
pub(super) fn merge(rounds: Vec<Value>, served: &Served) -> Value {
    let mut rounds = rounds.into_iter();
    let mut all = rounds.next().unwrap_or_default();
    for mut next in rounds {
        all["usage"] = sum(&all["usage"], &next["usage"]);
        for name in ["status", "incomplete_details", "error"] {
            all[name] = next[name].take();
        }
        if let (Some(items), Value::Array(more)) = (all["output"].as_array_mut(), next["output"].take()) {
            items.extend(more);
        }
    }
    if let Some(items) = all["output"].as_array_mut() {
        let ours = |item: &Value| {
            item["type"] == "function_call" && item["name"].as_str().is_some_and(|name| served.has(name))
        };
        items.retain(|item| !ours(item));
    }
    all
}
