//! Request bodies and queries, read within bounds and with errors that say what to do.

use super::problem::ApiError;
use crate::tools::client_kind;
use axum::{
    body::{Body, Bytes},
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::{StatusCode, request::Parts},
};
use reveille_core::SessionId;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{convert::Infallible, time::Duration};

/// The longest text allowed fits many times; anything larger is a mistake.
const BODY_BYTES_MAX: usize = 256 * 1024;
/// A client that sends half a body must not hold its place for ever.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// A JSON body of any content type (`curl -d` sends none of ours); empty means `null`.
pub struct JsonBody(pub Value);

impl<S: Send + Sync> FromRequest<S> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let bytes = read(request.into_body()).await?;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self(Value::Null));
        }
        let value = serde_json::from_slice(&bytes).map_err(|error| {
            let detail = format!("the body is not valid JSON: {error}");
            ApiError::new(StatusCode::BAD_REQUEST, "Invalid JSON", "invalid_json", detail)
        })?;
        Ok(Self(value))
    }
}

/// A whole body, within its bounds of size and time.
pub async fn read(body: Body) -> Result<Bytes, ApiError> {
    let Ok(read) = tokio::time::timeout(BODY_TIMEOUT, axum::body::to_bytes(body, BODY_BYTES_MAX)).await else {
        let detail = format!("the body did not arrive within {} seconds", BODY_TIMEOUT.as_secs());
        return Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "Too slow", "body_timeout", detail));
    };
    read.map_err(|error| {
        if error.into_inner().is::<http_body_util::LengthLimitError>() {
            let detail = format!("the body is larger than {BODY_BYTES_MAX} bytes");
            return ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "Body too large", "body_too_large", detail);
        }
        ApiError::new(StatusCode::BAD_REQUEST, "Bad request", "body_unreadable", "the body broke off")
    })
}

impl JsonBody {
    pub fn read<T: DeserializeOwned + Default>(self) -> Result<T, ApiError> {
        match self.0 {
            Value::Null => return Ok(T::default()),
            Value::Object(_) => {}
            // serde would fill the fields of a struct from a list, one by one.
            _ => {
                let detail = "the body must be a JSON object";
                return Err(ApiError::new(StatusCode::BAD_REQUEST, "Invalid body", "invalid_argument", detail));
            }
        }
        serde_json::from_value(self.0).map_err(|error| {
            let detail = format!("the body does not fit: {error}");
            ApiError::new(StatusCode::BAD_REQUEST, "Invalid body", "invalid_argument", detail)
        })
    }
}

/// Query parameters; unknown ones are ignored.
pub struct Params<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Query(params) = Query::<T>::from_request_parts(parts, state).await.map_err(|error| {
            ApiError::new(StatusCode::BAD_REQUEST, "Invalid query", "invalid_argument", error.body_text())
        })?;
        Ok(Self(params))
    }
}

/// Parts of the path, decoded.
pub struct Segments<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Segments<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(segments) = Path::<T>::from_request_parts(parts, state).await.map_err(|error| {
            ApiError::new(StatusCode::BAD_REQUEST, "Invalid path", "invalid_argument", error.body_text())
        })?;
        Ok(Self(segments))
    }
}

/// The client's own name for a creation.
pub struct IdempotencyKey(pub Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let key = parts.headers.get("idempotency-key");
        Ok(Self(key.map(|key| String::from_utf8_lossy(key.as_bytes()).into_owned())))
    }
}

/// The kind of program that calls, from the header `x-reveille-client`.
pub struct ClientKind(pub Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for ClientKind {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let header = parts.headers.get(super::tools::CLIENT_HEADER);
        Ok(Self(client_kind(header.and_then(|kind| kind.to_str().ok()))))
    }
}

pub fn session(name: &str) -> Result<SessionId, ApiError> {
    Ok(SessionId::parse(name)?)
}
