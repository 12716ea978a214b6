//! A request's body, read within its bounds.

use crate::fault::Fault;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body::Body;
use http_body_util::BodyExt;
use idle_timeout::{BodyError, IdleBody};
use std::{pin::pin, time::Duration};

/// A client that sends half a body must not hold its place for ever.
const BODY_IDLE: Duration = Duration::from_secs(30);
/// What is set aside before a body's bytes have come, whatever its head promises.
const BODY_RESERVE_MAX: usize = 1024 * 1024;

/// The request's body, within its bound.
pub async fn read<B: Body<Data = Bytes>>(headers: &HeaderMap, body: B, max: usize) -> Result<Bytes, Fault> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok()).unwrap_or(0);
    if length > max {
        return Err(Fault::BodyTooLarge(max));
    }
    let mut body = pin!(IdleBody::new(body, BODY_IDLE));
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| match error {
            BodyError::Idle(idle) => Fault::BodySlow(idle.limit),
            BodyError::Source(_) => Fault::BodyBroken,
        })?;
        let Ok(data) = frame.into_data() else { continue };
        if read.len() + data.len() > max {
            return Err(Fault::BodyTooLarge(max));
        }
        if read.is_empty() && data.len() >= length {
            // Most bodies come in one piece and need no copy.
            match body.is_end_stream() {
                true => return Ok(data),
                false => read.reserve(data.len()),
            }
        }
        read.reserve(length.saturating_sub(read.len()).min(BODY_RESERVE_MAX).max(data.len()));
        read.extend_from_slice(&data);
    }
    Ok(read.freeze())
}
