//! What the client gets.

use crate::{fault::Fault, protocol::Protocol};
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};

pub type Answer = Response<UnsyncBoxBody<Bytes, Fault>>;

/// A fault as the answer.
pub(crate) fn error(protocol: Protocol, fault: &Fault) -> Answer {
    let mut answer = answer(protocol.error_body(fault));
    *answer.status_mut() = fault.status();
    if fault.status() == StatusCode::PAYLOAD_TOO_LARGE || fault.status() == StatusCode::REQUEST_TIMEOUT {
        // The rest of the body is not read.
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

pub(crate) fn answer(body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body).map_err(|never| match never {}).boxed_unsync());
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}
