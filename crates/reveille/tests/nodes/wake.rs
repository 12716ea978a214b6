//! Wake commands with two nodes: one command at a time in a session, and as many attempts as the rule allows.

use crate::support::*;
use reveille::{config::Length, wake::WakeRule};
use reveille_core::Millis;
use serde_json::{Value, json};
use std::{path::Path, time::Duration};

const GRACE: u64 = 10;

async fn two(desk: &Path, script: &str, retries: u32) -> (World, World) {
    let rule = WakeRule {
        matches: "agent*".into(),
        command: ["/bin/sh", "-c", script].map(String::from).into(),
        cwd: Some(desk.to_owned()),
        grace: Length(Millis::from_secs(GRACE)),
        timeout: Length(Millis::from_secs(100_000)),
        retries,
        per_hour: 100,
        env: std::collections::BTreeMap::default(),
    };
    let first = World::with(|config| drop(config.wake.insert("test".into(), rule))).await;
    let second = first.beside().await;
    (first, second)
}

/// A mission that ends now, set at this node; its message is in the inbox when this returns.
async fn ends(world: &World, mission: &str) -> String {
    let ask = json!({"session": "agent", "total_duration": 1, "mission": mission});
    let made = world.post("/api/timers", ask).await;
    world.advance(1);
    let timer = id(&made.body);
    world.until_message("agent", &timer).await;
    timer
}

async fn events(world: &World, event: &str) -> Vec<Value> {
    list(&world.get(&format!("/api/history?after=0&limit=1000&session=agent&event={event}")).await["entries"])
}

/// Time goes on slowly until it is so: a node may have heard of a message only after the clock was advanced for it.
async fn until(world: &World, what: &str, look: impl AsyncFn() -> bool) {
    within(what, async {
        while !look().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
            world.advance(1);
        }
    })
    .await;
}

#[tokio::test]
async fn never_two_commands_at_once_for_one_session() {
    let desk = tempfile::tempdir().unwrap();
    let script = "cat >> told; echo begins >> log; while [ ! -e go ]; do sleep 0.01; done; echo ends >> log";
    let (first, second) = two(desk.path(), script, 3).await;
    let log = || std::fs::read_to_string(desk.path().join("log")).unwrap_or_default();
    let one = ends(&first, "one").await;
    until(&first, "it is woken", async || log() == "begins\n").await;
    // Both nodes hear of another message; whichever did not start the command knows nothing of the process.
    let another = ends(&second, "another").await;
    for _ in 0..10 {
        first.advance(GRACE);
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    assert_eq!(log(), "begins\n", "one program writes one conversation");
    assert_eq!(events(&second, "wake.started").await.len(), 1);
    std::fs::write(desk.path().join("go"), "").unwrap();
    until(&first, "both are told", async || first.inbox("agent").await.is_empty()).await;
    assert_eq!(log(), "begins\nends\n".repeat(2));
    let told = std::fs::read_to_string(desk.path().join("told")).unwrap();
    for timer in [one, another] {
        assert_eq!(told.matches(&timer).count(), 1, "{told}");
    }
}

#[tokio::test]
async fn attempts_of_all_nodes_are_counted_together() {
    let desk = tempfile::tempdir().unwrap();
    let (first, second) = two(desk.path(), "cat > /dev/null; exit 7", 2).await;
    ends(&first, "m").await;
    until(&first, "it is given up", async || !events(&second, "wake.given_up").await.is_empty()).await;
    for _ in 0..10 {
        second.advance(1000);
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    let attempts = events(&first, "wake.started").await;
    let numbers: Vec<u64> = attempts.iter().map(|entry| entry["data"]["attempt"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(events(&first, "wake.given_up").await.len(), 1);
    let at: Vec<i64> = attempts.iter().map(|entry| entry["at"].as_i64().unwrap()).collect();
    assert!(at[1] - at[0] >= 10_000 && at[2] - at[1] >= 20_000, "each waits longer: {at:?}");
}
