//! The inbox: a message is offered until it is committed, to one at a time, and never again after; and nothing of a
//! session is seen or touched from another.

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::{Value, json};
use std::collections::BTreeSet;
use support::*;

/// Completed missions, whose messages wait, in the order in which they wait.
async fn pending(world: &World, session: &str, count: usize) -> Vec<String> {
    let mut timers = Vec::new();
    for _ in 0..count {
        timers.push(id(&world.done(session, "timer", json!({"total_duration": 1, "mission": "m"})).await));
    }
    world.advance(1);
    for timer in &timers {
        world.until_message(session, timer).await;
    }
    // They ended in the same instant, so any order is right, as long as it stays.
    let inbox = world.inbox(session).await;
    inbox.iter().map(|message| text(&message["timer_id"])).filter(|timer| timers.contains(timer)).collect()
}

async fn lease(world: &World, session: &str, body: Value) -> Value {
    let answer = world.post(&format!("/api/sessions/{session}/inbox/lease"), body).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}

async fn settle(world: &World, session: &str, how: &str, lease: &Value) -> Answer {
    world.post(&format!("/api/sessions/{session}/inbox/{how}"), json!({"lease": lease})).await
}

fn told(answer: &Value) -> Vec<String> {
    list(&answer["messages"]).iter().map(|message| text(&message["timer_id"])).collect()
}

#[tokio::test]
async fn messages_ride_along_on_the_next_result_of_any_tool_and_are_done() {
    let world = World::start().await;
    let long = id(&world.done("agent", "timer", json!({"total_duration": 9000, "mission": "long"})).await);
    for (tool, arguments) in [
        ("read_timer", json!({})),
        ("read_timer", json!({"timer_id": long})),
        ("pause_timer", json!({"timer_id": long, "pause_duration": 10})),
        ("timer", json!({"timer_id": long})),
        ("resume_timer", json!({"timer_id": long})),
        ("cancel_timer", json!({"timer_id": long})),
        ("stop_timer", json!({"timer_id": long})),
        ("timer", json!({"total_duration": 9000, "mission": "new"})),
    ] {
        let timers = pending(&world, "agent", 2).await;
        let answer = world.done("agent", tool, arguments).await;
        assert_eq!(told(&answer), timers, "{tool}");
        for timer in &timers {
            let delivered = world.until_event(&timer.replace("timer_", "msg_"), "message.delivered").await;
            assert_eq!(delivered["data"]["channel"], "tool_result");
        }
        assert_eq!(told(&world.done("agent", "read_timer", json!({})).await), [] as [String; 0]);
    }
    // A call that stands by returns with what comes meanwhile.
    let call = world.standing("agent", json!({"total_duration": 100, "timeout_duration": 50, "reason": "r"})).await;
    let mission = world.done("agent", "timer", json!({"total_duration": 1, "mission": "m"})).await;
    world.advance(1);
    let answer = result(call).await;
    assert_eq!(told(&answer), [id(&mission)]);
    has(&answer, json!({"outcome": "message"}));
}

#[tokio::test]
async fn a_refused_call_takes_no_messages() {
    let world = World::start().await;
    let timers = pending(&world, "agent", 1).await;
    world.refused("agent", "timer", json!({"total_duration": 0, "reason": "r"})).await;
    world.refused("agent", "stop_timer", json!({"timer_id": "timer_00000000"})).await;
    world.refused("agent", "stop_timer", json!({"timer_id": timers[0]})).await;
    assert_eq!(told(&world.done("agent", "read_timer", json!({})).await), timers);
}

#[tokio::test]
async fn many_messages_travel_in_portions() {
    let world = World::start().await;
    let timers = pending(&world, "agent", 25).await;
    let first = told(&world.done("agent", "read_timer", json!({})).await);
    let second = told(&world.done("agent", "read_timer", json!({})).await);
    assert_eq!((first.len(), second.len()), (20, 5));
    let all: BTreeSet<String> = first.into_iter().chain(second).collect();
    assert_eq!(all, timers.into_iter().collect());
}

#[tokio::test]
async fn reading_the_inbox_is_not_delivering() {
    let world = World::start().await;
    let timers = pending(&world, "agent", 1).await;
    for _ in 0..3 {
        assert_eq!(world.inbox("agent").await.len(), 1);
        assert_eq!(world.get("/api/sessions/agent").await["inbox"].as_array().unwrap().len(), 1);
        // Nor is looking at timers from outside.
        world.get(&format!("/api/timers/{}", timers[0])).await;
    }
    has(&world.get("/api/stats").await["messages"], json!({"created": 1, "delivered": 0, "pending": 1}));
}

