//! A session's quiet hours.

use super::{
    App,
    body::{JsonBody, Segments, session},
    problem::ApiError,
};
use axum::{Json, extract::State};
use reveille_core::{Call, Command, Needs, Quiet};
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
pub struct QuietView {
    pub session: String,
    /// Its own, or its agent's; absent: those of the configuration, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub quiet: Option<Quiet>,
    /// Those that count.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub in_force: Option<Quiet>,
}

/// When a session is not to be disturbed.
#[utoipa::path(get, path = "/api/sessions/{session}/quiet", tag = "sessions", params(("session" = String, Path)),
    responses((status = 200, body = QuietView)))]
pub async fn read(State(app): State<App>, Segments(name): Segments<String>) -> Result<Json<QuietView>, ApiError> {
    view(&app, name).await
}

/// Set a session's quiet hours: `{"zone": "Europe/Berlin", "from": "22:00", "to": "08:00"}`, with `days` where not every
/// day is meant, or a list of such. What is due within them waits for their end; what was to come moves with them.
#[utoipa::path(put, path = "/api/sessions/{session}/quiet", tag = "sessions", params(("session" = String, Path)),
    request_body(content = Object), responses(
    (status = 200, body = QuietView),
))]
pub async fn put(
    State(app): State<App>,
    Segments(name): Segments<String>,
    JsonBody(body): JsonBody,
) -> Result<Json<QuietView>, ApiError> {
    set(&app, name, Some(Quiet::parse(body)?)).await
}

/// The session has no quiet hours of its own any more.
#[utoipa::path(delete, path = "/api/sessions/{session}/quiet", tag = "sessions", params(("session" = String, Path)),
    responses((status = 200, body = QuietView)))]
pub async fn remove(State(app): State<App>, Segments(name): Segments<String>) -> Result<Json<QuietView>, ApiError> {
    set(&app, name, None).await
}

async fn set(app: &App, name: String, quiet: Option<Quiet>) -> Result<Json<QuietView>, ApiError> {
    let done = app.engine.execute(&session(&name)?, Call::new(Command::SetQuiet { quiet })).await;
    done.map_err(|error| ApiError::of(error, app.engine.now()))?;
    view(app, name).await
}

async fn view(app: &App, name: String) -> Result<Json<QuietView>, ApiError> {
    let state = app.engine.store().load(&session(&name)?, Needs::default()).await?;
    let quiet = state.session.and_then(|session| session.quiet.in_force().cloned());
    let in_force = quiet.clone().or_else(|| app.engine.limits().quiet.as_deref().cloned());
    Ok(Json(QuietView { session: name, quiet, in_force }))
}
