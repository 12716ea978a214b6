//! What people and programs look at: lists and their pages, statistics, metrics and the catalogue of tools.

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::{Value, json};
use std::collections::BTreeSet;
use support::*;

async fn mission(world: &World, session: &str, seconds: u64) -> String {
    id(&world.done(session, "timer", json!({"total_duration": seconds, "mission": "m"})).await)
}

/// All pages of a list.
async fn pages(world: &World, path: &str, field: &str) -> Vec<Vec<Value>> {
    let mut pages = Vec::new();
    let mut after = String::new();
    loop {
        let page = world.get(&format!("{path}{after}")).await;
        pages.push(list(&page[field]));
        match page["next"].as_i64() {
            Some(next) => after = format!("&after={next}"),
            None => return pages,
        }
    }
}

#[tokio::test]
async fn lists_come_in_pages_without_gaps_or_repetition() {
    let world = World::start().await;
    let mut made = Vec::new();
    for n in 0..25 {
        made.push(mission(&world, &format!("s{}", n % 7), 100 + n).await);
    }
    let found = pages(&world, "/api/timers?limit=10", "timers").await;
    assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [10, 10, 5]);
    let order: Vec<String> = found.concat().iter().map(id).collect();
    made.reverse();
    assert_eq!(order, made, "newest first");
    let soonest = list(&world.get("/api/timers?order=soonest&limit=3").await["timers"]);
    assert_eq!(soonest.iter().map(|timer| timer["total_duration"].clone()).collect::<Vec<_>>(), [100, 101, 102]);
    let sessions = pages(&world, "/api/sessions?limit=3", "sessions").await.concat();
    let names: BTreeSet<String> = sessions.iter().map(|session| text(&session["session"])).collect();
    assert_eq!((sessions.len(), names.len()), (7, 7));
    has(&sessions[6], json!({"session": "s0", "state": "open", "live_timers": 4, "created_at": START}));

    // Onwards from a point, backwards from a point, of one session, of one timer.
    let history = world.history().await;
    assert_eq!(history.len(), 25 + 7);
    let newest = list(&world.get("/api/history?limit=5").await["entries"]);
    assert_eq!(newest.iter().map(|entry| entry["seq"].clone()).collect::<Vec<_>>(), [32, 31, 30, 29, 28]);
    let before = list(&world.get("/api/history?limit=2&before=28").await["entries"]);
    assert_eq!(before.iter().map(|entry| entry["seq"].clone()).collect::<Vec<_>>(), [27, 26]);
    let between = list(&world.get("/api/history?after=3&before=6").await["entries"]);
    assert_eq!(between, history[3..5]);
    assert_eq!(world.events_of("s6").await.len(), 4);
    assert_eq!(world.history_of(&made[0]).await.len(), 1);
    // Filters.
    world.done("s0", "stop_timer", json!({"timer_id": made[24]})).await;
    for (query, count) in
        [("status=live", 24), ("status=stopped", 1), ("status=running,stopped", 25), ("session=s1", 4)]
    {
        assert_eq!(list(&world.get(&format!("/api/timers?{query}")).await["timers"]).len(), count, "{query}");
    }
}

#[tokio::test]
async fn a_session_shows_everything_in_it_and_can_be_closed() {
    let world = World::start().await;
    let (short, long) = (mission(&world, "agent", 10).await, mission(&world, "agent", 1000).await);
    world.advance(10);
    let message = world.until_message("agent", &short).await;
    let shown = world.get("/api/sessions/agent").await;
    has(&shown, json!({"session": "agent", "state": "open", "live_timers": 1, "inbox": [message]}));
    assert_eq!(list(&shown["timers"]).len(), 2);
    let closed = world.request(reqwest::Method::DELETE, "/api/sessions/agent", None).await;
    let expected = json!({"session": "agent", "stopped": 1, "cancelled": 0, "session_timers": 0});
    assert_eq!((closed.status, closed.body), (200, expected));
    has(&world.get("/api/sessions/agent").await, json!({"state": "closed", "live_timers": 0}));
    has(
        &world.get(&format!("/api/timers/{long}")).await,
        json!({"status": "stopped", "stop_reason": "session closed"}),
    );
    // Closing again is harmless; what was to be told is still told, and a new timer opens it again.
    let again = world.request(reqwest::Method::DELETE, "/api/sessions/agent", None).await;
    assert_eq!(again.body["stopped"], 0);
    let next = world.done("agent", "timer", json!({"total_duration": 5, "mission": "m"})).await;
    assert_eq!(next["messages"][0]["text"], message["text"]);
    has(&world.get("/api/sessions/agent").await, json!({"state": "open", "live_timers": 1}));
    let events = world.events_of("agent").await;
    assert_eq!(events.iter().filter(|event| *event == "session.closed").count(), 1);
    assert_eq!(world.get("/api/stats").await["sessions"], 1);
}

