//! Answers whose parts are not what they should be: a text for an object, a number for a list, a place far out. They may come
//! to nothing, but the turn ends, and nobody panics.

use crate::{
    clock::{Clock, world},
    support::request,
};
use proptest::prelude::*;
use reveille_gateway::Protocol;
use serde_json::{Value, json};
use std::time::Duration;

/// The events of an answer that speaks, calls the clock and speaks again.
fn events(protocol: Protocol) -> Vec<Value> {
    let usage = json!({"input_tokens": 3, "output_tokens": 4, "prompt_tokens": 3, "completion_tokens": 4});
    match protocol {
        Protocol::Chat => {
            let chunk = |delta: Value, finish: Value| json!({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": usage});
            let call = json!({"index": 0, "id": "call_1", "function": {"name": "clock", "arguments": "{}"}});
            vec![
                chunk(json!({"role": "assistant", "content": "hi"}), Value::Null),
                chunk(json!({"tool_calls": [call]}), Value::Null),
                chunk(json!({"content": "ho"}), Value::Null),
                chunk(json!({}), json!("tool_calls")),
                json!({"id": "c", "choices": [], "usage": usage}),
            ]
        }
        Protocol::Responses => {
            let call = json!({"type": "function_call", "call_id": "call_1", "name": "clock", "arguments": "{}"});
            let text = json!({"type": "message", "content": [{"type": "output_text", "text": "hi"}]});
            let whole = json!({"id": "r", "status": "completed", "output": [text, call], "usage": usage});
            let events = [
                json!({"type": "response.created", "response": {"id": "r", "output": []}}),
                json!({"type": "response.output_item.added", "output_index": 0, "item": text}),
                json!({"type": "response.output_text.delta", "output_index": 0, "delta": "hi"}),
                json!({"type": "response.output_item.added", "output_index": 1, "item": call}),
                json!({"type": "response.output_item.done", "output_index": 1, "item": call}),
                json!({"type": "response.output_item.added", "output_index": 2, "item": text}),
                json!({"type": "response.completed", "response": whole}),
            ];
            let numbered = |(number, mut event): (usize, Value)| {
                event["sequence_number"] = number.into();
                event
            };
            events.into_iter().enumerate().map(numbered).collect()
        }
        Protocol::Messages => vec![
            json!({"type": "message_start", "message": {"id": "m", "content": [], "usage": usage}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": {}}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t", "name": "clock"}}),
            json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{}"}}),
            json!({"type": "content_block_stop", "index": 1}),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": usage}),
            json!({"type": "message_stop"}),
        ],
    }
}

fn whole(protocol: Protocol) -> Value {
    let usage = json!({"input_tokens": 3, "output_tokens": 4});
    let call = json!({"id": "call_1", "function": {"name": "clock", "arguments": "{}"}});
    match protocol {
        Protocol::Chat => json!({"id": "c", "usage": usage, "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "hi", "tool_calls": [call]}, "finish_reason": "tool_calls"},
        ]}),
        Protocol::Responses => events(protocol)[6]["response"].clone(),
        Protocol::Messages => json!({"id": "m", "usage": usage, "stop_reason": "tool_use", "content": [
            {"type": "text", "text": "hi"}, {"type": "tool_use", "id": "t", "name": "clock", "input": {}},
        ]}),
    }
}

/// All places in a document.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| places(value, &format!("{at}/{name}"), found)),
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(place, value)| places(value, &format!("{at}/{place}"), found));
        }
        _ => {}
    }
}

/// Puts something else at one of its places.
fn change(value: &mut Value, place: prop::sample::Index, other: &Value) {
    let mut found = Vec::new();
    places(value, "", &mut found);
    if let Some(part) = value.pointer_mut(place.get(&found[..]).as_str()) {
        *part = other.clone();
    }
}

#[derive(Clone, Debug)]
struct Change {
    event: prop::sample::Index,
    place: prop::sample::Index,
    other: Value,
    twice: bool,
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let other = prop::sample::select(vec![
        json!(null),
        json!("text"),
        json!("clock"),
        json!(-1),
        json!(0),
        json!(u64::MAX),
        json!(0.5),
        json!([]),
        json!(["text"]),
        json!({}),
        json!(true),
    ]);
    let one = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), other, any::<bool>())
        .prop_map(|(event, place, other, twice)| Change { event, place, other, twice });
    prop::collection::vec(one, 1..4)
}

fn stream(protocol: Protocol, changes: &[Change]) -> Value {
    let mut events = events(protocol);
    for change in changes {
        let place = change.event.index(events.len());
        self::change(&mut events[place], change.place, &change.other);
        if change.twice {
            events.insert(place, events[place].clone());
        }
    }
    let frame = |event: &Value| match event["type"].as_str() {
        Some(name) => format!("event: {name}\ndata: {event}\n\n"),
        None => format!("data: {event}\n\n"),
    };
    let end = if protocol == Protocol::Chat { "data: [DONE]\n\n" } else { "" };
    json!({"steps": [{"raw": events.iter().map(frame).collect::<String>() + end}, "close"]})
}

fn document(protocol: Protocol, changes: &[Change]) -> Value {
    let mut whole = whole(protocol);
    changes.iter().for_each(|one| change(&mut whole, one.place, &one.other));
    json!({"body": whole.to_string()})
}

/// The turn ends, one way or the other.
fn ends(protocol: Protocol, script: &Value, streamed: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let clock = Clock { hold: Some(Duration::from_secs(60)), ..Clock::default() };
        let world = world(&clock);
        world.ask(request(protocol, script, streamed)).await;
        assert_eq!(world.reports.outcomes().len(), 1);
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_turn_of_malformed_answers_ends(first in changes(), second in changes(), later in any::<bool>()) {
        for protocol in Protocol::ALL {
            for (streamed, answer) in [(true, stream as fn(Protocol, &[Change]) -> Value), (false, document)] {
                // The first answer, or one after a call that was answered.
                let mut script = answer(protocol, if later { &[] } else { &first });
                script["then"] = json!([answer(protocol, &second), {"steps": [{"text": "ok"}]}]);
                ends(protocol, &script, streamed);
            }
        }
    }
}
