//! Timers for people and programs that look after them: across sessions, without taking any agent's messages.

use super::{
    App,
    body::{IdempotencyKey, JsonBody, Params, Segments, session},
    items::{ListParams, page},
    problem::ApiError,
    sight::Sight,
};
use crate::{
    engine::{Engine, EngineError},
    tools::{self, IDS_TRIED_MAX, Outcome, Problem, TimerResult, TimerView, request_key},
};
use axum::{Json, extract::State, http::StatusCode};
use reveille_core::{
    Call, Command, Condition, ItemId, Kind, Millis, Purpose, Reject, Reply, SessionId, Status, Timer, Timestamp,
    condition, duration, text,
};
use reveille_store::Found;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

/// A timer and the session it belongs to.
#[derive(Serialize, ToSchema)]
pub struct OwnedTimer {
    pub session: String,
    #[serde(flatten)]
    pub timer: TimerView,
    /// Since when the call stands by that `standby_until` speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standby_since: Option<i64>,
}

impl OwnedTimer {
    fn of(session: &SessionId, timer: &Timer, engine: &Engine) -> Self {
        let view = TimerView::of(timer, engine.now()).known_here(timer, engine);
        let standby = timer.standby.filter(|_| view.standby_until.is_some());
        let standby_since = standby.map(|standby| standby.since.as_millis());
        Self { session: session.to_string(), timer: view, standby_since }
    }
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
))]
pub async fn list(
    State(app): State<App>,
    Params(params): Params<ListParams>,
    mut sight: Sight,
) -> Result<Json<TimerPage>, ApiError> {
    let states = Status::ALL.map(|status| (status.as_str(), status.is_live()));
    let (found, next) = page(&app, &mut sight, &params, Kind::Timer, &states).await?;
    let owned = |found: &Found| Some(OwnedTimer::of(&found.session, found.item.as_timer()?, &app.engine));
    let timers = found.iter().filter_map(owned).collect();
    Ok(Json(TimerPage { timers, next }))
}

/// One timer, in whatever session it is.
#[utoipa::path(get, path = "/api/timers/{id}", tag = "timers", params(("id" = String, Path)), responses(
    (status = 200, body = OwnedTimer),
    (status = 404, body = Problem, content_type = "application/problem+json"),
))]
pub async fn read(State(app): State<App>, Segments(id): Segments<String>) -> Result<Json<OwnedTimer>, ApiError> {
    let session = owner(&app, &id).await?;
    let (timer, _) = carried_out(&app, &session, Command::Read { id: Some(ItemId::new(id)) }).await?;
    Ok(Json(OwnedTimer::of(&session, &timer, &app.engine)))
}

#[derive(Deserialize, ToSchema, Default)]
#[serde(default)]
pub struct NewTimer {
    /// The conversation whose agent is to be woken.
    session: String,
    /// Seconds, or text such as "5m".
    total_duration: Value,
    /// What the agent shall do when the time has come.
    mission: Option<String>,
    /// The agent is woken as soon as this holds; as the tool `timer` takes it.
    #[schema(value_type = Option<Object>)]
    until: Value,
    /// Instead of `total_duration`: `at`, `every`, `zone`, `catch_up` and `max_fires`, as the tool `timer` takes them.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    plan: Map<String, Value>,
}

/// Set a timer for an agent, from outside: a mission, since nobody stands by for it. No message of the session is taken
/// along.
#[utoipa::path(
    post,
    path = "/api/timers",
    tag = "timers",
    params(("Idempotency-Key" = Option<String>, Header, description = "Repeating a creation with the same key makes nothing a second time")),
    request_body(content = NewTimer),
    responses(
        (status = 200, body = OwnedTimer),
    )
)]
pub async fn create(
    State(app): State<App>,
    IdempotencyKey(key): IdempotencyKey,
    mut sight: Sight,
    body: JsonBody,
) -> Result<Json<OwnedTimer>, ApiError> {
    let limits = app.engine.limits();
    let NewTimer { session: name, total_duration, mission, until, plan } = body.read()?;
    let session = session(&name)?;
    sight.demand(&session).await?;
    let missing = |field, hint| ApiError::from(Reject::MissingArgument { field, hint });
    let mission = text::accept("mission", mission, limits)?
        .ok_or_else(|| missing("mission", "what the agent shall do when the time has come"))?;
    let purpose = Purpose::Mission(mission);
    let when = tools::plan::when(&plan, limits)?.map(Box::new);
    let until = condition::parse(&until)?;
    tools::plan::without(when.as_deref(), until.as_ref())?;
    let absent = total_duration.is_null() || total_duration == "";
    let total = match (&when, absent) {
        (Some(_), false) => {
            let why = "excludes `at` and `every`; send one of them".to_owned();
            return Err(Reject::InvalidArgument { field: "total_duration".into(), why }.into());
        }
        (Some(_), true) => Millis::ZERO,
        (None, true) => {
            return Err(missing("total_duration", "a length of time, in seconds (300) or as text (\"5m\")"));
        }
        (None, false) => duration::parse("total_duration", &total_duration, limits.duration_max)?,
    };
    let asked = until.as_ref().map(Condition::to_value);
    let fingerprint = json!([purpose, total, when.as_ref().map(ToString::to_string), asked]).to_string();
    let key = key.map(|key| request_key(key, fingerprint)).transpose()?;
    let until = match until {
        Some(condition) => Some(app.engine.wanted(condition, &session, key.as_ref()).await?),
        None => None,
    };
    for _ in 0..IDS_TRIED_MAX {
        let (id, purpose, key) = (app.engine.fresh_timer(), purpose.clone(), key.clone());
        let until = until.clone();
        let create = match when.clone() {
            Some(when) => Command::Plan { id, purpose, when, timeout: None, key, task: None },
            None => Command::Create { id, purpose, total, timeout: None, until, key, task: None },
        };
        match app.engine.execute(&session, Call::new(create)).await {
            Err(EngineError::IdTaken) => {}
            Err(error) => return Err(ApiError::of(error, app.engine.now())),
            Ok(done) => {
                let Reply::Timer { timer, .. } = done.reply else { unreachable!("a creation answers with a timer") };
                return Ok(Json(OwnedTimer::of(&session, &timer, &app.engine)));
            }
        }
    }
    Err(ApiError::of(EngineError::IdTaken, app.engine.now()))
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

async fn carried_out(app: &App, session: &SessionId, command: Command) -> Result<(Timer, Timestamp), ApiError> {
    let done = app.engine.execute(session, Call::new(command)).await;
    let now = app.engine.now();
    match done.map_err(|error| ApiError::of(error, now))?.reply {
        Reply::Timer { timer, .. } => Ok((timer, now)),
        _ => unreachable!("commands about one timer answer with it"),
    }
}

async fn change(app: &App, session: &SessionId, command: Command, outcome: Outcome) -> Result<TimerResult, ApiError> {
    let (timer, now) = carried_out(app, session, command).await?;
    let outcome = if timer.status() == Status::Paused { Outcome::Paused } else { outcome };
    let hint = outcome.hint(&timer, now);
    Ok(TimerResult {
        timer: TimerView::of(&timer, now).known_here(&timer, &app.engine),
        timeout: None,
        outcome,
        messages: Vec::new(),
        delivery: None,
        hint,
    })
}
