//! Heads of answers, as servers and those between send them.

mod support;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use reveille_gateway::Protocol;
use serde_json::{Value, json};
use std::time::Duration;
use support::{Fixed, World, next, request, text};
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn a_long_head_and_many_headers_pass() {
    let many: Vec<Value> = (0..150).map(|number| json!([format!("x-{number}"), "1"])).collect();
    for (headers, name) in [(json!([["x-long", "y".repeat(20_000)]]), "x-long"), (json!(many), "x-149")] {
        let world = World::new();
        for protocol in Protocol::ALL {
            for stream in [true, false] {
                let script = json!({"headers": headers, "steps": [{"text": "hello"}]});
                let answer = world.send(protocol, &script, stream).await;
                assert_eq!(answer.status(), 200);
                assert!(answer.headers().contains_key(name));
                assert!(text(answer).await.contains("hello"));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_without_end_is_an_error() {
    let world = World::new();
    let script = json!({"headers": [["x-long", "y".repeat(100_000)]], "steps": [{"text": "hello"}]});
    assert_eq!(world.send(Protocol::Chat, &script, true).await.status(), 502);
}

/// A length beside chunks is a lie; passed on, it would make the rest of this answer the beginning of the next.
#[tokio::test(start_paused = true)]
async fn a_length_that_is_not_the_bodys_goes_no_further() {
    let both = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n7\r\n{\"a\":1}\r\n0\r\n\r\n";
    let other = || Request::builder().uri("/v1/files").body(Full::default()).expect("valid");
    for call in [request(Protocol::Chat, &json!({}), false), request(Protocol::Chat, &json!({}), true), other()] {
        let world = World::dialling(Fixed(vec![Bytes::from(both)]));
        let answer = world.gateway.handle(call).await;
        let promised = answer.headers().get("content-length").map(|length| length.to_str().expect("text").to_owned());
        let body = answer.into_body().collect().await.expect("whole").to_bytes();
        assert!(promised.is_none_or(|promised| promised == body.len().to_string()));
        assert!(body.starts_with(b"{\"a\":1}"), "{body:?}");
    }
}

/// The answer to a call for a stream comes as it is made, whatever its head says of its kind.
#[tokio::test(start_paused = true)]
async fn streams_of_another_kind_are_not_held_back() {
    let script = |kind: &str, headers: Value, last: &str| json!({"content_type": kind, "headers": headers, "steps": [{"text": "one"}, {"wait": 60_000}, {"text": "two"}, last]});
    for (kind, headers) in
        [("", json!([])), ("text/plain", json!([])), ("text/event-stream", json!([["content-encoding", "br"]]))]
    {
        for world in World::both() {
            let began = Instant::now();
            let mut answer = world.send(Protocol::Messages, &script(kind, headers.clone(), "comment"), true).await;
            assert!(next(&mut answer).await.expect("a piece").contains("one"));
            assert!(began.elapsed() < Duration::from_secs(1), "{kind} was held back");
            while next(&mut answer).await.is_some() {}
            assert_eq!(world.reports.outcomes(), ["complete"]);
            // One that breaks off does not look complete.
            let answer = world.send(Protocol::Messages, &script(kind, headers.clone(), "cut"), true).await;
            let read = answer.into_body().collect().await.map(|body| body.to_bytes());
            assert_eq!(read.is_ok_and(|body| String::from_utf8_lossy(&body).contains("event: error")), kind.is_empty());
            // One that falls silent ends.
            let answer = world.send(Protocol::Messages, &script(kind, headers.clone(), "stall"), true).await;
            let _ = answer.into_body().collect().await;
            assert_eq!(world.reports.outcomes()[1..], ["upstream_broken", "idle_timeout"]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_whole_answer_to_a_call_for_a_stream_passes() {
    for world in World::both() {
        let answer =
            world.gateway.handle(request(Protocol::Chat, &json!({"status": 200, "body": "{\"id\":\"c\"}"}), true));
        assert_eq!(text(answer.await).await, "{\"id\":\"c\"}");
        assert_eq!(world.reports.outcomes(), ["complete"]);
    }
}
