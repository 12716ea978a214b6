//! A reminder lands in a held stream: the model schedules it with the gateway's `clock` tool and stops; the response stays
//! open, and goes on when the time has come.

use super::super::{
    model::{PLANNER, REMINDER_SECONDS},
    stage::Stage,
    story::{Story, Who},
};
use anyhow::ensure;
use serde_json::{Value, json};
use std::time::Instant;

const SESSION: &str = "nightly";

pub async fn play(stage: &Stage, story: &Story) -> anyhow::Result<Value> {
    let question = "Look at the nightly build when it is done.";
    story.says(Who::User, question);
    // The client knows nothing of a clock; it has a tool of its own, as agents do.
    let own = json!({"type": "function", "function": {"name": "read_log", "parameters": {"type": "object"}}});
    let body = json!({
        "model": PLANNER, "stream": true, "tools": [own],
        "messages": [{"role": "user", "content": question}],
    });
    let mut stream = stage.stream(SESSION, &body).await?;
    let mut said: Vec<(Instant, String)> = Vec::new();
    while let Some(chunk) = stream.json().await? {
        let text = chunk["choices"][0]["delta"]["content"].as_str().map(str::trim).unwrap_or_default();
        if !text.is_empty() {
            said.push((Instant::now(), text.to_owned()));
            story.says(Who::Model, &format!("“{text}”"));
            if said.len() == 1 {
                story.says(Who::Reveille, "holds the response open: a reminder is pending");
            }
        }
    }
    let [(before, _), (after, last)] = &said[..] else { anyhow::bail!("the model spoke {} times", said.len()) };
    let held = (*after - *before).as_secs_f64();
    ensure!(last.contains("It is time"), "the last words were: {last}");
    ensure!(held > REMINDER_SECONDS / 2.0, "the turn went on after {held:.1} s already");
    let (asked, told) = stage.asked(PLANNER);
    ensure!(asked == 3, "the model was asked {asked} times: once, after its tool call, and when it was due");
    ensure!(told.to_string().contains("[scheduled task:"), "the model was not told of its task: {told}");
    stage
        .until("the reminder is delivered", async || {
            let session = stage.get(&format!("/api/sessions/{SESSION}")).await?;
            Ok((session["reminders"][0]["status"] == "delivered").then_some(()))
        })
        .await?;
    story.seen(&format!("one response, held {held:.1} s without a request; the task was in the model's context, once"));
    Ok(json!({"held_seconds": held, "model_calls": asked, "last_words": last}))
}
