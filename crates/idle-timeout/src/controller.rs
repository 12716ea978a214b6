//! The controller: reset it from where data passes, await its signal where work is to be given up.

use crate::Idle;
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

/// An idle timeout that is reset by hand.
///
/// ```
/// use idle_timeout::{Cause, IdleTimeout};
/// use std::time::Duration;
/// use tokio::time::sleep;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
/// let idle = IdleTimeout::new(Duration::from_secs(30));
/// let signal = idle.signal();
/// let work = async {
///     for _ in 0..10 {
///         sleep(Duration::from_secs(20)).await; // Slow, but alive.
///         idle.reset();
///     }
///     sleep(Duration::from_secs(3600)).await; // Stuck.
/// };
/// tokio::select! {
///     () = work => unreachable!(),
///     cause = signal.cancelled() => assert_eq!(cause, Cause::Idle),
/// }
/// assert_eq!(idle.elapsed(), Duration::from_secs(10 * 20 + 30));
/// # });
/// ```
///
/// There is no task behind it: the timer lives in whoever awaits a [`Signal`]. Dropping the controller ends those waits
/// with [`Cause::Dropped`].
#[derive(Debug)]
pub struct IdleTimeout(Arc<Shared>);

/// Tells when an [`IdleTimeout`] is over. Any number of clones may be awaited, from any task.
#[derive(Clone, Debug)]
pub struct Signal(Arc<Shared>);

/// Why a [`Signal`] was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Nothing reset it for the whole limit.
    Idle,
    /// [`IdleTimeout::abort`].
    Aborted,
    /// The controller is gone: the work is over, whichever way.
    Dropped,
}

#[derive(Debug)]
struct Shared {
    limit: Duration,
    began: Instant,
    /// Nanoseconds from `began` to the last reset: enough for 584 years.
    last: AtomicU64,
    state: AtomicU8,
    over: Notify,
}

const LIVE: u8 = 0;
const IDLE: u8 = 1;
const ABORTED: u8 = 2;
const DROPPED: u8 = 3;

impl IdleTimeout {
    /// Counts from now.
    pub fn new(limit: Duration) -> Self {
        Self(Arc::new(Shared {
            limit,
            began: Instant::now(),
            last: AtomicU64::new(0),
            state: AtomicU8::new(LIVE),
            over: Notify::new(),
        }))
    }

    /// Something came: counts anew. Stores the instant, arms nothing. Without effect once the signal was given.
    #[inline]
    pub fn reset(&self) {
        self.0.last.store(self.0.nanos(), Ordering::Relaxed);
    }

    /// A signal to await or to hand on.
    pub fn signal(&self) -> Signal {
        Signal(self.0.clone())
    }

    /// Time since it was made.
    pub fn elapsed(&self) -> Duration {
        self.0.began.elapsed()
    }

    /// Time since the last reset.
    pub fn silence(&self) -> Duration {
        Duration::from_nanos(self.0.nanos().saturating_sub(self.0.last.load(Ordering::Relaxed)))
    }

    /// Gives the signal now, unless it was given.
    pub fn abort(&self) {
        self.0.end(ABORTED);
    }
}

impl Drop for IdleTimeout {
    fn drop(&mut self) {
        self.0.end(DROPPED);
    }
}

impl Signal {
    /// Waits until the timeout is over, and says why.
    pub async fn cancelled(&self) -> Cause {
        loop {
            let over = self.0.over.notified();
            if let Some(cause) = self.cause() {
                return cause;
            }
            match self.0.deadline() {
                Some(deadline) => drop(timeout_at(deadline, over).await),
                None => over.await,
            }
        }
    }

    /// Why it is over; `None` while it is not. Looks at the clock, so it need not be awaited.
    pub fn cause(&self) -> Option<Cause> {
        if self.0.deadline().is_some_and(|deadline| deadline <= Instant::now()) {
            self.0.end(IDLE);
        }
        match self.0.state.load(Ordering::Acquire) {
            LIVE => None,
            IDLE => Some(Cause::Idle),
            ABORTED => Some(Cause::Aborted),
            _ => Some(Cause::Dropped),
        }
    }

    /// The error to report when [`Cause::Idle`] was the cause.
    pub fn idle(&self) -> Idle {
        Idle { limit: self.0.limit }
    }
}

impl Shared {
    fn nanos(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// `None`: beyond what the clock can tell.
    fn deadline(&self) -> Option<Instant> {
        let last = Duration::from_nanos(self.last.load(Ordering::Relaxed));
        self.began.checked_add(last)?.checked_add(self.limit)
    }

    /// The first cause stays.
    fn end(&self, cause: u8) {
        if self.state.compare_exchange(LIVE, cause, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.over.notify_waiters();
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Idle => "idle for too long",
            Cause::Aborted => "aborted",
            Cause::Dropped => "over",
        })
    }
}
