//! The table of states: what each tool does to a timer in each state, and how durations given again are understood.

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::{Value, json};
use support::*;

/// A timer of 300 seconds that has run for 100, brought into this state.
async fn timer_in(world: &World, session: &str, state: &str) -> String {
    let call = world.standing(session, json!({"total_duration": 300, "timeout_duration": 100, "reason": "r"})).await;
    world.advance(100);
    let timer = id(&result(call).await);
    let ask = json!({"timer_id": timer});
    match state {
        "running" => Value::Null,
        "running_background" => world.done(session, "cancel_timer", ask).await,
        "paused" => world.done(session, "pause_timer", json!({"timer_id": timer, "pause_duration": 50})).await,
        "stopped" => world.done(session, "stop_timer", ask).await,
        "completed" => {
            world.advance(200);
            let message = world.until_message(session, &timer).await;
            // Out of the way of what the test looks at.
            let lease = world.post(&format!("/api/sessions/{session}/inbox/lease"), json!({})).await.body;
            let commit = json!({"lease": lease["lease"]});
            world.post(&format!("/api/sessions/{session}/inbox/commit"), commit).await;
            message
        }
        _ => unreachable!("{state}"),
    };
    timer
}

#[tokio::test]
async fn every_tool_in_every_state() {
    let world = World::start().await;
    for (state, tool, expected) in [
        ("running", "cancel_timer", "running_background"),
        ("running", "pause_timer", "paused"),
        ("running", "resume_timer", "not_paused"),
        ("running", "stop_timer", "stopped"),
        ("running_background", "cancel_timer", "running_background"),
        ("running_background", "pause_timer", "paused"),
        ("running_background", "resume_timer", "not_paused"),
        ("running_background", "stop_timer", "stopped"),
        ("paused", "cancel_timer", "paused"),
        ("paused", "pause_timer", "paused"),
        ("paused", "resume_timer", "running"),
        ("paused", "stop_timer", "stopped"),
        ("completed", "timer", "timer_ended"),
        ("completed", "cancel_timer", "timer_ended"),
        ("completed", "pause_timer", "timer_ended"),
        ("completed", "resume_timer", "timer_ended"),
        ("completed", "stop_timer", "timer_ended"),
        ("stopped", "timer", "timer_ended"),
        ("stopped", "cancel_timer", "timer_ended"),
        ("stopped", "pause_timer", "timer_ended"),
        ("stopped", "resume_timer", "timer_ended"),
        ("stopped", "stop_timer", "timer_ended"),
    ] {
        let session = format!("{state}-{tool}");
        let timer = timer_in(&world, &session, state).await;
        let mut ask = json!({"timer_id": timer});
        if tool == "pause_timer" {
            ask["pause_duration"] = json!(80);
        }
        let answer = world.tool(&session, tool, ask).await;
        let seen = if answer.status == 200 { &answer.body["status"] } else { &answer.body["code"] };
        assert_eq!(seen, expected, "{tool} on {state}: {}", answer.body);
        if answer.status == 200 {
            has(&answer.body, json!({"elapsed_time": 100, "remaining_time": 200}));
            if expected == "paused" && tool == "pause_timer" {
                assert_eq!(answer.body["pause_until"], world.now() + 80_000);
            }
        } else {
            assert_eq!(answer.status, 409);
            let (elapsed, remaining) = if state == "completed" { (300, 0) } else { (100, 200) };
            if state == "completed" || state == "stopped" {
                let final_state = json!({"status": state, "elapsed_time": elapsed, "remaining_time": remaining});
                has(&answer.body["timer"], final_state);
            }
            let still = world.done(&session, "read_timer", json!({"timer_id": timer})).await;
            has(&still, json!({"status": state, "elapsed_time": elapsed, "remaining_time": remaining}));
        }
    }
}

#[tokio::test]
async fn a_pause_leads_back_to_where_it_came_from() {
    let world = World::start().await;
    for (session, before, cancelled, early, after) in [
        ("a", "running", false, true, "running"),
        ("b", "running", false, false, "running"),
        ("c", "running_background", false, true, "running_background"),
        ("d", "running_background", false, false, "running_background"),
        ("e", "running", true, true, "running_background"),
        ("f", "running", true, false, "running_background"),
    ] {
        let timer = timer_in(&world, session, before).await;
        let ask = json!({"timer_id": timer});
        world.done(session, "pause_timer", json!({"timer_id": timer, "pause_duration": 50})).await;
        if cancelled {
            let answer = world.done(session, "cancel_timer", ask.clone()).await;
            has(&answer, json!({"status": "paused", "outcome": "paused", "remaining_time": 200}));
        }
        world.advance(if early { 20 } else { 50 });
        if early {
            world.done(session, "resume_timer", ask.clone()).await;
        }
        let answer = world.done(session, "read_timer", ask).await;
        has(&answer, json!({"status": after, "elapsed_time": 100, "remaining_time": 200}));
        assert_eq!(answer["ends_at"], world.now() + 200_000, "{session}");
    }
}

