//! Session timers as a chatbot builder meets them: the original's configuration, real endpoints, a clock of our own.

#![allow(clippy::unwrap_used)]

mod endpoints;
mod gaps;
#[path = "../support/mod.rs"]
mod support;

use reqwest::Method;
use reveille_core::Millis;
use reveille_store::StoreError;
use serde_json::{Value, json};
use support::{
    endpoint::{Called, Endpoints},
    site::Site,
    *,
};

/// The original's example, section 2.2 and 3.2, with real endpoints.
fn original(base: &str) -> Value {
    let tool = |name: &str| json!({"name": name, "description": "…", "endpoint": {"url": format!("{base}/{name}")}});
    json!({
        "tools": [
            tool("save_customer_information"), tool("handoff_to"), tool("close_conversation"),
            tool("read_customer_information"), tool("flow_executor"),
        ],
        "system_actions": ["save_customer_information", "handoff_to", "close_conversation"],
        "agent_actions": ["read_customer_information", "flow_executor", "actionbook_executor"],
        "timers": [
            {"timer_id": "idle_reminder", "delay_seconds": 300, "max_triggers": 3, "tool_name": "generate_response",
             "message": "您好，请问还有什么可以帮您的吗？"},
            {"timer_id": "session_timeout", "delay_seconds": 1800, "max_triggers": 1,
             "tool_name": "close_conversation", "tool_params": {}},
            {"timer_id": "auto_handoff", "delay_seconds": 600, "max_triggers": 1, "tool_name": "handoff_to",
             "tool_params": {"type": "unassigned"}},
        ],
    })
}

async fn put(world: &World, agent: &Value) -> support::Answer {
    world.request(Method::PUT, "/api/agents/acme/support", Some(agent)).await
}

async fn world(agent: impl Fn(&str) -> Value) -> (World, Endpoints) {
    let endpoints = Endpoints::start().await;
    let world = World::start().await;
    let set = put(&world, &agent(&endpoints.url)).await;
    assert_eq!(set.status, 200, "{}", set.body);
    (world, endpoints)
}

async fn activity(world: &World, session: &str, phase: &str) -> Value {
    let body = json!({"agent": "acme:support", "phase": phase});
    let answer = world.post(&format!("/api/sessions/{session}/activity"), body).await;
    assert_eq!(answer.status, 200, "{phase}: {}", answer.body);
    answer.body
}

async fn timer(world: &World, session: &str, name: &str) -> Value {
    let whole = world.get(&format!("/api/sessions/{session}")).await;
    let timers = list(&whole["session_timers"]);
    timers.iter().find(|timer| timer["timer_id"] == name).unwrap_or_else(|| panic!("{name} in {whole}")).clone()
}

/// Waits until a timer of this name has fired so many times.
async fn fired(world: &World, session: &str, name: &str, count: u64) {
    let what = format!("{name} fires for the {count}. time");
    world.until(&what, || async { (timer(world, session, name).await["trigger_count"] == count).then_some(()) }).await;
}

async fn settled(world: &World, session: &str, calls: usize) -> Vec<Value> {
    world
        .until("calls are settled", || async {
            let all = list(&world.get(&format!("/api/sessions/{session}")).await["calls"]);
            let ended = all.iter().filter(|call| !matches!(call["status"].as_str(), Some("waiting" | "running")));
            (ended.count() == calls).then_some(all)
        })
        .await
}

fn check_call(call: &Called, tool: &str, timer: &str, arguments: Value) {
    assert_eq!((call.method.as_str(), call.path.as_str()), ("POST", format!("/{tool}").as_str()));
    assert_eq!(call.json(), arguments);
    assert_eq!((call.header("x-reveille-session"), call.header("x-reveille-timer")), ("chat-1", timer));
    assert_eq!(call.header("x-reveille-agent"), "acme:support");
    assert!(call.header("idempotency-key").starts_with("call_st_"), "{call:?}");
}

