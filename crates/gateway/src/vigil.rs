//! The limits of one stream, watched while its source has nothing. Data is always looked at first.

use crate::{
    fault::Fault,
    limits::{Limit, Limits},
};
use idle_timeout::Watch;
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep_until};

/// An upstream that said the last of its answer has this long to end it; then it is taken as ended.
const CLOSING_MAX: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Vigil {
    first_byte: Option<Alarm>,
    idle: Option<Watch>,
    total: Option<Alarm>,
}

/// A limit with a fixed end.
#[derive(Debug)]
struct Alarm {
    timer: Pin<Box<Sleep>>,
    fault: Fault,
}

impl Vigil {
    /// For a stream whose request began at `began`.
    pub fn stream(limits: &Limits, began: Instant) -> Self {
        Self {
            first_byte: Alarm::new(Limit::FirstByte, limits.first_byte, began),
            idle: limits.idle.map(Watch::new),
            total: Alarm::new(Limit::Total, limits.total_stream, began),
        }
    }

    /// For the rest of a whole answer.
    pub fn whole(limits: &Limits, began: Instant) -> Self {
        Self { first_byte: None, idle: None, total: Alarm::new(Limit::Total, limits.total, began) }
    }

    /// For what is passed on unread: only silence ends it.
    pub fn silence(limits: &Limits) -> Self {
        Self { first_byte: None, idle: limits.idle.map(Watch::new), total: None }
    }

    /// For what comes after an answer's own end: there is little to wait for, and the client waits too.
    pub fn closing() -> Self {
        Self { first_byte: None, idle: None, total: Alarm::new(Limit::Idle, Some(CLOSING_MAX), Instant::now()) }
    }

    /// Something came.
    pub fn byte(&mut self) {
        self.first_byte = None;
    }

    /// Something came that counts as life.
    pub fn alive(&mut self) {
        if let Some(idle) = &mut self.idle {
            idle.alive();
        }
    }

    /// The source has nothing: has it been too long?
    pub fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<Fault> {
        for alarm in [&mut self.first_byte, &mut self.total].into_iter().flatten() {
            if alarm.timer.as_mut().poll(cx).is_ready() {
                return Poll::Ready(alarm.fault.clone());
            }
        }
        match &mut self.idle {
            Some(idle) if self.first_byte.is_none() => {
                idle.poll_silent(cx).map(|idle| Fault::Limit { limit: Limit::Idle, after: idle.limit })
            }
            _ => Poll::Pending,
        }
    }
}

impl Alarm {
    fn new(limit: Limit, after: Option<Duration>, began: Instant) -> Option<Self> {
        let after = after?;
        // Beyond what the clock can tell: for ever.
        let timer = Box::pin(sleep_until(began.checked_add(after)?));
        Some(Self { timer, fault: Fault::Limit { limit, after } })
    }
}
