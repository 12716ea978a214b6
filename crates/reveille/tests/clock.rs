//! Time that does not behave: the wall clock is set forward and back, the machine sleeps, days pass. Nothing fires
//! early, nothing is lost, nothing fires twice.

#![allow(clippy::unwrap_used)]

mod support;

use reqwest::Method;
use reveille::{clock::SystemClock, config::Config, run::Server};
use reveille_core::Timestamp;
use serde_json::{Value, json};
use std::{sync::Arc, time::Instant};
use support::*;

async fn mission(world: &World, seconds: u64) -> String {
    id(&world.done("agent", "timer", json!({"total_duration": seconds, "mission": "m"})).await)
}

fn set(world: &World, at: i64) {
    world.clock.set(Timestamp::from_millis(at));
}

/// The one completion of a timer.
async fn completed(world: &World, timer: &str) -> Value {
    world.until_event(timer, "timer.completed").await;
    let mut ends: Vec<Value> = world.history_of(timer).await;
    ends.retain(|entry| entry["event"] == "timer.completed");
    assert_eq!(ends.len(), 1, "{timer} ended more than once");
    let end = ends.remove(0);
    assert!(end["at"].as_i64() >= end["data"]["due"].as_i64(), "early: {end}");
    end
}

#[tokio::test]
async fn a_leap_forward_fires_everything_that_is_due_once() {
    let world = World::start().await;
    let mut timers = Vec::new();
    for seconds in (1..=50).map(|n| n * 60) {
        timers.push((seconds, mission(&world, seconds).await));
    }
    set(&world, START + 30 * 60_000);
    for (seconds, timer) in &timers[..30] {
        let end = completed(&world, timer).await;
        let lateness = 30 * 60_000 - *seconds as i64 * 1000;
        has(&end["data"], json!({"due": START + *seconds as i64 * 1000, "lateness_ms": lateness}));
    }
    for (_, timer) in &timers[30..] {
        has(&world.get(&format!("/api/timers/{timer}")).await, json!({"status": "running"}));
    }
    set(&world, START + 30 * 24 * 3_600_000);
    for (_, timer) in &timers[30..] {
        completed(&world, timer).await;
    }
    assert_eq!(world.inbox("agent").await.len(), 50);
}

#[tokio::test]
async fn a_clock_set_back_delays_and_does_not_lose() {
    let world = World::start().await;
    let timer = mission(&world, 300).await;
    world.advance(100);
    set(&world, START - 3_600_000);
    // What is shown stays possible: never more left than the total.
    let read = world.done("agent", "read_timer", json!({"timer_id": timer})).await;
    has(&read, json!({"status": "running", "total_duration": 300, "elapsed_time": 0, "remaining_time": 300}));
    // What is made now goes by the clock as it is now.
    let short = mission(&world, 60).await;
    world.advance(60);
    has(&completed(&world, &short).await, json!({"at": START - 3_600_000 + 60_000}));
    set(&world, START + 299_999);
    has(&world.get(&format!("/api/timers/{timer}")).await, json!({"status": "running", "remaining_time": 0.001}));
    set(&world, START + 300_000);
    has(&completed(&world, &timer).await, json!({"at": START + 300_000}));
}

#[tokio::test]
async fn a_clock_that_swings_wildly_fires_each_deadline_once_and_none_early() {
    let world = World::start().await;
    let mut timers = Vec::new();
    for (step, seconds) in (0..60).map(|n| (n, 30 + n * 37 % 400)) {
        timers.push(mission(&world, seconds).await);
        let swing: i64 = [45_000, -120_000, 3_600_000, -3_590_000, 1, -1][step as usize % 6];
        set(&world, world.now() + swing);
    }
    set(&world, START + 10 * 3_600_000);
    for timer in &timers {
        completed(&world, timer).await;
    }
    let stats = world.get("/api/stats").await;
    has(&stats["timers"], json!({"created": 60, "completed": 60, "running": 0}));
    assert_eq!(stats["messages"]["created"], 60);
}

#[tokio::test]
async fn pauses_survive_a_clock_that_is_set() {
    let world = World::start().await;
    let (early, late) = (mission(&world, 300).await, mission(&world, 300).await);
    world.advance(100);
    for timer in [&early, &late] {
        world.done("agent", "pause_timer", json!({"timer_id": timer, "pause_duration": 1000})).await;
    }
    set(&world, START - 50_000);
    has(&world.done("agent", "read_timer", json!({"timer_id": early})).await, json!({"remaining_time": 200}));
    let resumed = world.done("agent", "resume_timer", json!({"timer_id": early})).await;
    has(&resumed, json!({"status": "running", "remaining_time": 200, "ends_at": START + 150_000}));
    world.advance(200);
    has(&completed(&world, &early).await["data"], json!({"due": START + 150_000}));
    // A leap over the end of the pause and the end of the timer: both happened, in order, at their own times.
    set(&world, START + 9_000_000);
    has(&completed(&world, &late).await["data"], json!({"due": START + 1_300_000}));
    let events: Vec<String> = world.history_of(&late).await.iter().map(|entry| text(&entry["event"])).collect();
    assert_eq!(events, ["timer.created", "timer.paused", "timer.resumed", "timer.completed"]);
}

