//! Instants and lengths of time, both in whole milliseconds.
//!
//! Time is the wall clock, because it must mean the same after a restart. No arithmetic here can overflow or panic:
//! it saturates, so a wrong clock gives a wrong time and never a crash.

use serde::{Deserialize, Serialize};
use std::fmt;

/// An instant: milliseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

/// A length of time, never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(u64);

impl Timestamp {
    pub const fn from_millis(ms: i64) -> Self {
        Self(ms)
    }

    pub const fn as_millis(self) -> i64 {
        self.0
    }

    pub fn plus(self, length: Millis) -> Self {
        Self(self.0.saturating_add_unsigned(length.0))
    }

    pub fn minus(self, length: Millis) -> Self {
        Self(self.0.saturating_sub_unsigned(length.0))
    }

    /// How long after `earlier` this is; zero when it is not after it (the clock was set back).
    pub fn since(self, earlier: Timestamp) -> Millis {
        Millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// ISO 8601 in UTC, as people and models read it.
    pub fn to_iso(self) -> String {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(at) => at.to_string(),
            Err(_) => format!("{} ms since 1970", self.0),
        }
    }
}

impl Millis {
    pub const ZERO: Millis = Millis(0);

    pub const fn new(ms: u64) -> Self {
        Self(ms)
    }

    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    pub const fn get(self) -> u64 {
        self.0
    }

    pub const fn is_zero(&self) -> bool {
        self.0 == 0
    }

    pub fn plus(self, other: Millis) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    pub fn minus(self, other: Millis) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    pub const fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }
}

/// Seconds, without a fraction where there is none: `300`, `0.25`.
impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, rest) = (self.0 / 1000, self.0 % 1000);
        if rest == 0 {
            return write!(f, "{seconds}");
        }
        let fraction = format!("{rest:03}");
        write!(f, "{seconds}.{}", fraction.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_written_without_a_needless_fraction() {
        for (ms, text) in [(0, "0"), (300_000, "300"), (250, "0.25"), (1_001, "1.001"), (60_500, "60.5")] {
            assert_eq!(Millis::new(ms).to_string(), text);
        }
    }

    #[test]
    fn arithmetic_saturates() {
        let end = Timestamp::from_millis(i64::MAX);
        assert_eq!(end.plus(Millis::new(u64::MAX)), end);
        assert_eq!(Timestamp::from_millis(0).since(end), Millis::ZERO);
        assert_eq!(end.since(Timestamp::from_millis(i64::MIN)), Millis::new(i64::MAX as u64));
    }
}
