//! Errors into RFC 9457 problem JSON. The one place where an error becomes a status.

use crate::{engine::EngineError, tools::Problem};
use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use reveille_core::{Reject, Timestamp};
use reveille_gateway::Protocol;
use reveille_store::StoreError;

/// Asks a client to come back; the usual causes pass within a second.
const RETRY_AFTER_SECONDS: &str = "1";
/// What no waiting mends: somebody has to look at the server.
const LASTING: [&str; 3] = ["storage_damaged", "storage_unwritable", "storage_failed"];

pub struct ApiError {
    problem: Box<Problem>,
    /// When to come back, if it is not the usual time.
    retry_after: Option<HeaderValue>,
}

impl ApiError {
    pub fn new(status: StatusCode, title: &str, code: &str, detail: impl Into<String>) -> Self {
        Problem::new(status.as_u16(), title, code, detail.into()).into()
    }

    /// Somebody else's answer is behind it.
    pub fn upstream(mut self, status: u16, retry_after: Option<String>) -> Self {
        self.problem.upstream_status = Some(status);
        self.retry_after = retry_after.and_then(|text| HeaderValue::try_from(text).ok());
        self
    }

    pub fn into_problem(self) -> Problem {
        *self.problem
    }

    pub fn of(error: EngineError, now: Timestamp) -> Self {
        match error {
            EngineError::Reject(reject) => Problem::rejected(status(&reject).as_u16(), &reject, now).into(),
            EngineError::Store(error) => error.into(),
            EngineError::Contended | EngineError::IdTaken => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "Try again", "contended", error.to_string())
            }
        }
    }
}

fn status(reject: &Reject) -> StatusCode {
    match reject {
        Reject::UnknownTimer { .. }
        | Reject::UnknownReminder { .. }
        | Reject::UnknownTask { .. }
        | Reject::UnknownAgent { .. }
        | Reject::UnknownCall { .. }
        | Reject::UnknownSession(_) => StatusCode::NOT_FOUND,
        Reject::TimerEnded { .. }
        | Reject::NotPaused { .. }
        | Reject::TooManyTimers { .. }
        | Reject::InboxFull { .. }
        | Reject::TooManyConditions { .. }
        | Reject::ReminderEnded { .. }
        | Reject::TooManyReminders { .. }
        | Reject::TaskEnded { .. }
        | Reject::TooManyTasks { .. }
        | Reject::OtherAgent { .. }
        | Reject::CallNotFailed { .. }
        | Reject::UnknownLease { .. } => StatusCode::CONFLICT,
        Reject::RequestKeyReused { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        Reject::ReasonAndMission
        | Reject::ReasonOrMissionRequired
        | Reject::MissingArgument { .. }
        | Reject::InvalidArgument { .. }
        | Reject::InvalidDuration { .. }
        | Reject::DurationTooLong { .. }
        | Reject::TextTooLong { .. }
        | Reject::ControlCharacters { .. }
        | Reject::MissionTakesNoReason { .. }
        | Reject::WaitingTakesNoMission { .. }
        | Reject::InvalidDueAt { .. }
        | Reject::ForbiddenCondition { .. }
        | Reject::DueTooOld { .. }
        | Reject::DueTooFar { .. }
        | Reject::InvalidTime { .. }
        | Reject::InvalidEvery { .. }
        | Reject::UnknownZone { .. }
        | Reject::InvalidAgent(_)
        | Reject::InvalidSession(_) => StatusCode::BAD_REQUEST,
        Reject::Overdue(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

impl From<Reject> for ApiError {
    fn from(reject: Reject) -> Self {
        Problem::rejected(status(&reject).as_u16(), &reject, Timestamp::from_millis(0)).into()
    }
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        Self { problem: Box::new(problem), retry_after: None }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "the store failed");
        let status = match error {
            StoreError::Full => StatusCode::INSUFFICIENT_STORAGE,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, "The store failed", error.code(), error.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let passes = !LASTING.contains(&self.problem.code.as_str());
        let mut response = (status, axum::Json(*self.problem)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if passes && matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            let usual = || HeaderValue::from_static(RETRY_AFTER_SECONDS);
            headers.insert(header::RETRY_AFTER, self.retry_after.unwrap_or_else(usual));
        }
        response
    }
}

pub async fn not_found(uri: axum::http::Uri) -> ApiError {
    let path = uri.path();
    // Base URLs are often given without their last part.
    let meant = Protocol::ALL.into_iter().map(Protocol::path).find(|known| known.strip_prefix("/v1") == Some(path));
    let detail = match meant {
        Some(meant) => format!("nothing is at {path}, but at {meant}: let the base URL end in /v1"),
        None => format!("nothing is at {path}; /openapi.json lists what there is"),
    };
    ApiError::new(StatusCode::NOT_FOUND, "Not found", "not_found", detail)
}

pub async fn method_not_allowed(method: axum::http::Method, uri: axum::http::Uri) -> ApiError {
    let detail = format!("{} does not take {method}; /openapi.json lists what it takes", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed", "method_not_allowed", detail)
}
