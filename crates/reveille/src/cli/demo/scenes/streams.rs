//! Two streams side by side: one falls silent and is cut, one lives three times as long as the limit and is not.

use super::super::{
    model::{LIVE, STALLED, WORDS},
    stage::{IDLE, Stage},
    story::{Story, Who},
};
use anyhow::{Context, ensure};
use serde_json::{Value, json};
use std::time::Instant;

pub async fn play(stage: &Stage, story: &Story) -> anyhow::Result<Value> {
    let mut abandoned = stage.upstream.upstream.log.abandoned();
    let before = *abandoned.borrow_and_update();
    story.says(Who::User, &format!("asks two models; a stream may be silent for {} s", IDLE.as_secs()));
    let (live, cut) = tokio::try_join!(lives(stage, story), stalls(stage, story))?;
    stage.until("the dead call ends upstream", async || Ok((*abandoned.borrow() > before).then_some(()))).await?;
    story.seen(&format!(
        "the dead stream ended after {:.1} s, its upstream with it; the live one ran {live:.1} s",
        cut.0
    ));
    Ok(
        json!({"cut_after_seconds": cut.0, "error": cut.1, "live_seconds": live, "idle_limit_seconds": IDLE.as_secs_f64()}),
    )
}

fn question(model: &str) -> Value {
    json!({"model": model, "stream": true, "messages": [{"role": "user", "content": "Think about it."}]})
}

/// The seconds it lived.
async fn lives(stage: &Stage, story: &Story) -> anyhow::Result<f64> {
    let began = Instant::now();
    let mut stream = stage.stream("live", &question(LIVE)).await?;
    let (mut words, mut finished) = (0, false);
    while let Some(chunk) = stream.json().await? {
        ensure!(chunk.get("error").is_none(), "the live stream was cut: {chunk}");
        let choice = &chunk["choices"][0];
        words += u64::from(choice["delta"]["content"].as_str().is_some_and(|text| !text.is_empty()));
        finished |= choice["finish_reason"] == "stop";
    }
    let lived = began.elapsed();
    ensure!(finished && words == WORDS, "the live stream ended after {words} of {WORDS} words");
    ensure!(lived > 2 * IDLE, "it lived only {lived:?}");
    story.says(Who::Model, &format!("the live one: {words} words, and a proper end"));
    Ok(lived.as_secs_f64())
}

/// The seconds until it was cut, and the error.
async fn stalls(stage: &Stage, story: &Story) -> anyhow::Result<(f64, String)> {
    let began = Instant::now();
    let mut stream = stage.stream("stalled", &question(STALLED)).await?;
    while let Some(chunk) = stream.json().await? {
        if let Some(text) = chunk["choices"][0]["delta"]["content"].as_str().filter(|text| !text.is_empty()) {
            story.says(Who::Model, &format!("the other one: “{text}” – and silence"));
        }
        if let Some(error) = chunk.get("error") {
            let error = error["message"].as_str().context("an error with words")?.to_owned();
            ensure!(error.contains("idle timeout"), "it was cut for another reason: {error}");
            story.says(Who::Reveille, &format!("ends it with an error its client understands: {error}"));
            return Ok((began.elapsed().as_secs_f64(), error));
        }
    }
    anyhow::bail!("the dead stream ended without an error")
}
