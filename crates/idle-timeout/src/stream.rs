//! The `Stream` adapter.

use crate::{Idle, Watch};
use futures_core::Stream;
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

pin_project! {
    /// A stream that ends with [`Idle`] when its source is silent for too long. See the [crate's example](crate).
    #[derive(Debug)]
    pub struct IdleStream<S> {
        #[pin]
        source: S,
        watch: Watch,
        ended: bool,
    }
}

impl<S> IdleStream<S> {
    /// Every item starts the limit again.
    pub fn new(source: S, limit: Duration) -> Self {
        Self { source, watch: Watch::new(limit), ended: false }
    }

    /// The source, without the limit.
    pub fn into_inner(self) -> S {
        self.source
    }
}

impl<S: Stream> Stream for IdleStream<S> {
    type Item = Result<S::Item, Idle>;

    #[inline]
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        if *this.ended {
            return Poll::Ready(None);
        }
        match this.source.poll_next(cx) {
            Poll::Ready(Some(item)) => {
                this.watch.alive();
                Poll::Ready(Some(Ok(item)))
            }
            Poll::Ready(None) => {
                *this.ended = true;
                Poll::Ready(None)
            }
            Poll::Pending => {
                let idle = ready!(this.watch.poll_silent(cx));
                *this.ended = true;
                Poll::Ready(Some(Err(idle)))
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self.ended {
            true => (0, Some(0)),
            // It may end early, or with one error more.
            false => (0, self.source.size_hint().1.and_then(|most| most.checked_add(1))),
        }
    }
}
