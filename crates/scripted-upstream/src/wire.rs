//! The three protocols, written as their vendors write them. Ids and times are fixed, so that answers can be compared.

use crate::script::Step;
use serde_json::{Value, json};
use std::fmt::Write;

const CREATED: u64 = 1_800_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Chat,
    Responses,
    Messages,
}

impl Protocol {
    pub fn of(path: &str) -> Option<Self> {
        match path {
            "/v1/chat/completions" => Some(Self::Chat),
            "/v1/responses" => Some(Self::Responses),
            "/v1/messages" => Some(Self::Messages),
            _ => None,
        }
    }

    /// The vendor's error.
    pub fn error(self, status: u16, message: &str) -> String {
        let kind = match status {
            400 => "invalid_request_error",
            401 => "authentication_error",
            429 => "rate_limit_error",
            529 => "overloaded_error",
            _ => "api_error",
        };
        match self {
            Self::Messages => json!({"type": "error", "error": {"type": kind, "message": message}}).to_string(),
            _ => json!({"error": {"message": message, "type": kind, "param": null, "code": null}}).to_string(),
        }
    }
}

/// One answer in the making.
pub struct Writer {
    protocol: Protocol,
    model: String,
    include_usage: bool,
    /// What tells the ids of this answer from those of others in the same turn.
    mark: String,
    sequence: u64,
    /// Finished items or blocks.
    items: Vec<Value>,
    /// The text being said, if the last thing was text.
    text: Option<String>,
    begun: bool,
    tools: usize,
    words: u64,
}

impl Writer {
    pub fn new(protocol: Protocol, model: String, include_usage: bool, answers: usize) -> Self {
        Self {
            protocol,
            model,
            include_usage,
            mark: if answers == 0 { String::new() } else { format!("{answers}_") },
            sequence: 0,
            items: Vec::new(),
            text: None,
            begun: false,
            tools: 0,
            words: 0,
        }
    }

    /// Takes a step without writing it.
    pub fn note(&mut self, step: &Step) {
        match step {
            Step::Repeat { text, times, .. } => (0..*times).for_each(|_| self.note(&Step::Text(text.clone()))),
            step => drop(self.frames(step)),
        }
    }

    /// The frames of one step.
    pub fn frames(&mut self, step: &Step) -> String {
        let mut out = String::new();
        match step {
            Step::Text(text) => {
                self.begin(&mut out);
                self.say(&mut out, text);
            }
            Step::Tool { name, arguments } => {
                self.begin(&mut out);
                self.end_text(&mut out);
                self.call(&mut out, name, &arguments.to_string());
            }
            Step::Comment => out.push_str(": keep-alive\n\n"),
            Step::Ping => self.ping(&mut out),
            Step::Raw(raw) => out.push_str(raw),
            Step::Repeat { .. } | Step::Wait(_) | Step::Stall | Step::Close | Step::Cut | Step::Reset => {}
        }
        out
    }

    /// What closes a complete answer.
    pub fn close(&mut self) -> String {
        let mut out = String::new();
        self.begin(&mut out);
        self.end_text(&mut out);
        match self.protocol {
            Protocol::Chat => {
                let reason = if self.tools > 0 { "tool_calls" } else { "stop" };
                self.chunk(&mut out, json!([{"index": 0, "delta": {}, "finish_reason": reason}]), None);
                if self.include_usage {
                    self.chunk(&mut out, json!([]), Some(self.usage()));
                }
                out.push_str("data: [DONE]\n\n");
            }
            Protocol::Responses => {
                let response = self.response("completed");
                self.event(&mut out, "response.completed", json!({"response": response}));
            }
            Protocol::Messages => {
                let usage = json!({"output_tokens": self.words});
                let delta = json!({"stop_reason": self.stop_reason(), "stop_sequence": null});
                self.event(&mut out, "message_delta", json!({"delta": delta, "usage": usage}));
                self.event(&mut out, "message_stop", json!({}));
            }
        }
        out
    }

    /// The whole answer as one document.
    pub fn whole(&mut self) -> Value {
        self.end_text(&mut String::new());
        match self.protocol {
            Protocol::Chat => self.completion(),
            Protocol::Responses => self.response("completed"),
            Protocol::Messages => json!({
                "id": format!("msg_{}scripted", self.mark), "type": "message", "role": "assistant", "model": self.model,
                "content": self.items, "stop_reason": self.stop_reason(), "stop_sequence": null,
                "usage": {"input_tokens": 11, "output_tokens": self.words},
            }),
        }
    }

