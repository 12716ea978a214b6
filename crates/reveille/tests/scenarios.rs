//! The original's scenarios 1 to 7, its workflow example and the table of states, told as an agent lives through them.

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::json;
use support::*;

#[tokio::test]
async fn scenario_1_waiting_for_a_server_to_start() {
    let world = World::start().await;
    let why = "Waiting for server to start (5 minutes total)";
    let call = world.standing("agent", json!({"total_duration": 300, "timeout_duration": 60, "reason": why})).await;
    world.advance(60);
    let first = result(call).await;
    let timer = id(&first);
    has(
        &first,
        json!({
            "timer_type": "waiting", "timeout": true, "outcome": "timeout", "status": "running",
            "total_duration": 300, "elapsed_time": 60, "remaining_time": 240, "reason": why, "mission": null,
            "stop_reason": null, "created_at": START, "last_check_at": START + 60_000, "pause_until": null,
            "ends_at": START + 300_000, "standby_until": null, "messages": [],
        }),
    );

    let read = world.done("agent", "read_timer", json!({"timer_id": timer})).await;
    has(
        &read,
        json!({
            "timer_id": timer, "outcome": "read", "status": "running", "elapsed_time": 60, "remaining_time": 240,
            "timeout": null, "messages": [],
        }),
    );

    let again = "Continue waiting for server (4 minutes remaining)";
    let ask = json!({"total_duration": 240, "timeout_duration": 60, "timer_id": timer, "reason": again});
    let call = world.standing("agent", ask).await;
    world.advance(60);
    has(
        &result(call).await,
        json!({
            "timer_id": timer, "timeout": true, "outcome": "timeout", "status": "running", "total_duration": 300,
            "elapsed_time": 120, "remaining_time": 180, "reason": again, "last_check_at": START + 120_000,
        }),
    );

    let ask = json!({"timer_id": timer, "reason": "Server has started successfully"});
    let stopped = json!({
        "timer_id": timer, "status": "stopped", "stop_reason": "Server has started successfully",
        "total_duration": 300, "elapsed_time": 120, "remaining_time": 180, "ends_at": START + 120_000,
    });
    let stop = world.done("agent", "stop_timer", ask).await;
    has(&stop, stopped.clone());
    has(&stop, json!({"outcome": "stopped", "timeout": null, "messages": []}));

    // It stays readable, does not count on, and never reports.
    world.advance(3600);
    let read = world.done("agent", "read_timer", json!({"timer_id": timer})).await;
    has(&read, stopped.clone());
    assert_eq!(read["messages"], json!([]));
    let (status, code, problem) = world.refused("agent", "timer", json!({"timer_id": timer})).await;
    assert_eq!((status, code.as_str()), (409, "timer_ended"));
    has(&problem["timer"], stopped);
    assert_eq!(
        world.events_of("agent").await,
        ["session.opened", "timer.created", "timer.checked", "timer.continued", "timer.checked", "timer.stopped"]
    );
}

#[tokio::test]
async fn scenario_2_watching_the_file_system() {
    let world = World::start().await;
    let why = "Observing file system changes";
    let call = world.standing("agent", json!({"total_duration": 600, "timeout_duration": 30, "reason": why})).await;
    world.advance(30);
    let first = result(call).await;
    let timer = id(&first);
    has(&first, json!({"timeout": true, "elapsed_time": 30, "remaining_time": 570}));
    let read = world.done("agent", "read_timer", json!({"timer_id": timer})).await;
    has(&read, json!({"remaining_time": 570, "status": "running"}));

    // The reason may be left out; it stays.
    let ask = json!({"total_duration": 570, "timeout_duration": 30, "timer_id": timer});
    let call = world.standing("agent", ask).await;
    world.advance(30);
    has(
        &result(call).await,
        json!({"timeout": true, "total_duration": 600, "elapsed_time": 60, "remaining_time": 540, "reason": why}),
    );
    let ask = json!({"timer_id": timer, "reason": "Build log file has been generated"});
    has(&world.done("agent", "stop_timer", ask).await, json!({"outcome": "stopped", "status": "stopped"}));
    world.advance(10_000);
    assert_eq!(world.inbox("agent").await, [] as [serde_json::Value; 0]);
}

