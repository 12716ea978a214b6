//! Bytes that are passed on unread: answers too large to hold, and paths that are not ours to understand. There is no form
//! in which to tell of a failure in their middle, so the connection breaks off: never an end that looks complete.

use crate::{
    fault::Fault,
    report::{Ledger, Outcome},
    vigil::Vigil,
};
use bytes::Bytes;
use http_body::{Body, Frame};
use std::{
    collections::VecDeque,
    fmt::Display,
    pin::Pin,
    task::{Context, Poll, ready},
};

pub(crate) struct Opaque<S> {
    /// What was read already.
    begun: VecDeque<Bytes>,
    source: S,
    vigil: Vigil,
    ledger: Ledger,
    over: bool,
}

impl<S> Opaque<S> {
    pub fn new(begun: VecDeque<Bytes>, source: S, vigil: Vigil, ledger: Ledger) -> Self {
        Self { begun, source, vigil, ledger, over: false }
    }

    fn end(&mut self, outcome: Outcome) {
        self.over = true;
        self.ledger.end(outcome);
    }

    fn fail(&mut self, fault: Fault) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        self.end(Outcome::Failed(fault.clone()));
        Poll::Ready(Some(Err(fault)))
    }
}

impl<S: Body<Data = Bytes, Error: Display> + Unpin> Body for Opaque<S> {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        let this = self.get_mut();
        if let Some(bytes) = this.begun.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        if this.over {
            return Poll::Ready(None);
        }
        match Pin::new(&mut this.source).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                this.vigil.byte();
                this.vigil.alive();
                if let Some(data) = frame.data_ref() {
                    this.ledger.chunk(data.len());
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                let upstream = this.ledger.report.turn.upstream.clone();
                this.fail(Fault::Broken { upstream, why: error.to_string() })
            }
            Poll::Ready(None) => {
                this.end(Outcome::Complete);
                Poll::Ready(None)
            }
            Poll::Pending => {
                let fault = ready!(this.vigil.poll_over(cx));
                this.fail(fault)
            }
        }
    }
}
