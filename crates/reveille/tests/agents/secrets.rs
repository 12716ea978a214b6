//! What an agent's configuration keeps to itself.

use super::{Stage, stage, stage_with, support::*};
use reqwest::Method;
use serde_json::{Value, json};

const AGENT: &str = "/api/agents/acme/quiet";

fn quiet(base: &str) -> Value {
    let headers = json!({"authorization": "Bearer 秘密-123"});
    json!({
        "model": "scripted",
        "tools": [{"name": "save", "endpoint": {"url": format!("{base}/save"), "headers": headers, "timeout": "5s"}}],
        "system_actions": ["save"],
        "timers": [{"timer_id": "t", "delay_seconds": 60, "tool_name": "save"}],
        "webhooks": [{"url": format!("{base}/hook"), "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}],
        "limits": {"turn_wait_seconds": 0},
    })
}

#[tokio::test]
async fn secrets_are_shown_to_nobody_and_kept_when_what_was_shown_is_set_again() {
    let Stage { world, endpoints, model: _model } = stage().await;
    let set = world.request(Method::PUT, AGENT, Some(&quiet(&endpoints.url))).await;
    assert_eq!(set.status, 200, "{}", set.body);
    let shown = world.get(AGENT).await;
    let seen = shown.to_string();
    assert!(!seen.contains("秘密") && !seen.contains("whsec_MfKQ"), "{shown}");
    let mut changed = shown.clone();
    changed["timers"][0]["delay_seconds"] = json!(30);
    let set = world.request(Method::PUT, AGENT, Some(&changed)).await;
    assert_eq!((set.status, &set.body["created"]), (200, &json!(false)), "{}", set.body);
    has(&world.get(AGENT).await, json!({"timers": changed["timers"], "limits": shown["limits"]}));
    world.post("/api/sessions/chat-1/activity", json!({"agent": "acme:quiet"})).await;
    world.advance(30);
    let mut called = [endpoints.next().await, endpoints.next().await];
    called.sort_by_key(|call| call.path.clone());
    assert!(called[0].header("webhook-signature").starts_with("v1,"), "{called:?}");
    assert_eq!(called[1].header("authorization"), "Bearer 秘密-123");
    // It goes nowhere else, and to no agent that never had it.
    let mut elsewhere = shown.clone();
    elsewhere["tools"][0]["endpoint"]["url"] = json!("https://elsewhere.example/save");
    for (path, agent) in [(AGENT, &elsewhere), ("/api/agents/acme/new", &shown)] {
        let mut agent = agent.clone();
        agent.as_object_mut().unwrap().remove("agent");
        let refused = world.request(Method::PUT, path, Some(&agent)).await;
        assert_eq!((refused.status, &refused.body["code"]), (400, &json!("invalid_agent_config")), "{}", refused.body);
        assert!(text(&refused.body["detail"]).contains("headers.authorization"), "{}", refused.body);
    }
    let other = world.request(Method::PUT, "/api/agents/acme/new", Some(&shown)).await;
    assert!(text(&other.body["detail"]).contains("`agent`"), "{}", other.body);
}

/// A variable that is set everywhere.
const VARIABLE: &str = "PATH";

#[tokio::test]
async fn agents_of_the_api_use_what_they_may_and_sessions_outlive_its_end() {
    let Stage { mut world, endpoints, model: _model } =
        stage_with(|config| config.agents.api_secrets = vec!["PA*".into()]).await;
    let mut agent = quiet(&endpoints.url);
    agent["tools"][0]["endpoint"]["headers"] = json!({"x-key": format!("${{{VARIABLE}}}")});
    let set = world.request(Method::PUT, AGENT, Some(&agent)).await;
    assert_eq!(set.status, 200, "{}", set.body);
    let activity = async |world: &World, session: &str, phase: &str| {
        world.post(&format!("/api/sessions/{session}/activity"), json!({"agent": "acme:quiet", "phase": phase})).await
    };
    activity(&world, "chat-1", "message").await;
    activity(&world, "chat-1", "response").await;
    world.advance(30);
    // After a restart it may not any more.
    world.down().await;
    world.config.agents.api_secrets.clear();
    world.up().await;
    let message = activity(&world, "chat-1", "message").await;
    assert_eq!(message.status, 200, "{}", message.body);
    has(&message.body["session_timers"][0], json!({"suspended": true}));
    let refused = activity(&world, "chat-2", "message").await;
    assert_eq!((refused.status, &refused.body["code"]), (400, &json!("invalid_agent_config")), "{}", refused.body);
    let shown = world.get(AGENT).await;
    assert!(text(&shown["problem"]).contains("api_secrets"), "{shown}");
    has(
        &shown,
        json!({"timers": agent["timers"].as_array().map(|timers| {
            let mut timer = timers[0].clone();
            timer["max_triggers"] = json!(1);
            timer["reset"] = json!("session");
            json!([timer])
        })}),
    );
    let listed = list(&world.get("/api/agents").await["agents"]);
    let line = listed.iter().find(|line| line["agent"] == "acme:quiet").unwrap();
    assert_eq!(line["problem"], shown["problem"]);
    // The operator allows it again.
    world.down().await;
    world.config.agents.api_secrets = vec!["*".into()];
    world.up().await;
    activity(&world, "chat-1", "response").await;
    world.advance(60);
    let called = loop {
        let called = endpoints.next().await;
        if called.path == "/save" {
            break called;
        }
    };
    assert_eq!(called.header("x-key"), std::env::var(VARIABLE).unwrap());
}
