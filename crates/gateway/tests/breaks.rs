//! Both ends may go at any time: nothing looks complete that is not, nothing goes on that nobody waits for.

mod support;

use http_body_util::BodyExt;
use reveille_gateway::Protocol;
use serde_json::json;
use support::{World, next, request, text};

/// What the protocol's error event begins with, once an answer has begun.
fn error_of(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Chat => "data: {\"error\":",
        Protocol::Responses => "event: response.failed",
        Protocol::Messages => "event: error",
    }
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_dies_in_the_middle_ends_in_an_error_event() {
    for protocol in Protocol::ALL {
        for last in ["cut", "close"] {
            for world in World::both() {
                let script = json!({"steps": [{"text": "half"}, last]});
                let answer = world.send(protocol, &script, true).await;
                assert_eq!(answer.status(), 200);
                let body = text(answer).await;
                assert!(body.contains("half"));
                let frame = body.trim_end().rsplit("\n\n").next().expect("frames");
                assert!(frame.starts_with(error_of(protocol)), "{frame}");
                assert!(!body.contains("[DONE]"));
                let outcome = if last == "cut" { "upstream_broken" } else { "upstream_incomplete" };
                assert_eq!(world.reports.outcomes(), [outcome]);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_is_cut_in_two_is_not_sent_as_half() {
    for protocol in Protocol::ALL {
        for last in ["cut", "close"] {
            for world in World::both() {
                let script = json!({"steps": [{"text": "one"}, {"raw": "data: {\"id\":\"hal"}, last]});
                let body = text(world.send(protocol, &script, true).await).await;
                assert!(!body.contains("\"hal"), "{body}");
                assert!(body.contains(&format!("\n\n{}", error_of(protocol))), "{body}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_last_frame_without_its_empty_line_counts() {
    let chat = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n";
    let responses = "data: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"output\":[]}}\n";
    let messages = "event: message_stop\ndata: {\"type\":\"message_stop\"}";
    for (protocol, last) in [(Protocol::Chat, chat), (Protocol::Responses, responses), (Protocol::Messages, messages)] {
        for world in World::both() {
            let script = json!({"steps": [{"text": "all"}, {"raw": last}, "close"]});
            let body = text(world.send(protocol, &script, true).await).await;
            assert!(body.ends_with(last), "{body}");
            assert_eq!(world.reports.outcomes(), ["complete"]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ended_properly_may_be_followed_by_anything() {
    let done = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    for world in World::both() {
        for last in ["cut", "stall", "close"] {
            let script = json!({"steps": [{"text": "all"}, {"raw": done}, last]});
            let body = text(world.send(Protocol::Chat, &script, true).await).await;
            assert!(body.ends_with(done), "{body}");
        }
        assert_eq!(world.reports.outcomes(), ["complete"; 3]);
    }
}

/// An upstream that said its last word and does not hang up keeps no client waiting.
#[tokio::test(start_paused = true)]
async fn after_the_last_event_there_is_little_to_wait_for() {
    let ends = [
        (Protocol::Chat, "data: [DONE]\n\n", "complete"),
        (Protocol::Chat, "data: {\"error\":{\"message\":\"boom\"}}\n\n", "upstream_error"),
        (Protocol::Responses, "event: response.failed\ndata: {\"type\":\"response.failed\"}\n\n", "upstream_error"),
        (Protocol::Messages, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", "complete"),
        (Protocol::Messages, "event: error\ndata: {\"type\":\"error\"}\n\n", "upstream_error"),
    ];
    for (protocol, end, outcome) in ends {
        for world in World::both() {
            let mut gone = world.log.abandoned();
            let began = tokio::time::Instant::now();
            let script = json!({"steps": [{"text": "all"}, {"raw": end}, "stall"]});
            assert!(text(world.send(protocol, &script, true).await).await.ends_with(end));
            assert!(began.elapsed() < std::time::Duration::from_secs(2), "{:?}", began.elapsed());
            assert_eq!(world.reports.outcomes(), [outcome]);
            gone.wait_for(|count| *count == 1).await.expect("the upstream is let go");
        }
    }
}

/// Chat: some servers leave out `[DONE]`. Then the ends of all choices are the end, and nothing less.
#[tokio::test(start_paused = true)]
async fn the_end_of_one_choice_is_not_that_of_the_others() {
    let chunk = |choices: &[(u64, &str, &str)]| {
        let choice = |&(index, text, finish): &(u64, &str, &str)| {
            let finish = if finish == "null" { json!(null) } else { json!(finish) };
            json!({"index": index, "delta": {"content": text}, "finish_reason": finish})
        };
        let choices: Vec<_> = choices.iter().map(choice).collect();
        format!("data: {}\n\n", json!({"id": "c", "choices": choices}))
    };
    let begun = [chunk(&[(0, "a", "null")]), chunk(&[(1, "b", "null")])].concat();
    for (rest, outcome) in [
        (vec![(0, "", "stop")], "upstream_incomplete"),
        (vec![(1, "", "stop")], "upstream_incomplete"),
        (vec![(0, "", "stop"), (1, "more", "null")], "upstream_incomplete"),
        (vec![(0, "", "stop"), (1, "more", "")], "upstream_incomplete"),
        (vec![(0, "", "stop"), (1, "more", "length")], "complete"),
        // An end that says nothing is none.
        (vec![(0, "", ""), (1, "", "")], "upstream_incomplete"),
    ] {
        let (apart, together) = (rest.iter().map(|one| chunk(&[*one])).collect::<String>(), chunk(&rest));
        for rest in [apart, together] {
            for world in World::both() {
                let script = json!({"steps": [{"raw": format!("{begun}{rest}")}, "close"]});
                text(world.send(Protocol::Chat, &script, true).await).await;
                assert_eq!(world.reports.outcomes(), [outcome], "{rest}");
            }
        }
    }
    // Tools have indexes too.
    let call = |index: u64| json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": index}]}, "finish_reason": null}]});
    let calls = format!("data: {}\n\ndata: {}\n\n{}", call(0), call(1), chunk(&[(0, "", "tool_calls")]));
    for world in World::both() {
        text(world.send(Protocol::Chat, &json!({"steps": [{"raw": calls}, "close"]}), true).await).await;
        assert_eq!(world.reports.outcomes(), ["complete"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_whole_answer_shorter_than_promised_is_an_error() {
    let world = World::new();
    for protocol in Protocol::ALL {
        let (status, body) = world.ask(request(protocol, &json!({"steps": [{"text": "a"}], "lie": 10}), false)).await;
        assert_eq!(status, 502);
        assert!(body.contains("broke off its answer"), "{body}");
    }
    let (status, _) = world.ask(request(Protocol::Chat, &json!({"steps": ["cut"]}), false)).await;
    assert_eq!(status, 502);
}

#[tokio::test(start_paused = true)]
async fn a_large_answer_passes_and_breaks_off_when_its_source_does() {
    let world = World::new();
    let text_of = "x".repeat(3 * 1024 * 1024);
    let large = json!({"steps": [{"text": text_of}]});
    let (status, body) = world.ask(request(Protocol::Chat, &large, false)).await;
    assert_eq!((status, body.contains(&text_of)), (200, true));
    let lying = json!({"steps": [{"text": text_of}], "lie": 5});
    let answer = world.send(Protocol::Chat, &lying, false).await;
    assert!(answer.into_body().collect().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_cancels_the_call_at_once() {
    for (stream, world) in [true, false].into_iter().flat_map(|stream| World::both().map(|world| (stream, world))) {
        let mut gone = world.log.abandoned();
        let began = tokio::time::Instant::now();
        let script = json!({"steps": [{"text": "a"}, "stall"]});
        match stream {
            true => {
                let mut answer = world.send(Protocol::Messages, &script, true).await;
                assert!(next(&mut answer).await.is_some());
                drop(answer);
            }
            false => {
                let asking = world.send(Protocol::Messages, &script, false);
                assert!(tokio::time::timeout(std::time::Duration::from_secs(1), asking).await.is_err());
            }
        }
        gone.wait_for(|count| *count == 1).await.expect("noticed");
        assert!(began.elapsed().as_millis() <= 1_010);
        assert_eq!(world.reports.outcomes(), ["client_gone"]);
    }
}

#[tokio::test(start_paused = true)]
async fn errors_of_the_upstream_pass_as_they_are() {
    let world = World::with(|settings| settings.retries = 0);
    for protocol in Protocol::ALL {
        for status in [400, 401, 404, 429, 500, 503] {
            let headers = [("retry-after", "7"), ("x-kept", "yes")];
            let script = json!({"status": status, "headers": headers, "body": "{\"error\":  \"as it is\"}"});
            let answer = world.send(protocol, &script, true).await;
            assert_eq!(answer.status(), status);
            assert_eq!(
                (&answer.headers()["retry-after"], &answer.headers()["x-kept"]),
                (&"7".parse().unwrap(), &"yes".parse().unwrap())
            );
            assert_eq!(text(answer).await, "{\"error\":  \"as it is\"}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn tries_again_before_the_first_byte_and_never_after() {
    let world = World::new();
    let began = tokio::time::Instant::now();
    let script = json!({"status": 429, "times": 2, "headers": [["retry-after", "3"]], "steps": [{"text": "third"}]});
    let body = text(world.send(Protocol::Chat, &script, true).await).await;
    assert!(body.contains("third"));
    assert_eq!(world.log.requests().len(), 3);
    assert!((6..7).contains(&began.elapsed().as_secs()), "it waits as it is told: {:?}", began.elapsed());
    assert_eq!(world.reports.all()[0].attempts, 3);
    // At once is not taken at its word.
    let (world, began) = (World::new(), tokio::time::Instant::now());
    let script = json!({"status": 503, "headers": [["retry-after", "0"]]});
    text(world.send(Protocol::Chat, &script, true).await).await;
    assert!(began.elapsed().as_millis() >= 225 + 450, "{:?}", began.elapsed());
    // Bounded; and a wait too long, or a word against it, is not waited for.
    for (script, expected) in [
        (json!({"status": 503}), 3),
        (json!({"status": 429, "headers": [["retry-after", "3600"]]}), 1),
        (json!({"status": 503, "headers": [["x-should-retry", "false"]]}), 1),
        (json!({"status": 500}), 1),
        (json!({"steps": [{"text": "a"}, "cut"]}), 1),
    ] {
        let world = World::new();
        text(world.send(Protocol::Chat, &script, true).await).await;
        assert_eq!(world.log.requests().len(), expected, "{script}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_refuses_is_tried_again_and_then_named() {
    let world = World::with(|settings| settings.upstreams[0] = support::upstream("http://refused"));
    for protocol in Protocol::ALL {
        let (status, body) = world.ask(request(protocol, &json!({}), true)).await;
        assert_eq!(status, 502);
        assert!(body.contains("upstream `script` cannot be reached: connection refused"), "{body}");
    }
    assert!(world.reports.all().iter().all(|report| report.attempts == 3));
}

#[tokio::test(start_paused = true)]
async fn connections_are_used_again() {
    let world = World::new();
    for _ in 0..10 {
        text(world.send(Protocol::Chat, &json!({"steps": [{"text": "a"}]}), true).await).await;
        text(world.send(Protocol::Chat, &json!({"steps": [{"text": "a"}]}), false).await).await;
    }
    assert_eq!(world.log.connections(), 1);
}
