//! The end of a round: the stages say how the turn goes on, and it does.

use super::{
    Again, add,
    heard::Heard,
    pause,
    recording::{self, Recording},
    stream::Rounds,
};
use crate::{
    fault::Fault,
    flow::Flow,
    protocol::{Finish, Waiting},
    report::Outcome,
    sse::Splitter,
    stage::{Next, ToolResult, Visits},
    vigil::Vigil,
};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use std::{pin::Pin, time::Duration};
use tokio::time::{Instant, Sleep, sleep_until};

/// Between two signs of life. The shortest patience known is 20 seconds, before a client warns its user.
pub(super) const ALIVE_EVERY: Duration = Duration::from_secs(12);

/// The stages are at it, or the upstream is asked again.
pub(super) struct Between {
    pub(super) future: BoxFuture<'static, Done>,
    pub(super) alive: Pin<Box<Sleep>>,
    /// It takes so long that the client gets whatever it can have meanwhile.
    pub(super) waits: bool,
}

pub(super) struct Done {
    pub(super) visits: Visits,
    pub(super) again: Box<Again>,
    pub(super) heard: Option<Heard>,
    /// The next answer, if there is one to come.
    pub(super) next: Result<Option<Flow>, Fault>,
    /// What the round's calls were answered.
    pub(super) results: Vec<ToolResult>,
    /// Calls of the model are left without an answer.
    pub(super) owing: bool,
}

impl Rounds {
    /// The answer of this round is complete: the stages say how the turn goes on.
    pub(super) fn finish(&mut self) {
        let (Some(mut again), Some(kept)) = (self.again.take(), self.kept.take()) else { return self.unread() };
        if !self.dispatched {
            // The answer came in one piece: the stages are told that it goes out before they are busy with its end.
            if !self.goes_out() {
                self.release();
            }
            self.dispatched = self.seen.begun && self.goes_out();
            if self.dispatched {
                self.visits.on_dispatch();
            }
        }
        let mut visits = std::mem::take(&mut self.visits);
        let protocol = self.protocol;
        let (calls, plain, mut seen) = (self.calls, self.weave.is_plain(), self.seen.clone());
        let waiting = if self.weave.lasts() { Waiting::Alive } else { Waiting::Pinged };
        self.vigil = None;
        // Parts of a larger piece would keep all of it.
        self.closing.iter_mut().for_each(|frame| *frame = Bytes::copy_from_slice(frame));
        let closing: usize = self.closing.iter().map(Bytes::len).sum();
        let future = Box::pin(async move {
            // Calls that are all the client's need not be known, since it is the client's turn then.
            let matter = calls && (seen.finish != Some(Finish::ToolCalls) || again.served.mentioned(kept.frames()));
            let mut kept = Some(kept);
            let mut read = || kept.take().map(|kept| Heard::stream(protocol, kept.frames()));
            let mut heard = if matter || !plain { read() } else { None };
            if let Some(heard) = &heard {
                again.sort(heard, &mut seen);
            }
            let named = seen.response.as_ref().map(|response| response.id.clone());
            seen.answer_id = named.or_else(|| heard.as_ref().and_then(Heard::id));
            seen.waiting = waiting;
            let owing = !seen.calls.is_empty() && seen.client_calls.is_empty();
            let mut results = Vec::new();
            let next = match pause::decide(&mut visits, &seen, &mut again, &mut heard, closing, &mut read).await {
                Next::End => Ok(None),
                Next::Continue(more) => {
                    let heard = heard.get_or_insert_with(|| read().unwrap_or_default());
                    results.clone_from(&more.results);
                    let asked = Box::pin(again.ask(heard, &more)).await.map(|response| Some(response.into_body()));
                    if let Err(fault) = &asked {
                        visits.on_unanswered(fault).await;
                    }
                    asked
                }
            };
            Done { visits, again, heard, next, results, owing }
        });
        let alive = Box::pin(sleep_until(Instant::now() + pause::SHORT));
        self.between = Some(Between { future, alive, waits: false });
    }

    /// Something of the answer is about to go out.
    fn goes_out(&self) -> bool {
        self.out.iter().any(|(_, answer)| *answer)
    }

