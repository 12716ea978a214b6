//! What the client gets.

use crate::{encoding, fault::Fault, protocol::Protocol};
use bytes::Bytes;
use http::{HeaderValue, Response, header};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};

pub type Answer = Response<UnsyncBoxBody<Bytes, Fault>>;

/// A fault as the answer.
pub(crate) fn error(protocol: Protocol, fault: &Fault) -> Answer {
    let mut answer = answer(protocol.error_body(fault));
    *answer.status_mut() = fault.status();
    let headers = answer.headers_mut();
    if matches!(fault, Fault::BodyTooLarge(_) | Fault::BodySlow(_) | Fault::Busy(_)) {
        // The rest of the body is not read.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    match fault {
        Fault::Busy(after) => drop(headers.insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs()))),
        Fault::Encoding(_) => {
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(encoding::KNOWN));
        }
        _ => {}
    }
    answer
}

pub(crate) fn answer(body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body).map_err(|never| match never {}).boxed_unsync());
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}
