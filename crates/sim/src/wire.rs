//! What clients ask and a model says, in the bytes of each protocol.

use reveille_gateway::Protocol;
use serde_json::{Value, json};

const WORDS: &str = "好的";

/// One answer of a model.
pub enum Said {
    Words {
        id: u64,
    },
    /// A call of the `clock` tool.
    Call {
        id: u64,
        arguments: String,
    },
}

/// A request that is part of a conversation.
pub fn request(protocol: Protocol, text: &str, stream: bool) -> Value {
    let schema = json!({"type": "object"});
    let messages = json!([{"role": "user", "content": text}]);
    match protocol {
        Protocol::Chat => {
            let tool = json!({"type": "function", "function": {"name": "shell", "parameters": schema}});
            json!({"model": "m", "stream": stream, "tools": [tool], "messages": messages})
        }
        Protocol::Responses => {
            let tool = json!({"type": "function", "name": "shell", "parameters": schema});
            json!({"model": "m", "stream": stream, "tools": [tool], "input": messages})
        }
        Protocol::Messages => {
            let tool = json!({"name": "shell", "input_schema": schema});
            json!({"model": "m", "stream": stream, "max_tokens": 9, "tools": [tool], "messages": messages})
        }
    }
}

/// Whether a call of the model's was answered in this request.
pub fn has_result(protocol: Protocol, body: &str) -> bool {
    body.contains(match protocol {
        Protocol::Chat => "\"role\":\"tool\"",
        Protocol::Responses => "\"function_call_output\"",
        Protocol::Messages => "\"tool_result\"",
    })
}

impl Said {
    fn id(&self) -> u64 {
        match self {
            Said::Words { id } | Said::Call { id, .. } => *id,
        }
    }

    /// The frames with which an answer begins, and says what it says.
    pub fn opening(&self, protocol: Protocol) -> String {
        match protocol {
            Protocol::Chat => chunk(self.id(), &self.delta(), None),
            Protocol::Responses => {
                let response = json!({"id": self.name("resp"), "status": "in_progress", "output": []});
                let item = match self {
                    Said::Words { .. } => json!({"type": "message", "id": self.name("msg"), "content": []}),
                    Said::Call { .. } => self.item(""),
                };
                let delta = match self {
                    Said::Words { .. } => {
                        json!({"type": "response.output_text.delta", "sequence_number": 2, "output_index": 0,
                            "content_index": 0, "item_id": self.name("msg"), "delta": WORDS})
                    }
                    Said::Call { arguments, .. } => {
                        json!({"type": "response.function_call_arguments.delta", "sequence_number": 2,
                            "output_index": 0, "item_id": self.name("fc"), "delta": arguments})
                    }
                };
                frames(&[
                    json!({"type": "response.created", "sequence_number": 0, "response": response}),
                    json!({"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": item}),
                    delta,
                ])
            }
            Protocol::Messages => {
                let message = json!({"id": self.name("msg"), "type": "message", "role": "assistant", "model": "m",
                    "content": [], "usage": {"input_tokens": 1, "output_tokens": 1}});
                let (block, delta) = match self {
                    Said::Words { .. } => {
                        (json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": WORDS}))
                    }
                    Said::Call { arguments, .. } => {
                        let block = json!({"type": "tool_use", "id": self.name("toolu"), "name": "clock", "input": {}});
                        (block, json!({"type": "input_json_delta", "partial_json": arguments}))
                    }
                };
                frames(&[
                    json!({"type": "message_start", "message": message}),
                    json!({"type": "content_block_start", "index": 0, "content_block": block}),
                    json!({"type": "content_block_delta", "index": 0, "delta": delta}),
                ])
            }
        }
    }

    /// Those with which it ends.
    pub fn closing(&self, protocol: Protocol) -> String {
        match protocol {
            Protocol::Chat => chunk(self.id(), &json!({}), Some(self.reason(protocol))) + "data: [DONE]\n\n",
            Protocol::Responses => {
                let item = self.output();
                frames(&[
                    json!({"type": "response.output_item.done", "sequence_number": 3, "output_index": 0, "item": item}),
                    json!({"type": "response.completed", "sequence_number": 4, "response": self.whole(protocol)}),
                ])
            }
            Protocol::Messages => {
                let delta = json!({"stop_reason": self.reason(protocol), "stop_sequence": null});
                frames(&[
                    json!({"type": "content_block_stop", "index": 0}),
                    json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 2}}),
                    json!({"type": "message_stop"}),
                ])
            }
        }
    }

    /// The same in one piece.
    pub fn whole(&self, protocol: Protocol) -> Value {
        let usage = json!({"input_tokens": 1, "output_tokens": 2});
        match protocol {
            Protocol::Chat => {
                let choice = json!({"index": 0, "message": self.delta(), "finish_reason": self.reason(protocol)});
                json!({"id": self.name("chatcmpl"), "object": "chat.completion", "model": "m", "choices": [choice]})
            }
            Protocol::Responses => {
                json!({"id": self.name("resp"), "status": "completed", "output": [self.output()], "usage": usage})
            }
            Protocol::Messages => {
                let block = match self {
                    Said::Words { .. } => json!({"type": "text", "text": WORDS}),
                    Said::Call { arguments, .. } => {
                        let input: Value = serde_json::from_str(arguments).unwrap_or_default();
                        json!({"type": "tool_use", "id": self.name("toolu"), "name": "clock", "input": input})
                    }
                };
                json!({"id": self.name("msg"), "type": "message", "role": "assistant", "model": "m",
                    "content": [block], "stop_reason": self.reason(protocol), "usage": usage})
            }
        }
    }

    fn name(&self, kind: &str) -> String {
        format!("{kind}_{}", self.id())
    }

    fn reason(&self, protocol: Protocol) -> &'static str {
        match (self, protocol) {
            (Said::Words { .. }, Protocol::Messages) => "end_turn",
            (Said::Words { .. }, _) => "stop",
            (Said::Call { .. }, Protocol::Messages) => "tool_use",
            (Said::Call { .. }, _) => "tool_calls",
        }
    }

    /// Chat: a delta, or a whole message.
    fn delta(&self) -> Value {
        match self {
            Said::Words { .. } => json!({"role": "assistant", "content": WORDS}),
            Said::Call { arguments, .. } => {
                let function = json!({"name": "clock", "arguments": arguments});
                let call = json!({"index": 0, "id": self.name("call"), "type": "function", "function": function});
                json!({"role": "assistant", "tool_calls": [call]})
            }
        }
    }

    /// Responses: the item of an answer.
    fn output(&self) -> Value {
        match self {
            Said::Words { .. } => {
                let part = json!({"type": "output_text", "text": WORDS, "annotations": []});
                json!({"type": "message", "id": self.name("msg"), "role": "assistant", "status": "completed",
                    "content": [part]})
            }
            Said::Call { arguments, .. } => self.item(arguments),
        }
    }

    fn item(&self, arguments: &str) -> Value {
        json!({"type": "function_call", "id": self.name("fc"), "call_id": self.name("call"), "name": "clock",
            "arguments": arguments})
    }
}

fn chunk(id: u64, delta: &Value, finish: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
    let id = format!("chatcmpl_{id}");
    let chunk = json!({"id": id, "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]});
    format!("data: {chunk}\n\n")
}

fn frames(events: &[Value]) -> String {
    events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default()))
        .collect()
}
