//! A round's frames, one by one: which pass, which are changed or hidden, which wait for the end.

use super::{stream::Rounds, weave::Fate};
use crate::{
    fault::Fault,
    limits::IdleCounts,
    protocol::{Event, Kind},
    report::Outcome,
    sse::TooLarge,
    stage::Verdict,
    vigil::Vigil,
};
use bytes::Bytes;
use memchr::memmem;
use std::ops::Range;

impl Rounds {
    /// A chunk came.
    pub(super) fn take(&mut self, chunk: Bytes) {
        self.ledger.chunk(chunk.len());
        let Some(vigil) = &mut self.vigil else { return };
        vigil.byte();
        if self.idle_counts == IdleCounts::Anything {
            vigil.alive();
        }
        let (block, too_large) = match self.splitter.push(chunk) {
            Ok((block, _)) => (block, false),
            Err(TooLarge(block)) => (block, true),
        };
        let ends = self.splitter.ends().to_vec();
        let (mut start, mut run, failed) = (0, None, self.seen.failed);
        for end in ends {
            self.frame(&block, start..end, &mut run);
            start = end;
        }
        self.flush(&block, &mut run);
        if too_large && !self.seen.ended {
            let (upstream, max) = (self.upstream(), self.event_bytes_max);
            return self.fail(Fault::EventTooLarge { upstream, max });
        }
        match self.seen.failed {
            true if !failed => {
                self.reported();
                self.vigil = Some(Vigil::closing());
            }
            true => {}
            false if self.seen.ended => self.finish(),
            false => {}
        }
    }

    /// The upstream said itself that it failed.
    fn reported(&mut self) {
        let (upstream, why) = (self.upstream(), "it reported an error".into());
        self.unanswered(&Fault::Broken { upstream, why });
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
        if self.kept.as_mut().is_some_and(|kept| !kept.add(raw)) {
            self.kept = None;
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
            // By itself: it goes out, and is no word of the model.
            Fate::Pass if kind == Kind::Error => {
                self.flush(block, run);
                self.out.push_back((block.slice(range), false));
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

    pub(super) fn pass_closing(&mut self) {
        self.out.extend(self.closing.drain(..).map(|bytes| (bytes, true)));
    }

    fn flush(&mut self, block: &Bytes, run: &mut Option<Range<usize>>) {
        if let Some(run) = run.take() {
            self.out.push_back((block.slice(run), true));
        }
    }

    /// The source ended by itself.
    pub(super) fn ended(&mut self) {
        let rest = self.splitter.finish();
        if !self.protocol.is_complete_with(&rest, &self.seen) {
            let upstream = self.upstream();
            return self.fail(Fault::Incomplete { upstream });
        }
        if !rest.is_empty() {
            let mut run = None;
            self.frame(&rest, 0..rest.len(), &mut run);
            self.flush(&rest, &mut run);
        }
        if self.seen.failed {
            self.reported();
            return self.close(Outcome::Reported);
        }
        self.finish();
    }
}

/// Whatever does not pass ends the run, so the next frame that does is right behind it.
fn extend(run: &mut Option<Range<usize>>, range: Range<usize>) {
    let start = run.as_ref().map_or(range.start, |run| run.start);
    *run = Some(start..range.end);
}
