//! Tasks on the running engine: the timer's end is kept for whoever asks about the task, through a restart too.

#![allow(clippy::unwrap_used)]

mod support;

use reveille_core::{
    Call, Command, ItemId, LeaseId, Millis, Purpose, Reply, SessionId, Task, TaskId, TaskOutcome, task,
};
use serde_json::json;
use support::*;

async fn begin(world: &World, purpose: Purpose) -> (ItemId, TaskId) {
    let engine = &world.server().engine;
    let (id, secret) = (engine.fresh_timer(), engine.fresh_secret());
    let (total, task) = (Millis::from_secs(300), Some(secret.clone()));
    let create = Command::Create { id: id.clone(), purpose, total, timeout: None, key: None, task };
    engine.execute(&SessionId::new("agent"), Call::new(create)).await.unwrap();
    task::parse(&task::external(&id, &secret)).unwrap()
}

async fn read(world: &World, timer: &ItemId, task: &TaskId) -> (Task, Option<LeaseId>) {
    let command = Command::ReadTask { timer: timer.clone(), task: task.clone() };
    match world.server().engine.execute(&SessionId::new("agent"), Call::new(command)).await.unwrap().reply {
        Reply::Task { task, lease, .. } => (task, lease),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_end_waits_for_whoever_asks_and_is_told_once() {
    for purpose in [Purpose::Waiting("等".into()), Purpose::Mission("做".into())] {
        let mut world = World::start().await;
        let (timer, task) = begin(&world, purpose).await;
        assert!(read(&world, &timer, &task).await.0.is_open());
        world.down().await;
        world.advance(300);
        world.up().await;
        world.until_event(timer.as_str(), "timer.completed").await;
        // No other channel is given it meanwhile.
        let result = world.done("agent", "read_timer", json!({})).await;
        assert_eq!(result["messages"], json!([]));
        let (ended, lease) = read(&world, &timer, &task).await;
        assert_eq!(ended.end.map(|end| end.outcome), Some(TaskOutcome::Completed));
        let commit = Command::CommitLease { lease: lease.unwrap(), channel: "task".into() };
        world.server().engine.execute(&SessionId::new("agent"), Call::new(commit)).await.unwrap();
        assert!(world.inbox("agent").await.is_empty());
        assert_eq!(read(&world, &timer, &task).await.1, None);
    }
}

#[tokio::test]
async fn nobody_asks_and_the_next_result_carries_it() {
    let world = World::start().await;
    let (timer, task) = begin(&world, Purpose::Mission("做".into())).await;
    world.advance(300);
    world.until_event(timer.as_str(), "timer.completed").await;
    world.advance(30);
    let result = world.done("agent", "read_timer", json!({})).await;
    assert_eq!(list(&result["messages"]).len(), 1);
    world.until("it is delivered", || async { world.inbox("agent").await.is_empty().then_some(()) }).await;
    let (ended, lease) = read(&world, &timer, &task).await;
    assert_eq!((ended.end.map(|end| end.outcome), lease), (Some(TaskOutcome::Completed), None));
}
