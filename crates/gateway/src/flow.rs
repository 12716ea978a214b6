//! What comes of an answer once its head is there.

use crate::{
    chunked::Chunked,
    lanes::{Place, Pool},
    line::{Line, Source},
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
pub(crate) struct Flow(Carrier);

enum Carrier {
    /// HTTP/1: nobody but the reader moves it on.
    Own {
        body: Incoming,
        ended: bool,
        line: Option<Line>,
        pool: Arc<Pool>,
    },
    /// A stream over HTTP/1, read without hyper.
    Bare {
        body: Option<Chunked>,
        stays: bool,
        pool: Arc<Pool>,
    },
    Shared {
        body: Incoming,
        _place: Place,
    },
}

/// It broke off, and why.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Broke(String);

impl Broke {
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl Flow {
    pub fn own(source: Source, pool: Arc<Pool>) -> Self {
        Self(match source {
            Source::Driven(body, line) => Carrier::Own { body, ended: false, line: Some(line), pool },
            Source::Bare(body, stays) => Carrier::Bare { body: Some(body), stays, pool },
        })
    }

    pub fn shared(body: Incoming, place: Place) -> Self {
        Self(Carrier::Shared { body, _place: place })
    }
}

fn poll_body(body: &mut Incoming, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broke>>> {
    let frame = Pin::new(body).poll_frame(cx);
    frame.map(|frame| frame.map(|frame| frame.map_err(|error| Broke(why(&error)))))
}

impl Body for Flow {
    type Data = Bytes;
    type Error = Broke;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broke>>> {
        match &mut self.0 {
            Carrier::Own { body, ended, line, .. } => {
                let mut frame = poll_body(body, cx);
                if let Some(line) = line
                    && frame.is_pending()
                {
                    line.drive(cx);
                    frame = poll_body(body, cx);
                }
                *ended |= matches!(frame, Poll::Ready(None));
                frame
            }
            Carrier::Bare { body: Some(body), .. } => {
                body.poll_data(cx).map(|data| data.map(|data| data.map(Frame::data)))
            }
            Carrier::Bare { body: None, .. } => Poll::Ready(None),
            Carrier::Shared { body, .. } => poll_body(body, cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Carrier::Own { body, .. } | Carrier::Shared { body, .. } => body.is_end_stream(),
            Carrier::Bare { body, .. } => body.as_ref().is_none_or(Chunked::is_over),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Carrier::Own { body, .. } | Carrier::Shared { body, .. } => body.size_hint(),
            Carrier::Bare { .. } => SizeHint::default(),
        }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        let (line, pool) = match &mut self.0 {
            Carrier::Own { body, ended, line, pool } if *ended || body.is_end_stream() => (line.take(), pool),
            Carrier::Bare { body, stays: true, pool } => {
                (body.take().and_then(Chunked::into_link).map(Line::again), pool)
            }
            _ => return,
        };
        if let Some(line) = line {
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
