//! A mission comes due: the agent has ended its turn, nobody is connected, and Reveille runs the wake command.

use super::super::{
    agent::Agent,
    model::MISSION_SECONDS,
    stage::{NIGHT_SHIFT, Stage},
    story::{Story, Who},
};
use anyhow::{Context, ensure};
use serde_json::{Value, json};
use std::fs;

pub async fn play(stage: &Stage, story: &Story) -> anyhow::Result<Value> {
    let agent = Agent::new(stage, story, NIGHT_SHIFT);
    let turn = agent.turn(&format!("In {MISSION_SECONDS} seconds, restart the server.")).await?;
    let [set] = &turn.steps[..] else { anyhow::bail!("the agent ran {} tools", turn.steps.len()) };
    let returned = set.ended - set.began;
    ensure!(set.result["outcome"] == "scheduled", "the mission was not taken on: {}", set.result);
    ensure!(set.result["delivery"]["wakes"] == true, "nothing would wake the agent: {}", set.result["delivery"]);
    let id = set.result["timer_id"].as_str().context("a timer")?;
    story.says(Who::World, "the agent's program ends; nobody is connected");

    let message = stage.until("the wake command runs", async || Ok(fs::read_to_string(&stage.woken).ok())).await?;
    let first = message.lines().next().unwrap_or_default();
    story.says(Who::Reveille, &format!("runs the wake command; on its stdin: {first} …"));
    ensure!(message.contains(id) && message.contains("Mission: restart the server"), "it was told: {message}");
    let ended = stage
        .until("the wake command ends", async || {
            let history = stage.get(&format!("/api/history?session={NIGHT_SHIFT}&event=wake.ended")).await?;
            Ok(history["entries"].get(0).cloned())
        })
        .await?;
    ensure!(ended["data"]["exit"] == 0, "the wake command failed: {}", ended["data"]);
    let pending = stage
        .until("the message is delivered", async || {
            let inbox = stage.get(&format!("/api/sessions/{NIGHT_SHIFT}/inbox")).await?;
            Ok(inbox["messages"].as_array().filter(|left| left.is_empty()).map(Vec::len))
        })
        .await?;
    let (due, fired) = (set.result["ends_at"].as_i64(), fired_at(stage, id).await?);
    let late = fired - due.context("when it ends")?;
    ensure!(late >= 0, "it fired {} ms early", -late);
    story.seen(&format!("the call returned in {} ms; fired {late} ms late; told once", returned.as_millis()));
    Ok(
        json!({"returned_after_ms": returned.as_millis(), "late_ms": late, "woken_with": first, "left_to_tell": pending}),
    )
}

async fn fired_at(stage: &Stage, id: &str) -> anyhow::Result<i64> {
    let history = stage.get(&format!("/api/history?id={id}&event=timer.completed")).await?;
    history["entries"][0]["at"].as_i64().context("the timer's completion in the history")
}
