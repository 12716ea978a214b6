//! The clock beside a source of data, for whoever polls that source.

use crate::Idle;
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep_until};

/// A look that comes this long after the deadline was not a wait for it: the owner was busy elsewhere.
const LATE: Duration = Duration::from_millis(5);
/// What data that is on its way then gets to arrive.
const GRACE: Duration = Duration::from_millis(250);

/// Tells silence from life inside a `poll` function.
///
/// Poll the source first. If it gave something, call [`alive`](Self::alive); if it is pending, return what
/// [`poll_silent`](Self::poll_silent) says.
///
/// ```
/// use idle_timeout::{Idle, Watch};
/// use std::{future::poll_fn, time::Duration};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
/// let mut watch = Watch::new(Duration::from_secs(5));
/// // This source never gives anything.
/// let silence = poll_fn(|cx| watch.poll_silent(cx)).await;
/// assert_eq!(silence, Idle { limit: Duration::from_secs(5) });
/// # });
/// ```
#[derive(Debug)]
pub struct Watch {
    limit: Duration,
    /// Something came since the clock was last read. It is read when the source has nothing, which is when it matters.
    moved: bool,
    deadline: Option<Instant>,
    /// Armed at the first silence; boxed, so that the owner may move.
    timer: Option<Pin<Box<Sleep>>>,
    graced: bool,
    silent: bool,
}

impl Watch {
    /// Silence is counted from the first time the source has nothing.
    pub fn new(limit: Duration) -> Self {
        Self { limit, moved: true, deadline: None, timer: None, graced: false, silent: false }
    }

    /// The limit.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Something came. Costs one store.
    #[inline]
    pub fn alive(&mut self) {
        self.moved = true;
    }

    /// Ready once nothing came for the whole limit, and from then on.
    pub fn poll_silent(&mut self, cx: &mut Context<'_>) -> Poll<Idle> {
        let idle = Idle { limit: self.limit };
        if self.silent {
            return Poll::Ready(idle);
        }
        if self.moved {
            self.moved = false;
            self.graced = false;
            self.deadline = Instant::now().checked_add(self.limit);
        }
        // Beyond what the clock can tell: for ever.
        let Some(deadline) = self.deadline else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        loop {
            ready!(timer.as_mut().poll(cx));
            if timer.deadline() < deadline {
                timer.as_mut().reset(deadline);
                continue;
            }
            let now = Instant::now();
            if !self.graced && now.saturating_duration_since(deadline) > LATE {
                self.graced = true;
                timer.as_mut().reset(now + GRACE.min(self.limit));
                continue;
            }
            self.silent = true;
            return Poll::Ready(idle);
        }
    }
}
