//! Both ends may go at any time: nothing looks complete that is not, nothing goes on that nobody waits for.

mod support;

use http_body_util::BodyExt;
use reveille_gateway::Protocol;
use serde_json::json;
use support::{World, next, request, text};

#[tokio::test(start_paused = true)]
async fn an_upstream_that_dies_in_the_middle_ends_in_an_error_event() {
    for protocol in Protocol::ALL {
        for last in ["cut", "close"] {
            let world = World::new();
            let script = json!({"steps": [{"text": "half"}, last]});
            let answer = world.send(protocol, &script, true).await;
            assert_eq!(answer.status(), 200);
            let body = text(answer).await;
            assert!(body.contains("half"));
            let frame = body.trim_end().rsplit("\n\n").next().expect("frames");
            let expected = match protocol {
                Protocol::Chat => "data: {\"error\":",
                Protocol::Responses => "event: response.failed",
                Protocol::Messages => "event: error",
            };
            assert!(frame.starts_with(expected), "{frame}");
            assert!(!body.contains("[DONE]"));
            let outcome = if last == "cut" { "upstream_broken" } else { "upstream_incomplete" };
            assert_eq!(world.reports.outcomes(), [outcome]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_is_cut_in_two_is_not_sent_as_half() {
    let world = World::new();
    let script = json!({"steps": [{"text": "one"}, {"raw": "data: {\"id\":\"chatc"}, "cut"]});
    let body = text(world.send(Protocol::Chat, &script, true).await).await;
    assert!(!body.contains("\"chatc\n") && !body.contains("\"id\":\"chatc\""), "{body}");
    assert!(body.contains("upstream_broken"));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ended_properly_may_be_followed_by_anything() {
    let world = World::new();
    let done = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    for last in ["cut", "stall", "close"] {
        let script = json!({"steps": [{"text": "all"}, {"raw": done}, last]});
        let body = text(world.send(Protocol::Chat, &script, true).await).await;
        assert!(body.ends_with(done), "{body}");
    }
    assert_eq!(world.reports.outcomes(), ["complete"; 3]);
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
    for stream in [true, false] {
        let world = World::new();
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
