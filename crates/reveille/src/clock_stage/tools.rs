//! The tools a call gains, and their answers.

use super::{courier::Courier, visit::ClockVisit};
use crate::{
    http::problem::ApiError,
    tools::{Tool, ToolBody, ToolCall},
};
use reveille_core::{Millis, Reject, SessionId};
use reveille_gateway::{self as gateway, Draft, Protocol, ToolResult};
use serde_json::{Value, json};
use std::time::Duration;

/// The actions of `clock`, as the log may name them; what else a model wrote there is its text.
const ACTIONS: [&str; 4] = ["schedule", "list", "cancel", "clear"];

/// The tools of the configuration, in each protocol's own bytes: the same ones every time, since prompt caches are keyed by
/// them.
pub struct Offer([Vec<(Tool, String)>; 3]);

impl Offer {
    pub fn new(names: &[String]) -> Self {
        // In one order, whatever the configuration's.
        let tools: Vec<Tool> =
            Tool::ALL.into_iter().filter(|tool| names.iter().any(|name| name == tool.name())).collect();
        let shaped = |protocol| tools.iter().map(|tool| (*tool, shape(*tool, protocol).to_string())).collect();
        Self([shaped(Protocol::Chat), shaped(Protocol::Responses), shaped(Protocol::Messages)])
    }

    fn of(&self, protocol: Protocol) -> &[(Tool, String)] {
        match protocol {
            Protocol::Chat => &self.0[0],
            Protocol::Responses => &self.0[1],
            Protocol::Messages => &self.0[2],
        }
    }

    /// Adds them after the client's own. A tool of the client goes over one of the same name.
    pub fn add(&self, draft: &mut Draft) -> Added {
        let mut added = Added::default();
        for (tool, json) in self.of(draft.protocol) {
            match draft.has_tool(tool.name()) {
                true => added.left_out = Some(*tool),
                false => {
                    draft.serve_tool(tool.name(), json);
                    added.count += 1;
                }
            }
        }
        added
    }
}

/// What became of the tools in one request.
#[derive(Default)]
pub struct Added {
    pub count: usize,
    /// One whose name the client has given to a tool of its own.
    pub left_out: Option<Tool>,
}

/// Names that are no tools of ours.
pub fn check(names: &[String]) -> Result<(), String> {
    match names.iter().find(|name| Tool::named(name).is_none()) {
        Some(name) => {
            let known: Vec<&str> = Tool::ALL.into_iter().map(Tool::name).collect();
            Err(format!("'{name}' is none of {}", known.join(", ")))
        }
        None => Ok(()),
    }
}

fn shape(tool: Tool, protocol: Protocol) -> Value {
    let (name, description, schema) = (tool.name(), tool.description(), tool.input_schema());
    match protocol {
        Protocol::Chat => json!({
            "type": "function", "function": {"name": name, "description": description, "parameters": schema},
        }),
        Protocol::Responses => json!({
            "type": "function", "name": name, "description": description, "parameters": schema, "strict": false,
        }),
        Protocol::Messages => json!({"name": name, "description": description, "input_schema": schema}),
    }
}

impl ClockVisit {
    /// Answers the model's calls. `aside`: it sees the answers only with the session's next request, so that no message
    /// may travel with them.
    pub(super) async fn answer(&mut self, calls: &[gateway::ToolCall], aside: bool) -> Vec<ToolResult> {
        let mut results = Vec::with_capacity(calls.len());
        for call in calls {
            let (text, failed) = match self.rounds >= self.desk.max_rounds {
                true => (self.too_many(), true),
                false => self.run(call, aside).await,
            };
            results.push(ToolResult { call: call.id.clone(), text, failed });
        }
        results
    }

    async fn run(&mut self, call: &gateway::ToolCall, aside: bool) -> (String, bool) {
        let Some(tool) = Tool::named(&call.name) else {
            return (self.mistake("unknown_tool", &format!("there is no tool {}", call.name)), true);
        };
        let Some(session) = self.session.clone() else {
            return (self.mistake("session_required", &self.no_session()), true);
        };
        let arguments = match call.arguments.trim() {
            "" => json!({}),
            text => match serde_json::from_str(text) {
                Ok(arguments) => arguments,
                Err(error) => {
                    let why = format!("the arguments are not valid JSON ({error}); send an object");
                    return (self.mistake("invalid_argument", &why), true);
                }
            },
        };
        let action = ACTIONS.into_iter().find(|action| arguments["action"] == *action);
        self.present(&session);
        let engine = self.desk.engine.clone();
        let stop = self.desk.stop.clone();
        // A client that has no patience left is answered, and the model asked again, at once.
        let patience = self.patience().unwrap_or(Some(Duration::ZERO));
        let standby_max = patience.map(|max| Millis::new(max.as_millis() as u64));
        let tool_call = ToolCall {
            engine: &engine,
            session: session.clone(),
            tool,
            arguments,
            idempotency_key: Some(self.call_key(&session, call)),
            client: None,
            standby_max,
            task: false,
            holds: false,
            in_turn: Some(self.held_for()),
            stop: &stop,
        };
        match tool_call.run().await {
            Ok(mut reply) => {
                let (request, (tasks, earliest)) = (&self.request, figures(&reply.body));
                tracing::info!(
                    target: "reveille::clock",
                    request, %session, tool = tool.name(), action, tasks, earliest, result = "ok", "tool call"
                );
                if aside {
                    reply.deliveries.clear();
                    without_messages(&mut reply.body);
                }
                let request = &self.request;
                let couriers =
                    reply.deliveries.into_iter().map(|delivery| Courier::new(&engine, request, &session, delivery, 1));
                self.couriers.extend(couriers);
                (serde_json::to_string(&reply.body).unwrap_or_default(), false)
            }
            Err(error) => {
                let problem = ApiError::of(error, engine.now()).into_problem();
                let code = problem.code.clone();
                let request = &self.request;
                tracing::info!(
                    target: "reveille::clock",
                    request, %session, tool = tool.name(), action, result = %code, "tool call"
                );
                (self.mistake(&code, &problem.detail), true)
            }
        }
    }

