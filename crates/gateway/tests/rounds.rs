//! A turn of several rounds is one valid response: one start, places that go on, counts that add up, one end, and no trace
//! of the calls that were not the client's.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use async_trait::async_trait;
use reveille_gateway::{
    Draft, Fault, Finish, Interest, More, Next, Protocol, Seen, Stage, ToolResult, Turn, Visit, Voice, Words,
};
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use support::{World, next, request, text};

/// Serves `clock`, and after a stop says `words` once, after a while.
#[derive(Clone, Default)]
struct Clock {
    hold: Option<Duration>,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Clock {
    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

impl Stage for Clock {
    fn enter(&self, _: &Turn) -> Option<Box<dyn Visit>> {
        Some(Box::new(Visitor { clock: self.clone(), held: false }))
    }
}

struct Visitor {
    clock: Clock,
    held: bool,
}

impl Visitor {
    fn note(&self, what: impl Into<String>) {
        self.clock.seen.lock().unwrap().push(what.into());
    }
}

#[async_trait]
impl Visit for Visitor {
    async fn before_request(&mut self, draft: &mut Draft) -> Result<Interest, Fault> {
        draft.serve_tool("clock", r#"{"type":"function","name":"clock"}"#);
        Ok(Interest::Stay)
    }

    fn on_dispatch(&mut self) {
        self.note("dispatch");
    }

    async fn on_finish(&mut self, seen: &Seen) -> Next {
        for call in &seen.calls {
            self.note(format!("{} {}", call.name, call.arguments));
        }
        if !seen.client_calls.is_empty() {
            self.note(format!("client: {}", seen.client_calls.join(" ")));
            return Next::End;
        }
        if !seen.calls.is_empty() {
            let result = |call: &reveille_gateway::ToolCall| ToolResult {
                call: call.id.clone(),
                text: "好🙂".into(),
                failed: false,
            };
            return Next::Continue(More { results: seen.calls.iter().map(result).collect(), words: vec![] });
        }
        match self.clock.hold {
            Some(length) if !self.held && seen.finish == Some(Finish::Stop) => {
                self.held = true;
                tokio::time::sleep(length).await;
                let words = Words { voice: Voice::System, text: "[scheduled task:\"茶\"]".into() };
                Next::Continue(More { results: vec![], words: vec![words] })
            }
            _ => Next::End,
        }
    }
}

fn world(clock: &Clock) -> World {
    World::build(|_| {}, |gateway| gateway.stage(clock.clone()))
}

fn calls(arguments: Value) -> Value {
    json!({"tool": {"name": "clock", "arguments": arguments}})
}

/// The events of a stream; `null` for comments.
fn events(body: &str) -> Vec<Value> {
    let frames = body.split("\n\n").filter(|frame| !frame.is_empty());
    let data = frames.map(|frame| frame.lines().find_map(|line| line.strip_prefix("data: ")));
    data.map(|data| data.map_or(Value::Null, |data| serde_json::from_str(data).unwrap_or(json!(data)))).collect()
}

/// What a client that adds up a stream ends with: its texts, its calls, its reason, its output tokens. Fails where the
/// stream is not a valid one.
fn accumulate(protocol: Protocol, body: &str) -> (Vec<String>, Vec<String>, String, u64) {
    let events = events(body);
    match protocol {
        Protocol::Chat => chat(&events),
        Protocol::Responses => responses(&events),
        Protocol::Messages => messages(&events),
    }
}

fn chat(events: &[Value]) -> (Vec<String>, Vec<String>, String, u64) {
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

fn responses(events: &[Value]) -> (Vec<String>, Vec<String>, String, u64) {
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

fn messages(events: &[Value]) -> (Vec<String>, Vec<String>, String, u64) {
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
fn parts(protocol: Protocol, body: &str) -> (Vec<String>, Vec<String>, String, u64) {
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

async fn ask(
    world: &World,
    protocol: Protocol,
    script: &Value,
    stream: bool,
) -> (Vec<String>, Vec<String>, String, u64) {
    let mut request = request(protocol, script, stream);
    if protocol == Protocol::Chat && stream {
        let body: &Value = &json!({
            "model": "scripted", "stream": true, "stream_options": {"include_usage": true},
            "messages": [{"role": "user", "content": format!("script:{script}")}],
        });
        request = support::post(protocol.path(), body.to_string());
    }
    let (status, body) = world.ask(request).await;
    assert_eq!(status, 200, "{body}");
    assert!(!body.contains("\"clock\""), "{body}");
    if stream { accumulate(protocol, &body) } else { parts(protocol, &body) }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_the_clients_is_answered_and_hidden() {
    let script = json!({
        "steps": [{"text": "Let me "}, {"text": "see."}, calls(json!({"action": "list"}))],
        "then": [
            {"steps": [calls(json!({"action": "clear"})), calls(json!({"n": 2}))]},
            {"steps": [{"text": "Done"}, {"text": "."}]},
        ],
    });
    for protocol in Protocol::ALL {
        for stream in [true, false] {
            let clock = Clock::default();
            let world = world(&clock);
            let (texts, calls, reason, tokens) = ask(&world, protocol, &script, stream).await;
            let expected = match protocol {
                Protocol::Chat => vec!["Let me see.\n\nDone.".to_owned()],
                _ => vec!["Let me see.".to_owned(), "Done.".into()],
            };
            assert_eq!((texts, calls, reason.as_str(), tokens), (expected, vec![], "stop", 7), "{protocol:?} {stream}");
            let mut seen = clock.seen();
            seen.retain(|entry| entry != "dispatch");
            assert_eq!(seen, [r#"clock {"action":"list"}"#, r#"clock {"action":"clear"}"#, r#"clock {"n":2}"#]);
            assert_eq!(world.log.requests().len(), 3);
            let report = &world.reports.all()[0];
            assert_eq!((report.rounds, report.usage.unwrap().output_tokens), (3, 7));
            let last: Value = serde_json::from_slice(&world.log.requests()[2].body).unwrap();
            let body = last.to_string();
            assert_eq!(body.matches("好🙂").count(), 3, "{body}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn calls_of_the_client_pass_and_end_the_turn() {
    let theirs = json!({"tool": {"name": "get_weather", "arguments": {"city": "Paris"}}});
    let script = json!({"steps": [{"text": "x"}, calls(json!({"a": 1})), theirs, calls(json!({"b": 2})), theirs]});
    for protocol in Protocol::ALL {
        for stream in [true, false] {
            let clock = Clock::default();
            let world = world(&clock);
            let (texts, calls, reason, _) = ask(&world, protocol, &script, stream).await;
            assert_eq!((texts, reason.as_str()), (vec!["x".to_owned()], "tool_calls"));
            assert_eq!(calls, vec![r#"get_weather{"city":"Paris"}"#.to_owned(); 2]);
            let ids = if protocol == Protocol::Messages { "toolu_1 toolu_3" } else { "call_1 call_3" };
            assert!(clock.seen().contains(&format!("client: {ids}")));
            assert_eq!(world.log.requests().len(), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_is_held_alive_and_goes_on() {
    let script = json!({"steps": [{"text": "Tea at four."}], "then": [{"steps": [{"text": "Tea time 🙂"}]}]});
    for protocol in Protocol::ALL {
        let clock = Clock { hold: Some(Duration::from_secs(3600)), ..Clock::default() };
        let world = world(&clock);
        let began = tokio::time::Instant::now();
        let mut answer = world.send(protocol, &script, true).await;
        let (mut body, mut alive, mut last) = (String::new(), 0, began);
        while let Some(piece) = next(&mut answer).await {
            let silent = last.elapsed();
            assert!(silent <= Duration::from_secs(15), "silent for {silent:?}");
            last = tokio::time::Instant::now();
            alive += usize::from(silent > Duration::ZERO);
            body += &piece;
        }
        assert_eq!(began.elapsed().as_secs(), 3600);
        assert!(alive >= 3600 / 15, "{alive}");
        let sign = match protocol {
            Protocol::Chat => ": keep-alive",
            Protocol::Responses => "event: keepalive",
            Protocol::Messages => r#"{"type":"text_delta","text":""}"#,
        };
        assert!((alive - 1..=alive).contains(&body.matches(sign).count()), "{body}");
        let (texts, _, reason, _) = accumulate(protocol, &body.replace(": keep-alive\n\n", ""));
        assert_eq!((texts.join("\n\n").as_str(), reason.as_str()), ("Tea at four.\n\nTea time 🙂", "stop"));
        assert_eq!(clock.seen(), ["dispatch", "dispatch"]);
        let whole = text(world.send(protocol, &script, false).await).await;
        assert_eq!(parts(protocol, &whole).0.join("\n\n"), "Tea at four.\n\nTea time 🙂");
        assert_eq!(clock.seen(), ["dispatch"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_while_held_frees_everything() {
    let clock = Clock { hold: Some(Duration::MAX), ..Clock::default() };
    let world = world(&clock);
    let script = json!({"steps": [{"text": "hi"}]});
    let mut answer = world.send(Protocol::Messages, &script, true).await;
    for _ in 0..10 {
        next(&mut answer).await.expect("signs of life");
    }
    drop(answer);
    assert_eq!(world.reports.outcomes(), ["client_gone"]);
    assert_eq!(Arc::strong_count(&clock.seen), 2, "the visit is gone, the stage is not");
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_ends_without_a_word_closes_the_answer_as_it_was() {
    #[derive(Clone)]
    struct Patient;
    impl Stage for Patient {
        fn enter(&self, _: &Turn) -> Option<Box<dyn Visit>> {
            Some(Box::new(Self))
        }
    }
    #[async_trait]
    impl Visit for Patient {
        async fn on_finish(&mut self, _: &Seen) -> Next {
            tokio::time::sleep(Duration::from_secs(100)).await;
            Next::End
        }
    }
    let world = World::build(|_| {}, |gateway| gateway.stage(Patient));
    for protocol in Protocol::ALL {
        let (_, body) = world.ask(request(protocol, &json!({"steps": [{"text": "hi"}]}), true)).await;
        let (texts, _, reason, _) = accumulate(protocol, &body.replace(": keep-alive\n\n", ""));
        assert_eq!((texts, reason.as_str()), (vec!["hi".to_owned()], "stop"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_answer_that_fails_ends_what_was_owed_as_an_error_and_the_rest_as_it_was() {
    for protocol in Protocol::ALL {
        for stream in [true, false] {
            for then in [json!({"status": 500}), json!({"steps": ["cut"]}), json!({"steps": ["stall"]})] {
                // The first answer was complete by itself.
                let clock = Clock { hold: Some(Duration::from_secs(60)), ..Clock::default() };
                let world = world(&clock);
                let script = json!({"steps": [{"text": "whole"}], "then": [then]});
                let (_, body) = world.ask(request(protocol, &script, stream)).await;
                if then["status"] == 500 || !stream {
                    assert!(body.contains("whole"), "{then} {body}");
                    assert_eq!(world.reports.outcomes(), ["complete"], "{then}");
                }
                // The model waits for the answer to its call.
                let script = json!({"steps": [calls(json!({}))], "then": [then]});
                let (_, body) = world.ask(request(protocol, &script, stream)).await;
                assert!(body.contains("error"), "{then} {body}");
                assert_ne!(world.reports.outcomes()[1], "complete");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_ends_on_a_hidden_call_has_nothing_for_the_client_to_answer() {
    #[derive(Clone)]
    struct Tired;
    impl Stage for Tired {
        fn enter(&self, _: &Turn) -> Option<Box<dyn Visit>> {
            Some(Box::new(Self))
        }
    }
    #[async_trait]
    impl Visit for Tired {
        async fn before_request(&mut self, draft: &mut Draft) -> Result<Interest, Fault> {
            draft.serve_tool("clock", r#"{"name":"clock"}"#);
            Ok(Interest::Stay)
        }
    }
    let world = World::build(|_| {}, |gateway| gateway.stage(Tired));
    for protocol in Protocol::ALL {
        for stream in [true, false] {
            let script = json!({"steps": [{"text": "hm"}, calls(json!({}))]});
            let (texts, calls, reason, _) = ask(&world, protocol, &script, stream).await;
            assert_eq!((texts, calls, reason.as_str()), (vec!["hm".to_owned()], vec![], "stop"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_the_upstream_keeps_gets_only_what_is_new() {
    let clock = Clock::default();
    let world = world(&clock);
    let script = json!({"steps": [calls(json!({}))], "then": [{"steps": [{"text": "ok"}]}]});
    let body = json!({"model": "scripted", "conversation": "conv_1", "input": format!("script:{script}")});
    let (status, _) = world.ask(support::post(Protocol::Responses.path(), body.to_string())).await;
    assert_eq!(status, 200);
    let second: Value = serde_json::from_slice(&world.log.requests()[1].body).unwrap();
    let output = json!({"type": "function_call_output", "call_id": "call_0", "output": "好🙂"});
    assert_eq!((&second["input"], &second["conversation"]), (&json!([output]), &json!("conv_1")));
}
