//! The tools, for anyone who speaks HTTP.

use super::{
    App,
    body::{ClientKind, IdempotencyKey, JsonBody, Params, Segments, session},
    problem::ApiError,
    receipt::{ReceiptBody, Receipts},
};
use crate::{
    engine::Delivery,
    tools::{Format, TaskView, Tool, ToolBody, ToolCall, catalogue},
};
use axum::{
    Extension,
    body::Body,
    extract::{FromRequestParts, State},
    http::{StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use reveille_core::{LeaseId, Limits, Millis, duration, text};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// `explicit`: the result names the leases of its messages in `leases`, and the client commits or releases them through
/// the inbox instead of their counting as delivered once written.
pub const RECEIPT_HEADER: &str = "x-reveille-receipt";
pub const RECEIPT_EXPLICIT: &str = "explicit";
/// The kind of program that calls.
pub const CLIENT_HEADER: &str = "x-reveille-client";
/// `true`: a `timer` call is answered at once, with a task to ask about later.
pub const TASK_HEADER: &str = "x-reveille-task";
/// `true`: the caller holds the session after its first answer, and cannot wake its agent.
pub const HOLDS_HEADER: &str = "x-reveille-holds";
/// Where the agent works, if its hooks do not say it.
pub const CWD_HEADER: &str = "x-reveille-cwd";
/// The longest the call may stand by.
pub const STANDBY_MAX_HEADER: &str = "x-reveille-standby-max";

/// Call a tool in a session. A `timer` call stands by until its time is over or something else ends it; if the client
/// leaves, the timer goes on.
#[utoipa::path(
    post,
    path = "/api/sessions/{session}/tools/{tool}",
    tag = "tools",
    params(
        ("session" = String, Path, description = "The conversation, named by the client"),
        ("tool" = String, Path, description = "`timer`, `read_timer`, `stop_timer`, `cancel_timer`, `pause_timer`, `resume_timer` or `clock`"),
        ("Idempotency-Key" = Option<String>, Header, description = "Repeating a creation with the same key makes nothing a second time"),
        ("x-reveille-client" = Option<String>, Header, description = "The kind of program that calls, such as `claude-code`"),
        ("x-reveille-standby-max" = Option<String>, Header, description = "The longest this call may stand by"),
        ("x-reveille-task" = Option<String>, Header, description = "`true`: instead of standing by, `timer` answers at once with a `task` to ask about at `/api/tasks/{id}`"),
        ("x-reveille-holds" = Option<String>, Header, description = "`true`: after this answer the caller holds the session and cannot wake its agent, so that no wake command runs until it has left"),
        ("x-reveille-receipt" = Option<String>, Header, description = "`explicit`: the result names the leases of its messages in `leases`, and in `channels` the way out of each; commit or release them through the inbox"),
        ("x-reveille-cwd" = Option<String>, Header, description = "Where the agent works, for the command that may wake it later; what its hooks say goes over it"),
    ),
    request_body(content = Object, description = "The tool's arguments, see `/api/tools`"),
    responses(
        (status = 200, body = ToolBody, description = "`read_timer` without an id answers `timers`, `clock` what its action did"),
    )
)]
pub async fn call(
    State(app): State<App>,
    Extension(receipts): Extension<Receipts>,
    Segments((name, tool)): Segments<(String, String)>,
    IdempotencyKey(idempotency_key): IdempotencyKey,
    bridged: Bridged,
    ClientKind(client): ClientKind,
    JsonBody(arguments): JsonBody,
) -> Result<Response, ApiError> {
    let session = session(&name)?;
    let tool = Tool::named(&tool).ok_or_else(|| {
        let known = Tool::ALL.map(Tool::name).join(", ");
        let detail = format!("there is no tool '{}'; the tools are: {known}", text::shown(&tool));
        ApiError::new(StatusCode::NOT_FOUND, "Unknown tool", "unknown_tool", detail)
    })?;
    if let Some(cwd) = &bridged.cwd {
        app.engine.presence().cwd_may_be(&session, cwd);
    }
    let call = ToolCall {
        engine: &app.engine,
        session,
        tool,
        arguments,
        idempotency_key,
        client,
        standby_max: bridged.standby_max,
        task: bridged.task,
        holds: bridged.holds,
        in_turn: None,
        stop: &app.stop,
    };
    let reply = call.run().await.map_err(|error| ApiError::of(error, app.engine.now()))?;
    let bytes = match (bridged.receipt(&reply.deliveries), reply.task) {
        (None, None) => serde_json::to_vec(&reply.body),
        (receipt, task) => serde_json::to_vec(&Extended { body: &reply.body, receipt, task }),
    }
    .expect("results are representable as JSON");
    let body = ReceiptBody::new(Bytes::from(bytes), reply.deliveries, receipts);
    Ok(([(header::CONTENT_TYPE, "application/json")], Body::new(body)).into_response())
}