#[tokio::test]
async fn a_second_pause_counts_from_now_and_many_pauses_add_up() {
    let world = World::start().await;
    let timer = timer_in(&world, "agent", "paused").await;
    world.advance(40);
    let ask = json!({"timer_id": timer, "pause_duration": 100});
    let answer = world.done("agent", "pause_timer", ask).await;
    has(&answer, json!({"pause_until": world.now() + 100_000, "remaining_time": 200}));
    world.advance(99);
    has(&world.done("agent", "read_timer", json!({"timer_id": timer})).await, json!({"status": "paused"}));
    world.advance(31); // one second of the pause, thirty of the timer
    has(&world.done("agent", "read_timer", json!({"timer_id": timer})).await, json!({"remaining_time": 170}));
    world.done("agent", "pause_timer", json!({"timer_id": timer, "pause_duration": 1000})).await;
    world.advance(7);
    world.done("agent", "resume_timer", json!({"timer_id": timer})).await;
    world.advance(170);
    let completed = world.until_event(&timer, "timer.completed").await;
    has(&completed["data"], json!({"due": world.now(), "lateness_ms": 0}));
    has(
        &world.done("agent", "read_timer", json!({"timer_id": timer})).await,
        json!({"status": "completed", "total_duration": 300, "elapsed_time": 300}),
    );
}

#[tokio::test]
async fn continuing_brings_a_timer_back_from_the_background() {
    let world = World::start().await;
    let timer = timer_in(&world, "agent", "running_background").await;
    let call = world.standing("agent", json!({"timer_id": timer, "timeout_duration": 20})).await;
    let shown = world.get(&format!("/api/timers/{timer}")).await;
    has(&shown, json!({"status": "running", "session": "agent", "standby_until": world.now() + 20_000}));
    world.advance(20);
    has(
        &result(call).await,
        json!({"outcome": "timeout", "timeout": true, "status": "running", "remaining_time": 180}),
    );
}

#[tokio::test]
async fn a_total_given_again_is_what_remains_from_now() {
    let world = World::start().await;
    let timer = timer_in(&world, "agent", "running").await;
    for (left, total) in [(1000, 1110), (50, 170)] {
        let call =
            world.standing("agent", json!({"timer_id": timer, "total_duration": left, "timeout_duration": 10})).await;
        let shown = world.get(&format!("/api/timers/{timer}")).await;
        has(&shown, json!({"remaining_time": left}));
        world.advance(10);
        has(
            &result(call).await,
            json!({"total_duration": total - 10, "elapsed_time": total - left, "remaining_time": left - 10}),
        );
    }
    // Also while it is paused, where it stays frozen.
    world.done("agent", "pause_timer", json!({"timer_id": timer, "pause_duration": 100})).await;
    let answer = world.done("agent", "timer", json!({"timer_id": timer, "total_duration": 500})).await;
    has(&answer, json!({"outcome": "paused", "status": "paused", "elapsed_time": 120, "remaining_time": 500}));
    world.advance(99);
    has(&world.done("agent", "read_timer", json!({"timer_id": timer})).await, json!({"remaining_time": 500}));
}

#[tokio::test]
async fn a_mission_is_continued_as_a_mission() {
    let world = World::start().await;
    let set = world.done("agent", "timer", json!({"total_duration": 600, "mission": "m"})).await;
    let timer = id(&set);
    let (status, code, _) = world.refused("agent", "timer", json!({"timer_id": timer, "reason": "r"})).await;
    assert_eq!((status, code.as_str()), (400, "mission_takes_no_reason"));
    world.advance(100);
    let ask = json!({"timer_id": timer, "total_duration": 900, "mission": "another"});
    has(
        &world.done("agent", "timer", ask).await,
        json!({
            "outcome": "scheduled", "timeout": false, "mission": "another", "total_duration": 1000,
            "elapsed_time": 100, "remaining_time": 900,
        }),
    );
    // A stand-by alone is a wish to wait for it after all.
    let call = world.standing("agent", json!({"timer_id": timer, "timeout_duration": 900})).await;
    world.advance(900);
    has(
        &result(call).await,
        json!({"outcome": "completed", "timeout": false, "status": "completed", "elapsed_time": 1000, "messages": []}),
    );
    // And a waiting timer takes no mission.
    let timer = timer_in(&world, "agent", "running").await;
    let (status, code, _) = world.refused("agent", "timer", json!({"timer_id": timer, "mission": "m"})).await;
    assert_eq!((status, code.as_str()), (400, "waiting_takes_no_mission"));
}

#[tokio::test]
async fn many_timers_run_side_by_side() {
    let world = World::start().await;
    let mut timers = Vec::new();
    for seconds in [30, 10, 20, 10] {
        let set = world.done("agent", "timer", json!({"total_duration": seconds, "mission": "m"})).await;
        timers.push((seconds, id(&set)));
    }
    let all = world.done("agent", "read_timer", json!({})).await;
    assert_eq!(all["timers"].as_array().unwrap().len(), 4);
    for step in 1..=3u64 {
        world.advance(10);
        for (seconds, timer) in &timers {
            if *seconds == step * 10 {
                world.until_message("agent", timer).await;
            }
        }
        let live = world.get("/api/timers?status=live&session=agent").await;
        let expected = timers.iter().filter(|(seconds, _)| *seconds > step * 10).count();
        assert_eq!(live["timers"].as_array().unwrap().len(), expected);
    }
    let told = world.done("agent", "read_timer", json!({})).await;
    let order: Vec<String> = list(&told["messages"]).iter().map(|message| text(&message["timer_id"])).collect();
    assert_eq!(order.len(), 4);
    assert_eq!((&order[2], &order[3]), (&timers[2].1, &timers[0].1), "in the order in which they ended");
}
