//! The server's clock, to be read; and to be moved, where the server was started for that.

use super::{App, body::JsonBody, problem::ApiError};
use crate::engine::StepError;
use axum::{Json, extract::State, http::StatusCode};
use reveille_core::{Millis, Reject, Timestamp, due, duration};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
pub struct ClockView {
    #[schema(example = "2026-11-16T16:00:00Z")]
    pub now: String,
    /// Milliseconds since 1970.
    pub now_ms: i64,
    /// It moves only when told to (`reveille serve --manual-clock`).
    pub manual: bool,
    /// When something is to happen next, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_deadline_ms: Option<i64>,
    /// After an advance: how many deadlines it passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passed: Option<usize>,
}

/// One of the two.
#[derive(Deserialize, ToSchema, Default)]
#[serde(default, deny_unknown_fields)]
pub struct AdvanceBody {
    /// Seconds, or text such as "7m".
    by: Value,
    /// An instant to come, ISO 8601 with an offset.
    to: Value,
}

/// What the server takes for the present time.
#[utoipa::path(get, path = "/api/clock", tag = "clock", responses((status = 200, body = ClockView)))]
pub async fn read(State(app): State<App>) -> Result<Json<ClockView>, ApiError> {
    view(&app, None).await
}

/// Let time pass, on a server that was started with `--manual-clock`. Answers when everything that became due has been
/// done, in order: timers fired, messages written, tools called.
#[utoipa::path(post, path = "/api/clock/advance", tag = "clock", request_body(content = AdvanceBody), responses(
    (status = 200, body = ClockView),
))]
pub async fn advance(State(app): State<App>, body: JsonBody) -> Result<Json<ClockView>, ApiError> {
    let Some(clock) = app.engine.clock().manual() else {
        let detail =
            "this server goes by the machine's clock; start one with `reveille serve --manual-clock` to drive it";
        return Err(ApiError::new(StatusCode::CONFLICT, "Not a manual clock", "clock_not_manual", detail));
    };
    let to = target(&body.read()?, app.engine.now())?;
    let passed = app.engine.step_to(clock, to).await.map_err(|error| match error {
        StepError::Store(error) => error.into(),
        StepError::Back { .. } => ApiError::new(StatusCode::BAD_REQUEST, "Not back", "clock_back", error.to_string()),
        StepError::Stuck { .. } | StepError::Many { .. } => {
            ApiError::new(StatusCode::CONFLICT, "Stopped on the way", "clock_stopped", error.to_string())
        }
    })?;
    view(&app, Some(passed)).await
}

fn target(body: &AdvanceBody, now: Timestamp) -> Result<Timestamp, ApiError> {
    /// A century: further than anything can be due.
    const FAR: Millis = Millis::from_secs(100 * 366 * 24 * 3600);
    match (&body.by, &body.to) {
        (by, Value::Null) if !by.is_null() => Ok(now.plus(duration::parse("by", by, FAR)?)),
        (Value::Null, to) if !to.is_null() => Ok(due::named("to", to)?),
        _ => {
            let why =
                "or `to` is needed, one of the two: {\"by\": \"7m\"} or {\"to\": \"2026-11-16T16:00:00Z\"}".to_owned();
            Err(Reject::InvalidArgument { field: "by".into(), why }.into())
        }
    }
}

async fn view(app: &App, passed: Option<usize>) -> Result<Json<ClockView>, ApiError> {
    let now = app.engine.now();
    let next = app.engine.store().deadlines(1).await?.first().map(|(at, _)| at.as_millis());
    let manual = app.engine.clock().manual().is_some();
    Ok(Json(ClockView { now: now.to_iso(), now_ms: now.as_millis(), manual, next_deadline_ms: next, passed }))
}
