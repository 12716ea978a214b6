//! A small agent, as anybody would write one: asks the model through the gateway, runs the tools it calls, asks again.

use super::{
    model,
    stage::Stage,
    story::{Story, Who},
};
use anyhow::Context;
use serde_json::{Value, json};
use std::time::Instant;

/// A model that never comes to an end is not one of ours.
const ROUNDS_MAX: usize = 10;

pub struct Agent<'a> {
    stage: &'a Stage,
    story: &'a Story,
    session: &'static str,
}

/// One tool that was run.
pub struct Step {
    pub result: Value,
    pub began: Instant,
    pub ended: Instant,
}

/// A turn: what was done, and the model's last word.
pub struct Turn {
    pub steps: Vec<Step>,
    pub said: String,
    pub model_calls: usize,
}

impl<'a> Agent<'a> {
    pub fn new(stage: &'a Stage, story: &'a Story, session: &'static str) -> Self {
        Self { stage, story, session }
    }

    pub async fn turn(&self, message: &str) -> anyhow::Result<Turn> {
        self.story.says(Who::User, message);
        let tools = self.stage.get("/api/tools?format=openai").await?["tools"].take();
        let mut messages = vec![json!({"role": "user", "content": message})];
        let mut steps = Vec::new();
        for model_calls in 1..=ROUNDS_MAX {
            let body = json!({"model": model::AGENT, "messages": messages, "tools": tools});
            let mut answer = self.stage.ask(self.session, &body).await?;
            let reply = answer["choices"][0]["message"].take();
            let calls = reply["tool_calls"].as_array().cloned().unwrap_or_default();
            let said = reply["content"].as_str().unwrap_or_default().to_owned();
            messages.push(reply);
            if calls.is_empty() {
                self.story.says(Who::Model, &format!("“{said}”"));
                return Ok(Turn { steps, said, model_calls });
            }
            for call in calls {
                let (step, message) = self.run(&call).await?;
                steps.push(step);
                messages.push(message);
            }
        }
        anyhow::bail!("the model called tools {ROUNDS_MAX} times and came to no end")
    }

    async fn run(&self, call: &Value) -> anyhow::Result<(Step, Value)> {
        let (tool, text) = (call["function"]["name"].as_str(), call["function"]["arguments"].as_str());
        let (tool, text) = (tool.context("a tool's name")?, text.context("its arguments")?);
        self.story.says(Who::Model, &format!("{tool} {text}"));
        let began = Instant::now();
        let result = self.stage.tool(self.session, tool, &serde_json::from_str(text)?).await?;
        let message = json!({"role": "tool", "tool_call_id": call["id"], "content": result.to_string()});
        Ok((Step { result, began, ended: Instant::now() }, message))
    }
}
