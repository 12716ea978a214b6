//! Where sessions are kept. A store has one write, [`Store::commit`], and holds no rules: what may be written was
//! decided before, and a version in the batch says on what state. Every backend passes the same conformance suite
//! (`tests/conformance.rs`), and random batches must leave them all equal (`tests/differential.rs`).

#![forbid(unsafe_code)]

pub mod error;
mod feed;
pub mod memory;
pub mod postgres;
pub mod query;
mod rank;
mod shape;
pub mod sqlite;

pub use error::{CommitError, StoreError};
pub use feed::{Feed, Group, News};
pub use memory::{MemoryServer, MemoryStore};
pub use postgres::{PostgresOptions, PostgresStore};
pub use query::{Committed, Found, HistoryFilter, HourTally, ItemFilter, Order, Recorded, SessionFilter, StoredAgent};
pub use sqlite::SqliteStore;

use async_trait::async_trait;
use reveille_core::{AgentId, Batch, ItemId, Millis, Needs, Session, SessionId, Timestamp, Utterance, command::State};
use std::{collections::BTreeMap, sync::Arc};

/// How many ended items a session shows besides its live ones ([`reveille_core::command::Select::Recent`]).
pub const RECENT_ENDED_MAX: usize = 50;

/// What happened in each hour is kept this much longer than everything else: a few rows an hour.
pub const HOURS_KEPT: Millis = Millis::from_secs(366 * 24 * 3600);

/// Everything is scoped to one server: a store never shows or touches what belongs to another.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    fn server_id(&self) -> &str;

    /// Writes all of the batch, durably, or nothing. Answered only once it would survive a power cut.
    async fn commit(&self, batch: Batch) -> Result<Arc<Committed>, CommitError>;

    /// A small write of nothing that anybody reads, durably and by the way of all others: whether changes are taken again
    /// after one was refused.
    async fn try_write(&self) -> Result<(), StoreError>;

    /// The part of one session that a command needs, as of one instant.
    async fn load(&self, session: &SessionId, needs: Needs) -> Result<State, StoreError>;

    /// The sessions of these items, each with those of the items that exist, and with its inbox where one of them needs
    /// that to act on its deadline ([`reveille_core::Item::watches_inbox`]). Where one ends its session, with everything
    /// live in it and the inbox ([`reveille_core::Item::ends_session`]).
    async fn load_items(&self, ids: Vec<ItemId>) -> Result<Vec<(SessionId, State)>, StoreError>;

    /// The earliest deadlines, in order; those of one instant in the order of their ids.
    async fn deadlines(&self, limit: usize) -> Result<Vec<(Timestamp, ItemId)>, StoreError>;

    async fn items(&self, filter: ItemFilter) -> Result<Vec<Found>, StoreError>;

    /// Newest first.
    async fn sessions(&self, filter: SessionFilter) -> Result<Vec<(i64, Session)>, StoreError>;

    async fn history(&self, filter: HistoryFilter) -> Result<Vec<Recorded>, StoreError>;

    /// The latest that was said in a session, oldest first.
    async fn conversation(&self, session: &SessionId, limit: usize) -> Result<Vec<Utterance>, StoreError>;

    /// Agents are configuration and no part of any session; the last write counts. `None` removes it; whether it was
    /// there. Durable when answered.
    async fn set_agent(&self, id: &AgentId, agent: Option<StoredAgent>) -> Result<bool, StoreError>;

    async fn agent(&self, id: &AgentId) -> Result<Option<StoredAgent>, StoreError>;

    /// All of them, by name.
    async fn agents(&self) -> Result<Vec<(AgentId, StoredAgent)>, StoreError>;

    /// The durable counters.
    async fn tallies(&self) -> Result<BTreeMap<String, i64>, StoreError>;

    /// By how much each counter of what happened moved in each hour from the one of `since` on, in order of time and name.
    async fn hours(&self, since: Timestamp) -> Result<Vec<HourTally>, StoreError>;

    /// Removes up to `limit` rows of each kind that ended before `before`; how many were removed. Live items,
    /// undelivered messages of open sessions and the newest history entry always stay; undelivered ones that go count as
    /// withdrawn. A conversation goes when nothing
    /// has happened in its session since.
    async fn purge(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError>;

    /// What is committed from now on, by every node of this server, in one order.
    fn feed(&self) -> Feed;

    /// Whether this node acts on the deadline at once. The nodes of a server share the work in this way; whoever is not
    /// the first acts a moment later, should the first be gone.
    fn acts_first(&self, _id: &ItemId) -> bool {
        true
    }

    /// No other node of this server lives, as far as is known.
    fn is_alone(&self) -> bool {
        true
    }

    /// A client begins or ceases to hold the session at this node. Other nodes know of it within moments.
    fn holds(&self, _session: &SessionId, _held: bool) {}

    /// A client holds the session at another node.
    async fn is_held_elsewhere(&self, _session: &SessionId) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// What it is kept in cannot be reached, as far as is known: whoever has better things to do need not ask and wait.
    fn is_away(&self) -> bool {
        false
    }

    /// Finishes what was begun and lets go of the files.
    async fn close(&self);
}
