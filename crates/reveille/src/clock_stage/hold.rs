//! Holding a turn that ended while a reminder is pending: nothing is done but wait for a commit of the session.

use super::{Desk, visit::ClockVisit};
use crate::{
    engine::{EngineError, Hold},
    tools::HeldFor,
};
use futures_util::future::{Either, pending};
use reveille_core::{Millis, SessionId, Timestamp};
use reveille_gateway::Waiting;
use std::time::Duration;

/// Where only pings can be sent. Some clients give up after five minutes of nothing else, and would send their turn again.
const PINGED_MAX: Duration = Duration::from_secs(280);

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
                if !self.holding && desk.memory.hold(session, self.fingerprint(), desk.engine.now()) {
                    return Ok(None);
                }
                self.holding = true;
                self.let_go_of_body();
                desk.engine.metrics.gateway.holds.inc();
                counted = Some(Held(&desk));
                tracing::debug!(target: "reveille::clock", %session, "held");
            }
            tokio::select! {
                biased;
                () = client.changed() => {}
                () = &mut over => return Ok(None),
                () = desk.stop.cancelled() => return Ok(None),
            }
        }
    }

    /// How long this turn may wait now, for a reminder or with a call that stands by: `None` not at all, `Some(None)` without
    /// limit.
    pub(super) fn patience(&self) -> Option<Option<Duration>> {
        let limit = self.limit()?;
        let pinged = match self.waiting {
            Waiting::Pinged => Some(left(PINGED_MAX, self.since(self.quiet_since))?),
            Waiting::Alive | Waiting::Silent => None,
        };
        Some([limit, pinged].into_iter().flatten().min())
    }

    /// How long a turn like this may be held: `None` not at all, `Some(None)` without limit. A client that waits for a whole
    /// answer gives up after a time that began with its request.
    fn limit(&self) -> Option<Option<Duration>> {
        let whole = self.waiting == Waiting::Silent;
        let limit = if whole { self.desk.max_hold_whole } else { self.desk.max_hold };
        if limit.is_zero() {
            return Some(None);
        }
        let spent = if whole { self.since(self.began) } else { Duration::ZERO };
        left(limit, spent).map(Some)
    }

    fn since(&self, at: Timestamp) -> Duration {
        Duration::from_millis(self.desk.engine.now().since(at).get())
    }

    /// How far away something may be for which this turn will be held, as far as is known before its end.
    pub(super) fn held_for(&self) -> HeldFor {
        let holds = self.desk.hold && !self.structured && self.continued < self.desk.max_continuations;
        match self.limit().filter(|_| holds) {
            None => HeldFor::Nothing,
            Some(None) => HeldFor::Anything,
            Some(Some(limit)) => HeldFor::AtMost(Millis::new(limit.as_millis() as u64)),
        }
    }
}

/// `None`: nothing.
fn left(limit: Duration, spent: Duration) -> Option<Duration> {
    limit.checked_sub(spent).filter(|left| !left.is_zero())
}