#[tokio::test]
async fn a_sessions_whole_life_call_by_call() {
    // Once as it is, and once with a restart in every gap.
    for restarts in [false, true] {
        let (mut world, endpoints) = world(original).await;
        let gap = async |world: &mut World| {
            if restarts {
                world.down().await;
                world.up().await;
            }
        };
        activity(&world, "chat-1", "message").await;
        has(&timer(&world, "chat-1", "idle_reminder").await, json!({"suspended": true, "next_trigger_at": null}));
        gap(&mut world).await;
        world.advance(10);
        activity(&world, "chat-1", "response").await;
        let expected = json!({
            "status": "pending", "suspended": false, "next_trigger_at": START + 310_000, "delay_seconds": 300,
            "max_triggers": 3, "tool_name": "generate_response", "message": "您好，请问还有什么可以帮您的吗？",
        });
        has(&timer(&world, "chat-1", "idle_reminder").await, expected);
        gap(&mut world).await;

        world.advance(300);
        fired(&world, "chat-1", "idle_reminder", 1).await;
        gap(&mut world).await;
        world.advance(300);
        fired(&world, "chat-1", "idle_reminder", 2).await;
        let handoff = endpoints.next().await;
        check_call(&handoff, "handoff_to", "auto_handoff", json!({"type": "unassigned"}));
        settled(&world, "chat-1", 1).await;
        has(&timer(&world, "chat-1", "auto_handoff").await, json!({"status": "disabled", "trigger_count": 1}));
        has(&timer(&world, "chat-1", "idle_reminder").await, json!({"status": "triggered"}));
        gap(&mut world).await;
        world.advance(300);
        fired(&world, "chat-1", "idle_reminder", 3).await;
        has(&timer(&world, "chat-1", "idle_reminder").await, json!({"status": "disabled"}));
        gap(&mut world).await;
        world.advance(899);
        endpoints.quiet().await;
        world.advance(1);
        let close = endpoints.next().await;
        check_call(&close, "close_conversation", "session_timeout", json!({}));
        settled(&world, "chat-1", 2).await;
        gap(&mut world).await;
        let whole = world.get("/api/sessions/chat-1").await;
        has(&whole, json!({"state": "closed", "agent": "acme:support"}));
        let said = list(&whole["conversation"]);
        assert_eq!(said.len(), 3);
        assert!(
            said.iter()
                .all(|said| said["content"] == "您好，请问还有什么可以帮您的吗？" && said["role"] == "assistant")
        );
        world.advance(10_000);
        world.get("/api/sessions").await;
        endpoints.quiet().await;
    }
}

#[tokio::test]
async fn a_changed_configuration_is_for_new_sessions() {
    let (world, endpoints) = world(original).await;
    activity(&world, "chat-1", "message").await;
    activity(&world, "chat-1", "response").await;
    let mut changed = original(&endpoints.url);
    changed["timers"] = json!([{"timer_id": "idle_reminder", "delay_seconds": "1m", "tool_name": "generate_response",
                                "message": "新的", "reset": "on_message"}]);
    has(&put(&world, &changed).await.body, json!({"created": false}));
    activity(&world, "chat-1", "message").await;
    activity(&world, "chat-1", "response").await;
    activity(&world, "chat-2", "message").await;
    activity(&world, "chat-2", "response").await;
    world.advance(60);
    fired(&world, "chat-2", "idle_reminder", 1).await;
    has(
        &timer(&world, "chat-1", "idle_reminder").await,
        json!({"trigger_count": 0, "next_trigger_at": START + 300_000}),
    );
    assert_eq!(list(&world.get("/api/sessions/chat-1").await["session_timers"]).len(), 3);
    // Nor does removing the agent end them.
    let removed = world.request(Method::DELETE, "/api/agents/acme/support", None).await;
    assert_eq!(removed.status, 200);
    world.advance(540);
    fired(&world, "chat-1", "idle_reminder", 1).await;
    let calls = settled(&world, "chat-1", 1).await;
    has(&calls[0], json!({"status": "failed", "target": "handoff_to"}));
    assert!(text(&calls[0]["last_error"]).contains("does not exist"), "{calls:?}");
    let new = world.post("/api/sessions/chat-3/activity", json!({"agent": "acme:support"})).await;
    assert_eq!((new.status, &new.body["code"]), (404, &json!("unknown_agent")));
    activity(&world, "chat-1", "message").await;
}

#[tokio::test]
async fn a_message_in_the_instant_of_a_firing_and_an_answer_that_takes_long() {
    let (world, endpoints) = world(original).await;
    activity(&world, "chat-1", "message").await;
    activity(&world, "chat-1", "response").await;
    world.advance(300);
    // Whoever is first, it has fired once, and the agent works now.
    activity(&world, "chat-1", "message").await;
    has(&timer(&world, "chat-1", "idle_reminder").await, json!({"trigger_count": 1, "suspended": true}));
    world.advance(890);
    has(&timer(&world, "chat-1", "idle_reminder").await, json!({"trigger_count": 1, "suspended": true}));
    endpoints.quiet().await;
    activity(&world, "chat-1", "response").await;
    has(&timer(&world, "chat-1", "auto_handoff").await, json!({"next_trigger_at": START + 1_790_000}));
    world.advance(600);
    check_call(&endpoints.next().await, "handoff_to", "auto_handoff", json!({"type": "unassigned"}));
    settled(&world, "chat-1", 1).await;
    endpoints.quiet().await;
}

