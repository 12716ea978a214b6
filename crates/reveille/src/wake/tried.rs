//! What was tried before, by this process or any other: how often, until when that has to rest, and what was given up. All
//! of it from the history, so that neither restarts nor other nodes give anything extra.

use super::{
    attempt::{ASKED, Attempt, ENDED, GIVEN_UP, STARTED},
    plan,
};
use reveille_core::{Message, Millis, Timestamp};
use reveille_store::{HistoryFilter, Recorded, StoreError};
use serde_json::Value;

const HOUR: Millis = Millis::from_secs(3600);

impl Attempt {
    /// How many attempts to tell these have failed in a row, and until when the next has to wait.
    pub(super) async fn failed_before(
        &self,
        free: &[&Message],
        now: Timestamp,
    ) -> Result<(u32, Option<Timestamp>), StoreError> {
        let (started, ended) = (self.recorded(STARTED, 1).await?.pop(), self.recorded(ENDED, 1).await?.pop());
        let Some((started, ended)) = started.zip(ended).filter(|(started, ended)| ended.seq > started.seq) else {
            return Ok((0, None));
        };
        let how = &ended.entry.data;
        // Another rule has attempts of its own.
        if how["rule"] != self.rule().0 {
            return Ok((0, None));
        }
        if how["told"] != false || how["interrupted"] == true || !all_among(free, &started.entry.data["messages"]) {
            return Ok((0, None));
        }
        if self.recorded(ASKED, 1).await?.first().is_some_and(|asked| asked.seq > ended.seq) {
            return Ok((0, None));
        }
        let failures = started.entry.data["attempt"].as_u64().and_then(|count| u32::try_from(count).ok()).unwrap_or(1);
        Ok((failures, Some(ended.entry.at.min(now).plus(plan::backoff(failures.saturating_sub(1))))))
    }

    /// All of these were tried often enough, by this process or one before it.
    pub(super) async fn given_up(&self, free: &[&Message]) -> Result<bool, StoreError> {
        let last = self.recorded(GIVEN_UP, 1).await?;
        let Some(given_up) = last.first() else { return Ok(false) };
        if self.recorded(ASKED, 1).await?.first().is_some_and(|asked| asked.seq > given_up.seq) {
            return Ok(false);
        }
        Ok(all_among(free, &given_up.entry.data["messages"]))
    }

    /// When the next command may be run, if the last hour had as many as are allowed.
    pub(super) async fn too_many(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let (_, rule) = self.rule();
        let started = self.recorded(STARTED, rule.per_hour as usize).await?;
        let oldest = started.last().filter(|_| started.len() >= rule.per_hour as usize);
        let free_again =
            oldest.map(|oldest| oldest.entry.at.min(now).plus(HOUR)).filter(|free_again| *free_again > now);
        if free_again.is_some() {
            tracing::info!(session = %self.session, "woken too often within the hour; the message waits");
        }
        Ok(free_again)
    }

    pub(super) async fn recorded(&self, event: &str, limit: usize) -> Result<Vec<Recorded>, StoreError> {
        let (session, event) = (Some(self.session.clone()), Some(event.to_owned()));
        let filter = HistoryFilter { session, event, limit, ..HistoryFilter::default() };
        self.engine.store().history(filter).await
    }
}

/// These messages, and no others, were told of.
fn all_among(free: &[&Message], told: &Value) -> bool {
    let told = told.as_array().map(Vec::as_slice).unwrap_or_default();
    free.iter().all(|message| told.iter().any(|id| id == &*message.id))
}
