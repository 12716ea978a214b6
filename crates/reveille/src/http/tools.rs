//! The tools, for anyone who speaks HTTP.

use super::{
    App,
    body::{IdempotencyKey, JsonBody, Params, Segments, session},
    problem::ApiError,
    receipt::{ReceiptBody, Receipts},
};
use crate::tools::{Format, Problem, Tool, ToolBody, ToolCall, catalogue};
use axum::{
    Extension,
    body::Body,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use reveille_core::text;
use serde::Deserialize;
use serde_json::Value;
use utoipa::IntoParams;

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
    ),
    request_body(content = Object, description = "The tool's arguments, see `/api/tools`"),
    responses(
        (status = 200, body = ToolBody, description = "`read_timer` without an id answers `timers`, `clock` what its action did"),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn call(
    State(app): State<App>,
    Extension(receipts): Extension<Receipts>,
    Segments((name, tool)): Segments<(String, String)>,
    IdempotencyKey(idempotency_key): IdempotencyKey,
    JsonBody(arguments): JsonBody,
) -> Result<Response, ApiError> {
    let session = session(&name)?;
    let tool = Tool::named(&tool).ok_or_else(|| {
        let known = Tool::ALL.map(Tool::name).join(", ");
        let detail = format!("there is no tool '{}'; the tools are: {known}", text::shown(&tool));
        ApiError::new(StatusCode::NOT_FOUND, "Unknown tool", "unknown_tool", detail)
    })?;
    let call = ToolCall { engine: &app.engine, session, tool, arguments, idempotency_key, stop: &app.stop };
    let reply = call.run().await.map_err(|error| ApiError::of(error, app.engine.now()))?;
    let bytes = serde_json::to_vec(&reply.body).expect("results are representable as JSON");
    let body = ReceiptBody::new(Bytes::from(bytes), reply.deliveries, receipts);
    Ok(([(header::CONTENT_TYPE, "application/json")], Body::new(body)).into_response())
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