#[tokio::test]
async fn mistakes_name_the_field_and_change_nothing() {
    let (world, endpoints) = world(original).await;
    let good = original(&endpoints.url);
    let with = |path: &str, value: Value| {
        let mut agent = good.clone();
        let (parent, key) = path.rsplit_once('/').unwrap();
        match agent.pointer_mut(parent).unwrap() {
            Value::Array(list) => list[key.parse::<usize>().unwrap()] = value,
            object => object[key] = value,
        }
        agent
    };
    for (agent, word) in [
        (with("/timers/0/tool_name", json!("nobody")), "timers[0].tool_name"),
        (with("/timers/0/delay_seconds", json!(0)), "timers[0].delay_seconds"),
        (with("/timers/0/delay_seconds", json!("soon")), "timers[0].delay_seconds"),
        (with("/timers/1/timer_id", json!("idle_reminder")), "timers[1].timer_id"),
        (with("/timers/0/max_triggers", json!(-1)), "timers[0].max_triggers"),
        (with("/timers/2/message", json!("x")), "timers[2].message"),
        (with("/tools/0/endpoint/url", json!("ftp://x")), "tools[0].endpoint.url"),
        (with("/tools/0/endpoint", json!({"url": "http://{session}/x"})), "tools[0].endpoint.url"),
        (with("/tools/0/endpoint", json!({"method": "BREW", "url": "http://x"})), "tools[0].endpoint.method"),
        (with("/tools/0/endpoint", json!({"url": "http://x", "headers": {"a": "${HOME}"}})), "headers.a"),
        (with("/tools/0/name", json!("两个字")), "tools[0].name"),
        (with("/tools/0/name", json!("crm.save")), "tools[0].name"),
        (with("/tools/0/endpoint", json!("http://x/{sesion}")), "{session}"),
        (with("/tools/0/endpoint", json!("http://x/?key=${KEY}")), "`${`"),
        (json!({"webhooks": [{"url": "http://x/{user}", "secret": "short"}]}), "webhooks[0].url"),
        (with("/timers/0/tool_params", json!({"text": "x"})), "timers[0].tool_params"),
        (with("/timers/0/tool_params", json!({"message": "x"})), "timers[0].message"),
        (
            json!({"timers": [{"timer_id": "t", "tool_name": "close_conversation", "tool_params": {"why": "idle"}}]}),
            "timers[0].tool_params",
        ),
        (json!({"timers": [{"timer_id": "t", "tool_name": "nobody"}]}), "generate_response, close_conversation"),
        (with("/tools/1/name", json!("close_conversation")), "defined twice"),
        (with("/agent_actions/0", json!("handoff_to")), "agent_actions"),
        (json!({"timrs": []}), "timrs"),
        (json!({"webhooks": [{"url": "http://x", "secret": "short"}]}), "webhooks[0].secret"),
        (json!([]), "object"),
    ] {
        let refused = put(&world, &agent).await;
        assert_eq!((refused.status, &refused.body["code"]), (400, &json!("invalid_agent_config")), "{word}");
        assert!(text(&refused.body["detail"]).contains(word), "{word}: {}", refused.body);
    }
    let kept = world.get("/api/agents/acme/support").await;
    has(&kept, json!({"agent": "acme:support", "origin": "api"}));
    has(&kept["timers"][0], good["timers"][0].clone());
    for (body, code) in [
        (json!({"agent": "acme"}), "invalid_agent"),
        (json!({"agent": "acme:support", "phase": "hello"}), "invalid_argument"),
        (json!({}), "missing_argument"),
        (json!({"phase": "response"}), "unknown_session"),
        (json!({"agent": "nobody:x"}), "unknown_agent"),
    ] {
        let refused = world.post("/api/sessions/new/activity", body).await;
        assert_eq!(refused.body["code"], code, "{}", refused.body);
    }
}

