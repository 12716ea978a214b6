//! For supervisors, scrapers and generators of clients.

use super::{App, problem::ApiError};
use crate::tools::Problem;
use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

/// The process runs.
#[utoipa::path(get, path = "/healthz", tag = "operation", responses((status = 200, body = String)))]
pub async fn live() -> &'static str {
    "ok\n"
}

/// The process can do its work: the store answers and takes changes.
#[utoipa::path(get, path = "/readyz", tag = "operation", responses(
    (status = 200, body = String),
    (status = 503, body = Problem, content_type = "application/problem+json"),
))]
pub async fn ready(State(app): State<App>) -> Result<&'static str, ApiError> {
    app.engine.store().deadlines(1).await?;
    if !app.engine.is_ready() {
        let detail = "the last change could not be written; the log says why";
        return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "Not ready", "storage_failed", detail));
    }
    Ok("ready\n")
}

/// Prometheus metrics.
#[utoipa::path(get, path = "/metrics", tag = "operation", responses((status = 200, body = String)))]
pub async fn metrics(State(app): State<App>) -> Response {
    // What the store cannot tell now stays as it was last told.
    if let Ok(tallies) = app.engine.store().tallies().await {
        app.engine.metrics.agents.count(&tallies);
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], app.engine.metrics.render()).into_response()
}

pub async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], super::openapi()).into_response()
}
