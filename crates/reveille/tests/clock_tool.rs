//! The `clock` tool as an agent lives with it, over real HTTP on a clock of our own.

#![allow(clippy::unwrap_used)]

mod support;

use reqwest::Method;
use serde_json::{Value, json};
use support::*;

fn at(ms: i64) -> String {
    reveille_core::Timestamp::from_millis(ms).to_iso()
}

/// The instant an answer names; the offset is this machine's.
fn instant(value: &Value) -> i64 {
    text(value).parse::<jiff::Timestamp>().unwrap_or_else(|error| panic!("{value}: {error}")).as_millisecond()
}

async fn clock(world: &World, session: &str, arguments: Value) -> Value {
    let answer = within("clock", world.tool(session, "clock", arguments.clone())).await;
    assert_eq!(answer.status, 200, "{arguments}: {}", answer.body);
    assert_eq!((&answer.body["ok"], instant(&answer.body["now"])), (&json!(true), world.now()));
    assert!(answer.body["messages"].is_array() && !text(&answer.body["hint"]).is_empty(), "{}", answer.body);
    answer.body
}

async fn remind(world: &World, session: &str, task: &str, seconds: u64) -> String {
    let made = clock(world, session, json!({"action": "schedule", "items": [{"task": task, "in": seconds}]})).await;
    let id = text(&made["scheduled"][0]["taskId"]);
    let short = id.strip_prefix("task_").expect("ids begin with task_");
    assert!(short.len() == 10 && short.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()), "{id}");
    id
}

async fn status(world: &World, session: &str, id: &str) -> String {
    let all = list(&world.get(&format!("/api/reminders?session={session}")).await["reminders"]);
    text(&all.iter().find(|reminder| reminder["taskId"] == id).unwrap_or_else(|| panic!("{id}"))["status"])
}

#[tokio::test]
async fn a_task_rides_along_on_the_next_result_once_it_is_due() {
    let world = World::start().await;
    let items = json!([
        {"task": "检查 \"构建\"\n🏗️", "dueAt": at(world.now() + 600_000), "tool": "exec", "arguments": {"b": 1, "a": "x"}},
        {"task": "later", "in": "1h30m"},
    ]);
    let made = clock(&world, "agent", json!({"action": "schedule", "items": items})).await;
    let scheduled = list(&made["scheduled"]);
    assert_eq!(scheduled.len(), 2);
    assert_eq!(scheduled[0]["task"], "检查 \"构建\"\n🏗️");
    assert_eq!(instant(&scheduled[0]["dueAt"]), START + 600_000);
    assert_eq!(instant(&scheduled[1]["dueAt"]), START + 5_400_000);
    assert!(text(&made["hint"]).contains("600 seconds"), "{made}");
    let id = text(&scheduled[0]["taskId"]);

    world.advance(539);
    let listed = clock(&world, "agent", json!({"action": "list"})).await;
    has(
        &listed["items"][0],
        json!({"taskId": id, "status": "scheduled", "tool": "exec", "arguments": {"a": "x", "b": 1}}),
    );
    has(&listed, json!({"messages": []}));
    world.advance(1);
    let due = world.until_event(&id, "reminder.due").await;
    let told = format!(
        r#"[scheduled task:"检查 \"构建\"\n🏗️" tool=exec args={{"b":1,"a":"x"}} dueAt={}]"#,
        at(START + 600_000)
    );
    has(&due["data"], json!({"due": START + 540_000, "lateness_ms": 0}));
    assert_eq!(due["data"]["message"]["text"], told);

    // Any tool's result carries it, once.
    let read = world.done("agent", "read_timer", json!({})).await;
    has(&read["messages"][0], json!({"kind": "reminder_due", "text": told, "task_id": id, "timer_id": null}));
    let delivered = world.until_event(&id, "reminder.delivered").await;
    has(&delivered["data"], json!({"channel": "tool_result"}));
    let listed = clock(&world, "agent", json!({"action": "list"})).await;
    has(&listed, json!({"messages": []}));
    let shown = list(&listed["items"]);
    let one = shown.iter().find(|item| item["taskId"] == id).unwrap();
    has(one, json!({"status": "delivered", "deliveryCount": 1}));
    assert_eq!(instant(&one["deliveredAt"]), world.now());
    has(
        &world.get("/api/stats").await["reminders"],
        json!({"created": 2, "scheduled": 1, "delivered": 1, "missed": 0}),
    );
}

#[tokio::test]
async fn nobody_comes_and_it_is_missed_but_not_gone() {
    let world = World::start().await;
    let id = remind(&world, "agent", "x", 600).await;
    world.advance(600);
    world.until_event(&id, "reminder.due").await;
    assert_eq!(world.inbox("agent").await.len(), 1);
    world.advance(1199);
    assert_eq!(status(&world, "agent", &id).await, "due");
    world.advance(1);
    // Whoever comes first, it is too late to be told.
    assert_eq!(world.done("agent", "read_timer", json!({})).await["messages"], json!([]));
    world.until_event(&id, "reminder.missed").await;
    assert!(world.inbox("agent").await.is_empty());
    let listed = clock(&world, "agent", json!({"action": "list"})).await;
    has(&listed["items"][0], json!({"taskId": id, "status": "missed", "deliveredAt": null, "deliveryCount": 0}));
    has(
        &world.get("/api/stats").await["messages"],
        json!({"created": 1, "delivered": 0, "withdrawn": 1, "pending": 0}),
    );
}

