//! Agents that Reveille runs, over real HTTP with a scripted model: turns, tools, pushes, and files that change.

#![allow(clippy::unwrap_used)]

mod files;
mod hooks;
mod living;
mod secrets;
#[path = "../support/mod.rs"]
mod support;
mod words;

use base64::{Engine, engine::general_purpose::STANDARD};
use futures_util::{SinkExt, StreamExt};
use hmac::{Hmac, KeyInit, Mac};
use reqwest::Method;
use reveille::config::{Config, gateway::UpstreamConfig};
use scripted_upstream::{Listening, Upstream};
use serde_json::{Value, json};
use support::{
    endpoint::{Answer, Called, Endpoints},
    *,
};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;

struct Stage {
    world: World,
    endpoints: Endpoints,
    model: Listening,
}

fn agent(base: &str) -> Value {
    json!({
        "model": "scripted", "system_prompt": "你是客服。",
        "tools": [
            {"name": "read_customer", "description": "read", "endpoint": {"url": format!("{base}/read"), "method": "GET"},
             "parameters": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}},
            {"name": "save", "endpoint": format!("{base}/save")},
            {"name": "log", "endpoint": format!("{base}/log")},
            {"name": "close_conversation", "endpoint": format!("{base}/close")},
        ],
        "system_actions": ["save", "log", "close_conversation"],
        "timers": [{"timer_id": "idle", "delay_seconds": 300, "max_triggers": 2, "reset": "on_message",
                    "tool_name": "generate_response", "message": "还在吗？"}],
        "limits": {"turn_wait_seconds": 5},
    })
}

async fn stage() -> Stage {
    stage_with(|_| {}).await
}

async fn stage_with(change: impl FnOnce(&mut Config)) -> Stage {
    let (endpoints, model) =
        (Endpoints::start().await, Upstream::new(&["scripted"]).listen("127.0.0.1:0").await.unwrap());
    let entry = json!({
        "name": "script", "base_url": model.url(), "protocols": ["chat", "responses", "messages"], "models": ["scripted"],
    });
    let entry: UpstreamConfig = serde_json::from_value(entry).unwrap();
    let world = World::with(|config| {
        config.gateway.upstream = vec![entry];
        config.agents.cache = 1;
        change(config);
    })
    .await;
    let set = world.request(Method::PUT, "/api/agents/acme/support", Some(&agent(&endpoints.url))).await;
    assert_eq!(set.status, 200, "{}", set.body);
    Stage { world, endpoints, model }
}

const QUERY: &str = "/api/agents/acme/support/sessions/chat-1/query";

fn script(steps: Value) -> String {
    format!("script:{}", json!({"steps": steps}))
}

async fn timer(world: &World) -> Value {
    world.get("/api/sessions/chat-1").await["session_timers"][0].clone()
}

/// Waits until the last turn's answer is written.
async fn armed(world: &World) -> Value {
    world
        .until("the timers are armed", || async {
            let timer = timer(world).await;
            (timer["suspended"] == false).then_some(timer)
        })
        .await
}

