//! A chatbot's session: the user falls silent, is reminded, handed to a person, and the session is closed. All by the three
//! timers in the agent's configuration.

use super::super::{
    model::SUPPORT,
    platform::Called,
    sse::Events,
    stage::Stage,
    story::{Story, Who},
};
use anyhow::{Context, ensure};
use serde_json::{Value, json};

const AGENT: &str = "/api/agents/shop/support";
const SESSION: &str = "customer-42";
const REMINDER: &str = "Are you still there? 您还在吗？";
/// Minutes in earnest: 5, 10 and 30.
const REMIND_SECONDS: f64 = 1.5;
const HANDOFF_SECONDS: f64 = 3.0;
const CLOSE_SECONDS: f64 = 6.0;

pub async fn play(stage: &Stage, story: &Story) -> anyhow::Result<Value> {
    stage.put(AGENT, &agent(&stage.platform.url)).await?;
    let mut events = stage.events(SESSION).await?;
    let question = "Where is my parcel?";
    story.says(Who::User, question);
    let answer = stage.post(&format!("{AGENT}/sessions/{SESSION}/query"), &json!({"message": question})).await?;
    let said = answer["content"].as_str().context("the agent's answer")?;
    story.says(Who::Model, &format!("“{said}”"));
    let armed = armed(stage).await?;

    let reminded = fired(&mut events, "idle_reminder").await?;
    story.says(Who::Reveille, &format!("{REMIND_SECONDS} s of silence: pushes “{REMINDER}”"));
    let handoff = called(stage, "handoff_to", "auto_handoff").await?;
    let handed = fired(&mut events, "auto_handoff").await?;
    story.says(Who::Reveille, &format!("{HANDOFF_SECONDS} s: calls the shop's handoff_to {}", handoff.arguments));
    called(stage, "close_conversation", "session_timeout").await?;
    let closed = fired(&mut events, "session_timeout").await?;
    story.says(Who::Reveille, &format!("{CLOSE_SECONDS} s: calls close_conversation and closes the session"));

    let session = stage.get(&format!("/api/sessions/{SESSION}")).await?;
    ensure!(session["state"] == "closed", "the session is {}", session["state"]);
    ensure!(session["conversation"].to_string().contains(REMINDER), "the reminder is not in the conversation");
    let lates = [(reminded, REMIND_SECONDS), (handed, HANDOFF_SECONDS), (closed, CLOSE_SECONDS)]
        .map(|(at, after)| at - armed - (after * 1000.0) as i64);
    ensure!(lates.iter().all(|late| *late >= 0), "something fired early: {lates:?} ms");
    story.seen(&format!(
        "reminded, handed off, closed: {}, {} and {} ms after their time",
        lates[0], lates[1], lates[2]
    ));
    Ok(json!({"steps": ["reminded", "handed off", "closed"], "late_ms": lates, "state": session["state"]}))
}

fn agent(shop: &str) -> Value {
    let tool = |name: &str| json!({"name": name, "endpoint": format!("{shop}/{name}")});
    json!({
        "model": SUPPORT,
        "system_prompt": "You help the customers of a shop.",
        "tools": [tool("handoff_to"), tool("close_conversation")],
        "system_actions": ["handoff_to", "close_conversation"],
        "timers": [
            {"timer_id": "idle_reminder", "delay_seconds": REMIND_SECONDS, "tool_name": "generate_response", "message": REMINDER},
            {"timer_id": "auto_handoff", "delay_seconds": HANDOFF_SECONDS, "tool_name": "handoff_to", "tool_params": {"type": "unassigned"}},
            {"timer_id": "session_timeout", "delay_seconds": CLOSE_SECONDS, "tool_name": "close_conversation"},
        ],
    })
}

/// When the silence began, in milliseconds: the answer has gone out and the timers run.
async fn armed(stage: &Stage) -> anyhow::Result<i64> {
    stage
        .until("the session's timers are armed", async || {
            let session = stage.get(&format!("/api/sessions/{SESSION}")).await?;
            let timers = session["session_timers"].as_array().map(Vec::as_slice).unwrap_or_default();
            let last = timers.iter().find(|timer| timer["timer_id"] == "session_timeout");
            let at = last.and_then(|timer| timer["next_trigger_at"].as_i64());
            Ok(at.map(|at| at - (CLOSE_SECONDS * 1000.0) as i64))
        })
        .await
}

/// When this timer fired, in milliseconds.
async fn fired(events: &mut Events, timer: &str) -> anyhow::Result<i64> {
    while let Some(entry) = events.json().await? {
        if entry["event"] == "session_timer.triggered" && entry["data"]["timer_id"] == timer {
            return entry["at"].as_i64().context("an entry has a time");
        }
    }
    anyhow::bail!("the events ended before {timer} fired")
}

async fn called(stage: &Stage, tool: &str, timer: &str) -> anyhow::Result<Called> {
    let called = stage.platform.called().await.context("the shop is open")?;
    ensure!(called.tool == tool && called.timer == timer, "instead of {tool} by {timer} the shop saw {called:?}");
    Ok(called)
}
