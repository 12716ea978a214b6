//! Clients that mean harm, break off or try again: foreign pages, broken HTTP, too many timers, repeated requests.

#![allow(clippy::unwrap_used)]

mod support;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use support::*;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const CREATE: &str = "/api/sessions/agent/tools/timer";

/// Bytes as they are, and what comes back until the server closes.
async fn raw(world: &World, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(world.server().address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut reply = Vec::new();
    let _ = within("an answer", stream.read_to_end(&mut reply)).await;
    String::from_utf8_lossy(&reply).into_owned()
}

async fn keyed(world: &World, session: &str, key: &str, arguments: Value) -> Answer {
    let url = format!("{}/api/sessions/{session}/tools/timer", world.url);
    within("the call", send(&world.http, Method::POST, &url, Some(&arguments), Some(key))).await
}

fn mission(text: &str) -> Value {
    json!({"total_duration": 1000, "mission": text})
}

#[tokio::test]
async fn pages_of_others_are_turned_away() {
    let world = World::start().await;
    let body = mission("planted").to_string();
    let length = body.len();
    for headers in [
        "host: evil.example",
        "host: localhost.evil.example",
        "host: 127.0.0.1.evil.example:7383",
        "host: 10.0.0.1",
        "host: ",
        "x-no-host: 1",
        "host: localhost\r\norigin: https://evil.example",
        "host: localhost\r\norigin: null",
        "host: localhost\r\norigin: http://localhost.evil.example",
        "host: localhost\r\norigin: evil",
        "host: localhost:7383\r\norigin: http://localhost:3000",
        "host: 127.0.0.1\r\norigin: http://localhost:3000",
    ] {
        let request = format!(
            "POST {CREATE} HTTP/1.1\r\n{headers}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        let reply = raw(&world, request.as_bytes()).await;
        assert!(reply.starts_with("HTTP/1.1 403") && reply.contains("foreign_host"), "{headers}: {reply}");
    }
    let absolute = b"GET http://evil.example/api/timers HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert!(raw(&world, absolute).await.starts_with("HTTP/1.1 403"));
    assert!(world.timers().await.is_empty());
    assert!(world.history().await.is_empty());
    for headers in [
        "host: localhost:1",
        "host: LOCALHOST",
        "host: [::1]:80",
        "host: 127.0.0.1:3000\r\norigin: http://localhost:3000",
    ] {
        let request = format!("GET /healthz HTTP/1.1\r\n{headers}\r\nconnection: close\r\n\r\n");
        assert!(raw(&world, request.as_bytes()).await.starts_with("HTTP/1.1 200"), "{headers}");
    }
}

#[tokio::test]
async fn broken_http_harms_nobody() {
    let world = World::start().await;
    for bytes in [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        b"HELLO\r\n\r\n".to_vec(),
        b"GET /healthz HTTP/9.9\r\n\r\n".to_vec(),
        format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "x".repeat(1 << 20)).into_bytes(),
        format!("GET / HTTP/1.1\r\nhost: localhost\r\n{}\r\n", "x: y\r\n".repeat(1000)).into_bytes(),
        format!("POST {CREATE} HTTP/1.1\r\nhost: localhost\r\ncontent-length: -5\r\n\r\n").into_bytes(),
        format!("POST {CREATE} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n").into_bytes(),
    ] {
        let reply = raw(&world, &bytes).await;
        assert!(reply.is_empty() || reply.starts_with("HTTP/1.1 4"), "{reply}");
    }
    // A body that breaks off halfway.
    let mut stream = TcpStream::connect(world.server().address).await.unwrap();
    let half = format!("POST {CREATE} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{{\"total_du");
    stream.write_all(half.as_bytes()).await.unwrap();
    drop(stream);
    assert_eq!(world.get("/readyz").await, json!("ready\n"));
    assert!(world.history().await.is_empty());
}

#[tokio::test]
async fn a_method_that_is_not_allowed_says_which_is() {
    let world = World::start().await;
    let response = world.http.put(format!("{}/api/timers", world.url)).send().await.unwrap();
    assert_eq!(response.status(), 405);
    let allowed = response.headers().get("allow").map(|allow| allow.to_str().unwrap().to_owned());
    assert!(allowed.as_deref().unwrap_or_default().contains("GET"), "{allowed:?}");
}

#[tokio::test]
async fn bodies_that_are_too_large() {
    let world = World::start().await;
    world.done("agent", "timer", mission("m")).await;
    let padded = |bytes: usize| {
        let mut body = mission("too large").to_string().into_bytes();
        body.resize(bytes, b' ');
        body
    };
    for path in [CREATE, "/api/sessions/agent/inbox/lease"] {
        for bytes in [256 * 1024 + 1, 300 * 1024] {
            let request = world.http.post(format!("{}{path}", world.url)).body(padded(bytes));
            let response = within(path, request.send()).await.unwrap();
            assert_eq!(response.status(), 413);
            assert_eq!(response.json::<Value>().await.unwrap()["code"], "body_too_large");
        }
    }
    // Far too large: the answer is the same, whether or not all of it could be sent.
    let body = padded(64 << 20);
    let mut stream = TcpStream::connect(world.server().address).await.unwrap();
    let head = format!("POST {CREATE} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", body.len());
    let (mut reading, mut writing) = stream.split();
    let mut reply = vec![0; 4096];
    let read = within("the answer", async {
        tokio::select! {
            read = reading.read(&mut reply) => read.unwrap(),
            never = async {
                let _ = writing.write_all(head.as_bytes()).await;
                let _ = writing.write_all(&body).await;
                std::future::pending::<usize>().await
            } => never,
        }
    })
    .await;
    let reply = String::from_utf8_lossy(&reply[..read]).into_owned();
    assert!(reply.starts_with("HTTP/1.1 413") && reply.contains("body_too_large"), "{reply}");
    drop(stream);
    assert_eq!((world.timers().await.len(), world.history().await.len()), (1, 2));

    // Just small enough is accepted.
    let path = format!("{}{CREATE}", world.url);
    assert_eq!(world.http.post(path).body(padded(256 * 1024)).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_session_has_room_for_so_many_timers() {
    let world = World::start().await;
    let mut timers = Vec::new();
    for _ in 0..100 {
        timers.push(id(&world.done("agent", "timer", mission("m")).await));
    }
    let before = (world.timers().await, world.history().await);
    for arguments in [mission("m"), json!({"total_duration": 5, "reason": "r"})] {
        let (status, code, problem) = world.refused("agent", "timer", arguments).await;
        assert_eq!((status, code.as_str()), (409, "too_many_timers"));
        assert!(text(&problem["detail"]).contains("100"), "{problem}");
    }
    assert_eq!((world.timers().await, world.history().await), before);
    // Others have their own room, and one that ends makes room again.
    world.done("other", "timer", mission("m")).await;
    world.done("agent", "stop_timer", json!({"timer_id": timers[0]})).await;
    world.done("agent", "timer", mission("m")).await;
    let (_, code, _) = world.refused("agent", "timer", mission("m")).await;
    assert_eq!(code, "too_many_timers");
    world.advance(1000);
    world.until("all end", || async { (world.inbox("agent").await.len() == 100).then_some(()) }).await;
    world.done("agent", "timer", mission("m")).await;
}

#[tokio::test]
async fn the_room_and_other_limits_can_be_configured() {
    let world = World::with(|config| {
        config.limits.timers_per_session = 2;
        config.limits.text_chars = 5;
        config.limits.max_duration = reveille::config::Length(reveille_core::Millis::from_secs(60));
    })
    .await;
    let refusal = async |arguments| world.refused("agent", "timer", arguments).await.1;
    assert_eq!(refusal(json!({"total_duration": 61, "mission": "m"})).await, "duration_too_long");
    assert_eq!(refusal(json!({"total_duration": 60, "mission": "六个字的任务"})).await, "text_too_long");
    world.done("agent", "timer", json!({"total_duration": 60, "mission": "五个字任务"})).await;
    world.done("agent", "timer", json!({"total_duration": 60, "mission": "m"})).await;
    assert_eq!(refusal(json!({"total_duration": 60, "mission": "m"})).await, "too_many_timers");
}

#[tokio::test]
async fn a_repeated_creation_makes_no_second_timer() {
    let mut world = World::start().await;
    let first = keyed(&world, "agent", "key-1", mission("m")).await;
    let timer = id(&first.body);
    for _ in 0..2 {
        let again = keyed(&world, "agent", "key-1", mission("m")).await;
        assert_eq!(again.status, 200);
        has(&again.body, json!({"timer_id": timer, "outcome": "scheduled", "created_at": START}));
        world.advance(1);
        world.down().await;
        world.up().await; // the key outlives the process
    }
    assert_eq!(world.timers().await.len(), 1);
    let other = keyed(&world, "agent", "key-1", mission("something else")).await;
    assert_eq!((other.status, text(&other.body["code"]).as_str()), (422, "idempotency_key_reused"));
    let longer = keyed(&world, "agent", "key-1", json!({"total_duration": 1001, "mission": "m"})).await;
    assert_eq!(longer.status, 422);
    assert_eq!(world.timers().await.len(), 1);
    // The key is this session's own.
    let elsewhere = keyed(&world, "other", "key-1", mission("something else")).await;
    assert_eq!(elsewhere.status, 200);
    assert_ne!(id(&elsewhere.body), timer);
    for (key, status) in [("", 400), (&*"k".repeat(201), 400), (&*"k".repeat(200), 200)] {
        let answer = keyed(&world, "third", key, mission("m")).await;
        assert_eq!(answer.status, status, "{}", answer.body);
    }
    // After the end the answer is the end.
    world.advance(1000);
    world.until_message("agent", &timer).await;
    let after = keyed(&world, "agent", "key-1", mission("m")).await;
    has(&after.body, json!({"timer_id": timer, "outcome": "completed", "status": "completed"}));
    assert_eq!(world.get("/api/timers?session=agent").await["timers"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_same_creation_sent_many_times_at_once_makes_one_timer() {
    let world = World::start().await;
    for round in 0..10 {
        let (session, key) = (format!("s{round}"), format!("k{round}"));
        let answers = join_all((0..12).map(|_| keyed(&world, &session, &key, mission("m")))).await;
        let ids: BTreeSet<String> = answers.iter().map(|answer| id(&answer.body)).collect();
        assert_eq!(ids.len(), 1, "{ids:?}");
    }
    assert_eq!(world.timers().await.len(), 10);
    has(&world.get("/api/stats").await["timers"], json!({"created": 10, "running": 10}));
}

#[tokio::test]
async fn a_client_that_lost_its_call_stands_by_again_with_its_key() {
    let world = World::start().await;
    let ask = json!({"total_duration": 300, "timeout_duration": 200, "reason": "r"});
    let lost = world.standing_keyed("agent", ask.clone(), Some("k")).await;
    world.advance(50);
    lost.abort();
    world.standing_count(0).await;
    let call = world.standing_keyed("agent", ask.clone(), Some("k")).await;
    world.advance(200);
    let answer = result(call).await;
    has(&answer, json!({"outcome": "timeout", "elapsed_time": 250, "remaining_time": 50}));
    // To the end, and released from outside like any other call.
    let call = world.standing_keyed("agent", ask.clone(), Some("k")).await;
    world.advance(50);
    has(&result(call).await, json!({"outcome": "completed", "timer_id": answer["timer_id"]}));
    let after = keyed(&world, "agent", "k", ask.clone()).await;
    has(&after.body, json!({"outcome": "completed", "timeout": false, "messages": []}));
    let call = world.standing_keyed("agent", ask.clone(), Some("k2")).await;
    let again = world.standing_keyed("agent", ask, Some("k2")).await;
    let timer = id(&world.timers().await[0]);
    world.post(&format!("/api/timers/{timer}/stop"), json!({})).await;
    has(&result(call).await, json!({"outcome": "stopped", "timer_id": timer}));
    has(&result(again).await, json!({"outcome": "stopped", "timer_id": timer}));
    assert_eq!(world.timers().await.len(), 2);
}
