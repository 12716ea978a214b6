//! Where time comes from. Everything that waits or asks the time is given a [`Clock`]; nothing else reads one.

use futures_util::future::BoxFuture;
use reveille_core::{Millis, Timestamp};
use tokio::sync::watch;

pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;

    /// A length of time, whatever happens to the wall clock meanwhile: how long a call stands by.
    fn sleep(&self, length: Millis) -> BoxFuture<'static, ()>;

    /// Until the wall clock shows `at`, through suspend: when a deadline has come. Returns early when the clock was
    /// set, so the caller looks at it again.
    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()>;

    /// Itself, if it moves only when told to.
    fn manual(&self) -> Option<&ManualClock> {
        None
    }
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let now = jiff::Timestamp::now();
        Timestamp::from_millis(now.as_millisecond())
    }

    fn sleep(&self, length: Millis) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(length.to_std()))
    }

    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            if SystemClock.now() < at && wall::wait(at).await.is_err() {
                slice(at).await;
            }
        })
    }
}

/// One step towards `at`, short enough to notice a changed clock soon: for systems without such an alarm.
async fn slice(at: Timestamp) {
    const STEP: Millis = Millis::from_secs(1);
    let left = at.since(SystemClock.now()).min(STEP);
    tokio::time::sleep(left.to_std()).await;
}

/// The kernel's wall-clock alarm: exact to well below a millisecond, also after suspend, and it says so at once when
/// somebody sets the clock. No polling.
#[cfg(target_os = "linux")]
mod wall {
    use reveille_core::Timestamp;
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };
    use std::io;
    use tokio::io::{Interest, unix::AsyncFd};

    /// Returns at `at`, or earlier when the clock was changed.
    pub async fn wait(at: Timestamp) -> io::Result<()> {
        let fd = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        let ms = at.as_millis().max(0);
        let value = Timespec { tv_sec: ms / 1000, tv_nsec: (ms % 1000) * 1_000_000 };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&fd, TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET, &once)?;
        // SAFETY: the `OwnedFd` is open, is moved into the `AsyncFd`, and is never replaced or closed while it is there.
        #[allow(unsafe_code, reason = "tokio has no safe way to wait for a descriptor of one's own")]
        let alarm = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?;
        alarm.readable().await?.retain_ready();
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
mod wall {
    use reveille_core::Timestamp;

    pub async fn wait(_at: Timestamp) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

/// A clock that moves only when told to.
#[derive(Clone, Debug)]
pub struct ManualClock(watch::Sender<Timestamp>);

impl ManualClock {
    pub fn at(start: Timestamp) -> Self {
        Self(watch::Sender::new(start))
    }

    pub fn advance(&self, by: Millis) {
        self.0.send_modify(|now| *now = now.plus(by));
    }

    /// Anywhere, also back.
    pub fn set(&self, now: Timestamp) {
        self.0.send_replace(now);
    }
}

impl Clock for ManualClock {
    fn manual(&self) -> Option<&ManualClock> {
        Some(self)
    }

    fn now(&self) -> Timestamp {
        *self.0.borrow()
    }

    fn sleep(&self, length: Millis) -> BoxFuture<'static, ()> {
        let (clock, until) = (self.clone(), self.now().plus(length));
        Box::pin(async move {
            while clock.now() < until {
                clock.sleep_until(until).await;
            }
        })
    }

    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        let (mut now, began) = (self.0.subscribe(), self.now());
        Box::pin(async move {
            // The sender lives in the clock; should it be gone, time stands still.
            if now.wait_for(|now| *now >= at || *now < began).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}