#[tokio::test]
async fn a_blocked_call_outlives_a_clock_set_back_and_ends_with_a_leap() {
    let world = World::start().await;
    let ask = json!({"total_duration": 300, "timeout_duration": 300, "reason": "r"});
    let call = world.standing("agent", ask).await;
    set(&world, START - 86_400_000);
    world.done("agent", "read_timer", json!({})).await;
    world.standing_count(1).await;
    set(&world, START + 86_400_000);
    has(&result(call).await, json!({"outcome": "completed", "timeout": false, "elapsed_time": 300}));
}

#[tokio::test]
async fn what_ended_is_forgotten_after_a_week_and_what_waits_is_not() {
    let world = World::start().await;
    let unread = mission(&world, 10).await;
    let stopped = mission(&world, 1000).await;
    let long = mission(&world, 30 * 86_400).await;
    world.done("agent", "stop_timer", json!({"timer_id": stopped})).await;
    world.advance(10);
    let message = world.until_message("agent", &unread).await;
    world.advance(6 * 86_400);
    has(&world.get(&format!("/api/timers/{stopped}")).await, json!({"status": "stopped"}));
    world.advance(2 * 86_400);
    // Something is committed now and then, so that the removal (which commits nothing of its own) is looked for again.
    within("old timers are removed", async {
        loop {
            let gone = world.request(Method::GET, &format!("/api/timers/{stopped}"), None).await;
            if gone.status == 404 {
                assert_eq!(gone.body["code"], "unknown_timer");
                break;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    has(&world.get(&format!("/api/timers/{long}")).await, json!({"status": "running"}));
    assert_eq!(world.inbox("agent").await, [message], "an undelivered message stays, however old");
    world.advance(22 * 86_400);
    completed(&world, &long).await;
    has(&world.get("/api/stats").await["timers"], json!({"created": 3, "completed": 2, "stopped": 1}));
}

/// With the machine's own clock: deadlines are kept to the millisecond on the early side, whatever the load.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_early_by_the_real_clock() {
    let data = tempfile::tempdir().unwrap();
    let listen = "127.0.0.1:0".parse().unwrap();
    let config = Config { listen, data_dir: data.path().to_owned(), ..Config::default() };
    let server = Server::start(&config, Arc::new(SystemClock)).await.unwrap();
    let (http, url) = (client(), format!("http://{}", server.address));
    let mut events = server.engine.events();
    let missions = (0..60u64).map(|n| {
        let ask = json!({"total_duration": (20 + n * 5) as f64 / 1000.0, "mission": "m"});
        let url = format!("{url}/api/sessions/s{}/tools/timer", n % 7);
        let http = &http;
        async move { send(http, Method::POST, &url, Some(&ask), None).await.body }
    });
    let waits = (0..20u64).map(|n| {
        let (total, timeout) = (40 + n * 13, 20 + n * 13);
        let ask =
            json!({"total_duration": format!("{total}ms"), "timeout_duration": format!("{timeout}ms"), "reason": "r"});
        // Each in a session of its own: another's end would be told at once.
        let url = format!("{url}/api/sessions/w{n}/tools/timer");
        let http = &http;
        async move {
            let began = Instant::now();
            let answer = send(http, Method::POST, &url, Some(&ask), None).await.body;
            (timeout, began.elapsed().as_millis() as u64, answer)
        }
    });
    let (missions, waits) =
        tokio::join!(futures_util::future::join_all(missions), futures_util::future::join_all(waits));
    for (timeout, took, answer) in &waits {
        assert!(took >= timeout, "stood by {took} ms of {timeout}: {answer}");
    }
    let all: Vec<&Value> = missions.iter().chain(waits.iter().map(|(_, _, answer)| answer)).collect();
    within("everything completes", async {
        loop {
            let done = http.get(format!("{url}/api/timers?status=completed&limit=1000")).send().await.unwrap();
            let done: Value = done.json().await.unwrap();
            if list(&done["timers"]).len() == all.len() {
                break;
            }
            let _ = events.recv().await;
        }
    })
    .await;
    for timer in all {
        let path = format!("{url}/api/history?id={}&after=0", id(timer));
        let history: Value = http.get(path).send().await.unwrap().json().await.unwrap();
        let ends: Vec<Value> =
            list(&history["entries"]).into_iter().filter(|entry| entry["event"] == "timer.completed").collect();
        assert_eq!(ends.len(), 1, "{timer}");
        let (at, due) = (ends[0]["at"].as_i64().unwrap(), ends[0]["data"]["due"].as_i64().unwrap());
        let total = (timer["total_duration"].as_f64().unwrap() * 1000.0).round() as i64;
        assert_eq!(due, timer["created_at"].as_i64().unwrap() + total);
        assert!(at >= due, "{} ms early: {timer}", due - at);
    }
    within("the server stops", server.stop()).await;
}
