//! Deadlines into commits.

use super::{Begun, Engine, many::Asked};
use futures_util::future::BoxFuture;
use reveille_core::{Batch, Command, Fired, ItemId, LeaseId, Reply, call};
use std::collections::HashMap;

impl Engine {
    /// Lets time act on these items, where it is due; what is still to be done.
    pub(super) async fn fire(&self, ids: Vec<ItemId>) -> Asked {
        let fire = |ids: &[ItemId]| Command::Fire { ids: ids.to_vec(), standing: self.leases(ids) };
        let done = |reply: &Reply, batch: &Batch| {
            let Reply::Fired(fired) = reply else { return };
            self.measure(fired);
            self.begin_calls(fired, batch);
        };
        self.to_each(ids, fire, done).await
    }

    /// The right to tell the end of those of these timers that calls stand by for.
    pub(super) fn leases(&self, ids: &[ItemId]) -> HashMap<ItemId, LeaseId> {
        let waited_for = ids.iter().filter(|id| self.standbys.is_waited_for(id));
        waited_for.map(|id| (id.clone(), self.fresh_lease())).collect()
    }

    /// For who awaits it within what it awaits itself.
    pub(super) fn fire_boxed(&self, ids: Vec<ItemId>) -> BoxFuture<'_, Asked> {
        Box::pin(self.fire(ids))
    }

    /// Whoever's commit began an attempt makes it, and nobody else. A commit that closes a session writes calls, too, that
    /// somebody else has begun and is making.
    fn begin_calls(&self, fired: &[Fired], batch: &Batch) {
        for Fired { id, .. } in fired {
            let written = batch.items.iter().rev().find(|write| write.item().id() == id);
            let call = written.and_then(|write| write.item().as_call());
            if let Some(call) = call.filter(|call| call.status() == call::Status::Running) {
                let _ = self.begun.send(Begun { session: batch.session.id.clone(), call: call.clone() });
            }
        }
    }

    /// Lateness is counted to the moment the firing is durable.
    fn measure(&self, fired: &[Fired]) {
        let now = self.clock.now();
        for Fired { due, agent, .. } in fired {
            self.metrics.fired(now.since(*due));
            if let Some(agent) = agent {
                self.metrics.session_timer_fired(agent, now.since(*due));
            }
        }
    }
}