#[tokio::test]
async fn scenario_3_stop_ends_a_timer_and_cancel_lets_it_run_on() {
    let world = World::start().await;
    let ask = json!({"total_duration": 300, "timeout_duration": 60, "reason": "Waiting for server to start"});
    let call = world.standing("agent", ask).await;
    world.advance(60);
    let stopped = id(&result(call).await);
    let why = "Server has started successfully, no need to continue timing";
    let answer = world.done("agent", "stop_timer", json!({"timer_id": stopped, "reason": why})).await;
    has(&answer, json!({"outcome": "stopped", "status": "stopped", "stop_reason": why}));

    let reason = "Waiting for build to complete";
    let ask = json!({"total_duration": 600, "timeout_duration": 60, "reason": reason});
    let call = world.standing("agent", ask).await;
    world.advance(60);
    let timer = id(&result(call).await);
    let why = "Build is still running, will work on other tasks and check back when timer completes";
    let answer = world.done("agent", "cancel_timer", json!({"timer_id": timer, "reason": why})).await;
    has(
        &answer,
        json!({
            "outcome": "background", "status": "running_background", "stop_reason": why, "elapsed_time": 60,
            "remaining_time": 540, "messages": [],
        }),
    );
    // Cancelling again is no error and changes nothing.
    let answer = world.done("agent", "cancel_timer", json!({"timer_id": timer})).await;
    has(&answer, json!({"outcome": "background", "status": "running_background", "remaining_time": 540}));

    world.advance(539);
    assert!(world.inbox("agent").await.is_empty(), "nothing is told before the time is over");
    world.advance(1);
    let message = world.until_message("agent", &timer).await;
    has(
        &message,
        json!({
            "kind": "timer_completed", "text": finished(&timer, "Reason", reason, 600), "created_at": world.now(),
        }),
    );
    // The next result of any tool carries it, once; the stopped timer has nothing to say.
    let answer = world.done("agent", "read_timer", json!({"timer_id": timer})).await;
    has(&answer, json!({"status": "completed", "elapsed_time": 600, "remaining_time": 0, "ends_at": world.now()}));
    assert_eq!(answer["messages"].as_array().unwrap().len(), 1);
    assert_eq!(answer["messages"][0]["text"], message["text"]);
    world.until_event(message["id"].as_str().unwrap(), "message.delivered").await;
    let answer = world.done("agent", "read_timer", json!({"timer_id": stopped})).await;
    has(&answer, json!({"status": "stopped", "messages": []}));
}

#[tokio::test]
async fn scenario_4_pausing_and_resuming_early() {
    let world = World::start().await;
    let reason = "Waiting for deployment to complete";
    let ask = json!({"total_duration": 1800, "timeout_duration": 300, "reason": reason});
    let call = world.standing("agent", ask).await;
    world.advance(300);
    let timer = id(&result(call).await);

    let why = "Need to fix urgent bug first, pause for 10 minutes";
    let ask = json!({"timer_id": timer, "pause_duration": 600, "reason": why});
    let until = world.now() + 600_000;
    has(
        &world.done("agent", "pause_timer", ask).await,
        json!({
            "outcome": "paused", "status": "paused", "stop_reason": why, "pause_until": until, "elapsed_time": 300,
            "remaining_time": 1500, "ends_at": until + 1_500_000, "timeout": null,
        }),
    );
    world.advance(300);
    // Time is frozen, and there is nothing to stand by for.
    let frozen = json!({"status": "paused", "elapsed_time": 300, "remaining_time": 1500, "pause_until": until});
    has(&world.done("agent", "read_timer", json!({"timer_id": timer})).await, frozen.clone());
    let answer = world.done("agent", "timer", json!({"timer_id": timer, "timeout_duration": 60})).await;
    has(&answer, frozen);
    has(&answer, json!({"outcome": "paused"}));

    let why = "Bug fixed, resume waiting for deployment";
    has(
        &world.done("agent", "resume_timer", json!({"timer_id": timer, "reason": why})).await,
        json!({
            "outcome": "resumed", "status": "running", "stop_reason": why, "pause_until": null, "elapsed_time": 300,
            "remaining_time": 1500, "ends_at": world.now() + 1_500_000,
        }),
    );
    let call =
        world.standing("agent", json!({"total_duration": 1500, "timeout_duration": 300, "timer_id": timer})).await;
    world.advance(300);
    has(
        &result(call).await,
        json!({"timeout": true, "total_duration": 1800, "elapsed_time": 600, "remaining_time": 1200, "reason": reason}),
    );
    let call = world.standing("agent", json!({"timer_id": timer})).await;
    world.advance(1200);
    has(
        &result(call).await,
        json!({"timeout": false, "outcome": "completed", "status": "completed", "elapsed_time": 1800, "messages": []}),
    );
}

