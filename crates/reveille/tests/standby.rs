//! Calls that stand by: what ends them, and that it ends them at once.

#![allow(clippy::unwrap_used)]

mod support;

use reqwest::Method;
use reveille_core::{Call, Command, ItemId, Millis, Purpose, SessionId};
use serde_json::{Value, json};
use support::*;
use tokio::io::AsyncReadExt;

fn waiting(total: u64, timeout: u64) -> Value {
    json!({"total_duration": total, "timeout_duration": timeout, "reason": "r"})
}

async fn only_timer(world: &World) -> String {
    id(&world.timers().await[0])
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_call_and_not_its_timer() {
    let world = World::start().await;
    let call = world.standing("agent", waiting(300, 300)).await;
    let timer = only_timer(&world).await;
    world.advance(45);
    call.abort();
    world.standing_count(0).await;
    let checked = world.until_event(&timer, "timer.checked").await;
    assert_eq!(checked["data"]["slept"], 45);
    let shown = world.get(&format!("/api/timers/{timer}")).await;
    has(&shown, json!({"status": "running", "elapsed_time": 45, "standby_until": null}));
    world.advance(255);
    let message = world.until_message("agent", &timer).await;
    assert_eq!(message["text"], finished(&timer, "Reason", "r", 300));
}

#[tokio::test]
async fn any_door_releases_a_blocked_call_at_once() {
    let world = World::start().await;
    for (act, outcome, status) in [
        ("tool stop_timer", "stopped", "stopped"),
        ("tool cancel_timer", "background", "running_background"),
        ("tool pause_timer", "paused", "paused"),
        ("api stop", "stopped", "stopped"),
        ("api cancel", "background", "running_background"),
        ("api pause", "paused", "paused"),
        ("close session", "stopped", "stopped"),
    ] {
        let session = act.replace(' ', "-");
        let call = world.standing(&session, waiting(300, 200)).await;
        world.advance(10);
        let timer = id(&world.get(&format!("/api/timers?session={session}")).await["timers"][0]);
        let why = json!({"timer_id": timer, "pause_duration": 60, "reason": act});
        let answer = match act.split_once(' ').unwrap() {
            ("tool", tool) => world.tool(&session, tool, why).await,
            ("api", action) => world.post(&format!("/api/timers/{timer}/{action}"), why).await,
            _ => world.request(Method::DELETE, &format!("/api/sessions/{session}"), None).await,
        };
        assert_eq!(answer.status, 200, "{act}: {}", answer.body);
        let released = result(call).await;
        let note = if act == "close session" { "session closed" } else { act };
        has(
            &released,
            json!({
                "timer_id": timer, "outcome": outcome, "status": status, "timeout": false, "stop_reason": note,
                "elapsed_time": 10, "remaining_time": 290, "messages": [],
            }),
        );
    }
    world.standing_count(0).await;
    assert!(world.history().await.iter().all(|entry| entry["event"] != "timer.completed"));
}

/// Somebody else may lengthen the timer; a call without a time of its own still waits for its end.
#[tokio::test]
async fn everything_is_stopped_with_one_request() {
    let world = World::start().await;
    let mut calls = Vec::new();
    for session in ["a", "b", "c"] {
        calls.push(world.standing(session, waiting(300, 300)).await);
    }
    world.done("b", "timer", json!({"total_duration": 60, "mission": "m"})).await;
    for wrong in [json!({}), json!({"all": true, "session": "a"}), json!({"al": true}), json!({"session": ""})] {
        assert_eq!(world.post("/api/timers/stop", wrong.clone()).await.status, 400, "{wrong}");
    }
    let one = world.post("/api/timers/stop", json!({"session": "b"})).await;
    assert_eq!(one.body, json!({"stopped": 2}));
    world.standing_count(2).await;
    let all = world.post("/api/timers/stop", json!({"all": true, "reason": "紧急停止 🛑"})).await;
    assert_eq!(all.body, json!({"stopped": 2}));
    for (call, reason) in calls.into_iter().zip([json!("紧急停止 🛑"), Value::Null, json!("紧急停止 🛑")]) {
        has(&result(call).await, json!({"outcome": "stopped", "status": "stopped", "stop_reason": reason}));
    }
    assert_eq!(world.post("/api/timers/stop", json!({"all": true})).await.body, json!({"stopped": 0}));
}

#[tokio::test]
async fn a_call_without_a_time_of_its_own_waits_for_the_end_of_a_lengthened_timer() {
    let world = World::start().await;
    let call = world.standing("agent", json!({"total_duration": 10, "reason": "r"})).await;
    let timer = only_timer(&world).await;
    let longer = json!({"timer_id": timer, "total_duration": 60, "timeout_duration": 5});
    let other = world.standing("agent", longer).await;
    world.advance(5);
    has(&result(other).await, json!({"outcome": "timeout", "remaining_time": 55}));
    world.advance(10);
    has(&world.get(&format!("/api/timers/{timer}")).await, json!({"status": "running", "remaining_time": 45}));
    world.advance(45);
    has(&result(call).await, json!({"outcome": "completed", "elapsed_time": 60, "timeout": false}));
}

#[tokio::test]
async fn two_calls_stand_by_for_one_timer() {
    let world = World::start().await;
    let first = world.standing("agent", waiting(300, 300)).await;
    let timer = only_timer(&world).await;
    let second = world.standing("agent", json!({"timer_id": timer, "timeout_duration": 100})).await;
    let third = world.standing("agent", json!({"timer_id": timer})).await;
    world.advance(100);
    has(&result(second).await, json!({"outcome": "timeout", "timeout": true, "remaining_time": 200}));
    // One leaves, which is no loss to the other.
    first.abort();
    world.standing_count(1).await;
    world.advance(200);
    has(&result(third).await, json!({"outcome": "completed", "timeout": false}));
    let delivered = world.until_event(&timer.replace("timer_", "msg_"), "message.delivered").await;
    assert_eq!(delivered["data"]["channel"], "standby");
    assert!(world.inbox("agent").await.is_empty());

    // Both stay: both are answered, the message counts once.
    let first = world.standing("agent", waiting(300, 300)).await;
    let timer = only_timer(&world).await;
    let second = world.standing("agent", json!({"timer_id": timer})).await;
    world.advance(300);
    has(&result(first).await, json!({"outcome": "completed", "messages": []}));
    has(&result(second).await, json!({"outcome": "completed", "messages": []}));
    world.until_event(&timer.replace("timer_", "msg_"), "message.delivered").await;
    assert_eq!(world.history_of(&timer.replace("timer_", "msg_")).await.len(), 1);

    // And a stop releases both.
    let first = world.standing("agent", waiting(300, 300)).await;
    let timer = only_timer(&world).await;
    let second = world.standing("agent", json!({"timer_id": timer})).await;
    world.done("agent", "stop_timer", json!({"timer_id": timer})).await;
    has(&result(first).await, json!({"outcome": "stopped"}));
    has(&result(second).await, json!({"outcome": "stopped"}));
}

/// Nobody is kept waiting for one thing while another is to be told.
#[tokio::test]
async fn a_message_releases_a_call_that_stands_by_for_something_else() {
    let world = World::start().await;
    let mission = id(&world.tool("agent", "timer", json!({"total_duration": 60, "mission": "deploy"})).await.body);
    let call = world.standing("agent", waiting(3600, 3600)).await;
    let elsewhere = world.standing("other", waiting(3600, 3600)).await;
    let timer = id(&world.get("/api/timers?session=agent").await["timers"][0]);
    world.advance(60);
    let told = result(call).await;
    has(&told, json!({"timer_id": timer, "outcome": "message", "timeout": true, "status": "running"}));
    has(&told, json!({"elapsed_time": 60, "remaining_time": 3540}));
    assert_eq!(list(&told["messages"]).len(), 1);
    assert_eq!(told["messages"][0]["timer_id"], mission);
    assert!(text(&told["hint"]).contains(&format!("timer_id '{timer}'")), "{}", told["hint"]);
    // Told once; the call in the other session has heard nothing.
    world.until_event(&text(&told["messages"][0]["id"]), "message.delivered").await;
    world.standing_count(1).await;
    let again = world.standing("agent", json!({"timer_id": timer})).await;
    world.standing_count(2).await;
    world.advance(3540);
    has(&result(again).await, json!({"outcome": "completed", "messages": []}));
    has(&result(elsewhere).await, json!({"outcome": "completed"}));
}

#[tokio::test]
async fn what_is_pending_already_is_told_before_anybody_stands_by() {
    let world = World::start().await;
    let mission = id(&world.tool("agent", "timer", json!({"total_duration": 60, "mission": "m"})).await.body);
    world.advance(60);
    world.until_message("agent", &mission).await;
    let told = world.tool("agent", "timer", waiting(300, 300)).await.body;
    has(&told, json!({"outcome": "message", "timeout": true, "elapsed_time": 0, "remaining_time": 300}));
    assert_eq!(told["messages"][0]["timer_id"], mission);
}

#[tokio::test]
async fn one_of_several_calls_is_released_by_a_message() {
    let world = World::start().await;
    let mission = json!({"total_duration": 60, "mission": "m"});
    world.tool("agent", "timer", mission).await;
    let mut calls = Vec::new();
    for _ in 0..3 {
        calls.push(world.standing("agent", waiting(300, 200)).await);
    }
    world.advance(60);
    let first = within("one returns", async {
        loop {
            match calls.iter().position(|call| call.is_finished()) {
                Some(first) => break first,
                None => tokio::task::yield_now().await,
            }
        }
    });
    let first = first.await;
    let told = result(calls.swap_remove(first)).await;
    has(&told, json!({"outcome": "message"}));
    world.until_event(&text(&told["messages"][0]["id"]), "message.delivered").await;
    world.advance(140);
    for call in calls {
        has(&result(call).await, json!({"outcome": "timeout", "messages": []}));
    }
}

/// Somebody took the message and died with it: when its right to tell it is over, the call that stands by gets it.
#[tokio::test]
async fn a_lease_that_runs_out_releases_a_call() {
    let world = World::start().await;
    let mission = id(&world.tool("agent", "timer", json!({"total_duration": 60, "mission": "m"})).await.body);
    world.advance(60);
    world.until_message("agent", &mission).await;
    let leased = world.post("/api/sessions/agent/inbox/lease", json!({})).await.body;
    assert_eq!(list(&leased["messages"]).len(), 1);
    let call = world.standing("agent", waiting(3600, 3600)).await;
    world.advance(10);
    assert!(!call.is_finished(), "it is another's to tell");
    world.advance(120);
    let told = result(call).await;
    has(&told, json!({"outcome": "message"}));
    assert_eq!(told["messages"][0]["timer_id"], mission);
}

/// What a hint promises must be so.
#[tokio::test]
async fn cancelling_says_what_becomes_of_the_timer() {
    let world = World::start().await;
    let call = world.standing("agent", waiting(300, 300)).await;
    let timer = json!({"timer_id": only_timer(&world).await});
    let cancelled = world.done("agent", "cancel_timer", timer.clone()).await;
    assert!(text(&cancelled["hint"]).contains("Nothing can wake this session"), "{}", cancelled["hint"]);
    result(call).await;
    let pause = json!({"timer_id": timer["timer_id"], "pause_duration": 60});
    world.done("agent", "pause_timer", pause).await;
    let paused = world.done("agent", "cancel_timer", timer).await;
    has(&paused, json!({"outcome": "paused", "status": "paused"}));
    assert!(text(&paused["hint"]).contains("paused and will go on in the background"), "{}", paused["hint"]);
}

/// As a crash leaves it: the stand-by is written, and nobody is there.
#[tokio::test]
async fn a_stand_by_that_was_lost_is_not_shown() {
    let world = World::start().await;
    let call = world.standing("agent", waiting(3600, 3600)).await;
    let timer = only_timer(&world).await;
    assert_eq!(world.get(&format!("/api/timers/{timer}")).await["standby_until"], START + 3_600_000);
    let lost = Command::Create {
        id: ItemId::new("timer_lost"),
        purpose: Purpose::Waiting("r".into()),
        total: Millis::from_secs(3600),
        timeout: None,
        until: None,
        key: None,
        task: None,
    };
    world.server().engine.execute(&SessionId::parse("other").unwrap(), Call::new(lost)).await.unwrap();
    let shown = world.get("/api/timers/timer_lost").await;
    has(&shown, json!({"status": "running", "standby_until": null, "standby_since": null}));
    call.abort();
}

#[tokio::test]
async fn stopping_the_server_answers_waiting_calls_and_keeps_their_timers() {
    let mut world = World::start().await;
    let call = world.standing("agent", waiting(300, 200)).await;
    let mut raw = world.standing_raw("agent", &waiting(500, 500)).await;
    world.done("agent", "timer", json!({"total_duration": 100, "mission": "m"})).await;
    let server_id = world.get("/api/stats").await["server_id"].clone();
    world.advance(50);
    world.down().await;
    let answer = result(call).await;
    has(&answer, json!({"outcome": "timeout", "timeout": true, "status": "running", "remaining_time": 250}));
    assert!(text(&answer["hint"]).contains("The server is stopping"), "{}", answer["hint"]);
    let mut reply = String::new();
    within("the reply", raw.read_to_string(&mut reply)).await.unwrap();
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    assert!(reply.contains(r#""remaining_time":450"#), "{reply}");

    // Time goes on while nobody runs. The mission is overdue at the start and fires then.
    world.advance(100);
    world.up().await;
    let timers = world.timers().await;
    assert_eq!(timers.len(), 3);
    let (mission, waiting) = (id(&timers[0]), id(&answer));
    let completed = world.until_event(&mission, "timer.completed").await;
    has(&completed["data"], json!({"due": START + 100_000, "lateness_ms": 50_000}));
    has(
        &world.until_message("agent", &mission).await,
        json!({"text": finished(&mission, "Mission", "m", 100), "created_at": START + 150_000}),
    );
    let answer = world.done("agent", "timer", json!({"timer_id": waiting})).await;
    has(&answer, json!({"outcome": "message", "elapsed_time": 150}));
    assert_eq!(list(&answer["messages"]).len(), 1, "the mission's message is told first");
    let call = world.standing("agent", json!({"timer_id": waiting})).await;
    world.advance(150);
    has(&result(call).await, json!({"outcome": "completed", "elapsed_time": 300}));
    assert_eq!(world.get("/api/stats").await["server_id"], server_id);
}
