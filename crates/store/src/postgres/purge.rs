//! Retention, in small statements that each look and remove at once. Several nodes may do it at the same time.

use super::lane::Lane;
use crate::{HOURS_KEPT, StoreError};
use reveille_core::{Timestamp, batch::tally};
use tokio_postgres::Row;

const ITEMS: &str = "
    DELETE FROM reveille.items WHERE seq IN (
        SELECT seq FROM reveille.items WHERE server = $1 AND ended < $2 ORDER BY ended LIMIT $3 FOR UPDATE SKIP LOCKED)
    RETURNING 1";

const DELIVERED: &str = "
    DELETE FROM reveille.messages WHERE seq IN (
        SELECT seq FROM reveille.messages WHERE server = $1 AND delivered_at < $2 LIMIT $3 FOR UPDATE SKIP LOCKED)
    RETURNING 1";

/// The session is locked first: it may come back to life, and then keeps its messages. It has fewer to tell afterwards,
/// which whoever remembers it has to notice; what nobody is told any more counts as withdrawn.
const OF_CLOSED: &str = "
    WITH closed AS MATERIALIZED (
        SELECT num FROM reveille.sessions s WHERE server = $1 AND state = 'closed' AND active_at < $2
        AND pending_messages > 0 LIMIT $3 FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM reveille.messages WHERE seq IN (
            SELECT m.seq FROM closed c JOIN reveille.messages m ON m.session = c.num AND m.delivered_at IS NULL LIMIT $3)
        RETURNING session
    ), less AS (
        UPDATE reveille.sessions s SET version = s.version + 1, pending_messages = s.pending_messages - g.count
        FROM (SELECT session, count(*) AS count FROM gone GROUP BY session) AS g WHERE s.num = g.session
    ), counted AS (
        INSERT INTO reveille.tallies AS t (server, name, value)
        SELECT $1, $4, count(*) FROM gone HAVING count(*) > 0
        ON CONFLICT (server, name) DO UPDATE SET value = t.value + excluded.value
    )
    SELECT 1 FROM gone";

/// Entries are numbered in the order of time, so the old ones come first and the scan ends at a young one. The newest
/// stays, since clients resume from its number.
const HISTORY: &str = "
    DELETE FROM reveille.history WHERE server = $1 AND seq IN (
        SELECT seq FROM (SELECT seq, at FROM reveille.history WHERE server = $1 ORDER BY seq LIMIT $3) AS oldest
        WHERE at < $2 AND seq < (SELECT history FROM reveille.servers WHERE num = $1))
    RETURNING 1";

/// What was said stays while its session is in use; the session is locked first, for it may be again.
const CONVERSATION: &str = "
    WITH idle AS MATERIALIZED (
        SELECT s.num FROM (SELECT DISTINCT session FROM reveille.conversation WHERE server = $1 AND at < $2) AS c
        JOIN reveille.sessions s ON s.num = c.session WHERE s.active_at < $2
        LIMIT $3 FOR UPDATE OF s SKIP LOCKED
    )
    DELETE FROM reveille.conversation WHERE seq IN (
        SELECT c.seq FROM idle i JOIN reveille.conversation c ON c.session = i.num AND c.at < $2 ORDER BY c.seq LIMIT $3)
    RETURNING 1";

const HOURS: &str = "DELETE FROM reveille.hours WHERE server = $1 AND hour < $2";

/// An index has those in which nothing lives, so that any number of sessions that only wait is not looked at.
const SESSIONS: &str = "
    DELETE FROM reveille.sessions WHERE active_at < $2 AND num IN (
        SELECT num FROM reveille.sessions s WHERE server = $1 AND active_at < $2
        AND live_timers = 0 AND live_reminders = 0 AND pending_messages = 0
        AND NOT EXISTS (SELECT 1 FROM reveille.items WHERE session = s.num)
        AND NOT EXISTS (SELECT 1 FROM reveille.conversation WHERE session = s.num)
        AND NOT EXISTS (SELECT 1 FROM reveille.messages WHERE session = s.num AND delivered_at IS NULL)
        AND NOT EXISTS (SELECT 1 FROM reveille.history WHERE session = s.num)
        LIMIT $3 FOR UPDATE SKIP LOCKED)
    RETURNING 1";

/// What goes wrong with one kind does not keep the others from being removed; it is told of when nothing else is left.
pub async fn purge(lane: &Lane, server: i64, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
    let (before, limit) = (before.as_millis(), i64::try_from(limit).unwrap_or(i64::MAX));
    let hours_before = before.saturating_sub_unsigned(HOURS_KEPT.get());
    let (mut removed, mut failed) = (0, None);
    let mut count = |rows: Result<Vec<Row>, StoreError>| match rows {
        Ok(rows) => {
            removed += rows.len();
            rows.len() as i64
        }
        Err(error) => {
            failed = Some(error);
            0
        }
    };
    count(lane.read(ITEMS, &[&server, &before, &limit]).await);
    let left = limit - count(lane.read(DELIVERED, &[&server, &before, &limit]).await);
    count(lane.read(OF_CLOSED, &[&server, &before, &left, &tally::MESSAGES_WITHDRAWN]).await);
    count(lane.read(HISTORY, &[&server, &before, &limit]).await);
    count(lane.read(CONVERSATION, &[&server, &before, &limit]).await);
    count(lane.read(HOURS, &[&server, &hours_before]).await);
    count(lane.read(SESSIONS, &[&server, &before, &limit]).await);
    match failed {
        Some(error) if removed == 0 => Err(error),
        _ => Ok(removed),
    }
}
