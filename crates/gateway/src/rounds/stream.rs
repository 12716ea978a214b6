//! The body of a streamed turn, as it is polled: what goes out, what is waited for.

use super::{
    Again,
    between::{ALIVE_EVERY, Between},
    pause::SHORT,
    recording::Recording,
    weave::{Weave, weave},
};
use crate::{
    fault::Fault,
    flow::Flow,
    limits::IdleCounts,
    protocol::{Protocol, Seen, Usage},
    report::Ledger,
    sse::Splitter,
    stage::Visits,
    vigil::Vigil,
};
use bytes::Bytes;
use http_body::{Body, Frame};
use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::time::Instant;

/// After an answer's last event nothing should come; more than this is dropped.
const REST_FRAMES_MAX: usize = 64;

/// The body of a streamed turn. Dropping it cancels whatever is under way.
pub(crate) struct Rounds {
    pub(super) protocol: Protocol,
    pub(super) source: Option<Flow>,
    pub(super) splitter: Splitter,
    pub(super) seen: Seen,
    /// Of the round under way.
    pub(super) vigil: Option<Vigil>,
    pub(super) idle_counts: IdleCounts,
    pub(super) visits: Visits,
    pub(super) again: Option<Box<Again>>,
    pub(super) weave: Box<dyn Weave>,
    /// This round's frames; `None`: they were too many.
    pub(super) kept: Option<Recording>,
    /// The model called some tool in this round.
    pub(super) calls: bool,
    /// What closes the answer, until it is over.
    pub(super) closing: Vec<Bytes>,
    /// This round's answer has begun to go out.
    pub(super) dispatched: bool,
    pub(super) between: Option<Between>,
    /// What came after the end of a round.
    pub(super) rest: VecDeque<Bytes>,
    /// What goes out next, and whether it is the answer: signs of life and errors of ours are not.
    pub(super) out: VecDeque<(Bytes, bool)>,
    /// Of the rounds before.
    pub(super) spent: Option<Usage>,
    /// Whose answer it is, for an error in a later round.
    pub(super) first: Option<Seen>,
    pub(super) event_bytes_max: usize,
    pub(super) ledger: Ledger,
}

pub(crate) struct Parts {
    pub source: Flow,
    pub vigil: Vigil,
    pub visits: Visits,
    pub again: Box<Again>,
    pub event_bytes_max: usize,
    pub ledger: Ledger,
}

impl Rounds {
    pub fn new(parts: Parts) -> Self {
        let Parts { source, vigil, visits, again, event_bytes_max, ledger } = parts;
        let protocol = again.protocol();
        Self {
            protocol,
            source: Some(source),
            splitter: Splitter::new(event_bytes_max),
            seen: Seen::default(),
            vigil: Some(vigil),
            idle_counts: again.limits.idle_counts,
            visits,
            weave: weave(protocol, again.served.clone()),
            kept: Some(Recording::new(again.held.charge())),
            again: Some(again),
            calls: false,
            closing: Vec::new(),
            dispatched: false,
            between: None,
            rest: VecDeque::new(),
            out: VecDeque::new(),
            spent: None,
            first: None,
            event_bytes_max,
            ledger,
        }
    }

    pub(super) fn upstream(&self) -> String {
        self.ledger.report.turn.upstream.clone()
    }

    /// The turn is over. What the upstream sends after the end of an answer that passed as it came, passes too.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        if let Some(data) = self.rest.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        let (Some(source), Some(vigil)) = (&mut self.source, &mut self.vigil) else { return Poll::Ready(None) };
        match Pin::new(source).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(Ok(frame))),
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => vigil.poll_over(cx).map(|_| None),
        }
    }

    /// Nothing came: waits for whatever comes first.
    fn poll_between(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(between) = &mut self.between else { return Poll::Ready(()) };
        if let Poll::Ready(done) = between.future.as_mut().poll(cx) {
            self.between = None;
            self.decided(done);
            return Poll::Ready(());
        }
        // Read to its end, the connection can be used again, and is not held with the turn.
        while let Some(source) = &mut self.source
            && let Poll::Ready(frame) = Pin::new(source).poll_frame(cx)
        {
            match frame.and_then(Result::ok).map(Frame::into_data) {
                Some(Ok(data)) if self.rest.len() < REST_FRAMES_MAX => self.rest.push_back(data),
                Some(_) => {}
                None => self.source = None,
            }
        }
        ready!(between.alive.as_mut().poll(cx));
        if !std::mem::replace(&mut between.waits, true) {
            between.alive.as_mut().reset(Instant::now() + ALIVE_EVERY.saturating_sub(SHORT));
            self.release();
            return Poll::Ready(());
        }
        between.alive.as_mut().reset(Instant::now() + ALIVE_EVERY);
        self.out.push_back((self.weave.alive(), false));
        Poll::Ready(())
    }
}

impl Body for Rounds {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        let this = self.get_mut();
        loop {
            if let Some((bytes, answer)) = this.out.pop_front() {
                if answer && this.seen.begun && !std::mem::replace(&mut this.dispatched, true) {
                    this.visits.on_dispatch();
                }
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            if this.between.is_some() {
                ready!(this.poll_between(cx));
                continue;
            }
            if this.again.is_none() {
                return this.poll_rest(cx);
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
                    let Some(vigil) = &mut this.vigil else { return Poll::Pending };
                    let fault = ready!(vigil.poll_over(cx));
                    this.fail(fault);
                }
            }
        }
    }
}