#[tokio::test]
async fn scenario_4_a_pause_ends_by_itself_and_counts_nothing() {
    let world = World::start().await;
    let ask = json!({"total_duration": 1800, "timeout_duration": 300, "reason": "Waiting for deployment"});
    let call = world.standing("agent", ask).await;
    world.advance(300);
    let timer = id(&result(call).await);
    world.done("agent", "pause_timer", json!({"timer_id": timer, "pause_duration": "10m"})).await;
    world.advance(600);
    has(
        &world.done("agent", "read_timer", json!({"timer_id": timer})).await,
        json!({"status": "running", "elapsed_time": 300, "remaining_time": 1500, "pause_until": null}),
    );
    let resumed = world.until_event(&timer, "timer.resumed").await;
    assert_eq!(resumed["data"]["due"], START + 900_000);
    world.advance(1499);
    has(&world.done("agent", "read_timer", json!({"timer_id": timer})).await, json!({"remaining_time": 1}));
    world.advance(1);
    let completed = world.until_event(&timer, "timer.completed").await;
    has(&completed["data"], json!({"due": START + 2_400_000, "lateness_ms": 0}));
    // Nobody stood by, so the message waits.
    has(
        &world.until_message("agent", &timer).await,
        json!({"text": finished(&timer, "Reason", "Waiting for deployment", 1800)}),
    );
}

/// Scenarios 5, 6 and 7: a mission returns at once, and its end wakes the agent through the channel it next uses.
#[tokio::test]
async fn scenarios_5_to_7_missions() {
    let world = World::start().await;
    for (session, seconds, mission) in [
        ("five", 1800, "Restart the server after 30 minutes"),
        ("six", 3600, "Check error logs after 1 hour"),
        ("seven", 600, "Remind user about the meeting in 10 minutes"),
    ] {
        let began = world.now();
        let ask = json!({"total_duration": seconds, "timeout_duration": seconds, "mission": mission});
        let set = world.done(session, "timer", ask).await;
        let timer = id(&set);
        has(
            &set,
            json!({
                "timer_type": "mission", "outcome": "scheduled", "timeout": false, "status": "running",
                "total_duration": seconds, "elapsed_time": 0, "remaining_time": seconds, "mission": mission,
                "reason": null, "created_at": began, "messages": [], "standby_until": null,
            }),
        );
        // Nobody is there who could wake it, and the answer says so.
        assert!(text(&set["hint"]).contains("The mission is kept and due in"), "{set}");

        world.advance(seconds - 1);
        has(&world.done(session, "read_timer", json!({})).await["timers"][0], json!({"remaining_time": 1}));
        assert!(world.inbox(session).await.is_empty());
        world.advance(1);
        let woken = finished(&timer, "Mission", mission, seconds);
        let waiting = world.until_message(session, &timer).await;
        has(&waiting, json!({"text": woken, "timer_id": timer, "created_at": began + seconds as i64 * 1000}));

        let told = if session == "six" {
            world.done(session, "read_timer", json!({})).await["messages"].clone()
        } else {
            let lease = world.post(&format!("/api/sessions/{session}/inbox/lease"), json!({})).await.body;
            let commit = json!({"lease": lease["lease"]});
            let answer = world.post(&format!("/api/sessions/{session}/inbox/commit"), commit).await;
            assert_eq!(answer.body, json!({"messages": 1}));
            lease["messages"].clone()
        };
        assert_eq!(told.as_array().unwrap().len(), 1);
        assert_eq!(told[0]["text"], woken);
        world.until_event(waiting["id"].as_str().unwrap(), "message.delivered").await;
        assert!(world.inbox(session).await.is_empty());
        assert_eq!(world.done(session, "read_timer", json!({})).await["messages"], json!([]));
    }
}

#[tokio::test]
async fn the_workflow_example_ends_in_other_work() {
    let world = World::start().await;
    let ask = json!({"total_duration": "300", "timeout_duration": "1m", "reason": "等待服务器启动"});
    let call = world.standing("agent", ask).await;
    world.advance(60);
    let timer = id(&result(call).await);
    has(&world.done("agent", "read_timer", json!({})).await["timers"][0], json!({"remaining_time": 240}));
    let ask = json!({"total_duration": 240, "timeout_duration": 60, "reason": "继续等待服务器", "timer_id": timer});
    let call = world.standing("agent", ask).await;
    world.advance(60);
    has(&result(call).await, json!({"timeout": true, "remaining_time": 180, "reason": "继续等待服务器"}));
    has(&world.done("agent", "read_timer", json!({})).await["timers"][0], json!({"remaining_time": 180}));
    has(
        &world.done("agent", "cancel_timer", json!({"timer_id": timer})).await,
        json!({"outcome": "background", "status": "running_background"}),
    );
    world.advance(180);
    let message = world.until_message("agent", &timer).await;
    assert_eq!(message["text"], finished(&timer, "Reason", "继续等待服务器", 300));
    let stats = world.get("/api/stats").await;
    has(&stats["timers"], json!({"created": 1, "running": 0, "running_background": 0, "completed": 1, "stopped": 0}));
    has(&stats["messages"], json!({"created": 1, "delivered": 0, "pending": 1}));
    // Two sleeps of a minute, where asking every 15 seconds would have taken four requests each.
    has(&stats["standby"], json!({"now": 0, "ended": 2, "slept": 120, "requests_saved": 8}));
}
