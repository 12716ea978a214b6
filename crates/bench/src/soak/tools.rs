//! The HTTP API: tools, inboxes, lists, events.

use super::door::{Ask, Door};
use anyhow::bail;
use http_body_util::BodyExt;
use serde_json::json;
use std::time::Duration;

/// A follower of events reads for so long, goes and comes back.
const FOLLOW: Duration = Duration::from_secs(3);

/// One agent's life, over and over: a mission that ends, a wait, a pause, and messages taken.
pub async fn agent(door: Door, number: usize) {
    let session = format!("soak-{number}");
    let tool = |tool: &str| format!("/api/sessions/{session}/tools/{tool}");
    while door.goes_on().await {
        door.ask("tools", &tool("timer"), json!({"total_duration": 0.2, "mission": "任务 🙂"})).await;
        let waits = json!({"total_duration": 0.3, "timeout_duration": 0.1, "reason": "r"});
        door.ask("standby", &tool("timer"), waits).await;
        let made = door.ask("tools", &tool("timer"), json!({"total_duration": 600, "mission": "long"})).await;
        let Some(timer) = made.as_ref().and_then(|made| made["timer_id"].as_str()) else { continue };
        door.ask("tools", &tool("pause_timer"), json!({"timer_id": timer, "pause_duration": 60})).await;
        door.ask("tools", &tool("resume_timer"), json!({"timer_id": timer})).await;
        door.ask("tools", &tool("stop_timer"), json!({"timer_id": timer})).await;
        let leased = door.ask("inbox", &format!("/api/sessions/{session}/inbox/lease"), json!({})).await;
        if let Some(lease) = leased.as_ref().and_then(|leased| leased["lease"].as_str()) {
            door.ask("inbox", &format!("/api/sessions/{session}/inbox/commit"), json!({"lease": lease})).await;
        }
    }
}

pub async fn reminders(door: Door) {
    let path = "/api/sessions/soak-reminded/tools/clock";
    while door.goes_on().await {
        door.ask("clock", path, json!({"action": "schedule", "task": "报告", "in": "1h"})).await;
        door.ask("clock", path, json!({"action": "list"})).await;
        door.ask("clock", path, json!({"action": "clear"})).await;
    }
}

pub async fn looks(door: Door) {
    let paths = [
        "/api/timers",
        "/api/reminders",
        "/api/calls",
        "/api/agents",
        "/api/stats",
        "/api/stats/hours",
        "/api/history",
        "/api/sessions",
        "/api/sessions/soak-0",
        "/api/deliveries",
        "/metrics",
        "/readyz",
        "/openapi.json",
        "/",
    ];
    while door.goes_on().await {
        for path in paths {
            door.send("looks", Ask::get(path)).await;
        }
    }
}

pub async fn follows(door: Door) {
    while door.goes_on().await {
        let followed = async {
            let mut body = door.open(Ask::get("/api/events")).await?.into_body();
            let read = async { while let Some(Ok(_)) = body.frame().await {} };
            match tokio::time::timeout(FOLLOW, read).await {
                Ok(()) => bail!("the stream ended by itself"),
                Err(_) => Ok(()),
            }
        };
        door.noted("events", "/api/events", followed).await;
    }
}
