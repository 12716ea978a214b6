//! Session timers as a chatbot builder meets them: the original's configuration, real endpoints, a clock of our own.

#![allow(clippy::unwrap_used)]

mod support;

use reqwest::Method;
use reveille::config::Config;
use reveille_core::{Command, Millis, SessionId};
use reveille_store::StoreError;
use serde_json::{Value, json};
use support::{
    endpoint::{Answer, Called, Endpoints},
    process::Home,
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

fn one_timer(base: &str, path: &str) -> Value {
    json!({
        "tools": [{"name": "notify", "endpoint": {"url": format!("{base}{path}"), "timeout": 5}}],
        "system_actions": ["notify"],
        "timers": [{"timer_id": "t", "delay_seconds": 60, "tool_name": "notify", "tool_params": {"n": 1}}],
    })
}

#[tokio::test]
async fn endpoints_that_fail_are_tried_again_under_one_key() {
    let (world, endpoints) = world(|base| one_timer(base, "/flaky/{session}?a={tenant}")).await;
    let broken = Answer::Says(503, "忙".into());
    endpoints.answers("/flaky/chat-1", &[broken.clone(), broken, Answer::Says(200, "ok".into())]);
    activity(&world, "chat-1", "message").await;
    activity(&world, "chat-1", "response").await;
    world.advance(60);
    let mut keys = Vec::new();
    for wait in [1, 2, 0] {
        let call = endpoints.next().await;
        assert_eq!(call.path, "/flaky/chat-1?a=acme");
        keys.push(call.header("idempotency-key").to_owned());
        if wait > 0 {
            world.until_event(&keys[0], "call.retried").await;
            let retries = async || {
                let all = world.history_of(&keys[0]).await;
                all.iter().filter(|entry| entry["event"] == "call.retried").count()
            };
            world.until("another retry", || async { (retries().await == keys.len()).then_some(()) }).await;
            world.advance(wait);
        }
    }
    keys.dedup();
    assert_eq!(keys.len(), 1);
    let done = world.until_event(&keys[0], "call.done").await;
    has(&done["data"], json!({"attempts": 3, "status": 200, "target": "notify", "timer_id": "t"}));
    let metrics = world.http.get(format!("{}/metrics", world.url)).send().await.unwrap().text().await.unwrap();
    for line in [
        r#"reveille_agent_calls_total{agent="acme:support",kind="tool",outcome="failed"} 2"#,
        r#"reveille_agent_calls_total{agent="acme:support",kind="tool",outcome="done"} 1"#,
        r#"reveille_session_timers_triggered_total{agent="acme:support"} 1"#,
        r#"reveille_session_timers{agent="acme:support",status="disabled"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test]
async fn bad_endpoints_are_bounded_and_recorded_and_harm_no_other_session() {
    let cases = [
        (Answer::Hangs, "no answer within 5 seconds", "failed"),
        (Answer::Redirects("http://169.254.169.254/latest/meta-data".into()), "redirects are not followed", "failed"),
        (Answer::Says(404, "no such thing".into()), "404", "failed"),
    ];
    for (answer, error, status) in cases {
        let (world, endpoints) = world(|base| one_timer(base, "/{session}")).await;
        endpoints.answers("/bad", std::slice::from_ref(&answer));
        for session in ["bad", "good"] {
            activity(&world, session, "message").await;
            activity(&world, session, "response").await;
        }
        world.advance(60);
        let called = [endpoints.next().await.path, endpoints.next().await.path];
        assert!(called.contains(&"/good".to_owned()) && called.contains(&"/bad".to_owned()), "{called:?}");
        has(&settled(&world, "good", 1).await[0], json!({"status": "done", "attempts": 1}));
        if matches!(answer, Answer::Hangs) {
            for attempt in 1..=4 {
                world.advance(5);
                let ended = async || list(&world.get("/api/sessions/bad").await["calls"])[0].clone();
                world
                    .until("the attempt is given up", || async {
                        let call = ended().await;
                        (call["status"] != "running" && call["attempts"] == attempt).then_some(())
                    })
                    .await;
                if attempt < 4 {
                    world.advance(10);
                    endpoints.next().await;
                }
            }
        }
        let calls = settled(&world, "bad", 1).await;
        has(&calls[0], json!({"status": status}));
        assert!(text(&calls[0]["last_error"]).contains(error), "{calls:?}");
        endpoints.quiet().await;
    }
}

#[tokio::test]
async fn a_flood_is_cut_off_and_what_comes_of_it_is_short() {
    let agent = |base: &str| {
        let mut agent = one_timer(base, "/flood");
        agent["system_actions"] = json!([]);
        agent
    };
    let (world, endpoints) = world(agent).await;
    endpoints.answers("/flood", &[Answer::Floods(10_000_000)]);
    activity(&world, "chat-1", "message").await;
    activity(&world, "chat-1", "response").await;
    world.advance(60);
    endpoints.next().await;
    has(&settled(&world, "chat-1", 1).await[0], json!({"status": "done", "last_status": 200}));
    // An agent's action: its result is in the context, as if the model had asked for it.
    let said = list(&world.get("/api/sessions/chat-1").await["conversation"]);
    has(&said[0], json!({"role": "assistant"}));
    assert_eq!(said[0]["tool_calls"][0]["name"], "notify");
    let result = text(&said[1]["content"]);
    assert!(said[1]["role"] == "tool" && result.len() < 25_000 && result.ends_with("longer]"), "{}", result.len());
}

#[tokio::test]
async fn addresses_are_asked_for_when_they_are_dialled() {
    let endpoints = Endpoints::start().await;
    let port = endpoints.url.rsplit(':').next().unwrap().to_owned();
    for (url, allowed, error) in [
        (format!("http://127.0.0.1:{port}/x"), false, "private network"),
        (format!("http://localhost:{port}/x"), false, "private network"),
        (format!("http://[::ffff:127.0.0.1]:{port}/x"), false, "private network"),
        ("http://169.254.169.254/x".to_owned(), true, "link-local"),
        (format!("http://localhost:{port}/x"), true, ""),
    ] {
        let world = World::with(|config| config.agents.allow_private = Some(allowed)).await;
        assert_eq!(put(&world, &one_timer(&url, "")).await.status, 200, "{url}");
        activity(&world, "chat-1", "message").await;
        activity(&world, "chat-1", "response").await;
        world.advance(60);
        let calls = settled(&world, "chat-1", 1).await;
        match error {
            "" => has(&calls[0], json!({"status": "done"})),
            error => {
                has(&calls[0], json!({"status": "failed", "attempts": 1}));
                assert!(text(&calls[0]["last_error"]).contains(error), "{url}: {calls:?}");
            }
        }
    }
    assert_eq!(endpoints.next().await.path, "/x");
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

/// The way an answer takes that went out through the gateway or by `query`.
#[tokio::test]
async fn an_answer_that_cannot_be_written_down_at_once_arms_the_timers_all_the_same() {
    let site = Site::start().await;
    let url = |path: &str| format!("{}{path}", site.url);
    let agent = json!({"timers": [{"timer_id": "t", "delay_seconds": 60, "tool_name": "generate_response"}]});
    let set = send(&site.http, Method::PUT, &url("/api/agents/acme/support"), Some(&agent), None).await;
    assert_eq!(set.status, 200, "{}", set.body);
    let body = json!({"agent": "acme:support", "phase": "message"});
    send(&site.http, Method::POST, &url("/api/sessions/agent/activity"), Some(&body), None).await;
    let timer = async || site.get("/api/sessions/agent").await["session_timers"][0].clone();
    site.fill(StoreError::Full);
    let response = Command::Response { turn: None, said: Vec::new(), notify: Vec::new() };
    site.engine.answered(SessionId::new("agent"), response);
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
    assert_eq!(list(&site.get("/api/sessions/agent").await["conversation"]).len(), 1);
}

/// Killed in the middle of a call: nobody knows how it ended, so it is made again, under the same key.
#[tokio::test]
async fn a_call_that_was_under_way_when_the_server_was_killed_is_made_again() {
    let (home, endpoints) = (Home::default(), Endpoints::start().await);
    endpoints.answers("/chat-1", &[Answer::Hangs, Answer::Says(200, "ok".into())]);
    home.write_config(&format!(
        "[[agent]]\ntenant = \"acme\"\nchatbot = \"support\"\nsystem_actions = [\"notify\"]\n\
         [[agent.tools]]\nname = \"notify\"\nendpoint = \"{}/{{session}}\"\n\
         [[agent.timers]]\ntimer_id = \"t\"\ndelay_seconds = 0.05\ntool_name = \"notify\"\n",
        endpoints.url
    ));
    let mut daemon = home.serve().await;
    let body = json!({"agent": "acme:support"});
    let begun =
        send(&client(), Method::POST, &format!("{}/api/sessions/chat-1/activity", daemon.url), Some(&body), None).await;
    assert_eq!(begun.status, 200, "{}", begun.body);
    let first = endpoints.next().await;
    daemon.child.kill().await.unwrap();
    // Much later, by its own clock.
    let config = Config::load(Some(&home.config())).unwrap();
    let world = World::with(|here| (here.data_dir, here.agent) = (home.data(), config.agent)).await;
    let second = endpoints.next().await;
    assert_eq!(second.header("idempotency-key"), first.header("idempotency-key"));
    has(&settled(&world, "chat-1", 1).await[0], json!({"status": "done", "attempts": 2}));
    endpoints.quiet().await;
}