    /// What a model may act on.
    fn mistake(&self, code: &str, error: &str) -> String {
        let now = crate::tools::iso(self.desk.engine.now());
        json!({"ok": false, "code": code, "error": error, "now": now}).to_string()
    }

    pub(super) fn no_session(&self) -> String {
        let why = match &self.unnamed {
            Some(Reject::InvalidSession(why)) => format!("{why}. Tell the user to send another in the header x-reveille-session"),
            _ => "is missing: this client does not say which conversation its request belongs to, so nothing can be kept \
                  for it. Tell the user to send the header x-reveille-session, with at most 200 bytes"
                .into(),
        };
        Reject::InvalidSession(why).to_string()
    }

    pub(super) fn too_many(&self) -> String {
        let max = self.desk.max_rounds;
        let error = format!("more than {max} calls in a row within one turn; nothing was done. Answer the user now");
        self.mistake("too_many_calls", &error)
    }

    /// The same call of a turn that broke off and was sent again is the same creation.
    fn call_key(&mut self, session: &SessionId, call: &gateway::ToolCall) -> String {
        self.calls += 1;
        let attempt = self.desk.memory.attempt(session, self.fingerprint(), self.desk.engine.now());
        let call = super::memory::Fingerprint::of(&[call.name.as_bytes(), call.arguments.as_bytes()]).to_hex();
        format!("turn:{attempt}:{}:{call}", self.calls)
    }
}

/// For the log: how many tasks a result speaks of, and when the first of them is due. No texts.
fn figures(body: &ToolBody) -> (Option<usize>, Option<&str>) {
    let ToolBody::Clock(result) = body else { return (None, None) };
    let due: Vec<&str> = match (&result.scheduled, &result.items) {
        (Some(scheduled), _) => scheduled.iter().map(|one| one.due_at.as_str()).collect(),
        (None, Some(items)) => items.iter().map(|one| one.due_at.as_str()).collect(),
        (None, None) => return (result.removed_count.or(result.removed.as_ref().map(|_| 1)), None),
    };
    (Some(due.len()), due.into_iter().min())
}

fn without_messages(body: &mut ToolBody) {
    match body {
        ToolBody::Timer(result) => result.messages.clear(),
        ToolBody::Timers(result) => result.messages.clear(),
        ToolBody::Clock(result) => result.messages.clear(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use reveille_gateway::Outline;

    fn spliced(tools: &str, client: &str) -> String {
        let body = Bytes::from(format!(r#"{{"model":"m","tools":[{client}],"messages":[]}}"#));
        let outline = Outline::read(Protocol::Chat, &body).expect("valid");
        let mut draft = Draft::new(Protocol::Chat, outline, body);
        let names: Vec<String> = tools.split(',').map(str::to_owned).collect();
        Offer::new(&names).add(&mut draft);
        String::from_utf8(draft.body().to_vec()).expect("text")
    }

    #[test]
    fn the_same_bytes_after_the_clients_tools() {
        let theirs = r#"{"type":"function","function":{"name":"f"}}"#;
        let once = spliced("clock,timer", theirs);
        assert_eq!(once, spliced("timer,clock", theirs));
        let places: Vec<_> = ["\"f\"", "\"timer\"", "\"clock\""].iter().map(|name| once.find(name)).collect();
        assert!(places.is_sorted() && places.iter().all(Option::is_some), "{once}");
        let own = r#"{"type":"function","function":{"name":"clock"}}"#;
        assert_eq!(spliced("clock", own), format!(r#"{{"model":"m","tools":[{own}],"messages":[]}}"#));
    }

    #[test]
    fn unknown_tools_are_named() {
        assert!(check(&["clock".into(), "timer".into()]).is_ok());
        assert!(check(&["alarm".into()]).expect_err("unknown").contains("'alarm' is none of timer,"));
    }
}
