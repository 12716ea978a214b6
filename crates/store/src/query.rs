//! What can be asked of a store besides loading a session for a decision.

use reveille_core::{Batch, HistoryEntry, Item, Kind, SessionId, Timestamp};

/// A batch as it was committed: its history entries have the numbers `first_seq..`.
#[derive(Clone, Debug, PartialEq)]
pub struct Committed {
    pub batch: Batch,
    pub first_seq: i64,
    /// By this process; otherwise by another node of the same server.
    pub here: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// By creation, latest first.
    #[default]
    Newest,
    /// By deadline; only what has one.
    Soonest,
}

#[derive(Clone, Debug, Default)]
pub struct ItemFilter {
    pub id: Option<String>,
    pub kind: Option<Kind>,
    pub session: Option<SessionId>,
    /// Only what waits for a condition ([`Item::awaits`]); all there are, found without looking at others.
    pub awaiting: bool,
    /// Empty: any.
    pub statuses: Vec<String>,
    pub order: Order,
    /// Continue after this [`Found::seq`] (with [`Order::Newest`]).
    pub after: Option<i64>,
    pub limit: usize,
}

/// What one durable counter moved by within one hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HourTally {
    /// When the hour began.
    pub hour: Timestamp,
    pub name: String,
    pub value: i64,
}

/// The beginning of the hour (UTC) in which this is.
pub(crate) fn hour_of(at: Timestamp) -> i64 {
    const HOUR_MS: i64 = 3_600_000;
    at.as_millis().div_euclid(HOUR_MS).saturating_mul(HOUR_MS)
}

#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Order of creation.
    pub seq: i64,
    pub session: SessionId,
    pub item: Item,
}

#[derive(Clone, Debug, Default)]
pub struct SessionFilter {
    /// Only sessions with messages that nobody has delivered yet.
    pub undelivered: bool,
    /// Continue after this number.
    pub after: Option<i64>,
    pub limit: usize,
}

#[derive(Clone, Debug, Default)]
pub struct HistoryFilter {
    pub session: Option<SessionId>,
    /// Id of a timer, reminder or message.
    pub subject: Option<String>,
    /// Of this name: `timer.completed`.
    pub event: Option<String>,
    /// Only entries after this number, oldest first.
    pub after: Option<i64>,
    /// Only entries before this number. Without `after`: newest first.
    pub before: Option<i64>,
    pub limit: usize,
}

/// Most entries of a server that sets timers are of this event. Stores keep no index of it, for which every creation
/// would pay; it is found by walking back from the newest. All others are found by an index.
pub(crate) const NOT_INDEXED: &str = "timer.created";

pub(crate) fn is_indexed(event: &str) -> bool {
    event != NOT_INDEXED
}

/// One page of entries that were found in several places.
pub(crate) fn page(mut found: Vec<Recorded>, filter: &HistoryFilter) -> Vec<Recorded> {
    found.sort_unstable_by_key(|recorded| if filter.after.is_some() { recorded.seq } else { -recorded.seq });
    found.truncate(filter.limit);
    found
}

/// An agent as it is kept: its configuration, whatever that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAgent {
    pub body: String,
    pub changed_at: Timestamp,
}

/// A history entry as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    pub seq: i64,
    pub session: SessionId,
    pub entry: HistoryEntry,
}

impl Committed {
    pub fn recorded(&self) -> impl Iterator<Item = Recorded> + '_ {
        self.batch.history.iter().zip(self.first_seq..).map(|(entry, seq)| Recorded {
            seq,
            session: self.batch.session.id.clone(),
            entry: entry.clone(),
        })
    }
}