#[tokio::test]
async fn a_restart_loses_nothing_and_is_not_too_late() {
    let mut world = World::start().await;
    let (soon, missed, later) = (
        remind(&world, "agent", "soon", 600).await,
        remind(&world, "agent", "missed", 120).await,
        remind(&world, "agent", "later", 9000).await,
    );
    let told = remind(&world, "agent", "told", 30).await;
    world.down().await;
    world.advance(1325);
    world.up().await;
    // The scan at the start applies the same rules: one is due, one was due for too long.
    world.until_event(&missed, "reminder.missed").await;
    world.until_event(&told, "reminder.missed").await;
    world.until_event(&soon, "reminder.due").await;
    assert_eq!(status(&world, "agent", &later).await, "scheduled");
    let messages = list(&clock(&world, "agent", json!({"action": "list"})).await["messages"]);
    assert_eq!(messages.iter().map(|message| text(&message["task_id"])).collect::<Vec<_>>(), [soon.as_str()]);
    world.until_event(&soon, "reminder.delivered").await;
    world.down().await;
    world.up().await;
    assert_eq!(status(&world, "agent", &soon).await, "delivered");
    assert!(world.inbox("agent").await.is_empty());
}

#[tokio::test]
async fn a_delivery_under_way_decides_what_becomes_of_it() {
    let world = World::start().await;
    let (kept, lost) = (remind(&world, "kept", "x", 600).await, remind(&world, "lost", "x", 600).await);
    world.advance(600 + 1199);
    let mut leases = Vec::new();
    for (session, id) in [("kept", &kept), ("lost", &lost)] {
        world.until_event(id, "reminder.due").await;
        let leased = world.post(&format!("/api/sessions/{session}/inbox/lease"), json!({"duration": 60})).await.body;
        assert_eq!(list(&leased["messages"]).len(), 1);
        leases.push(json!({"lease": leased["lease"]}));
    }
    world.advance(1);
    for (path, lease) in ["/api/sessions/kept/inbox/commit", "/api/sessions/lost/inbox/release"].into_iter().zip(leases)
    {
        assert_eq!(world.post(path, lease).await.body, json!({"messages": 1}));
    }
    assert_eq!(status(&world, "kept", &kept).await, "delivered");
    assert_eq!(status(&world, "lost", &lost).await, "missed");
}

#[tokio::test]
async fn replacing_cancelling_and_clearing() {
    let world = World::start().await;
    let id = remind(&world, "agent", "old", 30).await;
    world.advance(30);
    world.until_event(&id, "reminder.due").await;
    // Put off: what was to be told is withdrawn, and not told by the very call that does it.
    let put_off = json!({"action": "schedule", "items": {"taskId": id, "in": "2h"}});
    let put_off = clock(&world, "agent", put_off).await;
    has(&put_off, json!({"messages": []}));
    has(&put_off["scheduled"][0], json!({"taskId": id, "task": "old"}));
    let renamed = json!({"action": "schedule", "taskId": id, "task": "new", "dueAt": at(START + 900_000)});
    has(&clock(&world, "agent", renamed).await["scheduled"][0], json!({"taskId": id, "task": "new"}));
    world.advance(900);
    world
        .until("the new message", || async {
            let told = world.inbox("agent").await;
            told.first().filter(|message| text(&message["text"]).contains("\"new\"")).cloned()
        })
        .await;

    let cancelled = clock(&world, "agent", json!({"action": "cancel", "taskId": id})).await;
    has(&cancelled, json!({"removed": id, "messages": []}));
    let (code, why, problem) = world.refused("agent", "clock", json!({"action": "cancel", "taskId": id})).await;
    assert_eq!((code, why.as_str()), (409, "reminder_ended"));
    has(&problem["reminder"], json!({"taskId": id, "status": "cancelled"}));
    for n in 0..3 {
        remind(&world, "agent", "x", 600 + n).await;
    }
    has(&clock(&world, "agent", json!({"action": "clear"})).await, json!({"removedCount": 3}));
    has(&clock(&world, "agent", json!({"action": "clear"})).await, json!({"removedCount": 0}));
    assert!(world.inbox("agent").await.is_empty());
}

