//! What people do from outside, and what they look at: none of it takes an agent's messages away.

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::{Value, json};
use support::*;

/// A mission that has ended; its message waits.
async fn told(world: &World, session: &str) -> String {
    let timer = id(&world.done(session, "timer", json!({"total_duration": 1, "mission": "wake up"})).await);
    world.advance(1);
    world.until_message(session, &timer).await;
    timer
}

#[tokio::test]
async fn a_timer_set_from_outside_leaves_the_inbox_alone() {
    let world = World::start().await;
    told(&world, "agent").await;
    let body = json!({"session": "agent", "total_duration": "10m", "mission": "检查 🙂"});
    let made = world.post("/api/timers", body.clone()).await;
    assert_eq!(made.status, 200, "{}", made.body);
    has(&made.body, json!({"session": "agent", "mission": "检查 🙂", "total_duration": 600, "standby_since": null}));
    assert_eq!(world.inbox("agent").await.len(), 1, "the agent's message is still there");
    assert!(world.inbox("agent").await[0].get("leased_until").is_none());

    let url = format!("{}/api/timers", world.url);
    let keyed = async |body: &Value| send(&world.http, reqwest::Method::POST, &url, Some(body), Some("once")).await;
    let (first, second) = (keyed(&body).await, keyed(&body).await);
    assert_eq!(id(&first.body), id(&second.body));
    let other = keyed(&json!({"session": "agent", "total_duration": 5, "mission": "other"})).await;
    assert_eq!((other.status, other.body["code"].as_str()), (422, Some("idempotency_key_reused")), "{}", other.body);

    for (body, code) in [
        (json!({"session": "agent", "total_duration": 5}), "missing_argument"),
        (json!({"session": "agent", "mission": "m"}), "missing_argument"),
        (json!({"session": "agent", "mission": "m", "total_duration": "soon"}), "invalid_duration"),
        (json!({"session": "", "mission": "m", "total_duration": 5}), "invalid_session"),
        (json!([]), "invalid_argument"),
    ] {
        let refused = world.post("/api/timers", body.clone()).await;
        assert_eq!((refused.status, refused.body["code"].as_str()), (400, Some(code)), "{body}: {}", refused.body);
    }
}

#[tokio::test]
async fn items_are_looked_up_by_their_ids() {
    let world = World::start().await;
    let mut ids = Vec::new();
    for session in ["a", "b", "a"] {
        ids.push(id(&world.done(session, "timer", json!({"total_duration": 60, "mission": "m"})).await));
    }
    let waiting = world.standing("c", json!({"total_duration": 100, "timeout_duration": 40, "reason": "r"})).await;
    let standing = list(&world.get("/api/timers?session=c").await["timers"]);
    has(&standing[0], json!({"standby_since": START, "standby_until": START + 40_000}));
    let found = world.get(&format!("/api/timers?id={},{},timer_unknown", ids[2], ids[1])).await;
    let mut found: Vec<(String, String)> =
        list(&found["timers"]).iter().map(|timer| (id(timer), text(&timer["session"]))).collect();
    found.sort();
    let mut expected = vec![(ids[1].clone(), "b".to_owned()), (ids[2].clone(), "a".to_owned())];
    expected.sort();
    assert_eq!(found, expected);
    // A timer is no reminder.
    assert_eq!(list(&world.get(&format!("/api/reminders?id={}", ids[0])).await["reminders"]), [Value::Null; 0]);
    let many = (0..101).map(|number| format!("timer_{number}")).collect::<Vec<_>>().join(",");
    let refused = world.request(reqwest::Method::GET, &format!("/api/timers?id={many}"), None).await;
    assert_eq!((refused.status, refused.body["code"].as_str()), (400, Some("invalid_argument")));
    waiting.abort();
}

#[tokio::test]
async fn a_reminder_is_cancelled_from_outside() {
    let world = World::start().await;
    told(&world, "agent").await;
    let body = json!({"action": "schedule", "task": "报告", "in": "1h"});
    let done = world.tool("other", "clock", body).await.body;
    let task = text(&done["scheduled"][0]["taskId"]);
    let cancelled = world.post(&format!("/api/reminders/{task}/cancel"), json!({})).await;
    assert_eq!(cancelled.status, 200);
    has(&cancelled.body, json!({"session": "other", "taskId": task, "status": "cancelled"}));
    for (path, status, code) in [
        (format!("/api/reminders/{task}/cancel"), 409, "reminder_ended"),
        ("/api/reminders/task_unknown/cancel".to_owned(), 404, "unknown_reminder"),
    ] {
        let refused = world.post(&path, json!({})).await;
        assert_eq!((refused.status, refused.body["code"].as_str()), (status, Some(code)), "{}", refused.body);
    }
}

#[tokio::test]
async fn what_happened_is_told_by_the_hour() {
    let world = World::start().await;
    assert_eq!(list(&world.get("/api/stats/hours").await["hours"]), [Value::Null; 0]);
    let first = told(&world, "a").await;
    let stopped = id(&world.done("b", "timer", json!({"total_duration": 60, "mission": "m"})).await);
    world.advance(3 * 3600);
    world.until_event(&stopped, "timer.completed").await;
    let waits = world.standing("c", json!({"total_duration": 100, "timeout_duration": 45, "reason": "r"})).await;
    world.advance(45);
    result(waits).await;
    let hours = list(&world.get("/api/stats/hours").await["hours"]);
    assert_eq!(hours.len(), 2, "hours in which nothing happened are left out: {hours:?}");
    has(
        &hours[0],
        json!({"timers_created": 2, "timers_completed": 1, "messages_created": 1, "sessions_created": 2, "slept": 0}),
    );
    has(
        &hours[1],
        json!({"timers_created": 1, "timers_completed": 1, "standbys": 1, "slept": 45, "requests_saved": 3}),
    );
    let since = hours[1]["hour"].as_i64().unwrap();
    assert_eq!(since % 3_600_000, 0);
    assert_eq!(list(&world.get(&format!("/api/stats/hours?since={}", since + 5)).await["hours"]), hours[1..]);
    // They add up to what is counted altogether.
    let stats = world.get("/api/stats").await;
    assert_eq!((stats["timers"]["created"].as_i64(), stats["standby"]["requests_saved"].as_i64()), (Some(3), Some(3)));
    let spread = list(&stats["lateness"]["spread"]);
    let sum: u64 = spread.iter().map(|share| share["count"].as_u64().unwrap()).sum();
    assert_eq!(Some(sum), stats["lateness"]["fired"].as_u64());

    // How messages reached their agents.
    let taken = world.post("/api/sessions/a/inbox/lease", json!({})).await.body;
    world.post("/api/sessions/a/inbox/commit", json!({"lease": taken["lease"], "channel": "hook:stop"})).await;
    let deliveries = list(&world.get("/api/deliveries?session=a").await["deliveries"]);
    assert_eq!(deliveries.len(), 1);
    has(&deliveries[0], json!({"kind": "message", "channel": "hook:stop", "outcome": "delivered", "session": "a"}));
    assert!(text(&deliveries[0]["text"]).contains(&first));
    assert_eq!(list(&world.get("/api/deliveries?kind=wake").await["deliveries"]), [Value::Null; 0]);
    let refused = world.request(reqwest::Method::GET, "/api/deliveries?kind=pigeon", None).await;
    assert_eq!((refused.status, refused.body["code"].as_str()), (400, Some("invalid_argument")));
}
