//! Deadlines into commits.

use super::{Engine, many::Undone};
use futures_util::future::BoxFuture;
use reveille_core::{Command, Fired, ItemId, Reply};

impl Engine {
    /// Lets time act on these items, where it is due. On failure: what is still to be done.
    pub(super) async fn fire(&self, ids: Vec<ItemId>) -> Result<(), Undone> {
        let fire = |ids: &[ItemId]| {
            let waited_for = ids.iter().filter(|id| self.standbys.is_waited_for(id));
            let standing = waited_for.map(|id| (id.clone(), self.fresh_lease())).collect();
            Command::Fire { ids: ids.to_vec(), standing }
        };
        self.to_each(ids, fire, |reply| self.measure(reply)).await
    }

    /// For who awaits it within what it awaits itself.
    pub(super) fn fire_boxed(&self, ids: Vec<ItemId>) -> BoxFuture<'_, Result<(), Undone>> {
        Box::pin(self.fire(ids))
    }

    /// Lateness is counted to the moment the firing is durable.
    fn measure(&self, reply: &Reply) {
        let Reply::Fired(fired) = reply else { return };
        let now = self.clock.now();
        for Fired { due, .. } in fired {
            self.metrics.fired(now.since(*due));
        }
    }
}
