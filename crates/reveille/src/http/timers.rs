//! Timers for people and programs that look after them: across sessions, without taking any agent's messages.

use super::{
    App,
    body::{JsonBody, Params, Segments, session},
    problem::ApiError,
};
use crate::tools::{Outcome, Problem, TimerResult, TimerView};
use axum::{Json, extract::State, http::StatusCode};
use reveille_core::{Call, Command, ItemId, Kind, Reject, Reply, SessionId, Status, duration, text};
use reveille_store::{ItemFilter, Order};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 1000;

/// A timer and the session it belongs to.
#[derive(Serialize, ToSchema)]
pub struct OwnedTimer {
    pub session: String,
    #[serde(flatten)]
    pub timer: TimerView,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// Only this session's.
    session: Option<String>,
    /// States, separated by commas; `live` stands for the three that are not final.
    status: Option<String>,
    /// `newest` (by creation, the default) or `soonest` (by deadline, live ones only).
    order: Option<String>,
    /// At most 1000; 100 unless given.
    limit: Option<usize>,
    /// `next` of the page before; with the order `newest`.
    after: Option<i64>,
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
    let limit = params.limit.unwrap_or(LIMIT_DEFAULT).clamp(1, LIMIT_MAX);
    let order = match params.order.as_deref() {
        None | Some("newest") => Order::Newest,
        Some("soonest") => Order::Soonest,
        Some(other) => return Err(invalid("order", format!("'{other}' is not one of: newest, soonest"))),
    };
    if order == Order::Soonest && params.after.is_some() {
        return Err(invalid("after", "goes with the order newest; soonest has one page".to_owned()));
    }
    let filter = ItemFilter {
        session: params.session.as_deref().map(session).transpose()?,
        statuses: statuses(params.status.as_deref().unwrap_or_default())?,
        order,
        after: params.after,
        limit,
        id: None,
        kind: Some(Kind::Timer),
    };
    let found = app.engine.store().items(filter).await?;
    let next = found.last().filter(|_| found.len() == limit && order == Order::Newest).map(|last| last.seq);
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

fn statuses(text: &str) -> Result<Vec<String>, ApiError> {
    let mut wanted = Vec::new();
    for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let known: Vec<Status> = match name {
            "live" => Status::ALL.into_iter().filter(|status| status.is_live()).collect(),
            _ => Status::ALL.into_iter().filter(|status| status.as_str() == name).collect(),
        };
        if known.is_empty() {
            let names = Status::ALL.map(Status::as_str).join(", ");
            return Err(invalid("status", format!("'{name}' is not one of: live, {names}")));
        }
        wanted.extend(known.into_iter().map(|status| status.as_str().to_owned()));
    }
    Ok(wanted)
}

fn invalid(field: &str, why: String) -> ApiError {
    Reject::InvalidArgument { field: field.to_owned(), why }.into()
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
