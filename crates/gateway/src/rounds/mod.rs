//! A turn in which stages take part: one response to the client, made of as many answers of the upstream as the stages ask
//! for. A stream's frames pass as they came as long as nothing needs changing; what closes it waits until the stages agree
//! that it is over, and meanwhile the client gets signs of life.
//!
//! Calls without stages do not come here; [`Relay`](crate::Relay) carries them.

mod again;
mod chat;
mod heard;
mod messages;
mod responses;
mod weave;
pub(crate) mod whole;

pub(crate) use again::Again;
pub(crate) use weave::Served;

use crate::{
    draft::Draft,
    fault::Fault,
    limits::IdleCounts,
    protocol::{Event, Finish, Kind, Protocol, Seen, Usage},
    report::{Ledger, Outcome},
    sse::Splitter,
    stage::{Next, ToolResult, Verdict, Visits, Words},
    vigil::Vigil,
};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use heard::Heard;
use http_body::{Body, Frame};
use hyper::body::Incoming;
use memchr::memmem;
use serde_json::Value;
use std::{
    collections::VecDeque,
    future::Future,
    ops::Range,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep_until};
use weave::{Fate, Weave, weave};

/// Between two signs of life. The shortest patience known is 20 seconds, before a client warns its user.
const ALIVE_EVERY: Duration = Duration::from_secs(12);
/// An answer larger than this cannot be continued, and a call in it that is not the client's ends the turn as an error.
const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// After an answer's last event nothing should come; more than this is dropped.
const REST_FRAMES_MAX: usize = 64;

/// A message at the end of a request, in its protocol's JSON.
pub(crate) fn told(draft: &Draft, words: &Words) -> String {
    let model = &draft.outline.model;
    let message = match draft.protocol {
        Protocol::Chat => chat::words(words, model),
        Protocol::Responses => responses::words(words),
        Protocol::Messages => messages::words(words, model),
    };
    message.to_string()
}

/// The answer to a call, in its protocol's JSON.
pub(crate) fn answered(protocol: Protocol, result: &ToolResult) -> Value {
    match protocol {
        Protocol::Chat => chat::result(result),
        Protocol::Responses => responses::result(result),
        Protocol::Messages => messages::result(result),
    }
}

/// The body of a streamed turn. Dropping it cancels whatever is under way.
pub(crate) struct Rounds {
    protocol: Protocol,
    source: Option<Incoming>,
    splitter: Splitter,
    seen: Seen,
    /// Of the round under way.
    vigil: Option<Vigil>,
    idle_counts: IdleCounts,
    visits: Visits,
    again: Option<Box<Again>>,
    weave: Box<dyn Weave>,
    /// This round's frames, should they have to be read; `None`: they were too many.
    kept: Option<Vec<u8>>,
    /// The model called some tool in this round.
    calls: bool,
    /// What closes the answer, until it is over.
    closing: Vec<Bytes>,
    /// This round's answer has begun to go out.
    dispatched: bool,
    between: Option<Between>,
    /// What came after the end of a round.
    rest: VecDeque<Bytes>,
    /// What goes out next, and whether it is the answer: signs of life and errors of ours are not.
    out: VecDeque<(Bytes, bool)>,
    /// Of the rounds before.
    spent: Option<Usage>,
    /// Whose answer it is, for an error in a later round.
    first: Option<Seen>,
    event_bytes_max: usize,
    ledger: Ledger,
}

pub(crate) struct Parts {
    pub source: Incoming,
    pub vigil: Vigil,
    pub visits: Visits,
    pub again: Box<Again>,
    pub event_bytes_max: usize,
    pub ledger: Ledger,
}

/// The stages are at it, or the upstream is asked again.
struct Between {
    future: BoxFuture<'static, Done>,
    alive: Pin<Box<Sleep>>,
}

struct Done {
    visits: Visits,
    again: Box<Again>,
    heard: Option<Heard>,
    kept: Vec<u8>,
    /// The next answer, if there is one to come.
    next: Result<Option<Incoming>, Fault>,
    /// Calls of the model are left without an answer.
    owing: bool,
}

