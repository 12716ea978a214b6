//! What a model said in a stream of items, or in a whole response.

use crate::{
    protocol::{ToolCall, responses::waits_for_client},
    rounds::heard::{Heard, fields},
};
use serde_json::Value;

#[derive(Default)]
pub(crate) struct Reader {
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
        let output = &mut fields(&mut response).entry("output").or_insert(Value::Null);
        // Where the end does not repeat the items, they were said one by one.
        if output.as_array().is_none_or(Vec::is_empty) {
            **output = items.into();
        }
        hear_whole(&response).unwrap_or_default()
    }
}

pub(crate) fn hear_whole(response: &Value) -> Option<Heard> {
    let said = response["output"].as_array()?.clone();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let is_call = |item: &&Value| item["type"].as_str().is_some_and(waits_for_client);
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
