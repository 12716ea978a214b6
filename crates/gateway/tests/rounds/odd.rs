//! Answers as some upstreams give them: a turn of several rounds stays right all the same.

use crate::{
    accumulate::{accumulate, events},
    clock::{Clock, calls, world},
    support::{next, request},
};
use reveille_gateway::Protocol;
use serde_json::{Value, json};
use std::time::Duration;

fn patient() -> Clock {
    Clock { hold: Some(Duration::from_secs(60)), ..Clock::default() }
}

/// A stream of exactly these events.
fn raw(events: &[Value]) -> Value {
    let frames = events.iter().map(|event| match (event.as_str(), event["type"].as_str()) {
        (Some(text), _) => format!("{text}\n\n"),
        (None, Some(name)) => format!("event: {name}\ndata: {event}\n\n"),
        (None, None) => format!("data: {event}\n\n"),
    });
    json!({"steps": [{"raw": frames.collect::<String>()}, "close"]})
}

fn chunk(delta: Value, more: Value) -> Value {
    let mut chunk = json!({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    more.as_object().unwrap().iter().for_each(|(name, value)| match name.as_str() {
        "finish_reason" => chunk["choices"][0]["finish_reason"] = value.clone(),
        name => chunk[name] = value.clone(),
    });
    chunk
}

/// Calls of the client are the client's turn, whatever the answer says of its end.
#[tokio::test(start_paused = true)]
async fn a_whole_answer_with_calls_of_the_client_is_not_held() {
    let call = json!({"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}});
    let chat = json!({"id": "c", "choices": [
        {"index": 0, "message": {"role": "assistant", "content": null, "tool_calls": [call]}, "finish_reason": "stop"},
    ]});
    let function = json!({"id": "c", "choices": [
        {"index": 0, "message": {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}, "finish_reason": "stop"},
    ]});
    let messages = json!({"id": "m", "stop_reason": "end_turn", "content": [
        {"type": "text", "text": "x"}, {"type": "tool_use", "id": "t", "name": "f", "input": {}},
    ]});
    let responses = json!({"id": "r", "status": "completed", "output": [
        {"type": "mcp_approval_request", "id": "a", "name": "f", "arguments": "{}", "server_label": "s"},
    ]});
    let cases = [
        (Protocol::Chat, chat),
        (Protocol::Chat, function),
        (Protocol::Messages, messages),
        (Protocol::Responses, responses),
    ];
    for (protocol, answer) in cases {
        let world = world(&patient());
        let script = json!({"body": answer.to_string()});
        let (_, body) = world.ask(request(protocol, &script, false)).await;
        assert_eq!(body, answer.to_string(), "as it came");
        assert_eq!(world.log.requests().len(), 1, "{protocol:?} was held");
    }
    // One without any is.
    let empty = json!({"id": "c", "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "tool_calls", "tool_calls": []}, "finish_reason": "stop"},
    ]});
    let world = world(&patient());
    world.ask(request(Protocol::Chat, &json!({"body": empty.to_string()}), false)).await;
    assert_eq!(world.log.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_waits_for_the_client_is_not_held() {
    let item = json!({"type": "mcp_approval_request", "id": "a", "name": "f", "arguments": "{}", "server_label": "s"});
    let response = |output: &[&Value]| json!({"id": "r", "status": "completed", "output": output, "usage": null});
    let responses = raw(&[
        json!({"type": "response.created", "sequence_number": 0, "response": response(&[])}),
        json!({"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": item}),
        json!({"type": "response.output_item.done", "sequence_number": 2, "output_index": 0, "item": item}),
        json!({"type": "response.completed", "sequence_number": 3, "response": response(&[&item])}),
    ]);
    // The end need not repeat the items.
    let short = raw(&[
        json!({"type": "response.created", "sequence_number": 0, "response": response(&[])}),
        json!({"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": item}),
        json!({"type": "response.output_item.done", "sequence_number": 2, "output_index": 0, "item": item}),
        json!({"type": "response.completed", "sequence_number": 3, "response": response(&[])}),
    ]);
    let call = json!({"index": 0, "id": "call_1", "function": {"name": "f", "arguments": "{}"}});
    let chat = raw(&[
        chunk(json!({"role": "assistant", "tool_calls": [call]}), json!({})),
        chunk(json!({}), json!({"finish_reason": "stop"})),
        json!("data: [DONE]"),
    ]);
    for (protocol, script) in [(Protocol::Responses, responses), (Protocol::Responses, short), (Protocol::Chat, chat)] {
        let world = world(&patient());
        world.ask(request(protocol, &script, true)).await;
        assert_eq!(world.log.requests().len(), 1, "{protocol:?} was held");
        assert_eq!(world.reports.outcomes(), ["complete"]);
    }
}

/// Some say in every chunk what was used so far.
#[tokio::test(start_paused = true)]
async fn a_call_in_a_chunk_with_counts_is_hidden() {
    let call =
        json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": "clock", "arguments": "{}"}});
    let usage = json!({"usage": {"prompt_tokens": 1, "completion_tokens": 2}});
    let mut script = raw(&[
        chunk(json!({"role": "assistant", "content": ""}), usage.clone()),
        chunk(json!({"tool_calls": [call]}), usage.clone()),
        chunk(json!({}), json!({"finish_reason": "tool_calls", "usage": {"prompt_tokens": 1, "completion_tokens": 3}})),
        json!("data: [DONE]"),
    ]);
    script["then"] = json!([{"steps": [{"text": "ok"}]}]);
    let clock = Clock::default();
    let world = world(&clock);
    let (_, body) = world.ask(request(Protocol::Chat, &script, true)).await;
    assert!(!body.contains("\"clock\"") && body.contains("ok"), "{body}");
    assert_eq!(clock.seen().iter().filter(|seen| *seen == "clock {}").count(), 1);
    assert_eq!(world.log.requests().len(), 2);
}

/// A frame that waits for the end between two that need not wait.
#[tokio::test(start_paused = true)]
async fn nothing_is_told_twice() {
    let counts = json!({"id": "c", "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 7}});
    let script = raw(&[
        chunk(json!({"role": "assistant", "content": "hi"}), json!({})),
        chunk(json!({}), json!({"finish_reason": "stop"})),
        json!(": one"),
        counts,
        json!(": two"),
        json!("data: [DONE]"),
    ]);
    let world = world(&Clock::default());
    let (_, body) = world.ask(request(Protocol::Chat, &script, true)).await;
    for once in ["\"completion_tokens\":7", ": one", ": two", "[DONE]", "\"stop\""] {
        assert_eq!(body.matches(once).count(), 1, "{once} in {body}");
    }
}

/// What keeps the client's connection alive in a later round, keeps it alive.
#[tokio::test(start_paused = true)]
async fn the_upstreams_own_signs_of_life_pass_in_later_rounds() {
    for protocol in Protocol::ALL {
        let script = json!({
            "steps": [{"text": "One."}, calls(json!({}))],
            "then": [{"steps": [{"text": "Two"}, {"wait": 60_000}, "ping", {"wait": 60_000}, "comment", {"text": "."}]}],
        });
        let world = world(&Clock::default());
        let mut answer = world.send(protocol, &script, true).await;
        let (mut body, mut last, mut alive) = (String::new(), tokio::time::Instant::now(), 0);
        while let Some(piece) = next(&mut answer).await {
            alive += usize::from(last.elapsed() == Duration::from_secs(60));
            last = tokio::time::Instant::now();
            body += &piece;
        }
        assert_eq!(alive, 2, "{protocol:?}: {body}");
        let clean: String = body.split_inclusive("\n\n").filter(|frame| !frame.starts_with(':')).collect();
        assert_eq!(accumulate(protocol, &clean).0.concat().replace("\n\n", ""), "One.Two.", "{body}");
    }
}

/// A response that is said to be under way again would take the place of what the client has of it.
#[tokio::test(start_paused = true)]
async fn a_later_round_does_not_begin_the_response_anew() {
    let in_progress = |number: u64| {
        let response = json!({"id": "other", "status": "in_progress", "output": []});
        json!({"type": "response.in_progress", "sequence_number": number, "response": response})
    };
    let done = json!({"id": "other", "status": "completed", "output": [], "usage": {"output_tokens": 1}});
    let later = raw(&[
        json!({"type": "response.created", "sequence_number": 0, "response": {"id": "other", "output": []}}),
        in_progress(1),
        json!({"type": "response.output_text.delta", "sequence_number": 2, "output_index": 0, "delta": "x"}),
        in_progress(3),
        json!({"type": "response.completed", "sequence_number": 4, "response": done}),
    ]);
    let script = json!({"steps": [{"text": "One."}, calls(json!({}))], "then": [later]});
    let (_, body) = world(&Clock::default()).ask(request(Protocol::Responses, &script, true)).await;
    let events = events(&body);
    let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!((count("response.created"), count("response.in_progress"), count("keepalive")), (1, 1, 1), "{body}");
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number, "{event}");
    }
}

/// The client's last block is still open when a hidden one follows it, so signs of life are part of it.
#[tokio::test(start_paused = true)]
async fn signs_of_life_after_a_hidden_block_are_of_the_kind_that_counts() {
    let block =
        |index: u64, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let stop = |index: u64| json!({"type": "content_block_stop", "index": index});
    let ends = |reason: &str| {
        let delta = json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 1}});
        [delta, json!({"type": "message_stop"})]
    };
    let start = json!({"type": "message_start", "message": {"id": "m", "content": [], "usage": {"output_tokens": 1}}});
    let text = json!({"type": "text", "text": "x"});
    let ours = json!({"type": "tool_use", "id": "t", "name": "clock", "input": {}});
    // The first answer takes its time: the upstream is slow to go on after the hidden call.
    let slow = json!({"head_after": 60_000, "steps": [{"text": "y"}]});
    let first =
        [vec![start.clone(), block(0, text), stop(0), block(1, ours), stop(1)], ends("tool_use").to_vec()].concat();
    let mut script = raw(&first);
    script["then"] = json!([slow]);
    let (_, body) = world(&Clock::default()).ask(request(Protocol::Messages, &script, true)).await;
    assert!(body.contains(r#""index":0,"delta":{"type":"text_delta","text":""}"#) && !body.contains("ping"), "{body}");
    // A block that only mentions text is none.
    let thinking = json!({"type": "thinking", "thinking": "", "signature": "text", "kind": "text"});
    let script = raw(&[vec![start, block(0, thinking), stop(0)], ends("end_turn").to_vec()].concat());
    let (_, body) = world(&patient()).ask(request(Protocol::Messages, &script, true)).await;
    assert!(body.contains("event: ping") && !body.contains("text_delta\",\"text\":\"\""), "{body}");
}

/// The counts come after the finish, in a chunk of the usual form.
#[tokio::test(start_paused = true)]
async fn counts_beside_an_empty_delta_are_no_more_words() {
    let counts = |tokens: u64| json!({"usage": {"prompt_tokens": 1, "completion_tokens": tokens}});
    let empty = json!({"role": "assistant", "content": "", "reasoning_details": []});
    let answer = |text: &str, tokens: u64| {
        raw(&[
            chunk(json!({"role": "assistant", "content": text}), json!({})),
            chunk(empty.clone(), json!({"finish_reason": "stop"})),
            chunk(empty.clone(), json!({})),
            chunk(empty.clone(), counts(tokens)),
            json!("data: [DONE]"),
        ])
    };
    let mut script = answer("One.", 3);
    script["then"] = json!([answer("Two.", 4)]);
    let world = world(&patient());
    let mut response = world.send(Protocol::Chat, &script, true).await;
    let (mut body, began) = (String::new(), tokio::time::Instant::now());
    while let Some(piece) = next(&mut response).await {
        let closes = piece.contains("\"stop\"") || piece.contains("usage");
        assert!(!closes || began.elapsed() >= Duration::from_secs(60), "closed before the hold: {piece}");
        body += &piece;
    }
    assert_eq!((body.matches("\"stop\"").count(), body.matches("\"usage\"").count()), (1, 1), "{body}");
    assert!(body.contains("\"completion_tokens\":7"), "{body}");
    assert_eq!(body.matches("assistant").count(), 1, "{body}");
    assert_eq!(world.reports.all()[0].usage.unwrap().output_tokens, 7);
}

/// Some upstreams say their last words, or all of them, in the chunk that ends them.
#[tokio::test(start_paused = true)]
async fn last_words_do_not_wait_for_the_end() {
    let last = |delta: Value| chunk(delta, json!({"finish_reason": "stop"}));
    let first = chunk(json!({"role": "assistant", "content": "At "}), json!({}));
    let done = json!("data: [DONE]");
    for (events, text) in [
        (vec![first, last(json!({"content": "four."})), done.clone()], "At four."),
        (vec![last(json!({"role": "assistant", "content": "At four."})), done], "At four."),
    ] {
        let mut script = raw(&events);
        script["then"] = json!([{"steps": [{"text": "Tea!"}]}]);
        let clock = patient();
        let world = world(&clock);
        let mut response = world.send(Protocol::Chat, &script, true).await;
        let (mut body, began) = (String::new(), tokio::time::Instant::now());
        while !body.contains("four.") {
            body += &next(&mut response).await.expect("words");
        }
        assert!(began.elapsed() <= Duration::from_secs(1), "{:?}", began.elapsed());
        assert!(!body.contains("\"stop\""), "{body}");
        assert_eq!(clock.seen(), ["dispatch"]);
        while let Some(piece) = next(&mut response).await {
            body += &piece;
        }
        let (texts, _, reason, _) = accumulate(Protocol::Chat, &body.replace(": keep-alive\n\n", ""));
        assert_eq!((texts, reason.as_str()), (vec![format!("{text}\n\nTea!")], "stop"), "{body}");
        assert_eq!(clock.seen(), ["dispatch"]);
    }
}

/// An answer may be complete with its first piece: that it goes out is said all the same.
#[tokio::test(start_paused = true)]
async fn an_answer_in_one_piece_is_dispatched_and_passes_as_it_came() {
    let events = [
        chunk(json!({"role": "assistant", "content": "hi"}), json!({})),
        chunk(json!({"content": " there"}), json!({"finish_reason": "stop"})),
        json!("data: [DONE]"),
    ];
    let script = raw(&events);
    let clock = Clock::default();
    let world = world(&clock);
    let (_, body) = world.ask(request(Protocol::Chat, &script, true)).await;
    assert_eq!(body, script["steps"][0]["raw"]);
    assert_eq!(clock.seen(), ["dispatch"]);
}
