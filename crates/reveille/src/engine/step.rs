//! A manual clock that is driven from outside goes from deadline to deadline, and waits at each until everything that
//! was due has been done: what a test sees is what a real day would have shown, in the same order.

use super::{Engine, outside::Pending};
use crate::clock::{Clock, ManualClock};
use reveille_core::{Item, Kind, Timestamp, call::Status};
use reveille_store::{ItemFilter, StoreError};
use std::time::Duration;
use tokio::sync::oneshot;

/// Real time that one step may take: tools that are called answer in their own time, the slowest in two minutes.
const STEP: Duration = Duration::from_secs(150);
/// Deadlines passed in one go; whoever wants more asks again.
pub const STEPS_MAX: usize = 100_000;
/// Calls that are asked about whether they are under way; where more are, something is.
const CALLS_MAX: usize = 1000;
/// What is under way is looked at again at least this often, should nothing be committed meanwhile.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Debug, thiserror::Error)]
pub enum StepError {
    #[error("the clock is at {} already and does not go back; send a later time", now.to_iso())]
    Back { now: Timestamp },
    #[error("something due at {} was not done within two and a half minutes; look into the log", now.to_iso())]
    Stuck { now: Timestamp },
    #[error("{STEPS_MAX} deadlines passed up to {}; advance again to go on", now.to_iso())]
    Many { now: Timestamp },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// Lets time pass up to `to`; how many deadlines it passed.
    pub async fn step_to(&self, clock: &ManualClock, to: Timestamp) -> Result<usize, StepError> {
        let _alone = self.stepping.lock().await;
        if to < clock.now() {
            return Err(StepError::Back { now: clock.now() });
        }
        for steps in 0..STEPS_MAX {
            // Endpoints that hang are given up in their turn; should that be later than `to`, they hang on.
            let given_up = self.settled().await?;
            self.looked().await?;
            let next = self.next_step().await?.into_iter().chain(given_up).min().filter(|next| *next <= to);
            clock.set(next.unwrap_or(to));
            if next.is_none() {
                self.settled().await?;
                self.looked().await?;
                return Ok(steps);
            }
        }
        Err(StepError::Many { now: clock.now() })
    }

    /// The next deadline, or the next end of a stand-by.
    async fn next_step(&self) -> Result<Option<Timestamp>, StoreError> {
        let deadline = self.store.deadlines(1).await?.first().map(|(at, _)| *at);
        let standby = self.standby_ends().await?.into_iter().min();
        Ok(deadline.into_iter().chain(standby).min())
    }

    async fn standby_ends(&self) -> Result<Vec<Timestamp>, StoreError> {
        let states = self.store.load_items(self.standbys.waited_for()).await?;
        let timers = states.iter().flat_map(|(_, state)| state.items.iter().filter_map(Item::as_timer));
        Ok(timers.filter_map(|timer| timer.standby).map(|standby| standby.until).collect())
    }

    /// Waits until nothing is due any more, and nothing is under way but what hangs; when the first of that is given up.
    async fn settled(&self) -> Result<Option<Timestamp>, StepError> {
        let mut feed = self.store.feed();
        let waited = tokio::time::timeout(STEP, async {
            loop {
                match self.pending().await? {
                    Pending::Nothing => return Ok(None),
                    Pending::Hanging(given_up) => return Ok(Some(given_up)),
                    Pending::Something => drop(tokio::time::timeout(LOOK, feed.recv()).await),
                }
            }
        });
        waited.await.unwrap_or(Err(StepError::Stuck { now: self.now() }))
    }

    /// One look at every condition that is waited for; what holds has been met. Before time goes on, so that no end comes
    /// first.
    async fn looked(&self) -> Result<(), StepError> {
        let awaiting = ItemFilter { awaiting: true, kind: Some(Kind::Timer), limit: 1, ..ItemFilter::default() };
        if self.store.items(awaiting).await?.is_empty() {
            return Ok(());
        }
        let (asked, over) = oneshot::channel();
        let _ = self.rounds.send(asked);
        match tokio::time::timeout(STEP, over).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(StepError::Stuck { now: self.now() }),
        }
    }

    async fn pending(&self) -> Result<Pending, StoreError> {
        let now = self.now();
        let due = self.store.deadlines(1).await?.first().is_some_and(|(at, _)| *at <= now);
        if due || self.standby_ends().await?.iter().any(|until| *until <= now) {
            return Ok(Pending::Something);
        }
        let statuses = vec![Status::Running.as_str().to_owned()];
        let running = ItemFilter { kind: Some(Kind::Call), statuses, limit: CALLS_MAX, ..ItemFilter::default() };
        let running = self.store.items(running).await?;
        Ok(self.outside.pending(running.iter().map(|found| found.item.id().as_str()), now))
    }
}
