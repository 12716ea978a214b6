//! What can go wrong between client and upstream, as words, a status and a stable code. The protocols give it its form.

use crate::limits::Limit;
use http::StatusCode;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("the request body is not valid JSON: {0}")]
    InvalidJson(String),
    #[error("the request body must be a JSON object with a `model`: {0}")]
    NoModel(String),
    #[error("the request body is larger than {0} bytes")]
    BodyTooLarge(usize),
    #[error("the request body broke off")]
    BodyBroken,
    #[error("the request body stopped arriving for {} ms", .0.as_millis())]
    BodySlow(Duration),
    #[error(
        "a request body with content-encoding `{0}` cannot be read; send it uncompressed, or as one of {known}",
        known = crate::encoding::KNOWN
    )]
    Encoding(String),
    #[error("the request body is not valid {encoding}, as its content-encoding says: {why}")]
    Undecodable { encoding: &'static str, why: String },
    #[error("the gateway holds as many request bodies as it may; try again in {} s", .0.as_secs())]
    Busy(Duration),
    #[error("no upstream serves model `{model}` over the {api} API; {known}")]
    UnknownModel { model: String, api: &'static str, known: String },
    #[error("no upstream serves {0}; add one under [[gateway.upstream]]")]
    NoUpstream(String),
    #[error("upstream `{upstream}` cannot be reached: {why}")]
    Unreachable { upstream: String, why: String },
    #[error("upstream `{upstream}` ended the connection before it answered: {why}")]
    Unanswered { upstream: String, why: String },
    #[error("{limit} timeout after {} ms {}", .after.as_millis(), .limit.without())]
    Limit { limit: Limit, after: Duration },
    #[error("upstream `{upstream}` broke off its answer: {why}")]
    Broken { upstream: String, why: String },
    #[error("upstream `{upstream}` answered {status}{}{why}", if .why.is_empty() { "" } else { ": " })]
    Answered { upstream: String, status: StatusCode, why: String },
    #[error("upstream `{upstream}` ended its stream before the answer was complete")]
    Incomplete { upstream: String },
    #[error("upstream `{upstream}` sent an event larger than {max} bytes")]
    EventTooLarge { upstream: String, max: usize },
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Forbidden(String),
}

impl Fault {
    pub fn status(&self) -> StatusCode {
        match self {
            Fault::InvalidJson(_)
            | Fault::NoModel(_)
            | Fault::BodyBroken
            | Fault::Undecodable { .. }
            | Fault::Refused(_) => StatusCode::BAD_REQUEST,
            Fault::Answered { status, .. } if status.is_client_error() || status.is_server_error() => *status,
            Fault::Forbidden(_) => StatusCode::FORBIDDEN,
            Fault::BodyTooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Fault::BodySlow(_) => StatusCode::REQUEST_TIMEOUT,
            Fault::Encoding(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Fault::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
            Fault::UnknownModel { .. } | Fault::NoUpstream(_) => StatusCode::NOT_FOUND,
            Fault::Limit { .. } => StatusCode::GATEWAY_TIMEOUT,
            Fault::Unreachable { .. }
            | Fault::Unanswered { .. }
            | Fault::Broken { .. }
            | Fault::Answered { .. }
            | Fault::Incomplete { .. }
            | Fault::EventTooLarge { .. } => StatusCode::BAD_GATEWAY,
        }
    }

    /// The same words without any that others wrote, who may have repeated what they were sent: for logs.
    pub fn discreet(&self) -> String {
        match self {
            Fault::Answered { upstream, status, .. } => format!("upstream `{upstream}` answered {status}"),
            Fault::InvalidJson(_) => "the request body is not valid JSON".into(),
            Fault::NoModel(_) => "the request body must be a JSON object with a `model`".into(),
            other => other.to_string(),
        }
    }

    pub fn code(&self) -> &'static str {
        match self {
            Fault::InvalidJson(_) => "invalid_json",
            Fault::NoModel(_) => "model_required",
            Fault::BodyTooLarge(_) => "body_too_large",
            Fault::BodyBroken => "body_broken",
            Fault::BodySlow(_) => "body_timeout",
            Fault::Encoding(_) => "unsupported_encoding",
            Fault::Undecodable { .. } => "body_undecodable",
            Fault::Busy(_) => "busy",
            Fault::UnknownModel { .. } => "model_not_found",
            Fault::NoUpstream(_) => "no_upstream",
            Fault::Unreachable { .. } => "upstream_unreachable",
            Fault::Unanswered { .. } => "upstream_unanswered",
            Fault::Limit { limit, .. } => match limit {
                Limit::Connect => "connect_timeout",
                Limit::FirstByte => "first_byte_timeout",
                Limit::Idle => "idle_timeout",
                Limit::Total => "total_timeout",
            },
            Fault::Broken { .. } => "upstream_broken",
            Fault::Answered { .. } => "upstream_refused",
            Fault::Incomplete { .. } => "upstream_incomplete",
            Fault::EventTooLarge { .. } => "event_too_large",
            Fault::Refused(_) => "refused",
            Fault::Forbidden(_) => "out_of_bounds",
        }
    }

    pub fn limit(&self) -> Option<Limit> {
        match self {
            Fault::Limit { limit, .. } => Some(*limit),
            _ => None,
        }
    }
}
