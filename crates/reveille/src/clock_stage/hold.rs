//! Holding a turn that ended while a reminder is pending: nothing is done but wait for a commit of the session.

use super::{Desk, visit::ClockVisit};
use crate::engine::{EngineError, Hold};
use futures_util::future::{Either, pending};
use reveille_core::{Millis, SessionId};
use std::time::Duration;

/// Counts the turns held now.
struct Held<'a>(&'a Desk);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.engine.metrics.gateway.holds.dec();
    }
}

impl ClockVisit {
    /// What is to be told at the end of the hold; `None`: the turn is over.
    pub(super) async fn hold(&mut self, session: &SessionId) -> Result<Option<String>, EngineError> {
        let desk = self.desk.clone();
        let Some(patience) = self.patience() else { return Ok(None) };
        // Announced before looking, so that no commit is missed.
        let client = desk.engine.presence().hold(session, Hold::Client { wakes: true, name: None });
        let mut over = match patience {
            Some(length) => Either::Left(desk.engine.clock().sleep(Millis::new(length.as_millis() as u64))),
            None => Either::Right(pending()),
        };
        let mut counted = None;
        loop {
            if let Some(text) = self.collect(session).await? {
                return Ok(Some(text));
            }
            if !desk.engine.expects_reminder(session).await? {
                return Ok(None);
            }
            if counted.is_none() {
                if desk.memory.hold(session, self.fingerprint()) {
                    return Ok(None);
                }
                desk.engine.metrics.gateway.holds.inc();
                counted = Some(Held(&desk));
                tracing::debug!(target: "reveille::clock", %session, "held");
            }
            tokio::select! {
                () = client.changed() => {}
                () = &mut over => return Ok(None),
                () = desk.stop.cancelled() => return Ok(None),
            }
        }
    }

    /// How long this turn may be held: `None` not at all, `Some(None)` without limit. A client that waits for a whole answer
    /// gives up after a time that began with its request.
    fn patience(&self) -> Option<Option<Duration>> {
        let limit = if self.stream { self.desk.max_hold } else { self.desk.max_hold_whole };
        if limit.is_zero() {
            return Some(None);
        }
        let spent = if self.stream { Duration::ZERO } else { self.began.elapsed() };
        limit.checked_sub(spent).filter(|left| !left.is_zero()).map(Some)
    }
}
