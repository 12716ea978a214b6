//! Turns as they really go: longer than anybody thought, side by side, broken off, and in a server that stops.

use super::{
    QUERY, Stage, agent, armed, script, stage, stage_with,
    support::{endpoint::Answer, site::Site, *},
    timer,
};
use futures_util::StreamExt;
use reqwest::Method;
use reveille::config::{
    Length,
    gateway::{GatewayConfig, UpstreamConfig},
};
use reveille_core::{Kind, Millis, Needs, SessionId, command::Select};
use reveille_store::StoreError;
use scripted_upstream::Upstream;
use serde_json::{Value, json};

/// After how many seconds a turn is given up in these tests.
const TURN: u64 = 60;

async fn short_turns() -> Stage {
    stage_with(|config| config.limits.turn = Length(Millis::from_secs(TURN))).await
}

/// Lets much more time go by than a turn may take, as long as somebody says that it lives.
async fn lives_on(world: &World) {
    for _ in 0..10 {
        world.advance(TURN / 3);
        let needs = || Needs { items: Select::LiveOf(Kind::SessionTimer), ..Needs::default() };
        world
            .until("the turn is heard of", || async {
                let state = world.server().engine.store().load(&SessionId::new("chat-1"), needs()).await.unwrap();
                let due = state.items[0].due()?.as_millis();
                (due == world.now() + TURN as i64 * 1000).then_some(())
            })
            .await;
        has(&timer(world).await, json!({"suspended": true, "trigger_count": 0}));
    }
}

fn asking(world: &World, path: &str, message: String) -> Pending {
    let (http, url) = (world.http.clone(), format!("{}{path}", world.url));
    tokio::spawn(async move { send(&http, Method::POST, &url, Some(&json!({"message": message})), None).await })
}

