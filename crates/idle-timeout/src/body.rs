//! The `http_body::Body` adapter.

use crate::{Idle, Watch};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use std::{
    error::Error,
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

pin_project! {
    /// A body that fails with [`Idle`] when its source is silent for too long.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use http_body_util::{BodyExt, Full};
    /// use idle_timeout::IdleBody;
    /// use std::time::Duration;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// let body = IdleBody::new(Full::new(Bytes::from("hello")), Duration::from_secs(30));
    /// assert_eq!(body.collect().await.unwrap().to_bytes(), "hello");
    /// # });
    /// ```
    #[derive(Debug)]
    pub struct IdleBody<B> {
        #[pin]
        source: B,
        watch: Watch,
        ended: bool,
    }
}

impl<B> IdleBody<B> {
    /// Every frame starts the limit again.
    pub fn new(source: B, limit: Duration) -> Self {
        Self { source, watch: Watch::new(limit), ended: false }
    }

    /// The source, without the limit.
    pub fn into_inner(self) -> B {
        self.source
    }
}

/// What ended an [`IdleBody`] early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyError<E> {
    /// Silence.
    Idle(Idle),
    /// The source failed by itself.
    Source(E),
}

impl<E: fmt::Display> fmt::Display for BodyError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BodyError::Idle(idle) => idle.fmt(f),
            BodyError::Source(error) => error.fmt(f),
        }
    }
}

impl<E: Error> Error for BodyError<E> {
    /// It says what the source's error says, so it came of what that came of.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            BodyError::Idle(_) => None,
            BodyError::Source(error) => error.source(),
        }
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> BodyError<E> {
    /// The error itself, [`Idle`] or the source's: for bodies whose errors are boxed already, which are no errors by type.
    ///
    /// ```
    /// use http_body_util::BodyExt;
    /// use idle_timeout::{BodyError, IdleBody};
    /// use std::{error::Error, time::Duration};
    ///
    /// # fn example(boxed: http_body_util::combinators::BoxBody<bytes::Bytes, Box<dyn Error + Send + Sync>>) {
    /// let body = IdleBody::new(boxed, Duration::from_secs(30)).map_err(BodyError::into_boxed);
    /// # }
    /// ```
    pub fn into_boxed(self) -> Box<dyn Error + Send + Sync> {
        match self {
            BodyError::Idle(idle) => idle.into(),
            BodyError::Source(error) => error.into(),
        }
    }
}

impl<B: Body> Body for IdleBody<B> {
    type Data = B::Data;
    type Error = BodyError<B::Error>;

    #[inline]
    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.project();
        if *this.ended {
            return Poll::Ready(None);
        }
        match this.source.poll_frame(cx) {
            Poll::Ready(Some(frame)) => {
                this.watch.alive();
                Poll::Ready(Some(frame.map_err(BodyError::Source)))
            }
            Poll::Ready(None) => {
                *this.ended = true;
                Poll::Ready(None)
            }
            Poll::Pending => {
                let idle = ready!(this.watch.poll_silent(cx));
                *this.ended = true;
                Poll::Ready(Some(Err(BodyError::Idle(idle))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.source.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.source.size_hint()
    }
}
