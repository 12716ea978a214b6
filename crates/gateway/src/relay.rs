//! A stream on its way to the client: whole frames, byte for byte, as soon as they are whole. A source that dies, lies or
//! falls silent ends in the protocol's own error event, never in an end that looks complete. Stages take no part here; turns
//! in which they do go through [`rounds`](crate::rounds).

use crate::{
    fault::Fault,
    limits::IdleCounts,
    protocol::{Kind, Protocol, Seen},
    report::{Ledger, Outcome},
    sse::{Splitter, TooLarge},
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

/// The body of a streamed answer. Dropping it drops the upstream's, which cancels the call.
pub struct Relay<S> {
    protocol: Protocol,
    /// Gone once there is nothing more to come, or to wait for.
    source: Option<S>,
    splitter: Splitter,
    seen: Seen,
    vigil: Vigil,
    idle_counts: IdleCounts,
    out: VecDeque<Bytes>,
    event_bytes_max: usize,
    ledger: Ledger,
}

pub(crate) struct Parts<S> {
    pub protocol: Protocol,
    pub source: S,
    pub vigil: Vigil,
    pub idle_counts: IdleCounts,
    pub event_bytes_max: usize,
    pub ledger: Ledger,
}

impl<S> Relay<S> {
    pub(crate) fn new(parts: Parts<S>) -> Self {
        let Parts { protocol, source, vigil, idle_counts, event_bytes_max, ledger } = parts;
        Self {
            protocol,
            source: Some(source),
            splitter: Splitter::new(event_bytes_max),
            seen: Seen::default(),
            vigil,
            idle_counts,
            out: VecDeque::new(),
            event_bytes_max,
            ledger,
        }
    }

    /// A chunk came.
    fn take(&mut self, chunk: Bytes) {
        self.ledger.chunk(chunk.len());
        self.vigil.byte();
        if self.idle_counts == IdleCounts::Anything {
            self.vigil.alive();
        }
        let (block, too_large) = match self.splitter.push(chunk) {
            Ok((block, _)) => (block, false),
            Err(TooLarge(block)) => (block, true),
        };
        let (mut start, ended) = (0, self.seen.ended);
        for &end in self.splitter.ends() {
            let kind = self.protocol.read(&block[start..end], &mut self.seen);
            if self.idle_counts == IdleCounts::Content && kind != Kind::Alive {
                self.vigil.alive();
            }
            start = end;
        }
        if self.seen.ended && !ended {
            self.vigil = Vigil::closing();
        }
        if !block.is_empty() {
            self.out.push_back(block);
        }
        if too_large {
            let (upstream, max) = (self.upstream(), self.event_bytes_max);
            self.fail(Fault::EventTooLarge { upstream, max });
        }
    }

    /// The source ended by itself.
    fn ended(&mut self) {
        let rest = self.splitter.finish();
        if !self.protocol.is_complete_with(&rest, &self.seen) {
            let upstream = self.upstream();
            return self.fail(Fault::Incomplete { upstream });
        }
        if !rest.is_empty() {
            self.protocol.read(&rest, &mut self.seen);
            self.out.push_back(rest);
        }
        self.close(Outcome::Complete);
    }

    /// The source failed, or was given up.
    fn fail(&mut self, fault: Fault) {
        if self.protocol.is_complete(&self.seen) {
            return self.close(Outcome::Complete);
        }
        self.out.push_back(self.protocol.error_event(&fault, &self.seen));
        self.close(Outcome::Failed(fault));
    }

    fn close(&mut self, outcome: Outcome) {
        self.source = None;
        self.ledger.report.usage = self.seen.usage;
        let outcome = if self.seen.failed { Outcome::Reported } else { outcome };
        self.ledger.end(outcome);
    }

    fn upstream(&self) -> String {
        self.ledger.report.turn.upstream.clone()
    }
}

impl<S: Body<Data = Bytes, Error: Display> + Unpin> Body for Relay<S> {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        let this = self.get_mut();
        loop {
            if let Some(bytes) = this.out.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            let Some(source) = &mut this.source else { return Poll::Ready(None) };
            match Pin::new(source).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(chunk) = frame.into_data() {
                        this.take(chunk);
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    let upstream = this.upstream();
                    this.fail(Fault::Broken { upstream, why: error.to_string() });
                }
                Poll::Ready(None) => this.ended(),
                Poll::Pending => {
                    let fault = ready!(this.vigil.poll_over(cx));
                    this.fail(fault);
                }
            }
        }
    }
}