#[tokio::test]
async fn a_turn_may_be_longer_than_a_turn_that_nobody_hears_of() {
    let Stage { world, endpoints, model: _model } = short_turns().await;
    let mut patient = agent(&endpoints.url);
    patient["tools"][0]["endpoint"]["timeout"] = json!("120s");
    assert_eq!(world.request(Method::PUT, "/api/agents/acme/support", Some(&patient)).await.status, 200);
    endpoints.answers("/read", &[Answer::Hangs, Answer::Hangs, Answer::Says(200, script(json!([{"text": "done"}])))]);
    let slow = script(json!([{"tool": {"name": "read_customer", "arguments": {"id": 1}}}]));
    let turn = asking(&world, QUERY, slow);
    endpoints.next().await;
    lives_on(&world).await;
    within("the turn ends", async {
        while !turn.is_finished() {
            world.advance(1);
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(turn.await.unwrap().body["content"], "done");
    assert_eq!(armed(&world).await["trigger_count"], 0);
}

/// A call through the gateway; `tools`: whether it is part of the conversation.
async fn call(world: &World, steps: Value, tools: bool) -> reqwest::Response {
    call_of(world, steps, tools, &[]).await
}

async fn call_of(world: &World, steps: Value, tools: bool, headers: &[(&str, &str)]) -> reqwest::Response {
    let mut body =
        json!({"model": "scripted", "stream": true, "messages": [{"role": "user", "content": script(steps)}]});
    if tools {
        body["tools"] = json!([{"type": "function", "function": {"name": "x", "parameters": {"type": "object"}}}]);
    }
    let request = world.http.post(format!("{}/v1/chat/completions", world.url)).json(&body);
    let request = request.header("x-reveille-agent", "acme:support").header("x-reveille-session", "chat-1");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    within("the model answers", async { request.send().await.unwrap() }).await
}

async fn whole(answer: reqwest::Response) {
    within("the answer ends", answer.text()).await.unwrap();
}

#[tokio::test]
async fn a_stream_through_the_gateway_may_be_long_and_one_that_breaks_ends_the_turn() {
    let Stage { world, model: _model, .. } = short_turns().await;
    let mut stream = call(&world, json!([{"text": "嗯"}, "stall"]), true).await.bytes_stream();
    within("it begins", stream.next()).await.unwrap().unwrap();
    lives_on(&world).await;
    drop(stream);
    has(&armed(&world).await, json!({"trigger_count": 0, "next_trigger_at": world.now() + 300_000}));
    // Whose client has tools to call, and never comes back, is given up all the same.
    whole(call(&world, json!([{"tool": {"name": "x", "arguments": {}}}]), true).await).await;
    has(&timer(&world).await, json!({"suspended": true}));
    world.advance(TURN);
    has(&armed(&world).await, json!({"next_trigger_at": world.now() + 300_000}));
}

#[tokio::test]
async fn calls_side_by_side_are_one_turn() {
    let Stage { world, model: _model, .. } = stage().await;
    let (stalls, stops) = (json!([{"text": "嗯"}, "stall"]), json!([{"text": "好"}]));
    let tools = json!([{"tool": {"name": "x", "arguments": {}}}]);
    // The last one to end arms them, whoever began last.
    let first = call(&world, stalls.clone(), true).await;
    whole(call(&world, stops.clone(), true).await).await;
    has(&timer(&world).await, json!({"suspended": true}));
    drop(first);
    armed(&world).await;
    // One that wants tools called is not over because another is, nor because of a side request.
    let first = call(&world, stalls.clone(), true).await;
    whole(call(&world, tools.clone(), true).await).await;
    drop(first);
    whole(call(&world, stops.clone(), false).await).await;
    world.advance(10);
    has(&timer(&world).await, json!({"suspended": true}));
    // Its results come while another one is under way.
    let first = call(&world, stalls.clone(), false).await;
    whole(call(&world, stops.clone(), true).await).await;
    has(&timer(&world).await, json!({"suspended": true}));
    drop(first);
    armed(&world).await;
    // Some clients leave their tools out when they bring the results.
    whole(call(&world, tools.clone(), true).await).await;
    let mut last = json!([{"role": "user", "content": script(stops.clone())}]);
    let result = json!({"role": "tool", "tool_call_id": "call_0", "content": "42"});
    last.as_array_mut().unwrap().push(result);
    let request = world.http.post(format!("{}/v1/chat/completions", world.url));
    let request = request.header("x-reveille-agent", "acme:support").header("x-reveille-session", "chat-1");
    let request = request.json(&json!({"model": "scripted", "stream": true, "messages": last}));
    whole(within("the model answers", request.send()).await.unwrap()).await;
    armed(&world).await;
    // Many at once, in any order: armed in the end.
    for round in 0..5 {
        let one = async |number: usize| {
            let answer = call(&world, if number == round { stalls.clone() } else { stops.clone() }, true).await;
            if number == round { drop(answer) } else { whole(answer).await }
        };
        futures_util::future::join_all((0..8).map(one)).await;
        armed(&world).await;
    }
}

/// A turn that waits for a reminder has been answered; when it goes on, the agent works again.
#[tokio::test]
async fn silence_begins_when_a_turn_is_held() {
    let Stage { world, model: _model, .. } = stage().await;
    let item = json!({"task": "茶", "in": "1h"});
    let set = world.tool("chat-1", "clock", json!({"action": "schedule", "items": [item]})).await;
    assert_eq!(set.status, 200, "{}", set.body);
    let mut stream = call(&world, json!([{"text": "好"}]), true).await.bytes_stream();
    within("it begins", stream.next()).await.unwrap().unwrap();
    let held = armed(&world).await;
    has(&held, json!({"next_trigger_at": world.now() + 300_000}));
    // It fires while the client is held, as often as it may.
    for count in 1..=2 {
        world.advance(300);
        world.until("it fires", || async { (timer(&world).await["trigger_count"] == count).then_some(()) }).await;
    }
    // The model is asked again, and answers; but nobody said anything, and so it does not begin to fire again.
    world.advance(3000);
    let rest = within("the turn goes on", async {
        let mut all = String::new();
        while let Some(piece) = stream.next().await {
            all += &String::from_utf8_lossy(&piece.unwrap());
        }
        all
    })
    .await;
    assert!(rest.contains("[DONE]"), "{rest}");
    let events = async |name: &str| world.events_of("chat-1").await.iter().filter(|event| *event == name).count();
    world
        .until("the second answer is written", || async { (events("session.response").await == 2).then_some(()) })
        .await;
    assert_eq!(events("session.message").await, 1);
    has(&timer(&world).await, json!({"status": "disabled", "trigger_count": 2}));
    // Somebody does.
    drop(call(&world, json!([{"text": "嗯"}]), true).await);
    has(&armed(&world).await, json!({"next_trigger_at": world.now() + 300_000, "trigger_count": 2}));
}

/// The disk is full just when a call through the gateway has been answered.
#[tokio::test]
async fn an_answer_through_the_gateway_that_cannot_be_written_down_at_once_arms_the_timers_all_the_same() {
    let model = Upstream::new(&["scripted"]).listen("127.0.0.1:0").await.unwrap();
    let entry = json!({"name": "script", "base_url": model.url(), "protocols": ["chat"], "models": ["scripted"]});
    let entry: UpstreamConfig = serde_json::from_value(entry).unwrap();
    let site = Site::with(GatewayConfig { upstream: vec![entry], ..GatewayConfig::default() }).await;
    let url = |path: &str| format!("{}{path}", site.url);
    let timers = json!([{"timer_id": "t", "delay_seconds": 60, "tool_name": "generate_response"}]);
    let set =
        send(&site.http, Method::PUT, &url("/api/agents/acme/support"), Some(&json!({"timers": timers})), None).await;
    assert_eq!(set.status, 200, "{}", set.body);
    let timer = async || site.get("/api/sessions/chat-1").await["session_timers"][0].clone();
    let said = script(json!([{"text": "好"}]));
    let body = json!({"model": "scripted", "messages": [{"role": "user", "content": said}]});
    // The commit that begins the turn, and not yet the one that ends it.
    site.allow(1);
    let request = site.http.post(url("/v1/chat/completions")).json(&body);
    let request = request.header("x-reveille-agent", "acme:support").header("x-reveille-session", "chat-1");
    let answer = within("the answer", request.send()).await.unwrap();
    assert_eq!(answer.status(), 200);
    site.fill(StoreError::Full);
    site.allow(usize::MAX);
    site.refusals(1).await;
    has(&timer().await, json!({"suspended": true}));
    site.free();
    within("the end of the turn is written", async {
        while timer().await["suspended"] != false {
            site.clock.advance(Millis::from_secs(1));
        }
    })
    .await;
    site.clock.advance(Millis::from_secs(60));
    within("it fires, once", async { while timer().await["trigger_count"] != 1 {} }).await;
}

/// Whoever started it waits for it.
#[tokio::test]
async fn a_sub_agent_does_not_end_its_parents_turn() {
    let Stage { world, model: _model, .. } = stage().await;
    let (stops, tools) = (json!([{"text": "好"}]), json!([{"tool": {"name": "x", "arguments": {}}}]));
    whole(call(&world, tools.clone(), true).await).await;
    for steps in [stops.clone(), tools.clone(), stops.clone()] {
        whole(call_of(&world, steps, true, &[("x-claude-code-agent-id", "a1")]).await).await;
        world.advance(10);
        has(&timer(&world).await, json!({"suspended": true}));
    }
    whole(call(&world, stops, true).await).await;
    has(&armed(&world).await, json!({"next_trigger_at": world.now() + 300_000}));
    let answered = world.history_of("chat-1").await.iter().filter(|entry| entry["event"] == "session.response").count();
    assert_eq!(answered, 1, "one turn, with one end");
}

/// The answer before names no session: every turn would be another one, with timers of its own.
#[tokio::test]
async fn a_call_without_a_session_has_no_timers_and_is_told_so() {
    let Stage { world, model: _model, .. } = stage().await;
    let ask = async |extra: Value, session: Option<&str>| {
        let mut body = json!({"model": "scripted", "input": script(json!([{"text": "好"}]))});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let mut request = world.http.post(format!("{}/v1/responses", world.url)).json(&body);
        request = request.header("x-reveille-agent", "acme:support");
        if let Some(session) = session {
            request = request.header("x-reveille-session", session);
        }
        let answer = within("the model answers", request.send()).await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.headers().get("x-reveille-timers").map(|why| why.to_str().unwrap().to_owned())
    };
    for extra in [json!({}), json!({"previous_response_id": "resp_1"})] {
        let why = ask(extra, None).await.unwrap();
        assert!(why.starts_with("none; no session"), "{why}");
    }
    assert_eq!(list(&world.get("/api/session_timers").await["session_timers"]), Vec::<Value>::new());
    assert_eq!(ask(json!({"previous_response_id": "resp_1"}), Some("chat-1")).await, None);
    armed(&world).await;
    assert_eq!(list(&world.get("/api/session_timers").await["session_timers"]).len(), 1);
}

/// The commit that begins a turn is held up, and its client does not wait for it.
#[tokio::test]
async fn a_client_that_leaves_while_its_turn_begins_leaves_nothing_suspended() {
    let site = Site::start().await;
    let url = |path: &str| format!("{}{path}", site.url);
    let agent = json!({"model": "nobody", "timers": [{"timer_id": "t", "delay_seconds": 60, "tool_name": "generate_response"}]});
    let set = send(&site.http, Method::PUT, &url("/api/agents/acme/support"), Some(&agent), None).await;
    assert_eq!(set.status, 200, "{}", set.body);
    site.allow(1);
    let (http, query) = (site.http.clone(), url(QUERY));
    let turn =
        tokio::spawn(async move { send(&http, Method::POST, &query, Some(&json!({"message": "你好"})), None).await });
    site.used_up().await;
    turn.abort();
    let _ = turn.await;
    site.allow(usize::MAX);
    within("silence begins", async {
        while site.get("/api/sessions/chat-1").await["session_timers"][0]["suspended"] != false {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let said = list(&site.get("/api/sessions/chat-1").await["conversation"]);
    assert_eq!(said.len(), 1, "{said:?}");
}

#[tokio::test]
async fn a_session_begun_anew_shows_its_agent_nothing_of_before() {
    let Stage { world, endpoints, model } = stage().await;
    let mut other = agent(&endpoints.url);
    other["webhooks"] =
        json!([{"url": format!("{}/hook", endpoints.url), "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}]);
    assert_eq!(world.request(Method::PUT, "/api/agents/acme/other", Some(&other)).await.status, 200);
    let first = world.post(QUERY, json!({"message": "我的密码是 🔑"})).await;
    assert_eq!(first.status, 200, "{}", first.body);
    armed(&world).await;
    let closed = world.request(Method::DELETE, "/api/sessions/chat-1", None).await;
    assert_eq!(closed.status, 200);
    let path = "/api/agents/acme/other/sessions/chat-1/query";
    let second = world.post(path, json!({"message": "你好"})).await;
    assert_eq!(second.body["content"], "Hello! 2 messages, 4 tools, 0 images", "{}", second.body);
    let asked = model.upstream.log.requests();
    assert!(!String::from_utf8_lossy(&asked[1].body).contains("🔑"), "{:?}", asked[1].body);
    let settled = async || list(&world.get("/api/sessions/chat-1").await["conversation"]);
    let said = world.until("it is written", || async { Some(settled().await).filter(|said| said.len() == 2) }).await;
    assert_eq!((&said[0]["content"], &said[1]["role"]), (&json!("你好"), &json!("assistant")));
    // Whoever closes it, webhooks are told.
    endpoints.next().await;
    let closed = world.request(Method::DELETE, "/api/sessions/chat-1", None).await;
    assert_eq!(closed.status, 200);
    let told = endpoints.next().await;
    assert_eq!((&told.path, &told.json()["type"]), (&"/hook".to_owned(), &json!("session.closed")));
}

#[tokio::test]
async fn a_second_turn_may_be_refused_at_once_and_turns_have_a_bound() {
    let Stage { world, endpoints, model: _model } = stage_with(|config| config.agents.turns = 2).await;
    let mut impatient = agent(&endpoints.url);
    impatient["limits"] = json!({"turn_wait_seconds": 0, "turn_seconds": 40});
    impatient["tools"][0]["endpoint"]["timeout"] = json!("100s");
    assert_eq!(world.request(Method::PUT, "/api/agents/acme/support", Some(&impatient)).await.status, 200);
    endpoints.answers("/read", &[Answer::Hangs]);
    let slow = script(json!([{"tool": {"name": "read_customer", "arguments": {"id": 1}}}]));
    let first = asking(&world, QUERY, slow.clone());
    endpoints.next().await;
    let refused = world.post(QUERY, json!({"message": "?"})).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("turn_in_progress")));
    let second = asking(&world, "/api/agents/acme/support/sessions/chat-2/query", slow);
    endpoints.next().await;
    let refused = world.post("/api/agents/acme/support/sessions/chat-3/query", json!({"message": "?"})).await;
    assert_eq!((refused.status, &refused.body["code"]), (503, &json!("too_many_turns")), "{}", refused.body);
    // They do not last for ever.
    world.advance(40);
    for turn in [first, second] {
        let cut = within("the turn is cut off", turn).await.unwrap();
        assert!(cut.status == 502 && text(&cut.body["detail"]).contains("turn_seconds"), "{}", cut.body);
    }
    armed(&world).await;
}

#[tokio::test]
async fn a_turn_that_the_servers_end_cuts_off_leaves_nothing_suspended() {
    let Stage { mut world, endpoints, model: _model } = stage().await;
    endpoints.answers("/read", &[Answer::Hangs]);
    let turn = asking(&world, QUERY, script(json!([{"tool": {"name": "read_customer", "arguments": {"id": 1}}}])));
    endpoints.next().await;
    turn.abort();
    let _ = turn.await;
    world.down().await;
    world.up().await;
    has(&timer(&world).await, json!({"suspended": false, "trigger_count": 0}));
    let said = list(&world.get("/api/sessions/chat-1").await["conversation"]);
    assert_eq!(said[0]["role"], "user", "{said:?}");
}
