//! An agent with the tools it was given.

use super::{Client, remember};
use crate::{node::Node, trace::Ask};
use reveille::tools::{Tool, ToolBody, ToolCall, ToolReply};
use reveille_core::{ItemId, Millis, SessionId};
use serde_json::{Value, json};
use std::sync::Arc;

const TOTAL_MS: u64 = 30_000;
const TIMEOUT_MS: u64 = 12_000;

impl Client {
    pub(super) async fn timer_step(&mut self, node: &Arc<Node>) {
        match self.random.below(100) {
            0..22 => self.create(node, false).await,
            22..45 => self.create(node, true).await,
            45..52 => self.again(node).await,
            _ => self.act(node).await,
        }
    }

    async fn create(&mut self, node: &Arc<Node>, mission: bool) {
        let (session, label) = (self.session(), self.label());
        let total = self.length(TOTAL_MS);
        let mut arguments = match mission {
            true => json!({"total_duration": total, "mission": label}),
            false => json!({"total_duration": total, "reason": label}),
        };
        if mission && self.random.mille(250) {
            let catch_up = *self.random.pick(&["skip", "latest", "all"]);
            let (every, times) = (self.random.between(1, 8), self.random.between(1, 4));
            arguments = json!({"every": every, "max_fires": times, "catch_up": catch_up, "mission": label});
        }
        if !mission && self.random.mille(700) {
            arguments["timeout_duration"] = json!(self.length(TIMEOUT_MS));
        }
        let key = self.random.mille(500).then(|| label.clone());
        if let Some(key) = &key {
            remember(&mut self.keyed, (session.clone(), "timer", arguments.clone(), key.clone()));
        }
        self.tool(node, &session, Tool::Timer, arguments, key, false).await;
    }

    /// A creation, answered or not, is asked for once more.
    async fn again(&mut self, node: &Arc<Node>) {
        if self.keyed.is_empty() {
            return;
        }
        let (session, name, arguments, key) = self.random.pick(&self.keyed).clone();
        let tool = Tool::named(name).expect("a tool of ours");
        self.tool(node, &session, tool, arguments, Some(key), false).await;
    }

    async fn act(&mut self, node: &Arc<Node>) {
        if self.timers.is_empty() {
            return;
        }
        let (session, id) = self.random.pick(&self.timers).clone();
        let mut arguments = json!({"timer_id": id.as_str()});
        let tool = match self.random.below(100) {
            0..20 => {
                arguments["pause_duration"] = json!(self.length(10_000));
                Tool::PauseTimer
            }
            20..35 => Tool::ResumeTimer,
            35..50 => Tool::CancelTimer,
            50..62 => Tool::StopTimer,
            62..70 => Tool::ReadTimer,
            70..75 => {
                arguments = json!({});
                Tool::ReadTimer
            }
            _ => {
                if self.random.mille(300) {
                    arguments["total_duration"] = json!(self.length(TOTAL_MS));
                }
                if self.random.mille(800) {
                    arguments["timeout_duration"] = json!(self.length(TIMEOUT_MS));
                }
                Tool::Timer
            }
        };
        self.tool(node, &session, tool, arguments, None, false).await;
    }

    pub(super) async fn task_step(&mut self, node: &Arc<Node>) {
        if self.tasks.is_empty() || self.random.mille(400) {
            let (session, label) = (self.session(), self.label());
            let arguments = match self.random.mille(500) {
                true => json!({"total_duration": self.length(TOTAL_MS), "mission": label}),
                false => json!({
                    "total_duration": self.length(TOTAL_MS), "timeout_duration": self.length(TIMEOUT_MS),
                    "reason": label,
                }),
            };
            return self.tool(node, &session, Tool::Timer, arguments, None, true).await;
        }
        let (session, id) = self.random.pick(&self.tasks).clone();
        let cancel = self.random.mille(200);
        let engine = node.engine.clone();
        let asked = async {
            match cancel {
                true => engine.cancel_task(Some(&session), &id).await,
                false => engine.read_task(Some(&session), &id).await,
            }
        };
        let ask = Ask::Task { id: id.clone(), cancel };
        if let Some(reply) = self.call(node, &session, ask, asked, |_| Value::Null).await {
            self.arrives(node, reply.deliveries).await;
        }
    }

    pub(super) async fn clock_step(&mut self, node: &Arc<Node>) {
        let chosen = self.random.below(100);
        let (session, arguments) = match chosen {
            0..60 => {
                let session = self.session();
                let count = self.random.between(1, 3);
                let items: Vec<Value> =
                    (0..count).map(|_| json!({"task": self.label(), "in": self.length(25_000)})).collect();
                (session, json!({"action": "schedule", "items": items}))
            }
            60..88 => {
                if self.reminders.is_empty() {
                    return;
                }
                let (session, id) = self.random.pick(&self.reminders).clone();
                match chosen {
                    60..75 => {
                        let item = json!({"taskId": id.as_str(), "task": self.label(), "in": self.length(25_000)});
                        (session, json!({"action": "schedule", "items": [item]}))
                    }
                    _ => (session, json!({"action": "cancel", "taskId": id.as_str()})),
                }
            }
            88..97 => (self.session(), json!({"action": "list"})),
            _ => (self.session(), json!({"action": "clear"})),
        };
        let key = (chosen < 60 && self.random.mille(400)).then(|| self.label());
        if let Some(key) = &key {
            remember(&mut self.keyed, (session.clone(), "clock", arguments.clone(), key.clone()));
        }
        self.tool(node, &session, Tool::Clock, arguments, key, false).await;
    }

    async fn tool(
        &mut self,
        node: &Arc<Node>,
        session: &SessionId,
        tool: Tool,
        arguments: Value,
        key: Option<String>,
        task: bool,
    ) {
        let standby_max = self.random.mille(200).then(|| Millis::new(self.random.between(500, 5000)));
        let call = ToolCall {
            engine: &node.engine,
            session: session.clone(),
            tool,
            arguments: arguments.clone(),
            idempotency_key: key.clone(),
            client: None,
            standby_max,
            task,
            holds: false,
            in_turn: None,
            stop: &node.stop_door,
        };
        let ask = Ask::Tool { name: tool.name(), arguments, key };
        let shown = |reply: &ToolReply| serde_json::to_value(&reply.body).unwrap_or_default();
        let Some(reply) = self.call(node, session, ask, call.run(), shown).await else { return };
        self.learn(session, &reply);
        self.arrives(node, reply.deliveries).await;
    }

    fn learn(&mut self, session: &SessionId, reply: &ToolReply) {
        if let Some(task) = &reply.task {
            remember(&mut self.tasks, (session.clone(), task.id.clone()));
        }
        match &reply.body {
            ToolBody::Timer(result) => {
                let own = (session.clone(), ItemId::new(result.timer.timer_id.as_str()));
                if !self.timers.contains(&own) {
                    remember(&mut self.timers, own);
                }
            }
            ToolBody::Clock(_) => {
                let shown = serde_json::to_value(&reply.body).unwrap_or_default();
                for one in shown["scheduled"].as_array().into_iter().flatten() {
                    if let Some(id) = one["taskId"].as_str() {
                        remember(&mut self.reminders, (session.clone(), ItemId::new(id)));
                    }
                }
            }
            ToolBody::Timers(_) => {}
        }
    }

    pub(super) async fn close(&mut self, node: &Arc<Node>) {
        let session = self.session();
        let close = reveille_core::Call::new(reveille_core::Command::Close { note: None, notify: Vec::new() });
        let engine = node.engine.clone();
        self.call(node, &session, Ask::Close, engine.execute(&session, close), |_| Value::Null).await;
    }
}
