//! What is known of a call when it is over: for one log line and the metrics. No content, no secrets.

use crate::{fault::Fault, limits::Limit, protocol::Usage, stage::Turn};
use http::StatusCode;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

pub trait Observer: Send + Sync {
    fn finished(&self, report: &Report);

    /// A list was made of what several upstreams said, without this one's part.
    fn left_out(&self, _upstream: &str, _why: &str) {}
}

#[derive(Clone, Debug)]
pub struct Report {
    pub turn: Turn,
    /// Where it went, if it was only passed on.
    pub path: Option<String>,
    pub status: StatusCode,
    pub outcome: Outcome,
    pub first_byte: Option<Duration>,
    pub took: Duration,
    pub attempts: u32,
    /// Answers of the upstream that the client's one was made of.
    pub rounds: u32,
    pub chunks: u64,
    pub bytes: u64,
    pub usage: Option<Usage>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer went out whole; the status says what it was.
    Complete,
    /// The upstream ended its stream with an error of its own.
    Reported,
    /// The client left before.
    ClientGone,
    /// The upstream was given up, or gave up.
    Failed(Fault),
}

impl Outcome {
    pub fn name(&self) -> &'static str {
        match self {
            Outcome::Complete => "complete",
            Outcome::Reported => "upstream_error",
            Outcome::ClientGone => "client_gone",
            Outcome::Failed(fault) => fault.code(),
        }
    }

    pub fn limit(&self) -> Option<Limit> {
        match self {
            Outcome::Failed(fault) => fault.limit(),
            Outcome::Complete | Outcome::Reported | Outcome::ClientGone => None,
        }
    }
}

/// A report in the making. Whatever drops it before [`end`](Self::end) is a client that left.
pub(crate) struct Ledger {
    pub report: Report,
    began: Instant,
    observer: Option<Arc<dyn Observer>>,
    told: bool,
}

impl Ledger {
    pub fn new(turn: Turn, began: Instant, observer: Option<Arc<dyn Observer>>) -> Self {
        let report = Report {
            turn,
            path: None,
            status: StatusCode::OK,
            outcome: Outcome::ClientGone,
            first_byte: None,
            took: Duration::ZERO,
            attempts: 0,
            rounds: 1,
            chunks: 0,
            bytes: 0,
            usage: None,
        };
        Self { report, began, observer, told: false }
    }

    pub fn left_out(&self, upstream: &str, why: &str) {
        if let Some(observer) = &self.observer {
            observer.left_out(upstream, why);
        }
    }

    pub fn chunk(&mut self, bytes: usize) {
        if self.report.chunks == 0 {
            self.report.first_byte = Some(self.began.elapsed());
        }
        self.report.chunks += 1;
        self.report.bytes += bytes as u64;
    }

    pub fn end(&mut self, outcome: Outcome) {
        if std::mem::replace(&mut self.told, true) {
            return;
        }
        self.report.outcome = outcome;
        self.report.took = self.began.elapsed();
        if let Some(observer) = &self.observer {
            observer.finished(&self.report);
        }
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.end(Outcome::ClientGone);
    }
}
