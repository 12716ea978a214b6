//! Deadlines into commits, many sessions at a time.

use super::{Engine, EngineError};
use futures_util::future::join_all;
use reveille_core::{Call, Command, Fired, ItemId, Reply, SessionId, command::State, decide};
use reveille_store::CommitError;
use std::collections::HashMap;

/// Rounds of "somebody else changed the session meanwhile" before giving way; the agenda proposes again.
const ROUNDS_MAX: usize = 16;

impl Engine {
    /// Lets time act on these items, where it is due. On failure: what is still to be done.
    pub(super) async fn fire(&self, ids: Vec<ItemId>) -> Result<(), (EngineError, Vec<ItemId>)> {
        let mut left = ids;
        for _ in 0..ROUNDS_MAX {
            if left.is_empty() {
                return Ok(());
            }
            left = self.fire_round(left).await?;
        }
        if left.is_empty() { Ok(()) } else { Err((EngineError::Contended, left)) }
    }

    /// One try; answers the items whose sessions changed meanwhile.
    async fn fire_round(&self, ids: Vec<ItemId>) -> Result<Vec<ItemId>, (EngineError, Vec<ItemId>)> {
        let (mut again, mut failed, mut why) = (Vec::new(), Vec::new(), None);
        let mut states = Vec::new();
        match self.store.load_items(ids.clone()).await {
            Ok(all) => states = all,
            // One item that cannot be read must not keep the others from firing.
            Err(_) if ids.len() > 1 => {
                for id in ids {
                    match self.store.load_items(vec![id.clone()]).await {
                        Ok(one) => states.extend(one),
                        Err(error) => {
                            failed.push(id);
                            why = Some(error.into());
                        }
                    }
                }
            }
            Err(error) => return Err((error.into(), ids)),
        }
        let commits = states.into_iter().map(|(session, state)| self.fire_session(session, state));
        for (ids, result) in join_all(commits).await {
            match result {
                Ok(()) => {}
                Err(EngineError::Contended) => again.extend(ids),
                Err(error) => {
                    failed.extend(ids);
                    why = Some(error);
                }
            }
        }
        match why {
            None => Ok(again),
            Some(error) => {
                failed.extend(again);
                Err((error, failed))
            }
        }
    }

    async fn fire_session(&self, session: SessionId, state: State) -> (Vec<ItemId>, Result<(), EngineError>) {
        let ids: Vec<ItemId> = state.items.iter().map(|item| item.id().clone()).collect();
        let standing: HashMap<_, _> = ids
            .iter()
            .filter(|id| self.standbys.is_waited_for(id))
            .map(|id| (id.clone(), self.fresh_lease()))
            .collect();
        let call = Call::new(Command::Fire { ids: ids.clone(), standing });
        let decision = match decide(&session, &state, &call, self.clock.now(), &self.limits) {
            Ok(decision) => decision,
            Err(reject) => return (ids, Err(reject.into())),
        };
        let Some(batch) = decision.batch else {
            return (ids, Ok(())); // stale: something else has acted on it already
        };
        let result = match self.commit(batch).await {
            Ok(_) => {
                self.measure(&decision.reply);
                Ok(())
            }
            Err(CommitError::Conflict | CommitError::IdTaken) => Err(EngineError::Contended),
            Err(CommitError::Store(error)) => Err(error.into()),
        };
        (ids, result)
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
