//! The end of a timer is told once over MCP too: to the call that stands by if its answer was really written, and else
//! in a message. And whatever shows a client that its call lives.

#![allow(clippy::unwrap_used)]

mod support;

use reveille::config::Length;
use reveille_core::Millis;
use serde_json::{Value, json};
use std::process::Stdio;
use support::{
    mcp::{Agent, ERAS, Era, good},
    process::Home,
    *,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

const MODERN: &str = "2026-07-28";

/// A call in the words of its era; with a token if progress is wanted.
fn call(era: Era, tool: &str, arguments: &Value, token: Option<&str>) -> Value {
    let mut meta = json!({});
    if era == Era::Modern {
        meta["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
        meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
    }
    if let Some(token) = token {
        meta["progressToken"] = json!(token);
    }
    json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": {"name": tool, "arguments": arguments, "_meta": meta}})
}

/// The same as bytes of HTTP.
fn request(era: Era, body: &Value) -> String {
    let body = body.to_string();
    let headers = match era {
        Era::Legacy => "mcp-protocol-version: 2025-06-18\r\n".to_owned(),
        Era::Modern => {
            let name = serde_json::from_str::<Value>(&body).unwrap()["params"]["name"].as_str().unwrap().to_owned();
            format!("mcp-protocol-version: {MODERN}\r\nmcp-method: tools/call\r\nmcp-name: {name}\r\n")
        }
    };
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\naccept: application/json, text/event-stream\r\n\
         content-type: application/json\r\nx-reveille-session: agent\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

async fn standing_raw(world: &World, era: Era, arguments: &Value, token: Option<&str>) -> TcpStream {
    let mut count = world.server().engine.standing_by();
    let before = *count.borrow_and_update();
    let mut stream = TcpStream::connect(world.server().address).await.unwrap();
    stream.write_all(request(era, &call(era, "timer", arguments, token)).as_bytes()).await.unwrap();
    within("the call stands by", count.wait_for(|count| *count > before)).await.unwrap();
    stream
}

async fn until_read(stream: &mut TcpStream, wanted: &str) -> String {
    let mut seen = Vec::new();
    within(wanted, async {
        loop {
            let mut part = [0; 4096];
            let read = stream.read(&mut part).await.unwrap();
            assert!(read > 0, "it ended: {}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&part[..read]);
            let text = String::from_utf8_lossy(&seen).into_owned();
            if text.contains(wanted) {
                return text;
            }
        }
    })
    .await
}

#[tokio::test]
async fn the_head_of_a_response_does_not_wait_for_its_timer() {
    let world = World::start().await;
    for era in ERAS {
        for token in [None, Some("t")] {
            let asked = json!({"total_duration": 30, "reason": "r"});
            let mut stream = standing_raw(&world, era, &asked, token).await;
            let head = until_read(&mut stream, "\r\n\r\n").await;
            assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/event-stream"), "{head}");
            if token.is_some() && !head.contains("notifications/progress") {
                until_read(&mut stream, "notifications/progress").await;
            }
            world.advance(30);
            let answer = until_read(&mut stream, "\"id\":7").await;
            assert!(answer.contains("\"outcome\":\"completed\""), "{answer}");
        }
    }
}

#[tokio::test]
async fn a_call_that_stands_by_to_the_end_is_told_and_nobody_else() {
    let (world, home) = (World::start().await, Home::default());
    for era in ERAS {
        for stdio in [false, true] {
            let agent = if stdio {
                Agent::stdio(home.command(&["mcp", "--url", &world.url, "-s", "agent"]), era, "test").await
            } else {
                Agent::http(&world.url, era, "test", Some("agent")).await
            };
            let call = agent.standing(&world, json!({"total_duration": 40, "reason": "r"})).await;
            world.advance(40);
            let body = good(&within("the answer", call).await.unwrap());
            has(&body, json!({"outcome": "completed", "messages": []}));
            let message = id(&body).replace("timer_", "msg_");
            world.until_event(&message, "message.delivered").await;
            assert!(world.inbox("agent").await.is_empty());
            assert_eq!(world.done("agent", "read_timer", json!({})).await["messages"], json!([]));
        }
    }
}

/// The client leaves: before the end, or when the answer is under way. Whatever wins, the end is told and not twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_client_that_is_gone_before_the_answer_finds_a_message() {
    let world = World::start().await;
    for era in ERAS {
        for round in 0..20u32 {
            let asked = json!({"total_duration": 10, "reason": "r"});
            let stream = standing_raw(&world, era, &asked, (round % 2 == 0).then_some("t")).await;
            let timer = id(&world.timers().await[0]);
            if round == 0 {
                drop(stream);
                world.standing_count(0).await;
                world.advance(10);
            } else {
                world.advance(10);
                for _ in 0..round * 5 {
                    tokio::task::yield_now().await;
                }
                drop(stream);
            }
            let message = timer.replace("timer_", "msg_");
            let told = world
                .until("the end is settled", || async {
                    let delivered = !world.history_of(&message).await.is_empty();
                    let waiting = world.inbox("agent").await;
                    let free = waiting.iter().any(|m| m["timer_id"] == timer && m.get("leased_until").is_none());
                    (free || delivered).then_some(!free)
                })
                .await;
            assert!(round != 0 || !told, "nobody was there");
            let riding = world.done("agent", "read_timer", json!({"timer_id": timer})).await;
            assert_eq!(list(&riding["messages"]).len(), usize::from(!told), "round {round}");
            world.until_event(&message, "message.delivered").await;
            assert_eq!(world.history_of(&message).await.len(), 1);
        }
    }
}

/// A bridge that dies with an answer in its hands has delivered nothing.
#[tokio::test]
async fn what_a_dead_bridge_held_is_free_again_when_its_lease_runs_out() {
    let (world, home) = (World::start().await, Home::default());
    let timer = id(&world.done("agent", "timer", json!({"total_duration": 10, "mission": "m"})).await);
    world.advance(10);
    world.until_message("agent", &timer).await;
    // As the bridge asks, and then is no more.
    let url = format!("{}/api/sessions/agent/tools/read_timer", world.url);
    let held = world.http.post(url).header("x-reveille-receipt", "explicit").send().await.unwrap();
    let held: Value = held.json().await.unwrap();
    assert_eq!((list(&held["leases"]).len(), list(&held["messages"]).len()), (1, 1));
    let agent = Agent::stdio(home.command(&["mcp", "--url", &world.url, "-s", "agent"]), Era::Modern, "test").await;
    assert_eq!(agent.done("read_timer", json!({})).await["messages"], json!([]));
    world.advance(60);
    let told = agent.done("read_timer", json!({})).await;
    assert_eq!(told["messages"][0]["text"], finished(&timer, "Mission", "m", 10));
    assert_eq!(told.get("leases"), None, "the bridge's own business");
    world.until_event(&timer.replace("timer_", "msg_"), "message.delivered").await;
}

#[tokio::test]
async fn released_leases_are_free_at_once_and_committed_ones_never_again() {
    let world = World::start().await;
    let timer = id(&world.done("agent", "timer", json!({"total_duration": 10, "mission": "m"})).await);
    world.advance(10);
    world.until_message("agent", &timer).await;
    let url = format!("{}/api/sessions/agent/tools/read_timer", world.url);
    for (settle, left) in [("release", 1), ("commit", 0)] {
        let held = world.http.post(&url).header("x-reveille-receipt", "explicit").send().await.unwrap();
        let held: Value = held.json().await.unwrap();
        let settled =
            world.post(&format!("/api/sessions/agent/inbox/{settle}"), json!({"lease": held["leases"][0]})).await;
        assert_eq!((settled.status, &settled.body["messages"]), (200, &json!(1)));
        assert_eq!(world.inbox("agent").await.len(), left);
    }
}

#[tokio::test]
async fn the_end_of_the_input_ends_the_bridge_and_only_the_protocol_is_on_its_output() {
    let world = World::with(|config| config.mcp.standby_max = Length(Millis::from_secs(600))).await;
    let home = Home::default();
    let mut command = home.command(&["mcp", "--url", &world.url, "-s", "agent"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let asked = call(Era::Modern, "timer", &json!({"total_duration": 300, "reason": "r"}), None);
    let noise = "this is no JSON\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/odd\"}\n[]\n";
    stdin.write_all(format!("{noise}{asked}\n").as_bytes()).await.unwrap();
    world.standing_count(1).await;
    drop(stdin);
    let ended = within("the bridge ends", child.wait()).await.unwrap();
    assert!(ended.success());
    world.standing_count(0).await;
    let mut lines = BufReader::new(stdout).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(message["jsonrpc"], "2.0");
    }
    has(&world.timers().await[0], json!({"status": "running"}));
}
