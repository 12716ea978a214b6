//! How long each part of a call may take.

use std::{fmt, time::Duration};

/// `None` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Resolving, connecting and TLS. Belongs to the upstream, since connections are shared between requests.
    pub connect: Option<Duration>,
    /// Streams only: a whole answer may rightly be silent until it is there.
    pub first_byte: Option<Duration>,
    /// Streams only: silence between chunks.
    pub idle: Option<Duration>,
    /// A whole answer, from the first byte sent to the last received.
    pub total: Option<Duration>,
    /// The same for streams; unlike `idle` it ends live ones.
    pub total_stream: Option<Duration>,
    pub idle_counts: IdleCounts,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Some(Duration::from_secs(10)),
            first_byte: Some(Duration::from_secs(120)),
            idle: Some(Duration::from_secs(180)),
            total: Some(Duration::from_secs(600)),
            total_stream: None,
            idle_counts: IdleCounts::Anything,
        }
    }
}

/// What resets the idle limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdleCounts {
    /// Every chunk, keep-alives too.
    #[default]
    Anything,
    /// Only what the model says.
    Content,
}

/// A limit that ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    Connect,
    FirstByte,
    Idle,
    Total,
}

impl Limit {
    pub fn name(self) -> &'static str {
        match self {
            Limit::Connect => "connect",
            Limit::FirstByte => "first_byte",
            Limit::Idle => "idle",
            Limit::Total => "total",
        }
    }

    /// What there was none of.
    pub(crate) fn without(self) -> &'static str {
        match self {
            Limit::Connect => "without a connection",
            Limit::FirstByte => "without a first byte",
            Limit::Idle => "of inactivity",
            Limit::Total => "without the whole answer",
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
