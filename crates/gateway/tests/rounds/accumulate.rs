//! What a client makes of an answer. Fails where the answer is not a valid one.

use reveille_gateway::Protocol;
use serde_json::{Value, json};

/// Its texts, its calls, its reason, its output tokens.
pub type Answer = (Vec<String>, Vec<String>, String, u64);

/// The events of a stream; `null` for comments.
pub fn events(body: &str) -> Vec<Value> {
    let frames = body.split("\n\n").filter(|frame| !frame.is_empty());
    let data = frames.map(|frame| frame.lines().find_map(|line| line.strip_prefix("data: ")));
    data.map(|data| data.map_or(Value::Null, |data| serde_json::from_str(data).unwrap_or(json!(data)))).collect()
}

/// What a client that adds up a stream ends with.
pub fn accumulate(protocol: Protocol, body: &str) -> Answer {
    let events = events(body);
    match protocol {
        Protocol::Chat => chat(&events),
        Protocol::Responses => responses(&events),
        Protocol::Messages => messages(&events),
    }
}

fn chat(events: &[Value]) -> Answer {
    let (mut content, mut calls, mut reason, mut tokens) = (String::new(), Vec::<String>::new(), None, 0);
    assert_eq!(events.last().unwrap(), "[DONE]");
    let chunks: Vec<&Value> = events.iter().filter(|event| event.is_object()).collect();
    assert!(chunks.iter().all(|chunk| chunk["id"] == chunks[0]["id"]));
    let roles = chunks.iter().filter(|chunk| !chunk["choices"][0]["delta"]["role"].is_null()).count();
    assert_eq!(roles, 1, "one role");
    for chunk in &chunks {
        let choice = &chunk["choices"][0];
        content += choice["delta"]["content"].as_str().unwrap_or_default();
        for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            let index = call["index"].as_u64().unwrap() as usize;
            if let Some(name) = call["function"]["name"].as_str() {
                assert_eq!(index, calls.len(), "calls are numbered without a gap");
                calls.push(name.to_owned());
            }
            calls[index] += call["function"]["arguments"].as_str().unwrap_or_default();
        }
        if let Some(said) = choice["finish_reason"].as_str() {
            assert!(reason.replace(said.to_owned()).is_none(), "one finish");
        }
        tokens += chunk["usage"]["completion_tokens"].as_u64().unwrap_or(0);
    }
    (vec![content], calls, reason.unwrap(), tokens)
}

fn responses(events: &[Value]) -> Answer {
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number, "{event}");
    }
    let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!((count("response.created"), count("response.completed")), (1, 1));
    let added: Vec<u64> = events
        .iter()
        .filter(|event| event["type"] == "response.output_item.added")
        .map(|event| event["output_index"].as_u64().unwrap())
        .collect();
    assert_eq!(added, (0..added.len() as u64).collect::<Vec<_>>(), "items are numbered without a gap");
    let response = &events.last().unwrap()["response"];
    assert_eq!(response["id"], events[0]["response"]["id"]);
    let output = response["output"].as_array().unwrap();
    assert_eq!(output.len(), added.len(), "the end repeats what was shown");
    let texts = output.iter().filter(|item| item["type"] == "message");
    let calls = output.iter().filter(|item| item["type"] == "function_call");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let reason = if output.iter().any(|item| item["type"] == "function_call") { "tool_calls" } else { "stop" };
    (
        texts.map(|item| text(&item["content"][0]["text"])).collect(),
        calls.map(|item| text(&item["name"]) + &text(&item["arguments"])).collect(),
        reason.into(),
        response["usage"]["output_tokens"].as_u64().unwrap(),
    )
}

fn messages(events: &[Value]) -> Answer {
    let (mut blocks, mut open, mut reason, mut tokens) = (Vec::<(String, String)>::new(), None, None, 0);
    for (place, event) in events.iter().enumerate() {
        match event["type"].as_str().unwrap() {
            "message_start" => assert_eq!(place, 0, "one start"),
            "content_block_start" => {
                assert!(open.is_none() && event["index"] == blocks.len(), "{event}");
                open = event["index"].as_u64();
                let block = &event["content_block"];
                blocks
                    .push((block["type"].as_str().unwrap().into(), block["name"].as_str().unwrap_or_default().into()));
            }
            "content_block_delta" => {
                assert_eq!(open, event["index"].as_u64(), "{event}");
                let delta = &event["delta"];
                let more = delta["text"].as_str().or(delta["partial_json"].as_str()).unwrap();
                blocks.last_mut().unwrap().1 += more;
            }
            "content_block_stop" => assert_eq!(open.take(), event["index"].as_u64()),
            "message_delta" => {
                assert!(reason.replace(event["delta"]["stop_reason"].as_str().unwrap().to_owned()).is_none());
                tokens = event["usage"]["output_tokens"].as_u64().unwrap();
            }
            "message_stop" => assert_eq!(place, events.len() - 1, "one end"),
            "ping" => {}
            other => panic!("{other}"),
        }
    }
    assert!(open.is_none());
    let of = |wanted: &str| blocks.iter().filter(|(kind, _)| kind == wanted).map(|(_, text)| text.clone()).collect();
    let reason = match reason.unwrap().as_str() {
        "end_turn" => "stop",
        "tool_use" => "tool_calls",
        other => panic!("{other}"),
    };
    (of("text"), of("tool_use"), reason.into(), tokens)
}

/// The same of a whole answer.
pub fn parts(protocol: Protocol, body: &str) -> Answer {
    let body: Value = serde_json::from_str(body).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned();
    match protocol {
        Protocol::Chat => {
            let choice = &body["choices"][0];
            let calls = choice["message"]["tool_calls"].as_array().cloned().unwrap_or_default();
            let call = |call: &Value| text(&call["function"]["name"]) + &text(&call["function"]["arguments"]);
            let tokens = body["usage"]["completion_tokens"].as_u64().unwrap();
            let content = vec![text(&choice["message"]["content"])];
            (content, calls.iter().map(call).collect(), text(&choice["finish_reason"]), tokens)
        }
        Protocol::Responses => {
            let end = json!({"type": "response.completed", "sequence_number": 0, "response": body});
            let output = body["output"].as_array().unwrap().len();
            let added = (0..output).map(|place| json!({"type": "response.output_item.added", "output_index": place}));
            let mut events = vec![json!({"type": "response.created", "response": {"id": body["id"]}})];
            events.extend(added);
            events.push(end);
            (0..events.len()).for_each(|number| events[number]["sequence_number"] = number.into());
            responses(&events)
        }
        Protocol::Messages => {
            let blocks = body["content"].as_array().unwrap();
            let texts = blocks.iter().filter(|block| block["type"] == "text").map(|block| text(&block["text"]));
            let calls = blocks.iter().filter(|block| block["type"] == "tool_use");
            let calls = calls.map(|block| text(&block["name"]) + &block["input"].to_string());
            let reason = if body["stop_reason"] == "tool_use" { "tool_calls" } else { "stop" };
            let tokens = body["usage"]["output_tokens"].as_u64().unwrap();
            (texts.collect(), calls.collect(), reason.into(), tokens)
        }
    }
}