#[tokio::test]
async fn a_turn_calls_tools_and_answers() {
    let Stage { world, endpoints, model } = stage().await;
    // What a tool answers is the last thing the model sees, and so its script.
    endpoints.answers("/read", &[Answer::Says(200, script(json!([{"text": "李雷，您好"}])))]);
    let first = script(json!([
        {"tool": {"name": "save", "arguments": {"x": 1}}}, {"tool": {"name": "log", "arguments": {}}},
        {"tool": {"name": "read_customer", "arguments": {"id": 7}}},
    ]));
    let answer = world.post(QUERY, json!({"message": first})).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    has(&answer.body, json!({"content": "李雷，您好", "closed": false, "session": "chat-1"}));
    assert_eq!(list(&answer.body["tools"]).len(), 3);
    let mut called: Vec<Called> = Vec::new();
    for _ in 0..3 {
        called.push(endpoints.next().await);
    }
    assert_eq!((called[2].method.as_str(), called[2].path.as_str()), ("GET", "/read?id=7"), "after the system actions");
    let mut keys: Vec<&str> = called.iter().map(|call| call.header("idempotency-key")).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 3);
    has(&armed(&world).await, json!({"next_trigger_at": START + 300_000}));
    // What was silent for the model is in the history all the same.
    for call in &called {
        let done = world.until_event(call.header("idempotency-key"), "call.done").await;
        has(&done["data"], json!({"agent": "acme:support", "status": 200, "attempts": 1}));
    }

    let asked = model.upstream.log.requests();
    let sent: Vec<Value> = asked.iter().map(|request| serde_json::from_slice(&request.body).unwrap()).collect();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0]["messages"][0], json!({"role": "system", "content": "你是客服。"}));
    assert_eq!(list(&sent[0]["tools"]).len(), 4);
    let second = list(&sent[1]["messages"]);
    let contents: Vec<&Value> =
        second.iter().filter(|said| said["role"] == "tool").map(|said| &said["content"]).collect();
    assert_eq!(contents[..2], [&json!("ok"), &json!("ok")], "system actions are silent");

    // The next turn sees what was said, without what was silent.
    let answer = world.post(QUERY, json!({"message": "再见"})).await;
    assert_eq!(answer.body["content"], "Hello! 6 messages, 4 tools, 0 images");
    armed(&world).await;
    let said = list(&world.get("/api/sessions/chat-1").await["conversation"]);
    let roles: Vec<String> = said.iter().map(|said| text(&said["role"])).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant", "user", "assistant"]);
    assert_eq!(said[1]["tool_calls"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_system_action_that_fails_is_recorded_and_system_actions_wait_for_no_other() {
    let Stage { world, endpoints, model: _model } = stage().await;
    endpoints.answers("/save", &[Answer::Hangs]);
    endpoints.answers("/log", &[Answer::Says(404, "no log".into())]);
    let both = script(json!([
        {"tool": {"name": "save", "arguments": {}}}, {"tool": {"name": "log", "arguments": {}}},
    ]));
    let (http, url) = (world.http.clone(), format!("{}{QUERY}", world.url));
    let turn =
        tokio::spawn(async move { send(&http, Method::POST, &url, Some(&json!({"message": both})), None).await });
    // The first one never ends by itself, and the second one is called.
    let called = [endpoints.next().await, endpoints.next().await];
    let log = called.iter().find(|call| call.path == "/log").unwrap();
    endpoints.answers("/save", &[Answer::Says(200, String::new())]);
    within("the turn ends", async {
        while !turn.is_finished() {
            world.advance(1);
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(turn.await.unwrap().status, 200);
    let failed = world.until_event(log.header("idempotency-key"), "call.failed").await;
    has(&failed["data"], json!({"target": "log", "status": 404}));
    assert!(text(&failed["data"]["error"]).contains("no log"), "{failed}");
}

#[tokio::test]
async fn a_turn_with_system_actions_alone_does_not_wait_for_what_a_timer_calls() {
    let Stage { world, endpoints, model: _model } = stage().await;
    let mut agent = agent(&endpoints.url);
    agent["timers"] = json!([{"timer_id": "look", "delay_seconds": 60, "tool_name": "read_customer",
                              "tool_params": {"id": 1}}]);
    assert_eq!(world.request(Method::PUT, "/api/agents/acme/support", Some(&agent)).await.status, 200);
    endpoints.answers("/read", &[Answer::Hangs]);
    let said = world.post("/api/sessions/chat-1/activity", json!({"agent": "acme:support"})).await;
    assert_eq!(said.status, 200, "{}", said.body);
    world.advance(60);
    assert_eq!(endpoints.next().await.path, "/read?id=1");
    // The clock stands still: what hangs goes on hanging.
    let save = script(json!([{"tool": {"name": "save", "arguments": {}}}]));
    let answer = within("the turn ends", world.post(QUERY, json!({"message": save}))).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(endpoints.next().await.path, "/save");
}

#[tokio::test]
async fn turns_by_the_other_protocols() {
    for protocol in ["messages", "responses"] {
        let Stage { world, endpoints, model } = stage().await;
        let mut agent = agent(&endpoints.url);
        agent["protocol"] = json!(protocol);
        assert_eq!(world.request(Method::PUT, "/api/agents/acme/support", Some(&agent)).await.status, 200);
        let calls = script(json!([
            {"tool": {"name": "save", "arguments": {}}}, {"tool": {"name": "read_customer", "arguments": {"id": 7}}},
        ]));
        let answer = world.post(QUERY, json!({"message": calls})).await;
        assert!(text(&answer.body["content"]).starts_with("Hello! "), "{protocol}: {}", answer.body);
        let asked = model.upstream.log.requests();
        let second: Value = serde_json::from_slice(&asked[1].body).unwrap();
        assert_eq!(list(&second["tools"]).len(), 4, "{second}");
        if protocol == "messages" {
            has(&second, json!({"system": "你是客服。", "model": "scripted"}));
            let results = list(&second["messages"][2]["content"]);
            assert_eq!((second["messages"][1]["content"].as_array().unwrap().len(), results.len()), (2, 2));
            assert!(results.iter().all(|result| result["type"] == "tool_result"), "{results:?}");
        } else {
            has(&second, json!({"instructions": "你是客服。", "model": "scripted", "store": false}));
            let kinds: Vec<String> =
                list(&second["input"]).iter().map(|item| text(item.get("type").unwrap_or(&item["role"]))).collect();
            let (call, result) = ("function_call", "function_call_output");
            assert_eq!(kinds, ["user", call, call, result, result], "{second}");
        }
    }
}

#[tokio::test]
async fn every_word_is_streamed_as_it_comes() {
    for protocol in ["chat", "messages", "responses"] {
        let Stage { world, endpoints, model } = stage().await;
        let mut agent = agent(&endpoints.url);
        agent["protocol"] = json!(protocol);
        assert_eq!(world.request(Method::PUT, "/api/agents/acme/support", Some(&agent)).await.status, 200);
        let calls = json!({
            "steps": [{"text": "等一下"}, {"tool": {"name": "read_customer", "arguments": {"id": 7}}}],
            "then": [{"steps": [{"text": "你好"}, {"text": "👋"}]}],
        });
        let calls = format!("script:{calls}");
        let body = json!({"message": calls, "stream": true});
        let request = world.http.post(format!("{}{QUERY}", world.url)).json(&body);
        let told = within("the stream ends", async { request.send().await.unwrap().text().await.unwrap() }).await;
        let events: Vec<Value> = told
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .map(|data| serde_json::from_str(data).unwrap())
            .collect();
        let names: Vec<String> = events.iter().map(|event| text(&event["event"])).collect();
        assert_eq!(names, ["delta", "tool_call", "tool_result", "delta", "delta", "message"], "{protocol}: {told}");
        assert_eq!((&events[0]["text"], &events[4]["text"]), (&json!("等一下"), &json!("👋")));
        assert_eq!(events[5]["content"], "你好👋");
        assert!(
            model
                .upstream
                .log
                .requests()
                .iter()
                .all(|asked| String::from_utf8_lossy(&asked.body).contains("\"stream\":true"))
        );
        // One that breaks in the middle ends with what is wrong.
        armed(&world).await;
        let broken = json!({"message": script(json!([{"text": "一"}, "close"])), "stream": true});
        let request = world.http.post(format!("{}{QUERY}", world.url)).json(&broken);
        let told = within("the stream ends", async { request.send().await.unwrap().text().await.unwrap() }).await;
        let events: Vec<&str> = told.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
        assert_eq!(events, ["delta", "failed"], "{protocol}: {told}");
        armed(&world).await;
    }
}

#[tokio::test]
async fn mistakes_of_the_model_are_told_to_it_and_failures_of_it_to_the_client() {
    let Stage { world, endpoints, model: _model } = stage().await;
    let calls = script(json!([
        {"tool": {"name": "read_customer", "arguments": {"id": "seven"}}},
        {"tool": {"name": "nobody", "arguments": {}}},
    ]));
    let answer = world.post(QUERY, json!({"message": calls})).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    has(&answer.body["tools"][0], json!({"name": "read_customer", "ok": false}));
    armed(&world).await;
    let said = list(&world.get("/api/sessions/chat-1").await["conversation"]);
    assert!(text(&said[2]["content"]).contains("'/id'"), "{said:?}");
    assert!(text(&said[3]["content"]).contains("the tools are: close_conversation, log"), "{said:?}");
    endpoints.quiet().await;

    let broken = json!({"message": format!("script:{}", json!({"status": 500}))});
    let refused = world.post(QUERY, broken).await;
    assert_eq!((refused.status, &refused.body["code"]), (502, &json!("model_failed")), "{}", refused.body);
    armed(&world).await;
    for (path, body, status, code) in [
        (QUERY, json!({}), 400, "missing_argument"),
        (QUERY, json!({"mesage": "x"}), 400, "invalid_argument"),
        ("/api/agents/acme/nobody/sessions/s/query", json!({"message": "x"}), 404, "unknown_agent"),
    ] {
        let refused = world.post(path, body).await;
        assert_eq!((refused.status, &refused.body["code"]), (status, &json!(code)), "{}", refused.body);
    }
    let mute = world.request(Method::PUT, "/api/agents/acme/mute", Some(&json!({}))).await;
    assert_eq!(mute.status, 200);
    let refused = world.post("/api/agents/acme/mute/sessions/s/query", json!({"message": "x"})).await;
    assert_eq!(refused.body["code"], "agent_without_model");
    // Out of the cache by now, and made again.
    let hello = script(json!([{"text": "你好"}]));
    assert_eq!(world.post(QUERY, json!({"message": hello})).await.status, 200);
}

#[tokio::test]
async fn one_turn_at_a_time_and_no_firing_in_the_middle_of_one() {
    let Stage { world, endpoints, model: _model } = stage().await;
    // The tool is waited for longer than the second turn waits, however late that one comes.
    let mut patient = agent(&endpoints.url);
    patient["tools"][0]["endpoint"]["timeout"] = json!("110s");
    assert_eq!(world.request(Method::PUT, "/api/agents/acme/support", Some(&patient)).await.status, 200);
    endpoints.answers("/read", &[Answer::Hangs]);
    let slow = script(json!([{"tool": {"name": "read_customer", "arguments": {"id": 1}}}]));
    let (http, url) = (world.http.clone(), format!("{}{QUERY}", world.url));
    let first =
        tokio::spawn(async move { send(&http, Method::POST, &url, Some(&json!({"message": slow})), None).await });
    endpoints.next().await;
    let (http, url) = (world.http.clone(), format!("{}{QUERY}", world.url));
    let mut second =
        tokio::spawn(async move { send(&http, Method::POST, &url, Some(&json!({"message": "?"})), None).await });
    // It waits; how long is the agent's to say.
    let refused = within("the second is refused", async {
        while world.now() < START + 100_000 {
            world.advance(1);
            tokio::select! {
                refused = &mut second => return refused.unwrap(),
                _ = world.get("/api/stats") => {}
            }
        }
        (&mut second).await.unwrap()
    })
    .await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("turn_in_progress")));
    has(&timer(&world).await, json!({"suspended": true, "trigger_count": 0}));
    // The client leaves; the turn goes on, in bounds: four attempts and the waits between them.
    first.abort();
    endpoints.answers("/read", &[Answer::Says(200, script(json!([{"text": "done"}])))]);
    let armed = within("the turn ends by itself", async {
        loop {
            world.advance(1);
            let timer = timer(&world).await;
            if timer["suspended"] == false {
                return timer;
            }
        }
    })
    .await;
    assert_eq!(armed["trigger_count"], 0);
    let said = list(&world.get("/api/sessions/chat-1").await["conversation"]);
    assert_eq!(said.last().unwrap()["content"], "done");
}

#[tokio::test]
async fn an_agent_closes_its_session_and_streams_what_it_does() {
    let Stage { world, endpoints, model: _model } = stage().await;
    let closing = script(json!([{"tool": {"name": "close_conversation", "arguments": {}}}]));
    let request = world.http.post(format!("{}{QUERY}", world.url)).json(&json!({"message": closing, "stream": true}));
    let told = within("the stream ends", async { request.send().await.unwrap().text().await.unwrap() }).await;
    let mut events: Vec<&str> = told.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    events.retain(|event| *event != "delta");
    assert_eq!(events, ["tool_call", "tool_result", "message"], "{told}");
    assert!(told.contains(r#""closed":true"#), "{told}");
    assert_eq!(endpoints.next().await.path, "/close");
    world
        .until("the session is closed", || async {
            (world.get("/api/sessions/chat-1").await["state"] == "closed").then_some(())
        })
        .await;
    has(&timer(&world).await, json!({"status": "cancelled"}));
}

#[tokio::test]
async fn gateway_calls_that_name_their_agent_drive_its_timers() {
    let Stage { world, model: _model, .. } = stage().await;
    let call = async |steps: Value, stream: bool| {
        let tools = json!([{"type": "function", "function": {"name": "x", "parameters": {"type": "object"}}}]);
        let messages = json!([{"role": "user", "content": script(steps)}]);
        let body = json!({"model": "scripted", "stream": stream, "messages": messages, "tools": tools});
        let request = world.http.post(format!("{}/v1/chat/completions", world.url)).json(&body);
        let request = request.header("x-reveille-agent", "acme:support").header("x-reveille-session", "chat-1");
        let answer = within("the model answers", async { request.send().await.unwrap() }).await;
        assert_eq!(answer.status(), 200);
        within("the answer ends", answer.text()).await.unwrap()
    };
    for stream in [false, true] {
        call(json!([{"text": "hi"}]), stream).await;
        has(&armed(&world).await, json!({"next_trigger_at": world.now() + 300_000}));
        world.advance(100);
    }
    // The client has tools to call: its agent works on.
    call(json!([{"tool": {"name": "x", "arguments": {}}}]), true).await;
    world.advance(400);
    has(&timer(&world).await, json!({"suspended": true, "trigger_count": 0}));
    call(json!([{"text": "done"}]), true).await;
    armed(&world).await;
    world.advance(300);
    world.until("it fires", || async { (timer(&world).await["trigger_count"] == 1).then_some(()) }).await;
    // One that names nobody is only a model call; who misspelt it is told.
    let body = json!({"model": "scripted", "messages": []});
    let request = world.http.post(format!("{}/v1/chat/completions", world.url)).json(&body);
    for (name, timers) in [
        ("acme:support", None),
        ("acme:suport", Some("none; unknown agent")),
        ("nobody", Some("none; the agent is not named tenant:chatbot")),
    ] {
        let request = request.try_clone().unwrap().header("x-reveille-agent", name).header("x-reveille-session", "x");
        let answer = within("an answer", request.send()).await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers().get("x-reveille-timers").map(|value| value.to_str().unwrap()), timers);
    }
}

fn signed(call: &Called, key: &[u8]) {
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(key).unwrap();
    let (id, at) = (call.header("webhook-id"), call.header("webhook-timestamp"));
    mac.update(format!("{id}.{at}.{}", call.body).as_bytes());
    let expected = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    assert_eq!(call.header("webhook-signature"), expected);
}

#[tokio::test]
async fn webhooks_are_signed_tried_again_and_kept_when_they_fail() {
    let Stage { world, endpoints, model: _model } = stage().await;
    let key = [7u8; 32];
    let mut agent = agent(&endpoints.url);
    let secret = format!("whsec_{}", STANDARD.encode(key));
    agent["webhooks"] = json!([{"url": format!("{}/hook", endpoints.url), "secret": secret}]);
    assert_eq!(world.request(Method::PUT, "/api/agents/acme/support", Some(&agent)).await.status, 200);
    let shown = world.get("/api/agents/acme/support").await.to_string();
    assert!(!shown.contains("whsec_"), "{shown}");
    endpoints.answers("/hook", &[Answer::Says(500, "no".into())]);
    world.post("/api/sessions/chat-1/activity", json!({"agent": "acme:support"})).await;
    world.advance(300);
    let first = endpoints.next().await;
    signed(&first, &key);
    let told = first.json();
    has(&told, json!({"type": "message.created", "agent": "acme:support", "session": "chat-1"}));
    has(&told["data"], json!({"role": "assistant", "text": "还在吗？"}));
    let id = first.header("webhook-id").to_owned();
    let call = async || {
        let all = list(&world.get("/api/calls").await["calls"]);
        all.into_iter().find(|call| call["id"] == id).unwrap()
    };
    let mut attempts = 1;
    loop {
        let state = world
            .until("the attempt is settled", || async {
                let state = call().await;
                (state["status"] != "running" && state["attempts"] == attempts).then_some(state)
            })
            .await;
        if state["status"] == "failed" {
            break;
        }
        world.clock.set(reveille_core::Timestamp::from_millis(state["next_attempt_at"].as_i64().unwrap()));
        loop {
            let again = endpoints.next().await;
            signed(&again, &key);
            if again.header("webhook-id") == id {
                assert_eq!(again.body, first.body, "the same is told with every attempt");
                break;
            }
        }
        attempts += 1;
    }
    assert_eq!(attempts, 9);
    let dead = list(&world.get("/api/calls?status=failed").await["calls"]);
    assert!(dead.iter().any(|call| call["id"] == id && call["last_status"] == 500), "{dead:?}");
    endpoints.answers("/hook", &[Answer::Says(200, String::new())]);
    let replayed = world.post(&format!("/api/calls/{id}/replay"), json!({})).await;
    assert_eq!(replayed.status, 200, "{}", replayed.body);
    world.until("it is told after all", || async { (call().await["status"] == "done").then_some(()) }).await;
    let again = world.post(&format!("/api/calls/{id}/replay"), json!({})).await;
    assert_eq!((again.status, &again.body["code"]), (409, &json!("call_not_failed")));
}

async fn socket(world: &World) -> WebSocketStream<TcpStream> {
    let address = world.server().address;
    let stream = TcpStream::connect(address).await.unwrap();
    let url = format!("ws://{address}/api/sessions/chat-1/socket");
    within("the handshake", tokio_tungstenite::client_async(url, stream)).await.unwrap().0
}

#[tokio::test]
async fn a_websocket_that_nobody_answers_on_is_ended() {
    let Stage { world, model: _model, .. } = stage().await;
    let followers = async || {
        let metrics = world.http.get(format!("{}/metrics", world.url)).send().await.unwrap().text().await.unwrap();
        let line = metrics.lines().find(|line| line.starts_with("reveille_event_followers ")).unwrap();
        line.rsplit(' ').next().unwrap().parse::<u32>().unwrap()
    };
    let (_silent, mut lively) = (socket(&world).await, socket(&world).await);
    world.until("both follow", || async { (followers().await == 2).then_some(()) }).await;
    for round in 0..6 {
        world.advance(30);
        // Reading a ping answers it.
        let asked = within("a ping", async { lively.next().await.unwrap().unwrap() }).await;
        assert!(asked.is_ping(), "{asked:?}");
        lively.flush().await.unwrap();
        // By the time this is answered, so is the ping.
        let left = followers().await;
        assert!(round > 1 || left == 2, "one that was asked twice may still answer");
    }
    world.until("the silent one is gone", || async { (followers().await == 1).then_some(()) }).await;
    assert_eq!(followers().await, 1, "the other one stays");
}

#[tokio::test]
async fn what_a_timer_says_comes_over_a_websocket_and_as_an_event() {
    let Stage { world, model: _model, .. } = stage().await;
    world.post("/api/sessions/chat-1/activity", json!({"agent": "acme:support"})).await;
    let mut socket = socket(&world).await;
    let mut events =
        world.http.get(format!("{}/api/events?session=chat-1", world.url)).send().await.unwrap().bytes_stream();
    world.advance(300);
    let told = within("a message", async {
        loop {
            let message = socket.next().await.unwrap().unwrap();
            if let Ok(text) = message.into_text()
                && text.contains("session_timer.triggered")
            {
                return serde_json::from_str::<Value>(&text).unwrap();
            }
        }
    })
    .await;
    has(&told["data"]["message"], json!({"text": "还在吗？", "role": "assistant"}));
    let mut seen = String::new();
    within("an event", async {
        while !seen.contains("还在吗？") {
            seen.push_str(&String::from_utf8_lossy(&events.next().await.unwrap().unwrap()));
        }
    })
    .await;
    let plain = world.request(Method::GET, "/api/sessions/chat-1/socket", None).await;
    assert_eq!(plain.status, 426);
}