#[tokio::test]
async fn what_may_be_a_mistake_is_said_and_what_is_meant_is_done() {
    let (world, endpoints) = world(original).await;
    let mut agent = original(&endpoints.url);
    agent["timers"][0]["tool_params"] = json!({"message": agent["timers"][0]["message"]});
    agent["timers"][0].as_object_mut().unwrap().remove("message");
    let set = put(&world, &agent).await;
    // The original has it, and it is defined nowhere.
    let warnings = list(&set.body["warnings"]);
    assert!(warnings.len() == 1 && text(&warnings[0]).contains("'actionbook_executor'"), "{}", set.body);
    assert_eq!(world.get("/api/agents").await["agents"][0]["warnings"], set.body["warnings"]);
    let mut shown = world.get("/api/agents/acme/support").await;
    assert_eq!(shown["warnings"], set.body["warnings"]);
    shown["system_actions"] = json!(["handof_to"]);
    shown["agent_actions"] = json!([]);
    let set = put(&world, &shown).await;
    assert!(text(&set.body["warnings"][0]).contains("`system_actions` has 'handof_to'"), "{}", set.body);
    let mut speechless = shown.clone();
    speechless["timers"][0].as_object_mut().unwrap().remove("tool_params");
    let set = put(&world, &speechless).await;
    assert!(text(&set.body["warnings"][1]).contains("'idle_reminder' has no `message`"), "{}", set.body);
    assert_eq!(list(&put(&world, &shown).await.body["warnings"]).len(), 1);
    activity(&world, "chat-1", "message").await;
    let said = json!({"message": "您好，请问还有什么可以帮您的吗？", "tool_name": "generate_response"});
    has(&timer(&world, "chat-1", "idle_reminder").await, said);
}

/// The answer is out, and the disk is full just when silence is to begin.
#[tokio::test]
async fn an_answer_that_cannot_be_written_down_at_once_arms_the_timers_all_the_same() {
    let site = Site::start().await;
    let url = |path: &str| format!("{}{path}", site.url);
    let timers = json!([{"timer_id": "t", "delay_seconds": 60, "tool_name": "generate_response"}]);
    let agent = json!({"model": "nobody", "timers": timers});
    let set = send(&site.http, Method::PUT, &url("/api/agents/acme/support"), Some(&agent), None).await;
    assert_eq!(set.status, 200, "{}", set.body);
    let timer = async || site.get("/api/sessions/agent").await["session_timers"][0].clone();
    // The commit that begins the turn, and not yet the one that ends it.
    site.allow(1);
    let (http, query) = (site.http.clone(), url("/api/agents/acme/support/sessions/agent/query"));
    let asked =
        tokio::spawn(async move { send(&http, Method::POST, &query, Some(&json!({"message": "在吗"})), None).await });
    within("the turn begins", async { while timer().await["suspended"] != true {} }).await;
    // Nobody waits for what is written after the answer.
    let answer = within("the answer", asked).await.unwrap();
    assert_eq!(answer.body["code"], "model_failed", "{}", answer.body);
    site.fill(StoreError::Full);
    site.allow(usize::MAX);
    site.refusals(1).await;
    has(&timer().await, json!({"suspended": true}));
    site.free();
    let armed = within("the answer is written", async {
        loop {
            site.clock.advance(Millis::from_secs(1));
            let timer = timer().await;
            if timer["suspended"] == false {
                return timer;
            }
        }
    })
    .await;
    has(&armed, json!({"trigger_count": 0}));
    site.clock.advance(Millis::from_secs(60));
    within("it fires, once", async { while timer().await["trigger_count"] != 1 {} }).await;
    let said = list(&site.get("/api/sessions/agent").await["conversation"]);
    assert_eq!(said.len(), 2, "the user's and the timer's: {said:?}");
}

/// Both come due in one look: the end of the session goes first, and leaves the webhook as it is.
#[tokio::test]
async fn a_webhook_that_is_due_with_its_sessions_end_is_not_forgotten() {
    let agent = |base: &str| {
        json!({
            "tools": [{"name": "close_conversation", "endpoint": {"url": format!("{base}/close")}}],
            "system_actions": ["close_conversation"],
            "webhooks": [{"url": format!("{base}/hook"), "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}],
            "timers": [
                {"timer_id": "idle", "delay_seconds": 300, "max_triggers": 1, "tool_name": "generate_response",
                 "message": "还在吗？"},
                {"timer_id": "end", "delay_seconds": 301, "max_triggers": 1, "tool_name": "close_conversation"},
            ],
        })
    };
    let (world, endpoints) = world(agent).await;
    endpoints.answers("/hook", &[endpoint::Answer::Says(500, "no".into()), endpoint::Answer::Says(200, String::new())]);
    activity(&world, "chat-1", "message").await;
    activity(&world, "chat-1", "response").await;
    world.advance(300);
    let first = endpoints.next().await;
    let id = first.header("webhook-id").to_owned();
    let call = async || {
        let all = list(&world.get("/api/calls").await["calls"]);
        all.into_iter().find(|call| call["id"] == id).unwrap()
    };
    let next = world.until("it failed", || async { call().await["next_attempt_at"].as_i64() }).await;
    assert!(next > START + 301_000, "the end is to come first");
    world.clock.set(reveille_core::Timestamp::from_millis(next));
    world.until("it is told", || async { (call().await["status"] == "done").then_some(()) }).await;
    has(&world.get("/api/sessions/chat-1").await, json!({"state": "closed"}));
}