impl Rounds {
    pub fn new(parts: Parts) -> Self {
        let Parts { source, vigil, visits, again, event_bytes_max, ledger } = parts;
        let protocol = again.draft.protocol;
        Self {
            protocol,
            source: Some(source),
            splitter: Splitter::new(event_bytes_max),
            seen: Seen::default(),
            vigil: Some(vigil),
            idle_counts: again.limits.idle_counts,
            visits,
            weave: weave(protocol, again.served.clone()),
            again: Some(again),
            kept: Some(Vec::new()),
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

    /// A chunk came.
    fn take(&mut self, chunk: Bytes) {
        self.ledger.chunk(chunk.len());
        let Some(vigil) = &mut self.vigil else { return };
        vigil.byte();
        if self.idle_counts == IdleCounts::Anything {
            vigil.alive();
        }
        let (block, ends) = match self.splitter.push(chunk) {
            Ok((block, ends)) => (block, ends.to_vec()),
            Err(_) => {
                let (upstream, max) = (self.upstream(), self.event_bytes_max);
                return self.fail(Fault::EventTooLarge { upstream, max });
            }
        };
        let (mut start, mut run) = (0, None);
        for end in ends {
            self.frame(&block, start..end, &mut run);
            start = end;
        }
        self.flush(&block, &mut run);
        if self.seen.ended && !self.seen.failed {
            self.finish();
        }
    }

    /// One frame of a block. `run` is the part of it before that passes as it is.
    fn frame(&mut self, block: &Bytes, range: Range<usize>, run: &mut Option<Range<usize>>) {
        let raw = &block[range.clone()];
        let kind = self.protocol.read(raw, &mut self.seen);
        if self.idle_counts == IdleCounts::Content
            && kind != Kind::Alive
            && let Some(vigil) = &mut self.vigil
        {
            vigil.alive();
        }
        // Some upstreams of Chat call and finish in one chunk.
        self.calls |=
            kind == Kind::ToolCall || (kind == Kind::Finish && memmem::find(raw, b"\"tool_calls\":").is_some());
        match &mut self.kept {
            Some(kept) if kept.len() + raw.len() <= KEPT_BYTES_MAX => kept.extend_from_slice(raw),
            kept => *kept = None,
        }
        let fate = match self.visits.on_event(&Event { raw, kind }) {
            Verdict::Pass => self.weave.take(raw, kind),
            Verdict::Drop => Fate::Drop,
            Verdict::Replace(other) => match self.weave.take(&other, kind) {
                Fate::Pass => Fate::Replace(other),
                Fate::Close => Fate::CloseWith(other),
                fate => fate,
            },
        };
        // Something after the finish (another choice): it was not the end yet.
        let overtaken = !self.closing.is_empty() && !matches!(kind, Kind::Alive | Kind::Other);
        match fate {
            Fate::Pass if overtaken => {
                self.flush(block, run);
                self.pass_closing();
                *run = Some(range);
            }
            Fate::Pass if kind == Kind::Other && !self.closing.is_empty() => {
                self.flush(block, run);
                self.closing.push(block.slice(range));
            }
            Fate::Pass => extend(run, range),
            Fate::Replace(other) => {
                self.flush(block, run);
                if overtaken {
                    self.pass_closing();
                }
                self.out.push_back((other, true));
            }
            Fate::Drop => self.flush(block, run),
            Fate::Close | Fate::CloseWith(_) => {
                self.flush(block, run);
                self.closing.push(if let Fate::CloseWith(other) = fate { other } else { block.slice(range) });
            }
        }
    }

    fn pass_closing(&mut self) {
        self.out.extend(self.closing.drain(..).map(|bytes| (bytes, true)));
    }

    fn flush(&mut self, block: &Bytes, run: &mut Option<Range<usize>>) {
        if let Some(run) = run.take() {
            self.out.push_back((block.slice(run), true));
        }
    }

    /// The source ended by itself.
    fn ended(&mut self) {
        let rest = self.splitter.finish();
        if !rest.is_empty() {
            // A last frame without its empty line.
            let mut run = None;
            self.frame(&rest, 0..rest.len(), &mut run);
            self.flush(&rest, &mut run);
        }
        if self.seen.failed {
            return self.close(Outcome::Reported);
        }
        if !self.protocol.is_complete(&self.seen) {
            let upstream = self.upstream();
            return self.fail(Fault::Incomplete { upstream });
        }
        self.finish();
    }

    /// The answer of this round is complete: the stages say how the turn goes on.
    fn finish(&mut self) {
        let (Some(mut again), Some(kept)) = (self.again.take(), self.kept.take()) else { return self.unread() };
        let mut visits = std::mem::take(&mut self.visits);
        let protocol = self.protocol;
        let (calls, plain, mut seen) = (self.calls, self.weave.is_plain(), self.seen.clone());
        self.vigil = None;
        let future = Box::pin(async move {
            // Calls that are all the client's need not be known, since it is the client's turn then.
            let matter = calls && (seen.finish != Some(Finish::ToolCalls) || again.served.mentioned(&kept));
            let mut heard = (matter || !plain).then(|| Heard::stream(protocol, &kept));
            if let Some(heard) = &heard {
                again.sort(heard, &mut seen);
            }
            let named = seen.response.as_ref().map(|response| response.id.clone());
            seen.answer_id = named.or_else(|| heard.as_ref().and_then(Heard::id));
            let owing = !seen.calls.is_empty() && seen.client_calls.is_empty();
            let next = match visits.on_finish(&seen).await {
                Next::End => Ok(None),
                Next::Continue(more) => {
                    let heard = heard.get_or_insert_with(|| Heard::stream(protocol, &kept));
                    let asked = again.ask(heard, &more).await.map(|response| Some(response.into_body()));
                    if asked.is_err() {
                        visits.on_unanswered();
                    }
                    asked
                }
            };
            Done { visits, again, heard, kept, next, owing }
        });
        self.between = Some(Between { future, alive: Box::pin(sleep_until(Instant::now() + ALIVE_EVERY)) });
    }

    /// The answer is too large to be looked into: it is over, unless something in it is not for the client.
    fn unread(&mut self) {
        if !self.weave.is_plain() {
            let (upstream, max) = (self.upstream(), KEPT_BYTES_MAX);
            return self.give_up(Fault::EventTooLarge { upstream, max });
        }
        self.pass_closing();
        self.close(Outcome::Complete);
    }

    /// The stages have decided.
    fn decided(&mut self, done: Done) {
        let Done { visits, mut again, heard, kept, next, owing } = done;
        (self.ledger.report.rounds, self.visits) = (again.rounds, visits);
        self.ledger.report.attempts += again.take_attempts();
        self.again = Some(again);
        match (next, heard) {
            (Ok(Some(source)), Some(heard)) => self.next_round(source, &heard),
            (Err(fault), _) if owing => self.give_up(fault),
            // What was said so far is a complete answer; what was to be added was not.
            (Ok(_) | Err(_), heard) => {
                let read = || heard.unwrap_or_else(|| Heard::stream(self.protocol, &kept));
                let heard = (!self.weave.is_plain()).then(read);
                let closing = std::mem::take(&mut self.closing);
                let (source, limits) = (self.source.take(), self.again.as_ref().map(|again| again.limits));
                let closing = self.weave.close(closing, heard.as_ref());
                self.out.extend(closing.into_iter().map(|bytes| (bytes, true)));
                self.close(Outcome::Complete);
                match (self.weave.is_plain(), limits) {
                    (true, Some(limits)) => (self.source, self.vigil) = (source, Some(Vigil::silence(&limits))),
                    _ => self.rest.clear(),
                }
            }
        }
    }

    fn next_round(&mut self, source: Incoming, heard: &Heard) {
        let closing = std::mem::take(&mut self.closing);
        let between = self.weave.again(closing, heard);
        self.out.extend(between.into_iter().map(|bytes| (bytes, true)));
        let before = std::mem::take(&mut self.seen);
        self.spent = add(self.spent, before.usage);
        self.first.get_or_insert(before);
        self.splitter = Splitter::new(self.event_bytes_max);
        (self.kept, self.calls, self.dispatched) = (Some(Vec::new()), false, false);
        self.vigil = self.again.as_ref().map(|again| Vigil::stream(&again.limits, Instant::now()));
        self.rest.clear();
        self.source = Some(source);
    }

    /// The source failed, or was given up.
    fn fail(&mut self, fault: Fault) {
        self.source = None;
        match self.protocol.is_complete(&self.seen) {
            true if self.seen.failed => self.close(Outcome::Reported),
            true => self.finish(),
            false => self.give_up(fault),
        }
    }

    /// The turn ends as an error.
    fn give_up(&mut self, fault: Fault) {
        self.closing.clear();
        let mut seen = self.first.take().unwrap_or_else(|| self.seen.clone());
        seen.sequence = self.weave.sequence().or(seen.sequence);
        self.out.push_back((self.protocol.error_event(&fault, &seen), false));
        self.close(Outcome::Failed(fault));
    }

    fn close(&mut self, outcome: Outcome) {
        (self.source, self.vigil, self.again) = (None, None, None);
        self.ledger.report.usage = add(self.spent, self.seen.usage);
        self.ledger.end(outcome);
    }

    fn upstream(&self) -> String {
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
        between.alive.as_mut().reset(Instant::now() + ALIVE_EVERY);
        self.out.push_back((self.weave.alive(), false));
        Poll::Ready(())
    }
}

/// Whatever does not pass ends the run, so the next frame that does is right behind it.
fn extend(run: &mut Option<Range<usize>>, range: Range<usize>) {
    let start = run.as_ref().map_or(range.start, |run| run.start);
    *run = Some(start..range.end);
}

fn add(one: Option<Usage>, two: Option<Usage>) -> Option<Usage> {
    match (one, two) {
        (Some(one), Some(two)) => Some(Usage {
            input_tokens: one.input_tokens + two.input_tokens,
            output_tokens: one.output_tokens + two.output_tokens,
        }),
        (one, two) => one.or(two),
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
