//! A stream on its way to the client: whole frames, byte for byte, as soon as they are whole. A source that dies, lies or
//! falls silent ends in the protocol's own error event, never in an end that looks complete.

use crate::{
    fault::Fault,
    limits::IdleCounts,
    protocol::{Event, Kind, Protocol, Seen},
    report::{Ledger, Outcome},
    sse::Splitter,
    stage::{Verdict, Visits},
    vigil::Vigil,
};
use bytes::Bytes;
use futures_util::future::BoxFuture;
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
    visits: Visits,
    dispatched: bool,
    /// Frames that close the answer, until the stages agree that it is over.
    held: VecDeque<Bytes>,
    finishing: Option<BoxFuture<'static, Visits>>,
    finished: bool,
    out: VecDeque<Bytes>,
    event_bytes_max: usize,
    ledger: Ledger,
}

pub(crate) struct Parts<S> {
    pub protocol: Protocol,
    pub source: S,
    pub vigil: Vigil,
    pub idle_counts: IdleCounts,
    pub visits: Visits,
    pub event_bytes_max: usize,
    pub ledger: Ledger,
}

impl<S> Relay<S> {
    pub(crate) fn new(parts: Parts<S>) -> Self {
        let Parts { protocol, source, vigil, idle_counts, visits, event_bytes_max, ledger } = parts;
        Self {
            protocol,
            source: Some(source),
            splitter: Splitter::new(event_bytes_max),
            seen: Seen::default(),
            vigil,
            idle_counts,
            visits,
            dispatched: false,
            held: VecDeque::new(),
            finishing: None,
            finished: false,
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
        let (block, ends) = match self.splitter.push(chunk) {
            Ok(split) => split,
            Err(_) => {
                let (upstream, max) = (self.upstream(), self.event_bytes_max);
                return self.fail(Fault::EventTooLarge { upstream, max });
            }
        };
        let mut start = 0;
        let mut events = Vec::new();
        for &end in ends {
            let kind = self.protocol.read(&block[start..end], &mut self.seen);
            if self.idle_counts == IdleCounts::Content && kind != Kind::Alive {
                self.vigil.alive();
            }
            if !self.visits.is_empty() {
                events.push((start..end, kind));
            }
            start = end;
        }
        if self.visits.is_empty() && !block.is_empty() {
            self.out.push_back(block);
            return;
        }
        events.into_iter().for_each(|(range, kind)| self.visit(block.slice(range), kind));
    }

    /// Asks the stages about one frame.
    fn visit(&mut self, frame: Bytes, kind: Kind) {
        let frame = match self.visits.on_event(&Event { raw: &frame, kind }) {
            Verdict::Pass => frame,
            Verdict::Drop => return,
            Verdict::Replace(other) => other,
        };
        match kind {
            Kind::Finish | Kind::End => self.held.push_back(frame),
            Kind::Other if !self.held.is_empty() => self.held.push_back(frame),
            _ => {
                // Something after the finish (another choice): it was not the end yet.
                self.out.append(&mut self.held);
                self.out.push_back(frame);
            }
        }
        if kind == Kind::End {
            self.finish();
        }
    }

    /// The answer is complete: lets the stages know, and what closes it go afterwards.
    fn finish(&mut self) {
        if self.visits.is_empty() || std::mem::replace(&mut self.finished, true) {
            return;
        }
        let (mut visits, seen) = (std::mem::take(&mut self.visits), self.seen.clone());
        self.finishing = Some(Box::pin(async move {
            visits.on_finish(&seen).await;
            visits
        }));
    }

    /// The source ended by itself.
    fn ended(&mut self) {
        let rest = self.splitter.finish();
        if !rest.is_empty() {
            // A last frame without its empty line.
            self.protocol.read(&rest, &mut self.seen);
        }
        if !self.protocol.is_complete(&self.seen) {
            let upstream = self.upstream();
            return self.fail(Fault::Incomplete { upstream });
        }
        if !rest.is_empty() {
            self.held.push_back(rest);
        }
        self.close(Outcome::Complete);
    }

    /// The source failed, or was given up.
    fn fail(&mut self, fault: Fault) {
        if self.protocol.is_complete(&self.seen) {
            return self.close(Outcome::Complete);
        }
        self.held.clear();
        self.out.push_back(self.protocol.error_event(&fault, &self.seen));
        self.close(Outcome::Failed(fault));
    }

    fn close(&mut self, outcome: Outcome) {
        self.source = None;
        self.ledger.report.usage = self.seen.usage;
        if outcome == Outcome::Complete {
            self.finish();
        }
        if self.finishing.is_none() {
            self.out.append(&mut self.held);
        }
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
                // Keep-alives and errors of ours are not the answer.
                if this.seen.begun && !std::mem::replace(&mut this.dispatched, true) {
                    this.visits.on_dispatch();
                }
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            if let Some(finishing) = &mut this.finishing {
                this.visits = ready!(finishing.as_mut().poll(cx));
                this.finishing = None;
                this.out.append(&mut this.held);
                continue;
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
