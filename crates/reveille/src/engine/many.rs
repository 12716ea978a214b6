//! One command to each of many sessions: they are loaded together and share commits. Deadlines come this way, and what
//! is done to everybody at once.

use super::{Engine, EngineError};
use futures_util::future::join_all;
use reveille_core::{Batch, Call, Command, Item, ItemId, Reject, Reply, SessionId, Timestamp, command::State, decide};
use reveille_store::CommitError;

/// Rounds of "somebody else changed the session meanwhile" before giving way.
const ROUNDS_MAX: usize = 16;

/// What could not be done, and why.
pub type Undone = (EngineError, Vec<ItemId>);

/// What came of asking.
#[derive(Default)]
pub struct Asked {
    /// Items that were left as they are although they have a deadline. Nothing will be heard of them, since nothing was
    /// written: who wanted time to act on one has to come again.
    pub standing: Vec<Standing>,
    pub undone: Option<Undone>,
}

pub struct Standing {
    pub id: ItemId,
    pub due: Timestamp,
    /// Something was written in its session, so asking again at once may find it first in line.
    pub moved: bool,
}

impl Asked {
    pub fn done(self) -> Result<(), Undone> {
        self.undone.map_or(Ok(()), Err)
    }
}

/// What came of one try.
#[derive(Default)]
struct Round {
    standing: Vec<Standing>,
    /// Their sessions changed meanwhile.
    again: Vec<ItemId>,
    /// Time has to act on these before anything else may.
    overdue: Vec<ItemId>,
    failed: Vec<ItemId>,
    why: Option<EngineError>,
}

impl Engine {
    /// Asks each session of these items what `command` makes of those it has; `done` hears of each once it is durable.
    /// Items that are not there are passed over, and so is a session that has nothing to do.
    pub(super) async fn to_each(
        &self,
        ids: Vec<ItemId>,
        command: impl Fn(&[ItemId]) -> Command,
        done: impl Fn(&Reply, &Batch),
    ) -> Asked {
        let mut left = ids;
        let mut standing = Vec::new();
        for _ in 0..ROUNDS_MAX {
            if left.is_empty() {
                return Asked { standing, undone: None };
            }
            let mut round = self.round(left, &command, &done).await;
            standing.append(&mut round.standing);
            if !round.overdue.is_empty()
                && let Err((error, _)) = self.fire_boxed(round.overdue).await.done()
            {
                round.why = Some(error);
            }
            if let Some(error) = round.why {
                round.failed.append(&mut round.again);
                return Asked { standing, undone: Some((error, round.failed)) };
            }
            left = round.again;
        }
        let undone = (!left.is_empty()).then_some((EngineError::Contended, left));
        Asked { standing, undone }
    }

    async fn round(
        &self,
        ids: Vec<ItemId>,
        command: &impl Fn(&[ItemId]) -> Command,
        done: &impl Fn(&Reply, &Batch),
    ) -> Round {
        let mut round = Round::default();
        let states = self.load_each(ids, &mut round).await;
        let asked = states.into_iter().map(|(session, state)| self.ask(session, state, command, done));
        for (ids, result) in join_all(asked).await {
            match result {
                Ok(mut standing) => round.standing.append(&mut standing),
                Err(EngineError::Contended) => round.again.extend(ids),
                Err(EngineError::Reject(Reject::Overdue(overdue))) => {
                    round.overdue.extend(overdue);
                    round.again.extend(ids);
                }
                Err(error) => {
                    round.failed.extend(ids);
                    round.why = Some(error);
                }
            }
        }
        round
    }

    /// One item that cannot be read must not keep the others from being acted on.
    async fn load_each(&self, ids: Vec<ItemId>, round: &mut Round) -> Vec<(SessionId, State)> {
        match self.store.load_items(ids.clone()).await {
            Ok(states) => return states,
            Err(error) if ids.len() == 1 => {
                round.failed = ids;
                round.why = Some(error.into());
                return Vec::new();
            }
            Err(_) => {}
        }
        let mut states = Vec::new();
        for id in ids {
            match self.store.load_items(vec![id.clone()]).await {
                Ok(one) => states.extend(one),
                Err(error) => {
                    round.failed.push(id);
                    round.why = Some(error.into());
                }
            }
        }
        states
    }

    async fn ask(
        &self,
        session: SessionId,
        state: State,
        command: &impl Fn(&[ItemId]) -> Command,
        done: &impl Fn(&Reply, &Batch),
    ) -> (Vec<ItemId>, Result<Vec<Standing>, EngineError>) {
        let ids: Vec<ItemId> = state.items.iter().map(|item| item.id().clone()).collect();
        let call = Call::new(command(&ids));
        let decision = match decide(&session, &state, &call, self.clock.now(), &self.limits) {
            Ok(decision) => decision,
            Err(reject) => return (ids, Err(reject.into())),
        };
        let Some(batch) = decision.batch else {
            return (ids, Ok(standing(&state, None)));
        };
        let result = match self.commit(batch).await {
            Ok(committed) => {
                done(&decision.reply, &committed.batch);
                Ok(standing(&state, Some(&committed.batch)))
            }
            Err(CommitError::Conflict | CommitError::IdTaken) => Err(EngineError::Contended),
            Err(CommitError::Store(error)) => Err(error.into()),
        };
        (ids, result)
    }
}

/// What of this state stays as it was loaded, and has a deadline.
fn standing(state: &State, written: Option<&Batch>) -> Vec<Standing> {
    let is_written = |id: &ItemId| written.is_some_and(|batch| batch.items.iter().any(|write| write.item().id() == id));
    let left = state.items.iter().filter(|item| !is_written(item.id()));
    let standing = |item: &Item| Some(Standing { id: item.id().clone(), due: item.due()?, moved: written.is_some() });
    left.filter_map(standing).collect()
}
