//! For supervisors, scrapers and generators of clients.

use super::{App, problem::ApiError};
use crate::{engine::NotReady, tools::Problem};
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

/// The process can do its work: the store answers and takes changes, and deadlines are kept.
#[utoipa::path(get, path = "/readyz", tag = "operation", responses(
    (status = 200, body = String),
    (status = 503, body = Problem, content_type = "application/problem+json"),
))]
pub async fn ready(State(app): State<App>) -> Result<&'static str, ApiError> {
    let not_ready =
        |code, why: &NotReady| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "Not ready", code, why.to_string());
    match app.engine.ready().await {
        Ok(()) => Ok("ready\n"),
        Err(NotReady::Unreadable(error)) => Err(error.into()),
        Err(why @ NotReady::Stuck) => Err(not_ready("deadlines_late", &why)),
        Err(why @ NotReady::Refused(_)) => Err(not_ready("storage_failed", &why)),
    }
}

/// Prometheus metrics.
#[utoipa::path(get, path = "/metrics", tag = "operation", responses(
    (status = 200, body = String, content_type = "application/openmetrics-text"),
))]
pub async fn metrics(State(app): State<App>) -> Response {
    // What the store cannot tell now stays as it was last told.
    if let Some(Ok(tallies)) = app.engine.briefly(app.engine.store().tallies()).await {
        app.engine.metrics.agents.count(&tallies);
        app.engine.metrics.kept.count(&tallies);
    }
    app.engine.metrics.agents.files_not_in_force.set(app.agents.problems().len() as i64);
    app.engine.metrics.kept.ready(app.engine.ready().await.is_ok());
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], app.engine.metrics.render()).into_response()
}

pub async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], super::openapi()).into_response()
}
