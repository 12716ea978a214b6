//! Timers for people and programs that look after them: across sessions, without taking any agent's messages.

use super::{
    App,
    body::{JsonBody, Params, Segments},
    items::{ListParams, page},
    problem::ApiError,
};
use crate::tools::{Outcome, Problem, TimerResult, TimerView};
use axum::{Json, extract::State, http::StatusCode};
use reveille_core::{Call, Command, ItemId, Kind, Reject, Reply, SessionId, Status, duration, text};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A timer and the session it belongs to.
#[derive(Serialize, ToSchema)]
pub struct OwnedTimer {
    pub session: String,
    #[serde(flatten)]
    pub timer: TimerView,
}

#[derive(Serialize, ToSchema)]
pub struct TimerPage {
    pub timers: Vec<OwnedTimer>,
    /// Ask again with `after` set to this; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}

/// Timers of all sessions.
#[utoipa::path(get, path = "/api/timers", tag = "timers", params(ListParams), responses(
    (status = 200, body = TimerPage),
    (status = "4XX", body = Problem, content_type = "application/problem+json"),
))]
pub async fn list(State(app): State<App>, Params(params): Params<ListParams>) -> Result<Json<TimerPage>, ApiError> {
    let states = Status::ALL.map(|status| (status.as_str(), status.is_live()));
    let (found, next) = page(&app, &params, Kind::Timer, &states).await?;
    let now = app.engine.now();
    let timers = found
        .iter()
        .filter_map(|found| {
            let timer = TimerView::of(found.item.as_timer()?, now);
            Some(OwnedTimer { session: found.session.to_string(), timer })
        })
        .collect();
    Ok(Json(TimerPage { timers, next }))
}

/// One timer, in whatever session it is.
#[utoipa::path(get, path = "/api/timers/{id}", tag = "timers", params(("id" = String, Path)), responses(
    (status = 200, body = OwnedTimer),
    (status = 404, body = Problem, content_type = "application/problem+json"),
))]
pub async fn read(State(app): State<App>, Segments(id): Segments<String>) -> Result<Json<OwnedTimer>, ApiError> {
    let session = owner(&app, &id).await?;
    let result = change(&app, &session, Command::Read { id: Some(ItemId::new(id)) }, Outcome::Read).await?;
    Ok(Json(OwnedTimer { session: session.to_string(), timer: result.timer }))
}

#[derive(Deserialize, ToSchema, Default)]
#[serde(default)]
pub struct ActBody {
    /// Kept as `stop_reason`.
    reason: Option<String>,
    /// `pause` only: seconds, or text such as "5m".
    pause_duration: Value,
}

/// Stop, cancel, pause or resume a timer from outside. A call that stands by for it is released at once.
#[utoipa::path(
    post,
    path = "/api/timers/{id}/{action}",
    tag = "timers",
    params(("id" = String, Path), ("action" = String, Path, description = "`stop`, `cancel`, `pause` or `resume`")),
    request_body(content = Option<ActBody>),
    responses(
        (status = 200, body = TimerResult),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn act(
    State(app): State<App>,
    Segments((id, action)): Segments<(String, String)>,
    body: JsonBody,
) -> Result<Json<TimerResult>, ApiError> {
    let limits = app.engine.limits();
    let body: ActBody = body.read()?;
    let note = text::accept("reason", body.reason, limits)?;
    let session = owner(&app, &id).await?;
    let id = ItemId::new(id);
    let (command, outcome) = match action.as_str() {
        "stop" => (Command::Stop { id, note }, Outcome::Stopped),
        "cancel" => (Command::Cancel { id, note }, Outcome::Background),
        "resume" => (Command::Resume { id, note }, Outcome::Resumed),
        "pause" => {
            let hint = "a length of time, in seconds (120) or as text (\"2m\")";
            if body.pause_duration.is_null() {
                return Err(Reject::MissingArgument { field: "pause_duration", hint }.into());
            }
            let length = duration::parse("pause_duration", &body.pause_duration, limits.duration_max)?;
            (Command::Pause { id, length, note }, Outcome::Paused)
        }
        _ => {
            let detail = format!(
                "a timer cannot be asked to '{}'; it takes stop, cancel, pause or resume",
                text::shown(&action)
            );
            return Err(ApiError::new(StatusCode::NOT_FOUND, "Unknown action", "unknown_action", detail));
        }
    };
    change(&app, &session, command, outcome).await.map(Json)
}

/// The session of a timer, by the lane that decisions use: a long list elsewhere must not delay a stop.
async fn owner(app: &App, id: &str) -> Result<SessionId, ApiError> {
    match app.engine.store().load_items(vec![ItemId::new(id)]).await?.pop() {
        Some((session, _)) => Ok(session),
        None => {
            let detail = format!("there is no timer '{}'; GET /api/timers lists them", text::shown(id));
            Err(ApiError::new(StatusCode::NOT_FOUND, "Unknown timer", "unknown_timer", detail))
        }
    }
}

async fn change(app: &App, session: &SessionId, command: Command, outcome: Outcome) -> Result<TimerResult, ApiError> {
    let done = app.engine.execute(session, Call::new(command)).await;
    let now = app.engine.now();
    let Reply::Timer { timer, .. } = done.map_err(|error| ApiError::of(error, now))?.reply else {
        unreachable!("commands about one timer answer with it")
    };
    let outcome = if timer.status() == Status::Paused { Outcome::Paused } else { outcome };
    let hint = outcome.hint(&timer, now);
    Ok(TimerResult {
        timer: TimerView::of(&timer, now),
        timeout: None,
        outcome,
        messages: Vec::new(),
        delivery: None,
        hint,
    })
}
