//! Calls that were answered here, for clients that want to see them.

use crate::{
    accumulate::events,
    clock::{Clock, calls},
    support::{self, World, request},
};
use async_trait::async_trait;
use reveille_gateway::{Draft, Fault, Interest, Protocol, Stage, Turn, Visit};
use serde_json::{Value, json};

fn world() -> World {
    World::build(|settings| settings.show_calls = true, |gateway| gateway.stage(Clock::default()))
}

fn script() -> Value {
    json!({"steps": [{"text": "Let me see."}, calls(json!({"action": "列"}))], "then": [{"steps": [{"text": "Done."}]}]})
}

/// What a client ends with: blocks or items.
fn said(protocol: Protocol, body: &str, stream: bool) -> Vec<Value> {
    let field = if protocol == Protocol::Responses { "output" } else { "content" };
    if !stream {
        return serde_json::from_str::<Value>(body).unwrap()[field].as_array().unwrap().clone();
    }
    let events = events(body);
    if protocol == Protocol::Responses {
        for (number, event) in events.iter().enumerate() {
            assert_eq!(event["sequence_number"], number, "{event}");
        }
        let done: Vec<&Value> = events.iter().filter(|event| event["type"] == "response.output_item.done").collect();
        let output = events.last().unwrap()["response"]["output"].as_array().unwrap().clone();
        for (place, item) in output.iter().enumerate() {
            assert_eq!((&done[place]["output_index"], &done[place]["item"]), (&json!(place), item));
        }
        return output;
    }
    let mut blocks: Vec<Value> = Vec::new();
    for event in &events {
        let last = blocks.len().saturating_sub(1);
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                assert_eq!(event["index"], blocks.len());
                blocks.push(event["content_block"].clone());
            }
            "content_block_delta" if event["delta"]["type"] == "input_json_delta" => {
                assert_eq!(event["index"], last);
                blocks[last]["input"] = serde_json::from_str(event["delta"]["partial_json"].as_str().unwrap()).unwrap();
            }
            _ => {}
        }
    }
    blocks
}

#[tokio::test(start_paused = true)]
async fn calls_are_shown_in_the_protocols_own_form_and_taken_out_of_what_comes_back() {
    for protocol in [Protocol::Messages, Protocol::Responses] {
        for stream in [true, false] {
            let world = world();
            let (_, body) = world.ask(request(protocol, &script(), stream)).await;
            let said = said(protocol, &body, stream);
            let kinds: Vec<&str> = said.iter().map(|one| one["type"].as_str().unwrap()).collect();
            let mut next = json!({"model": "scripted"});
            match protocol {
                Protocol::Messages => {
                    assert_eq!(kinds, ["text", "server_tool_use", "clock_tool_result", "text"], "{body}");
                    assert_eq!((&said[1]["name"], &said[1]["input"]["action"]), (&json!("clock"), &json!("列")));
                    assert_eq!(
                        (&said[2]["tool_use_id"], &said[2]["content"]["text"]),
                        (&said[1]["id"], &json!("好🙂"))
                    );
                    assert!(body.contains("end_turn") && !body.contains("\"tool_use\""), "{body}");
                    next["messages"] = json!([
                        {"role": "user", "content": "one"}, {"role": "assistant", "content": said},
                        {"role": "user", "content": "two"}, {"role": "assistant", "content": [said[1], said[2]]},
                        {"role": "user", "content": "what is srvtoolu_reveille_x?"},
                    ]);
                }
                _ => {
                    assert_eq!(kinds, ["message", "mcp_call", "message"], "{body}");
                    assert_eq!((&said[1]["server_label"], &said[1]["output"]), (&json!("reveille"), &json!("好🙂")));
                    next["input"] = json!([{"role": "user", "content": "one"}, said[0], said[1], said[2]]);
                }
            }
            world.ask(support::post(protocol.path(), next.to_string())).await;
            let got: Value = serde_json::from_slice(&world.log.requests().pop().unwrap().body).unwrap();
            let kinds = |list: &Value| -> Vec<String> {
                list.as_array().unwrap().iter().map(|one| one["type"].as_str().unwrap_or("-").to_owned()).collect()
            };
            match protocol {
                Protocol::Messages => {
                    assert_eq!(kinds(&got["messages"][1]["content"]), ["text", "text"]);
                    assert_eq!(kinds(&got["messages"][3]["content"]), ["text"]);
                    assert_eq!(got["messages"][4], next["messages"][4]);
                }
                _ => assert_eq!(kinds(&got["input"]), ["-", "message", "message"]),
            }
        }
    }
    // Chat has no form for it.
    let (_, body) = world().ask(request(Protocol::Chat, &script(), true)).await;
    assert!(body.contains("Done.") && !body.contains("\"clock\""), "{body}");
}

/// Changes whatever was said with a certain word in it.
struct Censor;

impl Stage for Censor {
    fn enter(&self, _: &Turn) -> Option<Box<dyn Visit>> {
        Some(Box::new(Self))
    }
}

#[async_trait]
impl Visit for Censor {
    async fn before_request(&mut self, draft: &mut Draft) -> Result<Interest, Fault> {
        for (range, _) in draft.others_texts(&[b"hush"]) {
            draft.replace(range, "\"-\"");
        }
        Ok(Interest::Leave)
    }
}

/// What is taken out takes along what was to be changed in it.
#[tokio::test(start_paused = true)]
async fn what_is_taken_out_is_not_changed_as_well() {
    let world = World::build(|settings| settings.show_calls = true, |gateway| gateway.stage(Censor));
    let call = json!({"type": "mcp_call", "id": "mcp_reveille_1", "name": "clock", "output": "hush", "error": null});
    let blocks = json!([
        {"type": "server_tool_use", "id": "srvtoolu_reveille_1", "name": "clock", "input": {}},
        {"type": "clock_tool_result", "tool_use_id": "srvtoolu_reveille_1", "content": "hush"},
    ]);
    let said = json!({"role": "assistant", "content": "hush"});
    for (protocol, list) in [
        (Protocol::Responses, json!([call, {"role": "user", "content": "a"}, call, said, call])),
        (Protocol::Messages, json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": blocks}, said])),
    ] {
        let name = if protocol == Protocol::Responses { "input" } else { "messages" };
        let body = json!({"model": "scripted", name: list});
        let (status, answer) = world.ask(support::post(protocol.path(), body.to_string())).await;
        assert_eq!(status, 200, "{answer}");
        let got: Value = serde_json::from_slice(&world.log.requests().pop().unwrap().body).unwrap();
        let text = got.to_string();
        assert!(!text.contains("hush") && !text.contains("_reveille_") && text.contains("\"-\""), "{text}");
    }
}