#[tokio::test]
async fn sessions_are_apart_listed_and_closed() {
    let world = World::start().await;
    let (a, b) = (remind(&world, "a", "x", 600).await, remind(&world, "b", "y", 300).await);
    let (_, why, problem) = world.refused("b", "clock", json!({"action": "cancel", "taskId": a})).await;
    assert_eq!((why.as_str(), &problem["live_reminders"]), ("unknown_reminder", &json!([b])));
    assert!(text(&problem["detail"]).contains(&b));
    let whole = world.get("/api/sessions/a").await;
    has(&whole, json!({"live_timers": 0, "live_reminders": 1}));
    has(&whole["reminders"][0], json!({"taskId": a, "status": "scheduled"}));
    let ids = async |query: &str| {
        let page = world.get(&format!("/api/reminders{query}")).await;
        list(&page["reminders"]).iter().map(|one| text(&one["taskId"])).collect::<Vec<_>>()
    };
    assert_eq!(ids("").await, [b.clone(), a.clone()]);
    assert_eq!(ids("?order=soonest").await, [b.clone(), a.clone()]);
    assert_eq!(ids("?session=a").await, [a.as_str()]);
    assert_eq!(ids("?status=live&limit=1").await, [b.as_str()]);
    assert!(world.timers().await.is_empty(), "a reminder is no timer");
    let closed = world.request(Method::DELETE, "/api/sessions/a", None).await;
    has(&closed.body, json!({"stopped": 0, "cancelled": 1}));
    assert_eq!(ids("?status=cancelled").await, [a.as_str()]);
    assert_eq!(ids("?status=missed,delivered").await, [""; 0]);
}

#[tokio::test]
async fn a_repeated_request_schedules_nothing_again() {
    let world = World::start().await;
    let url = format!("{}/api/sessions/agent/tools/clock", world.url);
    let ask =
        |task: &str| json!({"action": "schedule", "items": [{"task": task, "in": 600}, {"task": "b", "in": 700}]});
    let post = async |body: Value| send(&world.http, Method::POST, &url, Some(&body), Some("key 1")).await;
    let first = post(ask("a")).await;
    world.advance(100);
    let again = post(ask("a")).await;
    assert_eq!((again.status, &again.body["scheduled"]), (200, &first.body["scheduled"]));
    let other = post(ask("c")).await;
    assert_eq!((other.status, &other.body["code"]), (422, &json!("idempotency_key_reused")));
    has(&world.get("/api/stats").await["reminders"], json!({"created": 2}));
}

#[tokio::test]
async fn the_limits_are_configured() {
    let world = World::with(|config| {
        config.limits.reminders_per_session = 2;
        config.gateway.due_window = reveille::config::Length(reveille_core::Millis::from_secs(5));
        config.gateway.retention = reveille::config::Length(reveille_core::Millis::from_secs(10));
    })
    .await;
    let id = remind(&world, "agent", "x", 10).await;
    assert_eq!(status(&world, "agent", &id).await, "scheduled");
    remind(&world, "agent", "x", 100).await;
    let more = json!({"action": "schedule", "items": [{"task": "x", "in": 100}]});
    let (code, why, _) = world.refused("agent", "clock", more).await;
    assert_eq!((code, why.as_str()), (409, "too_many_reminders"));
    world.advance(20);
    world.until_event(&id, "reminder.missed").await;
}

#[tokio::test]
async fn the_seventh_tool_is_offered_in_every_format() {
    let world = World::start().await;
    for (format, name) in [("mcp", "/name"), ("openai", "/function/name"), ("anthropic", "/name")] {
        let tools = list(&world.get(&format!("/api/tools?format={format}")).await["tools"]);
        assert_eq!(tools.len(), 7);
        assert_eq!(tools[6].pointer(name), Some(&json!("clock")));
    }
}

#[tokio::test]
async fn reminders_are_set_from_outside_and_take_no_message_along() {
    let world = World::start().await;
    let waits = world.done("代理", "timer", json!({"total_duration": 5, "mission": "看 ☕"})).await;
    world.advance(5);
    world.until_event(&id(&waits), "timer.completed").await;
    let body = json!({"session": "代理", "task": "检查备份 🙂", "in": "10m", "tool": "exec"});
    let made = world.post("/api/reminders", body.clone()).await;
    assert_eq!(made.status, 200, "{}", made.body);
    has(&made.body, json!({"session": "代理", "task": "检查备份 🙂", "tool": "exec", "status": "scheduled"}));
    let inbox = world.get("/api/sessions/%E4%BB%A3%E7%90%86/inbox").await;
    assert_eq!(list(&inbox["messages"]).len(), 1, "what waits for the agent still waits: {inbox}");
    for (wrong, code) in [
        (json!({"task": "t", "in": 9}), "invalid_session"),
        (json!({"session": "s", "in": 9}), "missing_argument"),
        (json!({"session": "s", "task": "t"}), "missing_argument"),
        (json!({"session": "s", "task": "t", "in": "soon"}), "invalid_duration"),
        (json!({"session": "s", "task": "t", "in": 9, "taskId": "task_1"}), "invalid_argument"),
        (json!([]), "invalid_session"),
    ] {
        let refused = world.post("/api/reminders", wrong.clone()).await;
        assert_eq!((refused.status, text(&refused.body["code"]).as_str()), (400, code), "{wrong}: {}", refused.body);
    }
    assert_eq!(list(&world.get("/api/reminders").await["reminders"]).len(), 1, "nothing was half done");
}
