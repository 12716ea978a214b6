//! The tools a call gains, and their answers.

use super::{ROUNDS_MAX, courier::Courier, visit::ClockVisit};
use crate::{
    http::problem::ApiError,
    tools::{Tool, ToolBody, ToolCall},
};
use reveille_core::{Millis, Reject, SessionId};
use reveille_gateway::{self as gateway, Draft, Protocol, ToolResult};
use serde_json::{Value, json};

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

    /// Adds them after the client's own. A tool of the client goes over one of the same name; how many were added.
    pub fn add(&self, draft: &mut Draft) -> usize {
        let mut added = 0;
        for (tool, json) in self.of(draft.protocol) {
            if draft.has_tool(tool.name()) {
                tracing::debug!(target: "reveille::clock", tool = tool.name(), "the client has a tool of this name");
                continue;
            }
            draft.serve_tool(tool.name(), json);
            added += 1;
        }
        added
    }
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
            let (text, failed) = match self.rounds >= ROUNDS_MAX {
                true => (too_many(), true),
                false => self.run(call, aside).await,
            };
            results.push(ToolResult { call: call.id.clone(), text, failed });
        }
        results
    }

    async fn run(&mut self, call: &gateway::ToolCall, aside: bool) -> (String, bool) {
        let Some(tool) = Tool::named(&call.name) else { return (format!("there is no tool {}", call.name), true) };
        let Some(session) = self.session.clone() else { return (no_session(), true) };
        let arguments = match call.arguments.trim() {
            "" => json!({}),
            text => match serde_json::from_str(text) {
                Ok(arguments) => arguments,
                Err(error) => return (format!("the arguments are not valid JSON ({error}); send an object"), true),
            },
        };
        self.present(&session);
        let engine = self.desk.engine.clone();
        let stop = self.desk.stop.clone();
        let standby_max = (!self.stream)
            .then(|| Millis::new(self.desk.max_hold_whole.as_millis() as u64))
            .filter(|max| !max.is_zero());
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
            stop: &stop,
        };
        match tool_call.run().await {
            Ok(mut reply) => {
                tracing::info!(target: "reveille::clock", %session, tool = tool.name(), result = "ok", "tool call");
                if aside {
                    reply.deliveries.clear();
                    without_messages(&mut reply.body);
                }
                let couriers = reply.deliveries.into_iter().map(|delivery| Courier::new(&engine, &session, delivery));
                self.couriers.extend(couriers);
                (serde_json::to_string(&reply.body).unwrap_or_default(), false)
            }
            Err(error) => {
                let problem = ApiError::of(error, engine.now()).into_problem();
                let code = problem.code.clone();
                tracing::info!(target: "reveille::clock", %session, tool = tool.name(), result = %code, "tool call");
                let now = crate::tools::iso(engine.now());
                (json!({"ok": false, "code": code, "error": problem.detail, "now": now}).to_string(), true)
            }
        }
    }

    /// The same call of a turn that broke off and was sent again is the same creation.
    fn call_key(&mut self, session: &SessionId, call: &gateway::ToolCall) -> String {
        self.calls += 1;
        let attempt = self.desk.memory.attempt(session, self.fingerprint());
        let call = super::memory::Fingerprint::of(&[call.name.as_bytes(), call.arguments.as_bytes()]).to_hex();
        format!("turn:{attempt}:{}:{call}", self.calls)
    }
}

fn without_messages(body: &mut ToolBody) {
    match body {
        ToolBody::Timer(result) => result.messages.clear(),
        ToolBody::Timers(result) => result.messages.clear(),
        ToolBody::Clock(result) => result.messages.clear(),
    }
}

fn no_session() -> String {
    let reject = Reject::InvalidSession(
        "is missing: this client does not say which conversation its request belongs to, so nothing can be kept for it. \
         Tell the user to send the header x-reveille-session"
            .into(),
    );
    json!({"ok": false, "code": "session_required", "error": reject.to_string()}).to_string()
}

fn too_many() -> String {
    let error = format!("more than {ROUNDS_MAX} calls in a row within one turn; nothing was done. Answer the user now");
    json!({"ok": false, "code": "too_many_calls", "error": error}).to_string()
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
