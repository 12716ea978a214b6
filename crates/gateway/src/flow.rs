//! What comes of an answer once its head is there.

use crate::{
    lanes::{Place, Pool},
    line::Line,
};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::{
    error::Error,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// The body of an upstream's answer. Dropping it cancels the call; what is dropped at its end leaves its connection to others.
pub(crate) struct Flow {
    body: Incoming,
    ended: bool,
    carrier: Carrier,
}

enum Carrier {
    /// HTTP/1: nobody but the reader moves it on.
    Own(Option<Line>, Arc<Pool>),
    Shared(#[allow(dead_code, reason = "held, and counted")] Place),
}

/// It broke off, and why.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Broke(String);

impl Flow {
    pub fn by_line(body: Incoming, line: Line, pool: Arc<Pool>) -> Self {
        Self { body, ended: false, carrier: Carrier::Own(Some(line), pool) }
    }

    pub fn shared(body: Incoming, place: Place) -> Self {
        Self { body, ended: false, carrier: Carrier::Shared(place) }
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broke>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        self.ended |= matches!(frame, Poll::Ready(None));
        frame.map(|frame| frame.map(|frame| frame.map_err(|error| Broke(why(&error)))))
    }
}

impl Body for Flow {
    type Data = Bytes;
    type Error = Broke;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broke>>> {
        let this = &mut *self;
        let frame = this.poll_body(cx);
        match &mut this.carrier {
            Carrier::Own(Some(line), _) if frame.is_pending() => {
                line.drive(cx);
                this.poll_body(cx)
            }
            _ => frame,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        if let Carrier::Own(line, pool) = &mut self.carrier
            && (self.ended || self.body.is_end_stream())
            && let Some(line) = line.take()
        {
            pool.give_back(line);
        }
    }
}

/// An error and what it came of, one by one.
pub(crate) fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&cause| cause.source())
}

/// What an error came of in the end, which says more than that something failed.
pub(crate) fn why(error: &(dyn Error + 'static)) -> String {
    causes(error).last().map_or_else(|| error.to_string(), ToString::to_string)
}