/// A result with the leases of the messages in it, where the client settles them itself, or the task it goes on as.
#[derive(Serialize)]
struct Extended<'a> {
    #[serde(flatten)]
    body: &'a ToolBody,
    #[serde(flatten)]
    receipt: Option<Receipt>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<TaskView>,
}

/// For clients that settle leases themselves.
#[derive(Serialize, ToSchema)]
pub struct Receipt {
    /// To be committed or released through the inbox.
    #[schema(value_type = Vec<String>)]
    pub leases: Vec<LeaseId>,
    /// As `channel` of the commit: the way out of each lease.
    #[schema(value_type = Vec<String>)]
    pub channels: Vec<&'static str>,
}

/// What a bridge says about the agent behind it.
pub struct Bridged {
    standby_max: Option<Millis>,
    leases_by_name: bool,
    task: bool,
    holds: bool,
    cwd: Option<String>,
}

impl Bridged {
    /// The leases that the client settles itself, if it wants to.
    pub fn receipt(&self, deliveries: &[Arc<Delivery>]) -> Option<Receipt> {
        self.leases_by_name.then(|| Receipt {
            leases: deliveries.iter().map(|delivery| delivery.by_name().clone()).collect(),
            channels: deliveries.iter().map(|delivery| delivery.channel()).collect(),
        })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Bridged {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let standby_max = text(STANDBY_MAX_HEADER)
            .map(|length| duration::parse(STANDBY_MAX_HEADER, &Value::String(length), Limits::default().duration_max))
            .transpose()?;
        let leases_by_name = text(RECEIPT_HEADER).is_some_and(|receipt| receipt == RECEIPT_EXPLICIT);
        let said = |name: &str| text(name).is_some_and(|value| value == "true");
        let cwd = parts.headers.get(CWD_HEADER).and_then(|cwd| String::from_utf8(cwd.as_bytes().to_vec()).ok());
        let cwd = cwd.filter(|cwd| is_place(cwd));
        Ok(Self { standby_max, leases_by_name, task: said(TASK_HEADER), holds: said(HOLDS_HEADER), cwd })
    }
}

/// What is longer, or no absolute path, is left out.
const CWD_BYTES_MAX: usize = 4096;

/// Whether an agent may work there.
pub fn is_place(cwd: &str) -> bool {
    cwd.starts_with('/') && cwd.len() <= CWD_BYTES_MAX && !cwd.contains('\0')
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// Whose shape of a tool list: `mcp` unless given.
    #[serde(default)]
    #[param(inline)]
    format: Format,
}

/// The tools' names, descriptions and argument schemas, ready for a model request.
#[utoipa::path(get, path = "/api/tools", tag = "tools", params(ListParams), responses((status = 200, body = Object)))]
pub async fn list(Params(params): Params<ListParams>) -> axum::Json<Value> {
    axum::Json(catalogue(params.format))
}
