//! Some have better things to do than to wait for a store that is away: model calls, which are worth more than what is
//! added to them, and whoever asks how things are.

use super::Engine;
use crate::metrics::StageLabels;
use std::{
    fmt::Display,
    future::Future,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// A store that has not answered by then is gone on without.
const MOMENT: Duration = Duration::from_secs(1);
/// … and other model calls do so for this long, without waiting for it again.
const AGAIN: Duration = Duration::from_secs(2);

/// Until when nobody waits, because somebody did in vain.
#[derive(Default)]
pub struct Impatience(Mutex<Option<Instant>>);

impl Impatience {
    fn lasts(&self) -> bool {
        self.lock().is_some_and(|until| Instant::now() < until)
    }

    fn begin(&self) {
        *self.lock() = Some(Instant::now() + AGAIN);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Waits a moment for what has to ask the store, and not at all if that is away. What is known in memory is had
    /// either way.
    pub async fn briefly<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let length = if self.store.is_away() { Duration::ZERO } else { MOMENT };
        tokio::time::timeout(length, work).await.ok()
    }

    /// The same for something that a model call can do without; that it had to is counted.
    pub async fn if_ready<T, E: Display>(
        &self,
        stage: &'static str,
        work: impl Future<Output = Result<T, E>>,
    ) -> Option<T> {
        let waits = !self.store.is_away() && !self.impatience.lasts();
        let why = match tokio::time::timeout(if waits { MOMENT } else { Duration::ZERO }, work).await {
            Ok(Ok(done)) => return Some(done),
            Ok(Err(error)) => error.to_string(),
            Err(_) => {
                if waits {
                    self.impatience.begin();
                }
                "the store does not answer".to_owned()
            }
        };
        tracing::warn!(stage, error = why, "a model call goes on without what the store has for it");
        self.goes_without(stage);
        None
    }

    /// A model call goes on without what this stage would have done for it.
    pub fn goes_without(&self, stage: &'static str) {
        self.metrics.gateway.unprepared.get_or_create(&StageLabels { stage }).inc();
    }
}
