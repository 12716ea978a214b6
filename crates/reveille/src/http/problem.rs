//! Errors into RFC 9457 problem JSON. The one place where an error becomes a status.

use crate::{engine::EngineError, tools::Problem};
use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use reveille_core::{Reject, Timestamp};
use reveille_store::StoreError;

/// Asks a client to come back; the usual causes pass within a second.
const RETRY_AFTER_SECONDS: &str = "1";

pub struct ApiError(Box<Problem>);

impl ApiError {
    pub fn new(status: StatusCode, title: &str, code: &str, detail: impl Into<String>) -> Self {
        Self(Box::new(Problem::new(status.as_u16(), title, code, detail.into())))
    }

    pub fn into_problem(self) -> Problem {
        *self.0
    }

    pub fn of(error: EngineError, now: Timestamp) -> Self {
        match error {
            EngineError::Reject(reject) => Self(Box::new(Problem::rejected(status(&reject).as_u16(), &reject, now))),
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
        | Reject::DueTooOld { .. }
        | Reject::DueTooFar { .. }
        | Reject::InvalidAgent(_)
        | Reject::InvalidSession(_) => StatusCode::BAD_REQUEST,
        Reject::Overdue(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

impl From<Reject> for ApiError {
    fn from(reject: Reject) -> Self {
        Self(Box::new(Problem::rejected(status(&reject).as_u16(), &reject, Timestamp::from_millis(0))))
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
        let status = StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, axum::Json(*self.0)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS));
        }
        response
    }
}

pub async fn not_found(uri: axum::http::Uri) -> ApiError {
    let detail = format!("nothing is at {}; /openapi.json lists what there is", uri.path());
    ApiError::new(StatusCode::NOT_FOUND, "Not found", "not_found", detail)
}

pub async fn method_not_allowed(method: axum::http::Method, uri: axum::http::Uri) -> ApiError {
    let detail = format!("{} does not take {method}; /openapi.json lists what it takes", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed", "method_not_allowed", detail)
}
