//! A stage that serves `clock` and may hold a turn, for tests of what the gateway makes of that.

use crate::{
    accumulate::{Answer, accumulate, parts},
    support::{self, World, request},
};
use async_trait::async_trait;
use reveille_gateway::{
    Draft, Fault, Finish, Interest, More, Next, Protocol, Seen, Stage, ToolResult, Turn, Visit, Voice, Words,
};
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// A model that calls for ever comes to an end.
const ROUNDS_MAX: u32 = 6;

/// Serves `clock`, and after a stop says `words` once, after a while.
#[derive(Clone, Default)]
pub struct Clock {
    pub hold: Option<Duration>,
    pub seen: Arc<Mutex<Vec<String>>>,
}

impl Clock {
    pub fn seen(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

impl Stage for Clock {
    fn enter(&self, _: &Turn) -> Option<Box<dyn Visit>> {
        Some(Box::new(Visitor { clock: self.clone(), held: false, rounds: 0 }))
    }
}

struct Visitor {
    clock: Clock,
    held: bool,
    rounds: u32,
}

impl Visitor {
    fn note(&self, what: impl Into<String>) {
        self.clock.seen.lock().unwrap().push(what.into());
    }
}

#[async_trait]
impl Visit for Visitor {
    async fn before_request(&mut self, draft: &mut Draft) -> Result<Interest, Fault> {
        draft.serve_tool("clock", r#"{"type":"function","name":"clock"}"#);
        Ok(Interest::Stay)
    }

    fn on_dispatch(&mut self) {
        self.note("dispatch");
    }

    fn on_no_room(&mut self) {
        self.note("no room");
    }

    async fn on_unanswered(&mut self, _: &Fault) {
        self.note("unanswered");
    }

    async fn on_finish(&mut self, seen: &Seen) -> Next {
        for call in &seen.calls {
            self.note(format!("{} {}", call.name, call.arguments));
        }
        if !seen.client_calls.is_empty() {
            self.note(format!("client: {}", seen.client_calls.join(" ")));
            return Next::End;
        }
        self.rounds += 1;
        if seen.calls.iter().any(|call| call.arguments.contains("slow")) {
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        if !seen.calls.is_empty() && self.rounds < ROUNDS_MAX {
            let result = |call: &reveille_gateway::ToolCall| ToolResult {
                call: call.id.clone(),
                text: "好🙂".into(),
                failed: false,
            };
            return Next::Continue(More { results: seen.calls.iter().map(result).collect(), words: vec![] });
        }
        match self.clock.hold {
            Some(length) if !self.held && seen.finish == Some(Finish::Stop) => {
                self.held = true;
                tokio::time::sleep(length).await;
                let words = Words { voice: Voice::System, text: "[scheduled task:\"茶\"]".into() };
                Next::Continue(More { results: vec![], words: vec![words] })
            }
            _ => Next::End,
        }
    }
}

pub fn world(clock: &Clock) -> World {
    World::build(|_| {}, |gateway| gateway.stage(clock.clone()))
}

pub fn calls(arguments: Value) -> Value {
    json!({"tool": {"name": "clock", "arguments": arguments}})
}

pub async fn ask(world: &World, protocol: Protocol, script: &Value, stream: bool) -> Answer {
    let mut request = request(protocol, script, stream);
    if protocol == Protocol::Chat && stream {
        let body: &Value = &json!({
            "model": "scripted", "stream": true, "stream_options": {"include_usage": true},
            "messages": [{"role": "user", "content": format!("script:{script}")}],
        });
        request = support::post(protocol.path(), body.to_string());
    }
    let (status, body) = world.ask(request).await;
    assert_eq!(status, 200, "{body}");
    assert!(!body.contains("\"clock\""), "{body}");
    if stream { accumulate(protocol, &body) } else { parts(protocol, &body) }
}
