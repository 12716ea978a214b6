//! What a model said in a stream of blocks, or in a whole message.

use crate::{
    protocol::ToolCall,
    rounds::heard::{Heard, fields},
};
use serde_json::{Map, Value, json};

#[derive(Default)]
pub(crate) struct Reader {
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
                if let (Some(Value::Object(block)), false) = (self.blocks.last_mut(), arguments.is_empty()) {
                    let input = serde_json::from_str(&arguments).unwrap_or_else(|_| json!({}));
                    block.insert("input".into(), input);
                }
            }
            "message_delta" => {
                // Later figures are the whole so far.
                for (name, value) in event["usage"].as_object().into_iter().flatten().filter(|(_, v)| !v.is_null()) {
                    fields(&mut self.usage).insert(name.clone(), value.clone());
                }
            }
            _ => {}
        }
    }

    fn delta(&mut self, delta: &Value) {
        let Some(block) = self.blocks.last_mut().filter(|block| block.is_object()) else { return };
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
    let blocks: Vec<Value> = blocks.into_iter().filter(|block| block.is_object() && !empty(block)).collect();
    let text = blocks.iter().any(|block| block["type"] == "text");
    let said = if blocks.is_empty() { vec![] } else { vec![json!({"role": "assistant", "content": blocks})] };
    Heard { said, calls, usage, head, text }
}

pub(crate) fn hear_whole(body: &Value) -> Option<Heard> {
    let head = Map::from_iter([("id".to_owned(), body["id"].clone())]);
    Some(said(body["content"].as_array()?.clone(), body["usage"].clone(), head))
}
