//! A request's body, read within its bounds.

use crate::{
    budget::{Budget, Charge},
    encoding,
    fault::Fault,
};
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

/// Where bodies come in.
pub struct Intake {
    /// One body, as sent and as decoded.
    body_bytes_max: usize,
    /// All of them.
    budget: Budget,
}

impl Intake {
    pub fn new(body_bytes_max: usize, bodies_bytes_max: usize) -> Self {
        Self { body_bytes_max, budget: Budget::new(bodies_bytes_max) }
    }

    /// The body as the client sent it, perhaps compressed.
    pub async fn read<B: Body<Data = Bytes>>(&self, headers: &HeaderMap, body: B) -> Result<Bytes, Fault> {
        let (sent, charge) = self.sent(headers, body).await?;
        Ok(charge.tie(sent))
    }

    /// The body as it is meant: the same bytes, unless they were compressed.
    pub async fn plain(&self, headers: &HeaderMap, sent: &Bytes) -> Result<Bytes, Fault> {
        let mut charge = self.budget.charge();
        let plain = encoding::plain(headers, sent.clone(), self.body_bytes_max, &mut charge).await?;
        Ok(charge.tie(plain))
    }

    async fn sent<B: Body<Data = Bytes>>(&self, headers: &HeaderMap, body: B) -> Result<(Bytes, Charge), Fault> {
        let max = self.body_bytes_max;
        let length = headers.get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse().ok()).unwrap_or(0);
        if length > max {
            return Err(Fault::BodyTooLarge(max));
        }
        let mut charge = self.budget.charge();
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
            charge.grow(data.len()).await?;
            if read.is_empty() && data.len() >= length {
                // Most bodies come in one piece and need no copy.
                match body.is_end_stream() {
                    true => return Ok((data, charge)),
                    false => read.reserve(data.len()),
                }
            }
            read.reserve(length.saturating_sub(read.len()).min(BODY_RESERVE_MAX).max(data.len()));
            read.extend_from_slice(&data);
        }
        Ok((read.freeze(), charge))
    }
}
