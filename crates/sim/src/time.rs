//! Virtual time. One wall clock for the world, which may be set; each node reads it a little wrong and a little fast or
//! slow. It moves by the runtime's paused time, so hours cost nothing and nothing depends on the machine.

use crate::gate::Gate;
use reveille::clock::Clock;
use reveille_core::{Millis, Timestamp};
use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// When every run begins.
const START: i64 = 1_800_000_000_000;
/// No single sleep is longer; the clock is looked at again then.
const SLEEP_MAX_MS: u64 = 24 * 3600 * 1000;

pub struct Wall {
    began: Instant,
    /// By how much it was set.
    offset: AtomicI64,
    was_set: Arc<Notify>,
}

impl Wall {
    pub fn new() -> Self {
        Self { began: Instant::now(), offset: AtomicI64::new(0), was_set: Arc::default() }
    }

    /// Milliseconds since the run began, whatever the clock shows.
    pub fn passed(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    pub fn set(&self, by: i64) {
        self.offset.fetch_add(by, Ordering::Relaxed);
        self.was_set.notify_waiters();
    }
}

/// One node's clock.
#[derive(Clone)]
pub struct NodeClock {
    wall: Arc<Wall>,
    gate: Gate,
    /// How wrong it is, and how much it gains, in millionths.
    skew_ms: i64,
    drift_ppm: i64,
    /// The latest that it ever showed.
    highest: Arc<AtomicI64>,
    /// A planted fault: what the engine is shown is this much later than it is.
    pub fast_by: i64,
}

impl NodeClock {
    pub fn new(wall: Arc<Wall>, gate: Gate, skew_ms: i64, drift_ppm: i64) -> Self {
        Self { wall, gate, skew_ms, drift_ppm, highest: Arc::new(AtomicI64::new(i64::MIN)), fast_by: 0 }
    }

    /// What it shows.
    pub fn shows(&self) -> i64 {
        let passed = self.wall.passed() as i64;
        let shown = START
            + passed
            + self.wall.offset.load(Ordering::Relaxed)
            + self.skew_ms
            + passed * self.drift_ppm / 1_000_000;
        self.highest.fetch_max(shown, Ordering::Relaxed);
        shown
    }

    pub fn highest(&self) -> i64 {
        self.shows();
        self.highest.load(Ordering::Relaxed)
    }
}

type Waiting = Pin<Box<dyn Future<Output = ()> + Send + 'static>>;

impl Clock for NodeClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.shows() + self.fast_by)
    }

    fn sleep(&self, length: Millis) -> Waiting {
        let gate = self.gate.clone();
        Box::pin(async move {
            tokio::time::sleep(length.to_std()).await;
            gate.pass().await;
        })
    }

    fn sleep_until(&self, at: Timestamp) -> Waiting {
        let (clock, set) = (self.clone(), self.wall.was_set.clone().notified_owned());
        Box::pin(async move {
            let now = clock.now();
            if now < at {
                let left = at.since(now).get().min(SLEEP_MAX_MS);
                tokio::select! {
                    biased;
                    // Somebody set it: whoever waits looks again.
                    () = set => {}
                    () = tokio::time::sleep(Duration::from_millis(left)) => {}
                }
            }
            clock.gate.pass().await;
        })
    }
}
