//! Calls that are answered here, turns that are held, and how both end.

use crate::{
    accumulate::{accumulate, parts},
    clock::{Clock, ask, calls, world},
    support::{self, World, next, request, text},
};
use async_trait::async_trait;
use reveille_gateway::{Draft, Fault, Interest, Next, Protocol, Seen, Stage, Turn, Visit};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

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

/// The key names the client's request; an upstream that knows it would give its first answer again, for ever.
#[tokio::test(start_paused = true)]
async fn the_clients_idempotency_key_is_for_its_own_request_alone() {
    let script = json!({"steps": [calls(json!({"action": "list"}))], "then": [{"steps": [{"text": "Done"}]}]});
    for protocol in Protocol::ALL {
        for stream in [true, false] {
            let world = world(&Clock::default());
            let mut request = request(protocol, &script, stream);
            request.headers_mut().insert("idempotency-key", "k-1".parse().unwrap());
            assert_eq!(world.ask(request).await.0, 200);
            let keys: Vec<Option<String>> =
                world.log.requests().iter().map(|asked| asked.header("idempotency-key").map(str::to_owned)).collect();
            assert_eq!(keys, [Some("k-1".to_owned()), None], "{protocol:?} {stream}");
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

/// A round that breaks before any of it went out told the model nothing, however it began.
#[tokio::test(start_paused = true)]
async fn the_stages_hear_of_a_round_that_dies_before_it_says_anything() {
    for protocol in Protocol::ALL {
        let error = match protocol {
            Protocol::Chat => "data: {\"error\":{\"message\":\"busy\"}}\n\n",
            _ => "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"busy\"}}\n\n",
        };
        let dead = [json!(["cut"]), json!(["stall"]), json!(["close"]), json!([{"raw": error}, "stall"])];
        for steps in dead {
            let script = json!({"steps": [{"text": "One."}], "then": [{"steps": steps}]});
            let clock = Clock { hold: Some(Duration::from_secs(60)), ..Clock::default() };
            let (_, body) = world(&clock).ask(request(protocol, &script, true)).await;
            assert!(body.contains("error"), "{body}");
            tokio::task::yield_now().await;
            assert_eq!(clock.seen(), ["dispatch", "unanswered"], "{protocol:?} {steps}");
        }
        // What was said before it broke was said, also where both came in one piece.
        for end in [json!("cut"), json!({"raw": error})] {
            let script = json!({"steps": [{"text": "One."}], "then": [{"steps": [{"text": "Two."}, end, "stall"]}]});
            let clock = Clock { hold: Some(Duration::from_secs(60)), ..Clock::default() };
            let (_, body) = world(&clock).ask(request(protocol, &script, true)).await;
            assert!(body.contains("Two.") && body.contains("error"), "{body}");
            tokio::task::yield_now().await;
            assert_eq!(clock.seen(), ["dispatch", "dispatch"], "{protocol:?} {end}");
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
