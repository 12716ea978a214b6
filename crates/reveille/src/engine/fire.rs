//! Deadlines into commits.

use super::{Begun, Engine, many::Undone};
use futures_util::future::BoxFuture;
use reveille_core::{Batch, Command, Fired, ItemId, Reply, call};

impl Engine {
    /// Lets time act on these items, where it is due. On failure: what is still to be done.
    pub(super) async fn fire(&self, ids: Vec<ItemId>) -> Result<(), Undone> {
        let fire = |ids: &[ItemId]| {
            let waited_for = ids.iter().filter(|id| self.standbys.is_waited_for(id));
            let standing = waited_for.map(|id| (id.clone(), self.fresh_lease())).collect();
            Command::Fire { ids: ids.to_vec(), standing }
        };
        let done = |reply: &Reply, batch: &Batch| {
            self.measure(reply);
            self.begin_calls(batch);
        };
        self.to_each(ids, fire, done).await
    }

    /// For who awaits it within what it awaits itself.
    pub(super) fn fire_boxed(&self, ids: Vec<ItemId>) -> BoxFuture<'_, Result<(), Undone>> {
        Box::pin(self.fire(ids))
    }

    /// Whoever's commit began an attempt makes it, and nobody else.
    fn begin_calls(&self, batch: &Batch) {
        for call in batch.items.iter().filter_map(|write| write.item().as_call()) {
            if call.status() == call::Status::Running {
                let _ = self.begun.send(Begun { session: batch.session.id.clone(), call: call.clone() });
            }
        }
    }

    /// Lateness is counted to the moment the firing is durable.
    fn measure(&self, reply: &Reply) {
        let Reply::Fired(fired) = reply else { return };
        let now = self.clock.now();
        for Fired { due, agent, .. } in fired {
            self.metrics.fired(now.since(*due));
            if let Some(agent) = agent {
                self.metrics.session_timer_fired(agent, now.since(*due));
            }
        }
    }
}
