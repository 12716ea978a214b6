//! Session timers, calls and what was said, as clients see them.

use reveille_core::{
    SessionTimer, ToolCall, Utterance,
    call::What,
    session_timer::{Action, Reset},
};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// The fields of the original, and what else there is to know.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SessionTimerView {
    #[schema(example = "st_nq072rt887")]
    pub timer_instance_id: String,
    #[schema(example = "idle_reminder")]
    pub timer_id: String,
    #[schema(example = "acme:support")]
    pub agent: String,
    /// `pending`, `triggered` (fired since the user's last message, and will again), `disabled` or `cancelled`.
    #[schema(example = "pending")]
    pub status: &'static str,
    /// The agent works on an answer: nothing fires before it has gone out.
    pub suspended: bool,
    pub trigger_count: u32,
    pub created_at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_trigger_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_triggered_at: Option<i64>,
    #[schema(value_type = f64)]
    pub delay_seconds: Value,
    pub max_triggers: u32,
    #[schema(value_type = String)]
    pub reset: Reset,
    pub tool_name: String,
    #[schema(value_type = Object)]
    pub tool_params: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// `next_trigger_at` is the end of quiet hours; the silence is over at this instant already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_since: Option<i64>,
}

impl SessionTimerView {
    pub fn of(timer: &SessionTimer) -> Self {
        let (tool_params, message) = match &timer.spec.action {
            Action::Say { text } => (Map::new(), Some(text.clone())),
            Action::Call { arguments, .. } => (arguments.clone(), None),
            Action::Close => (Map::new(), None),
        };
        Self {
            timer_instance_id: timer.id.to_string(),
            timer_id: timer.spec.timer_id.clone(),
            agent: timer.agent.to_string(),
            status: timer.status().as_str(),
            suspended: timer.is_suspended(),
            trigger_count: timer.trigger_count,
            created_at: timer.created_at.as_millis(),
            next_trigger_at: timer.next_trigger_at().map(|at| at.as_millis()),
            last_triggered_at: timer.last_triggered_at.map(|at| at.as_millis()),
            delay_seconds: reveille_core::history::seconds(timer.spec.delay),
            max_triggers: timer.spec.max_triggers,
            reset: timer.spec.reset,
            tool_name: timer.spec.action.tool().to_owned(),
            tool_params,
            message,
            waits_since: timer.opens_at.and(timer.silent_at()).map(|at| at.as_millis()),
        }
    }
}

/// A call to a tool or a webhook, and how it stands.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CallView {
    /// Its idempotency key too.
    #[schema(example = "call_st_nq072rt887.1")]
    pub id: String,
    pub agent: String,
    /// `tool` or `webhook`.
    pub kind: &'static str,
    /// The tool's name or the webhook's URL.
    pub target: String,
    /// `waiting`, `running`, `done`, `failed` or `cancelled`.
    #[schema(example = "failed")]
    pub status: &'static str,
    pub attempts: u32,
    pub created_at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<i64>,
    /// What the endpoint answered last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// A tool's arguments, or what a webhook is told.
    #[schema(value_type = Object)]
    pub data: Value,
}

impl CallView {
    /// What kind of call it is.
    pub fn kind(call: &ToolCall) -> &'static str {
        match call.what {
            What::Tool { .. } => "tool",
            What::Webhook { .. } => "webhook",
        }
    }

    pub fn of(call: &ToolCall) -> Self {
        let data = match &call.what {
            What::Tool { arguments, .. } => Value::Object(arguments.clone()),
            What::Webhook { event, data, .. } => serde_json::json!({"type": event, "data": data}),
        };
        let waits = call.status() == reveille_core::call::Status::Waiting;
        Self {
            id: call.id.to_string(),
            agent: call.agent.to_string(),
            kind: Self::kind(call),
            target: call.target().to_owned(),
            status: call.status().as_str(),
            attempts: call.attempts,
            created_at: call.created_at.as_millis(),
            next_attempt_at: call.due().filter(|_| waits).map(|at| at.as_millis()),
            ended_at: call.ended_at().map(|at| at.as_millis()),
            last_status: call.last.as_ref().and_then(|last| last.status),
            last_error: call.last.as_ref().and_then(|last| last.error.clone()),
            data,
        }
    }
}

/// One message of a conversation.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SaidView {
    pub id: String,
    /// `user`, `assistant` or `tool`.
    #[schema(example = "assistant")]
    pub role: &'static str,
    pub at: i64,
    pub content: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The session timer that caused it, if no turn did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timer: Option<String>,
}

impl SaidView {
    pub fn of(said: &Utterance) -> Self {
        let call = |call: &reveille_core::utterance::Asked| serde_json::json!(call);
        Self {
            id: said.id.to_string(),
            role: said.role.as_str(),
            at: said.at.as_millis(),
            content: said.content.clone(),
            tool_calls: said.calls.iter().map(call).collect(),
            tool_call_id: said.answers.clone(),
            timer: said.timer.as_ref().map(ToString::to_string),
        }
    }
}