#[tokio::test]
async fn a_lease_is_committed_released_or_runs_out() {
    let world = World::start().await;
    let timers = pending(&world, "agent", 2).await;
    let first = lease(&world, "agent", json!({"duration": 20})).await;
    assert_eq!(told(&first), timers);
    has(&first, json!({"expires_at": world.now() + 20_000}));
    // Nobody else gets them: not another lease, not a tool result.
    let nothing = lease(&world, "agent", json!({})).await;
    assert_eq!(nothing, json!({"messages": []}));
    assert_eq!(told(&world.done("agent", "read_timer", json!({})).await), [] as [String; 0]);
    for message in world.inbox("agent").await {
        has(&message, json!({"leased_until": world.now() + 20_000}));
    }

    // Released: pending again, and the lease is gone.
    assert_eq!(settle(&world, "agent", "release", &first["lease"]).await.body, json!({"messages": 2}));
    for how in ["commit", "release"] {
        let answer = settle(&world, "agent", how, &first["lease"]).await;
        assert_eq!((answer.status, text(&answer.body["code"]).as_str()), (409, "unknown_lease"), "{how}");
    }
    let one = lease(&world, "agent", json!({"limit": 1, "duration": "20s"})).await;
    assert_eq!(told(&one), timers[..1]);
    let other = lease(&world, "agent", json!({})).await;
    assert_eq!(told(&other), timers[1..]);

    // Run out: the next one takes it, and the late holder learns that it is no longer its.
    world.advance(19);
    assert_eq!(lease(&world, "agent", json!({})).await, json!({"messages": []}));
    world.advance(1);
    let taken = lease(&world, "agent", json!({"duration": 3600})).await;
    assert_eq!(told(&taken), timers[..1]);
    let late = settle(&world, "agent", "commit", &one["lease"]).await;
    assert_eq!((late.status, text(&late.body["code"]).as_str()), (409, "unknown_lease"));

    // Committed, also late if nobody took them meanwhile: never again.
    world.advance(600);
    assert_eq!(settle(&world, "agent", "commit", &other["lease"]).await.body, json!({"messages": 1}));
    assert_eq!(settle(&world, "agent", "commit", &taken["lease"]).await.body, json!({"messages": 1}));
    let twice = settle(&world, "agent", "commit", &taken["lease"]).await;
    assert_eq!((twice.status, text(&twice.body["code"]).as_str()), (409, "unknown_lease"));
    world.advance(10_000);
    assert!(world.inbox("agent").await.is_empty());
    assert_eq!(lease(&world, "agent", json!({})).await, json!({"messages": []}));
    for timer in &timers {
        let history = world.history_of(&timer.replace("timer_", "msg_")).await;
        assert_eq!(history.len(), 1);
        has(&history[0], json!({"event": "message.delivered", "kind": "message", "session": "agent"}));
        assert_eq!(history[0]["data"]["channel"], "inbox");
    }
    has(&world.get("/api/stats").await["messages"], json!({"created": 2, "delivered": 2, "pending": 0}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn leases_taken_at_once_never_share_a_message() {
    let world = World::start().await;
    let timers = pending(&world, "agent", 40).await;
    let asks = (0..20).map(|_| lease(&world, "agent", json!({"limit": 3})));
    let rides = (0..4).map(|_| world.done("agent", "read_timer", json!({})));
    let (leased, ridden) = tokio::join!(futures_util::future::join_all(asks), futures_util::future::join_all(rides));
    let all: Vec<String> = leased.iter().chain(&ridden).flat_map(told).collect();
    let distinct: BTreeSet<String> = all.iter().cloned().collect();
    assert_eq!(all.len(), distinct.len(), "a message was given to two");
    assert_eq!(distinct, timers.into_iter().collect());
    // Each lease is settled by itself.
    let mut committed = 0;
    for lease in leased.iter().filter(|lease| lease.get("lease").is_some()) {
        let answer = settle(&world, "agent", "commit", &lease["lease"]).await;
        committed += answer.body["messages"].as_u64().unwrap() as usize;
    }
    let ridden: usize = ridden.iter().map(|answer| told(answer).len()).sum();
    assert_eq!(committed + ridden, 40);
    world
        .until("all are delivered", || async {
            (world.get("/api/stats").await["messages"]["delivered"] == 40).then_some(())
        })
        .await;
}

#[tokio::test]
async fn nothing_crosses_from_one_session_to_another() {
    let world = World::start().await;
    let done = pending(&world, "a", 1).await;
    let live = id(&world.done("a", "timer", json!({"total_duration": 500, "mission": "a's"})).await);
    // That call took a's message along; make another one.
    let done = [done, pending(&world, "a", 1).await].concat();
    let own = id(&world.done("b", "timer", json!({"total_duration": 500, "mission": "b's"})).await);

    let before = (world.timers().await, world.history().await);
    for (tool, mut arguments) in [
        ("timer", json!({"timeout_duration": 5})),
        ("timer", json!({"total_duration": 5, "mission": "taken over"})),
        ("read_timer", json!({})),
        ("stop_timer", json!({})),
        ("cancel_timer", json!({})),
        ("pause_timer", json!({"pause_duration": 5})),
        ("resume_timer", json!({})),
    ] {
        for foreign in [&live, &done[1]] {
            arguments["timer_id"] = json!(foreign);
            let (status, code, problem) = world.refused("b", tool, arguments.clone()).await;
            assert_eq!((status, code.as_str()), (404, "unknown_timer"), "{tool}");
            assert_eq!(problem["live_timers"], json!([own]), "the error shows b's timers and no others");
            assert!(text(&problem["detail"]).contains(&own));
        }
    }
    let all = world.done("b", "read_timer", json!({})).await;
    assert_eq!(list(&all["timers"]).len(), 1);
    assert_eq!(all["messages"], json!([]));
    assert!(world.inbox("b").await.is_empty());
    assert_eq!(lease(&world, "b", json!({})).await, json!({"messages": []}));
    let held = lease(&world, "a", json!({})).await;
    assert_eq!(told(&held), done[1..]);
    for how in ["commit", "release"] {
        let answer = settle(&world, "b", how, &held["lease"]).await;
        assert_eq!((answer.status, text(&answer.body["code"]).as_str()), (409, "unknown_lease"));
    }
    assert_eq!((world.timers().await, world.history().await), before);
    assert_eq!(settle(&world, "a", "commit", &held["lease"]).await.body, json!({"messages": 1}));
}