    /// What closes the answer waits; the words in it do not.
    pub(super) fn release(&mut self) {
        let words = self.weave.release(&mut self.closing);
        self.out.extend(words.into_iter().map(|bytes| (bytes, true)));
    }

    /// The answer is too large to be looked into: it is over, unless something in it is not for the client.
    fn unread(&mut self) {
        if !self.weave.is_plain() {
            let (upstream, max) = (self.upstream(), recording::BYTES_MAX);
            return self.give_up(Fault::EventTooLarge { upstream, max });
        }
        self.pass_closing();
        self.close(Outcome::Complete);
    }

    /// The stages have decided.
    pub(super) fn decided(&mut self, done: Done) {
        let Done { visits, mut again, heard, next, results, owing } = done;
        (self.ledger.report.rounds, self.visits) = (again.rounds, visits);
        self.ledger.report.attempts += again.take_attempts();
        self.again = Some(again);
        match (next, heard) {
            (Ok(Some(source)), Some(heard)) => self.next_round(source, &heard, &results),
            (Err(fault), _) if owing => self.give_up(fault),
            // What was said so far is a complete answer; what was to be added was not.
            (Ok(_) | Err(_), heard) => {
                let heard = heard.filter(|_| !self.weave.is_plain());
                let closing = std::mem::take(&mut self.closing);
                let source = self.source.take();
                let closing = self.weave.close(closing, heard.as_ref());
                self.out.extend(closing.into_iter().map(|bytes| (bytes, true)));
                self.close(Outcome::Complete);
                match self.weave.is_plain() {
                    true => (self.source, self.vigil) = (source, Some(Vigil::closing())),
                    false => self.rest.clear(),
                }
            }
        }
    }

    fn next_round(&mut self, source: Flow, heard: &Heard, results: &[ToolResult]) {
        let closing = std::mem::take(&mut self.closing);
        let between = self.weave.again(closing, heard, results);
        self.out.extend(between.into_iter().map(|bytes| (bytes, true)));
        let before = std::mem::take(&mut self.seen);
        self.spent = add(self.spent, before.usage);
        self.first.get_or_insert(before);
        self.splitter = Splitter::new(self.event_bytes_max);
        self.kept = self.again.as_ref().map(|again| Recording::new(again.held.charge()));
        (self.calls, self.dispatched) = (false, false);
        self.vigil = self.again.as_ref().map(|again| Vigil::stream(&again.limits, Instant::now()));
        self.rest.clear();
        self.source = Some(source);
    }

    /// The source failed, or was given up.
    pub(super) fn fail(&mut self, fault: Fault) {
        self.source = None;
        match self.protocol.is_complete(&self.seen) {
            true if self.seen.failed => self.close(Outcome::Reported),
            true => self.finish(),
            false => {
                self.unanswered(&fault);
                self.give_up(fault);
            }
        }
    }

    /// A later round fails. Where nothing of it went out, the model was not told what it was asked with. The client need not
    /// stay for that to be known.
    pub(super) fn unanswered(&mut self, fault: &Fault) {
        let said = self.dispatched || (self.seen.begun && self.goes_out());
        if said || self.ledger.report.rounds < 2 || self.visits.is_empty() {
            return;
        }
        let (mut visits, fault) = (std::mem::take(&mut self.visits), fault.clone());
        tokio::spawn(async move { visits.on_unanswered(&fault).await });
    }

    /// The turn ends as an error.
    fn give_up(&mut self, fault: Fault) {
        self.closing.clear();
        let mut seen = self.first.take().unwrap_or_else(|| self.seen.clone());
        seen.sequence = self.weave.sequence().or(seen.sequence);
        self.out.push_back((self.protocol.error_event(&fault, &seen), false));
        self.close(Outcome::Failed(fault));
    }

    pub(super) fn close(&mut self, outcome: Outcome) {
        (self.source, self.vigil, self.again) = (None, None, None);
        self.ledger.report.usage = add(self.spent, self.seen.usage);
        self.ledger.end(outcome);
    }
}
