//! Session timers and calls, for whoever looks after them: what is pending, what failed, and making it again. Webhooks
//! that failed for good are the dead letters.

use super::{
    App,
    body::{Params, Segments},
    items::{ListParams, page},
    problem::ApiError,
    sight::Sight,
};
use crate::{
    agents::view::{CallView, SessionTimerView},
    engine::EngineError,
};
use axum::{Json, extract::State};
use reveille_core::{Call, Command, ItemId, Kind, Reject, Reply, ToolCall, call, session_timer};
use reveille_store::{Found, ItemFilter};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Pages of calls that one request looks through for what it is to make again; then it says where to go on.
const PAGES_MAX: usize = 100;

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
))]
pub async fn timers(
    State(app): State<App>,
    Params(params): Params<ListParams>,
    mut sight: Sight,
) -> Result<Json<SessionTimerPage>, ApiError> {
    let states = session_timer::Status::ALL.map(|status| (status.as_str(), status.is_live()));
    let (found, next) = page(&app, &mut sight, &params, Kind::SessionTimer, &states).await?;
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

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct CallParams {
    /// `tool` or `webhook`; both unless given. A page may then be shorter than its limit.
    kind: Option<String>,
}

impl CallParams {
    fn is(&self, call: &ToolCall) -> bool {
        self.kind.as_ref().is_none_or(|kind| kind == CallView::kind(call))
    }

    fn check(&self) -> Result<(), ApiError> {
        match self.kind.as_deref() {
            None | Some("tool" | "webhook") => Ok(()),
            Some(other) => {
                let why = format!("'{other}' is not one of: tool, webhook");
                Err(Reject::InvalidArgument { field: "kind".into(), why }.into())
            }
        }
    }
}

/// Calls of tools that timers fired, and of webhooks that timers and turns had to tell; `?status=failed&kind=webhook` lists
/// the dead letters. What a model calls in its turn is in `/api/history`, as `call.done` and `call.failed`.
#[utoipa::path(get, path = "/api/calls", tag = "agents", params(ListParams, CallParams), responses(
    (status = 200, body = CallPage),
))]
pub async fn list(
    State(app): State<App>,
    Params(params): Params<ListParams>,
    Params(only): Params<CallParams>,
    mut sight: Sight,
) -> Result<Json<CallPage>, ApiError> {
    only.check()?;
    let (found, next) = page(&app, &mut sight, &params, Kind::Call, &states()).await?;
    let owned = found.iter().filter_map(|found| {
        let call = CallView::of(found.item.as_call().filter(|call| only.is(call))?);
        Some(OwnedCall { session: found.session.to_string(), call })
    });
    Ok(Json(CallPage { calls: owned.collect(), next }))
}

/// Make a call again that failed for good, under its old key.
#[utoipa::path(post, path = "/api/calls/{id}/replay", tag = "agents", params(("id" = String, Path)), responses(
    (status = 200, body = CallView),
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

#[derive(Serialize, ToSchema)]
pub struct Replayed {
    /// How many are made again.
    pub replayed: usize,
    /// There may be more: ask again, with `after` set to `next`.
    pub more: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}

/// Make all calls again that failed for good, a page of them at a time; `?kind=webhook` the dead letters alone.
#[utoipa::path(post, path = "/api/calls/replay", tag = "agents", params(ListParams, CallParams), responses(
    (status = 200, body = Replayed),
))]
pub async fn replay_all(
    State(app): State<App>,
    Params(params): Params<ListParams>,
    Params(only): Params<CallParams>,
    mut sight: Sight,
) -> Result<Json<Replayed>, ApiError> {
    only.check()?;
    let mut failed = params.in_state(call::Status::Failed.as_str());
    let mut looked_at = 0;
    loop {
        let (found, next) = page(&app, &mut sight, &failed, Kind::Call, &states()).await?;
        let replayed = replay_some(&app, &only, &found).await?;
        looked_at += 1;
        // A page that has none of them is no reason to stop: those that were asked for may all be behind it.
        match next {
            Some(after) if replayed == 0 && looked_at < PAGES_MAX => failed = failed.going_on(after),
            next => return Ok(Json(Replayed { replayed, more: next.is_some(), next })),
        }
    }
}

async fn replay_some(app: &App, only: &CallParams, found: &[Found]) -> Result<usize, ApiError> {
    let mut replayed = 0;
    for found in found.iter().filter(|found| found.item.as_call().is_some_and(|call| only.is(call))) {
        let done =
            app.engine.execute(&found.session, Call::new(Command::ReplayCall { id: found.item.id().clone() })).await;
        match done {
            Ok(_) => replayed += 1,
            // Somebody else was faster.
            Err(EngineError::Reject(Reject::CallNotFailed { .. } | Reject::UnknownCall { .. })) => {}
            Err(error) => return Err(ApiError::of(error, app.engine.now())),
        }
    }
    Ok(replayed)
}

fn states() -> [(&'static str, bool); call::Status::ALL.len()] {
    call::Status::ALL.map(|status| (status.as_str(), status.is_live()))
}
