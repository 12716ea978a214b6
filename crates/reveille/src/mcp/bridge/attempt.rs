//! One call, sent as often as daemons are lost under it, and still carried out once.

use super::super::{Call, Refusal, standby};
use crate::tools::{CANCELLED_HINT, Tool, given};
use reveille_core::{Limits, Millis, duration};
use serde_json::{Map, Value, json};
use std::time::Instant;

/// The least a repeated call stands by: its time is over, and the answer says how things are.
const MOMENT: Millis = Millis::new(1);

pub struct Attempts {
    pub call: Call,
    /// An attempt was sent whose answer never came: it may have been carried out.
    pub unanswered: bool,
    began: Instant,
    /// Makes repeated creations one.
    key: String,
}

/// What is sent to the daemon.
pub struct ToolRequest {
    pub session: String,
    pub tool: &'static str,
    pub arguments: Map<String, Value>,
    pub client: Option<String>,
    pub standby_max: Millis,
    pub key: Option<String>,
    pub task: bool,
}

impl Attempts {
    pub fn new(call: Call) -> Self {
        let key = format!("bridge-{:016x}{:016x}", rand::random::<u64>(), rand::random::<u64>());
        Self { call, unanswered: false, began: Instant::now(), key }
    }

    /// The call as it is to be sent now: what has passed since it came is taken off.
    pub fn request(&self) -> ToolRequest {
        let passed = Millis::new(self.began.elapsed().as_millis() as u64);
        let mut request = self.ask(self.call.tool, self.call.arguments.clone());
        request.key = Some(self.key.clone());
        request.task = self.call.task;
        if self.unanswered {
            let whole = standby::expected(&self.call).unwrap_or(self.call.standby_max);
            request.standby_max = less(whole, passed);
            if given(&request.arguments, "timer_id").is_some() {
                shorten(&mut request.arguments, passed);
            }
        }
        request
    }

    /// Reads what this call is about.
    pub fn read(&self) -> ToolRequest {
        if self.call.tool == Tool::Clock {
            return self.ask(Tool::Clock, Map::from_iter([("action".into(), "list".into())]));
        }
        let id = self.call.arguments.get("timer_id").cloned().unwrap_or_default();
        self.ask(Tool::ReadTimer, Map::from_iter([("timer_id".into(), id)]))
    }

    fn ask(&self, tool: Tool, arguments: Map<String, Value>) -> ToolRequest {
        ToolRequest {
            session: self.call.session.to_string(),
            tool: tool.name(),
            arguments,
            client: self.call.client.clone(),
            standby_max: self.call.standby_max,
            key: None,
            task: false,
        }
    }

    /// An earlier attempt did what this one was refused. What ended otherwise meanwhile is told as it is.
    pub fn is_done_already(&self, refusal: &Refusal) -> bool {
        let ended_as = |kind: &str, status: &str| refusal.0.get(kind).is_some_and(|ended| ended["status"] == status);
        let done = match (self.call.tool, refusal.code()) {
            (Tool::StopTimer, "timer_ended") => ended_as("timer", "stopped"),
            (Tool::ResumeTimer, "not_paused") => true,
            (Tool::Clock, "reminder_ended") => self.action() == Some("cancel") && ended_as("reminder", "cancelled"),
            _ => false,
        };
        self.unanswered && done
    }

    fn action(&self) -> Option<&str> {
        self.call.arguments.get("action").and_then(Value::as_str).map(str::trim)
    }

    /// What the lost answer would have said, from what was read since.
    pub fn answer(&self, mut read: Value) -> Value {
        match (self.call.tool, read.as_object_mut()) {
            (Tool::Clock, Some(body)) => {
                body.remove("items");
                body.insert("removed".into(), self.call.arguments.get("taskId").cloned().unwrap_or_default());
                body.insert("hint".into(), CANCELLED_HINT.into());
            }
            (tool, _) => read["outcome"] = json!(if tool == Tool::StopTimer { "stopped" } else { "resumed" }),
        }
        read
    }
}

/// `total_duration` of a continued timer is what shall remain from now, and now is later than it was.
fn shorten(arguments: &mut Map<String, Value>, passed: Millis) {
    let total = given(arguments, "total_duration");
    let Some(Ok(total)) = total.map(|value| duration::parse("total_duration", value, Limits::default().duration_max))
    else {
        return;
    };
    arguments.insert("total_duration".into(), json!(less(total, passed).get() as f64 / 1000.0));
}

fn less(whole: Millis, passed: Millis) -> Millis {
    Millis::new(whole.get().saturating_sub(passed.get())).max(MOMENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reveille_core::SessionId;
    use std::time::Duration;

    /// Sent again five seconds after it came.
    fn repeated(arguments: &Value) -> Map<String, Value> {
        let call = Call {
            session: SessionId::new("s"),
            client: None,
            tool: Tool::Timer,
            arguments: arguments.as_object().cloned().unwrap_or_default(),
            standby_max: Millis::from_secs(600),
            task: false,
        };
        let began = Instant::now().checked_sub(Duration::from_secs(5)).expect("the machine runs for longer");
        Attempts { unanswered: true, began, ..Attempts::new(call) }.request().arguments
    }

    #[test]
    fn a_creation_is_repeated_as_it_was_and_a_continuation_later() {
        // Models fill in what they leave out.
        for id in [json!(null), json!(""), json!("  ")] {
            let creation = json!({"timer_id": id, "total_duration": 60, "reason": "r"});
            assert_eq!(json!(repeated(&creation)), creation);
        }
        let continued = repeated(&json!({"timer_id": "timer_1", "total_duration": 60}));
        assert!(continued["total_duration"].as_f64().is_some_and(|left| left <= 55.0), "{continued:?}");
    }
}
