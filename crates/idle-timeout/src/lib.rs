//! Timeouts that fire after *silence*, never while data flows.
//!
//! A fixed timeout kills a stream that is alive but long; no timeout waits for ever on one that is dead. An idle timeout
//! starts again with every piece of data, so that only silence ends it.
//!
//! Three forms of one idea:
//!
//! - [`IdleTimeout`]: a controller with [`reset`](IdleTimeout::reset) and a [`Signal`] to await anywhere;
//! - [`IdleStream`]: wraps a [`Stream`](futures_core::Stream) (feature `stream`);
//! - [`IdleBody`]: wraps an [`http_body::Body`] (feature `body`);
//!
//! and [`Watch`], on which the last two are built, for a `poll` function of one's own.
//!
//! ```
//! use futures_util::StreamExt;
//! use idle_timeout::{Idle, IdleStream};
//! use std::time::Duration;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
//! // Two items, then silence.
//! let source = futures_util::stream::iter([1, 2]).chain(futures_util::stream::pending());
//! let mut stream = IdleStream::new(source, Duration::from_secs(30));
//! assert_eq!(stream.next().await, Some(Ok(1)));
//! assert_eq!(stream.next().await, Some(Ok(2)));
//! let error = stream.next().await.unwrap().unwrap_err();
//! assert_eq!(error.to_string(), "idle timeout after 30000 ms of inactivity");
//! assert_eq!(stream.next().await, None);
//! # });
//! ```
//!
//! # What it promises
//!
//! - **Data first, then the clock.** A reader that paused for longer than the limit finds its data, not a timeout; and a
//!   limit that ran out while nobody was looking gets a moment's grace for data that is on its way.
//! - **Never early**, and on time, to the timer's tick, for who waits; for who was busy elsewhere at that time, by at most a quarter
//!   of a second later: that is the grace.
//! - **Almost free.** An item that is ready costs one store; the clock is read only when the source has nothing, and the
//!   one timer is armed again only when it wakes.
//! - **Nothing leaks.** There is no task; dropping the thing drops its timer.

#[cfg(feature = "body")]
mod body;
mod controller;
#[cfg(feature = "stream")]
mod stream;
mod watch;

#[cfg(feature = "body")]
pub use body::{BodyError, IdleBody};
pub use controller::{Cause, IdleTimeout, Signal};
#[cfg(feature = "stream")]
pub use stream::IdleStream;
pub use watch::Watch;

use std::{fmt, time::Duration};

/// Nothing came for the whole of the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// The limit that ran out.
    pub limit: Duration,
}

impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "idle timeout after {} ms of inactivity", self.limit.as_millis())
    }
}

impl std::error::Error for Idle {}

#[cfg(all(doctest, feature = "stream"))]
#[doc = include_str!("../README.md")]
struct Readme;
