//! Tasks over HTTP, for whoever called `timer` with `x-reveille-task`.

use super::{
    App,
    body::{Params, Segments, session},
    problem::ApiError,
    receipt::{ReceiptBody, Receipts},
    tools::{Bridged, Receipt},
};
use crate::{
    engine::EngineError,
    tools::{Problem, TaskReply, TaskView, TimerResult},
};
use axum::{
    Extension,
    body::Body,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Asker {
    /// The session the task must belong to; any unless given.
    session: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub struct TaskResult {
    pub session: String,
    pub task: TaskView,
    /// What the stand-by would have answered; once the task has ended otherwise than by being cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<TimerResult>>,
    /// With `x-reveille-receipt: explicit`.
    #[serde(flatten)]
    pub receipt: Option<Receipt>,
}

/// How a task stands. If it ended with its timer, having written this answer counts as having told it.
#[utoipa::path(get, path = "/api/tasks/{id}", tag = "tasks", params(("id" = String, Path), Asker), responses(
    (status = 200, body = TaskResult),
    (status = 404, body = Problem, content_type = "application/problem+json"),
))]
pub async fn read(
    State(app): State<App>,
    Extension(receipts): Extension<Receipts>,
    Segments(id): Segments<String>,
    Params(asker): Params<Asker>,
    bridged: Bridged,
) -> Result<Response, ApiError> {
    let asker = asker.session.as_deref().map(session).transpose()?;
    answer(&app, receipts, &bridged, app.engine.read_task(asker.as_ref(), &id).await)
}

/// End a task and its stand-by. The timer goes on.
#[utoipa::path(delete, path = "/api/tasks/{id}", tag = "tasks", params(("id" = String, Path), Asker), responses(
    (status = 200, body = TaskResult),
    (status = 404, body = Problem, content_type = "application/problem+json"),
))]
pub async fn cancel(
    State(app): State<App>,
    Extension(receipts): Extension<Receipts>,
    Segments(id): Segments<String>,
    Params(asker): Params<Asker>,
    bridged: Bridged,
) -> Result<Response, ApiError> {
    let asker = asker.session.as_deref().map(session).transpose()?;
    answer(&app, receipts, &bridged, app.engine.cancel_task(asker.as_ref(), &id).await)
}

fn answer(
    app: &App,
    receipts: Receipts,
    bridged: &Bridged,
    reply: Result<TaskReply, EngineError>,
) -> Result<Response, ApiError> {
    let reply = reply.map_err(|error| ApiError::of(error, app.engine.now()))?;
    let receipt = bridged.receipt(&reply.deliveries);
    let result = TaskResult { session: reply.session.to_string(), task: reply.task, result: reply.result, receipt };
    let bytes = serde_json::to_vec(&result).expect("results are representable as JSON");
    let body = ReceiptBody::new(Bytes::from(bytes), reply.deliveries, receipts);
    Ok(([(header::CONTENT_TYPE, "application/json")], Body::new(body)).into_response())
}