/// A firing is measured just after it can be seen.
async fn measured(world: &World) {
    within("the firing is measured", async {
        while world.server().engine.metrics.fired.get() == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn statistics_outlive_the_process() {
    let mut world = World::start().await;
    let timer = mission(&world, "agent", 10).await;
    let call = world.standing("sleeper", json!({"total_duration": 100, "timeout_duration": 30, "reason": "r"})).await;
    has(&world.get("/api/stats").await["standby"], json!({"now": 1, "ended": 0, "slept": 0}));
    world.advance(10);
    world.until_event(&timer, "timer.completed").await;
    measured(&world).await;
    world.advance(20);
    result(call).await;
    world.done("agent", "read_timer", json!({})).await;
    world.until_event(&timer.replace("timer_", "msg_"), "message.delivered").await;
    let before = world.get("/api/stats").await;
    has(&before["standby"], json!({"now": 0, "ended": 1, "slept": 30, "requests_saved": 2, "poll_interval": 15}));
    has(&before["lateness"], json!({"fired": 1, "max_ms": 0}));
    has(&before, json!({"now": world.now(), "started_at": START, "sessions": 2}));
    world.down().await;
    world.up().await;
    let after = world.get("/api/stats").await;
    for field in ["server_id", "timers", "messages", "sessions", "standby"] {
        assert_eq!(after[field], before[field], "{field}");
    }
    assert_eq!(after["started_at"], world.now());
    world.down().await;
    // Due while nobody was there to tell of it: late, and counted so.
    world.advance(100);
    world.up().await;
    let hours = world.until("the late one is counted", || async {
        let hours = world.get("/api/stats/hours").await;
        (hours["hours"][0]["fired_later"] == 0 && hours["hours"][0]["fired_within_1m"] == 1).then_some(hours)
    });
    has(&hours.await["hours"][0], json!({"fired_within_10ms": 1, "timers_completed": 2, "calls_failed": 0}));
}

#[tokio::test]
async fn metrics_are_there_for_prometheus() {
    let world = World::start().await;
    let timer = mission(&world, "agent", 10).await;
    world.refused("agent", "stop_timer", json!({"timer_id": "timer_00000000"})).await;
    world.advance(10);
    world.until_event(&timer, "timer.completed").await;
    measured(&world).await;
    // Another session: this one has a message, with which a call would return.
    let _call = world.standing("other", json!({"total_duration": 100, "reason": "r"})).await;
    let response = world.http.get(format!("{}/metrics", world.url)).send().await.unwrap();
    assert!(response.headers()["content-type"].to_str().unwrap().starts_with("application/openmetrics-text"));
    let metrics = response.text().await.unwrap();
    for line in [
        "reveille_standing_by 1",
        "reveille_lateness_seconds_count 1",
        "reveille_deadlines_fired_total 1",
        r#"reveille_tool_calls_total{tool="timer",result="scheduled"} 1"#,
        r#"reveille_timers{status="running"} 1"#,
        r#"reveille_timers{status="completed"} 1"#,
        r#"reveille_reminders{status="scheduled"} 0"#,
        r#"reveille_messages{status="pending"} 1"#,
        r#"reveille_messages{status="delivered"} 0"#,
        "reveille_store_failures_total 0",
        "reveille_ready 1",
        r#"reveille_tool_calls_total{tool="stop_timer",result="unknown_timer"} 1"#,
        "# EOF",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test]
async fn the_catalogue_of_tools_has_the_same_bytes_every_time() {
    let world = World::start().await;
    for (format, inside, schema) in
        [("openai", Some("function"), "parameters"), ("anthropic", None, "input_schema"), ("mcp", None, "inputSchema")]
    {
        let url = format!("{}/api/tools?format={format}", world.url);
        let first = world.http.get(&url).send().await.unwrap().text().await.unwrap();
        let second = world.http.get(&url).send().await.unwrap().text().await.unwrap();
        assert_eq!(first, second);
        let tools = list(&serde_json::from_str::<Value>(&first).unwrap()["tools"]);
        let tools: Vec<Value> = tools.iter().map(|tool| inside.map_or(tool, |name| &tool[name]).clone()).collect();
        let names: Vec<String> = tools.iter().map(|tool| text(&tool["name"])).collect();
        assert_eq!(
            names,
            ["timer", "read_timer", "stop_timer", "cancel_timer", "pause_timer", "resume_timer", "clock"],
            "{format}"
        );
        for tool in &tools {
            assert!(!text(&tool["description"]).is_empty());
            assert_eq!(tool[schema]["type"], "object", "{format} {tool}");
        }
    }
    assert_eq!(world.get("/api/tools").await, world.get("/api/tools?format=mcp").await);
}
