//! Session timers and calls, for whoever looks after them: what is pending, what failed, and making it again. Webhooks
//! that failed for good are the dead letters.

use super::{
    App,
    body::{Params, Segments},
    items::{ListParams, page},
    problem::ApiError,
};
use crate::{
    agents::view::{CallView, SessionTimerView},
    tools::Problem,
};
use axum::{Json, extract::State};
use reveille_core::{Call, Command, ItemId, Kind, Reject, Reply, call, session_timer};
use reveille_store::ItemFilter;
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
pub struct OwnedSessionTimer {
    pub session: String,
    #[serde(flatten)]
    pub timer: SessionTimerView,
}

#[derive(Serialize, ToSchema)]
pub struct SessionTimerPage {
    pub session_timers: Vec<OwnedSessionTimer>,
    /// Ask again with `after` set to this; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}

/// Session timers of all sessions.
#[utoipa::path(get, path = "/api/session_timers", tag = "agents", params(ListParams), responses(
    (status = 200, body = SessionTimerPage),
    (status = "4XX", body = Problem, content_type = "application/problem+json"),
))]
pub async fn timers(
    State(app): State<App>,
    Params(params): Params<ListParams>,
) -> Result<Json<SessionTimerPage>, ApiError> {
    let states = session_timer::Status::ALL.map(|status| (status.as_str(), status.is_live()));
    let (found, next) = page(&app, &params, Kind::SessionTimer, &states).await?;
    let owned = found.iter().filter_map(|found| {
        let timer = SessionTimerView::of(found.item.as_session_timer()?);
        Some(OwnedSessionTimer { session: found.session.to_string(), timer })
    });
    Ok(Json(SessionTimerPage { session_timers: owned.collect(), next }))
}

#[derive(Serialize, ToSchema)]
pub struct OwnedCall {
    pub session: String,
    #[serde(flatten)]
    pub call: CallView,
}

#[derive(Serialize, ToSchema)]
pub struct CallPage {
    pub calls: Vec<OwnedCall>,
    /// Ask again with `after` set to this; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}

/// Calls of tools and webhooks that timers and turns caused; `?status=failed` lists the dead letters.
#[utoipa::path(get, path = "/api/calls", tag = "agents", params(ListParams), responses(
    (status = 200, body = CallPage),
    (status = "4XX", body = Problem, content_type = "application/problem+json"),
))]
pub async fn list(State(app): State<App>, Params(params): Params<ListParams>) -> Result<Json<CallPage>, ApiError> {
    let states = call::Status::ALL.map(|status| (status.as_str(), status.is_live()));
    let (found, next) = page(&app, &params, Kind::Call, &states).await?;
    let owned = found.iter().filter_map(|found| {
        let call = CallView::of(found.item.as_call()?);
        Some(OwnedCall { session: found.session.to_string(), call })
    });
    Ok(Json(CallPage { calls: owned.collect(), next }))
}

/// Make a call again that failed for good, under its old key.
#[utoipa::path(post, path = "/api/calls/{id}/replay", tag = "agents", params(("id" = String, Path)), responses(
    (status = 200, body = CallView),
    (status = "4XX", body = Problem, content_type = "application/problem+json"),
))]
pub async fn replay(State(app): State<App>, Segments(id): Segments<String>) -> Result<Json<CallView>, ApiError> {
    let filter = ItemFilter { id: Some(id.clone()), kind: Some(Kind::Call), limit: 1, ..ItemFilter::default() };
    let found = app.engine.store().items(filter).await?.pop();
    let id = ItemId::new(id);
    let Some(found) = found else { return Err(Reject::UnknownCall { id }.into()) };
    let done = app.engine.execute(&found.session, Call::new(Command::ReplayCall { id })).await;
    match done.map_err(|error| ApiError::of(error, app.engine.now()))?.reply {
        Reply::Call(call) => Ok(Json(CallView::of(&call))),
        _ => unreachable!("replaying answers with the call"),
    }
}