    fn begin(&mut self, out: &mut String) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        match self.protocol {
            Protocol::Chat => {
                let delta = json!({"role": "assistant", "content": "", "refusal": null});
                self.chunk(out, json!([{"index": 0, "delta": delta, "finish_reason": null}]), None);
            }
            Protocol::Responses => {
                for name in ["response.created", "response.in_progress"] {
                    let response = self.response("in_progress");
                    self.event(out, name, json!({"response": response}));
                }
            }
            Protocol::Messages => {
                let message = json!({
                    "id": format!("msg_{}scripted", self.mark), "type": "message", "role": "assistant", "model": self.model, "content": [],
                    "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 11, "output_tokens": 1},
                });
                self.event(out, "message_start", json!({"message": message}));
            }
        }
    }

    fn say(&mut self, out: &mut String, text: &str) {
        let mark = self.mark.clone();
        self.words += 1;
        let index = self.items.len();
        let opens = self.text.is_none();
        self.text.get_or_insert_default().push_str(text);
        match self.protocol {
            Protocol::Chat => {
                self.chunk(out, json!([{"index": 0, "delta": {"content": text}, "finish_reason": null}]), None);
            }
            Protocol::Responses => {
                if opens {
                    let item = json!({"id": format!("msg_{mark}{index}"), "type": "message", "status": "in_progress", "role": "assistant", "content": []});
                    self.event(out, "response.output_item.added", json!({"output_index": index, "item": item}));
                    let part = json!({"type": "output_text", "text": "", "annotations": []});
                    self.event(out, "response.content_part.added", json!({"item_id": format!("msg_{mark}{index}"), "output_index": index, "content_index": 0, "part": part}));
                }
                self.event(out, "response.output_text.delta", json!({"item_id": format!("msg_{mark}{index}"), "output_index": index, "content_index": 0, "delta": text, "logprobs": []}));
            }
            Protocol::Messages => {
                if opens {
                    let block = json!({"type": "text", "text": ""});
                    self.event(out, "content_block_start", json!({"index": index, "content_block": block}));
                }
                let delta = json!({"type": "text_delta", "text": text});
                self.event(out, "content_block_delta", json!({"index": index, "delta": delta}));
            }
        }
    }

    fn end_text(&mut self, out: &mut String) {
        let mark = self.mark.clone();
        let Some(text) = self.text.take() else { return };
        let index = self.items.len();
        match self.protocol {
            Protocol::Chat => self.items.push(json!({"text": text})),
            Protocol::Responses => {
                let part = json!({"type": "output_text", "text": text, "annotations": []});
                let item = json!({"id": format!("msg_{mark}{index}"), "type": "message", "status": "completed", "role": "assistant", "content": [part]});
                let at = json!({"item_id": format!("msg_{mark}{index}"), "output_index": index, "content_index": 0});
                let with = |more: Value| merge(at.clone(), more);
                self.event(out, "response.output_text.done", with(json!({"text": text, "logprobs": []})));
                self.event(out, "response.content_part.done", with(json!({"part": part})));
                self.event(out, "response.output_item.done", json!({"output_index": index, "item": item}));
                self.items.push(item);
            }
            Protocol::Messages => {
                self.event(out, "content_block_stop", json!({"index": index}));
                self.items.push(json!({"type": "text", "text": text}));
            }
        }
    }

    fn call(&mut self, out: &mut String, name: &str, arguments: &str) {
        let mark = self.mark.clone();
        self.words += 1;
        let (index, number) = (self.items.len(), self.tools);
        self.tools += 1;
        let middle = (arguments.len() / 2..=arguments.len()).find(|at| arguments.is_char_boundary(*at));
        let (first, second) = arguments.split_at(middle.unwrap_or_default());
        match self.protocol {
            Protocol::Chat => {
                let id = format!("call_{mark}{number}");
                let begin =
                    json!({"index": number, "id": id, "type": "function", "function": {"name": name, "arguments": ""}});
                let part = |text: &str| json!({"index": number, "function": {"arguments": text}});
                for call in [begin, part(first), part(second)] {
                    self.chunk(
                        out,
                        json!([{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": null}]),
                        None,
                    );
                }
                let function = json!({"name": name, "arguments": arguments});
                self.items.push(json!({"call": {"id": id, "type": "function", "function": function}}));
            }
            Protocol::Responses => {
                let item = |status: &str, arguments: &str| json!({"id": format!("fc_{mark}{number}"), "type": "function_call", "status": status, "call_id": format!("call_{mark}{number}"), "name": name, "arguments": arguments});
                let at = json!({"item_id": format!("fc_{mark}{number}"), "output_index": index});
                self.event(
                    out,
                    "response.output_item.added",
                    json!({"output_index": index, "item": item("in_progress", "")}),
                );
                for part in [first, second] {
                    self.event(
                        out,
                        "response.function_call_arguments.delta",
                        merge(at.clone(), json!({"delta": part})),
                    );
                }
                self.event(
                    out,
                    "response.function_call_arguments.done",
                    merge(at.clone(), json!({"arguments": arguments, "name": name})),
                );
                self.event(
                    out,
                    "response.output_item.done",
                    json!({"output_index": index, "item": item("completed", arguments)}),
                );
                self.items.push(item("completed", arguments));
            }
            Protocol::Messages => {
                let block = |input: Value| json!({"type": "tool_use", "id": format!("toolu_{mark}{number}"), "name": name, "input": input});
                self.event(out, "content_block_start", json!({"index": index, "content_block": block(json!({}))}));
                for part in [first, second] {
                    let delta = json!({"type": "input_json_delta", "partial_json": part});
                    self.event(out, "content_block_delta", json!({"index": index, "delta": delta}));
                }
                self.event(out, "content_block_stop", json!({"index": index}));
                self.items.push(block(serde_json::from_str(arguments).unwrap_or_default()));
            }
        }
    }

    fn ping(&mut self, out: &mut String) {
        match self.protocol {
            Protocol::Chat => out.push_str(": ping\n\n"),
            Protocol::Responses => self.event(out, "keepalive", json!({})),
            Protocol::Messages => self.event(out, "ping", json!({})),
        }
    }

    fn chunk(&self, out: &mut String, choices: Value, usage: Option<Value>) {
        let mut chunk = json!({"id": format!("chatcmpl-{}scripted", self.mark), "object": "chat.completion.chunk", "created": CREATED, "model": self.model, "service_tier": "default", "system_fingerprint": "fp_scripted", "choices": choices});
        if self.include_usage {
            chunk["usage"] = usage.unwrap_or(Value::Null);
        }
        let _ = write!(out, "data: {chunk}\n\n");
    }

    fn event(&mut self, out: &mut String, name: &str, data: Value) {
        let mut event = json!({"type": name});
        if self.protocol == Protocol::Responses {
            event["sequence_number"] = self.sequence.into();
            self.sequence += 1;
        }
        let _ = write!(out, "event: {name}\ndata: {}\n\n", merge(event, data));
    }

    fn usage(&self) -> Value {
        json!({"prompt_tokens": 11, "completion_tokens": self.words, "total_tokens": 11 + self.words})
    }

    fn stop_reason(&self) -> &'static str {
        if self.tools > 0 { "tool_use" } else { "end_turn" }
    }

    fn completion(&self) -> Value {
        let text: String = self.items.iter().filter_map(|item| item["text"].as_str()).collect();
        let calls: Vec<&Value> = self.items.iter().filter_map(|item| item.get("call")).collect();
        let mut message = json!({"role": "assistant", "content": text, "refusal": null});
        if !calls.is_empty() {
            message["tool_calls"] = json!(calls);
        }
        let reason = if calls.is_empty() { "stop" } else { "tool_calls" };
        json!({
            "id": format!("chatcmpl-{}scripted", self.mark), "object": "chat.completion", "created": CREATED, "model": self.model,
            "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": reason}],
            "usage": self.usage(),
        })
    }

    fn response(&self, status: &str) -> Value {
        let done = status == "completed";
        let usage = json!({
            "input_tokens": 11, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": self.words,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 11 + self.words,
        });
        json!({
            "id": format!("resp_{}scripted", self.mark), "object": "response", "created_at": CREATED, "status": status, "error": null,
            "incomplete_details": null, "instructions": null, "metadata": {}, "model": self.model,
            "output": if done { self.items.clone() } else { Vec::new() }, "parallel_tool_calls": true,
            "temperature": 1.0, "tool_choice": "auto", "tools": [], "top_p": 1.0,
            "usage": if done { usage } else { Value::Null },
        })
    }
}

fn merge(mut object: Value, more: Value) -> Value {
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
    object
}
