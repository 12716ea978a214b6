//! Retention. Finding the rows is a read; only the short deletes by key hold the writer.

use super::write::add_tally;
use crate::HOURS_KEPT;
use reveille_core::batch::tally;
use rusqlite::{Connection, OptionalExtension, Result, params};
use std::collections::BTreeMap;

const MESSAGES: &str = "
    SELECT seq FROM messages WHERE server = ?1 AND delivered_at < ?2
    UNION ALL
    SELECT m.seq FROM sessions s JOIN messages m ON m.session = s.num AND m.delivered_at IS NULL
    WHERE s.server = ?1 AND s.state = 'closed' AND s.pending_messages > 0 AND s.active_at < ?2
    LIMIT ?3";

/// What was said stays while its session is in use.
const CONVERSATION: &str = "
    SELECT seq FROM conversation c WHERE server = ?1 AND at < ?2
    AND EXISTS (SELECT 1 FROM sessions s WHERE s.num = c.session AND s.active_at < ?2) ORDER BY at, seq LIMIT ?3";

/// An index has those in which nothing lives, so that any number of sessions that only wait is not looked at.
const SESSIONS: &str = "
    SELECT num FROM sessions s WHERE server = ?1 AND active_at < ?2
    AND live_timers = 0 AND live_reminders = 0 AND pending_messages = 0
    AND NOT EXISTS (SELECT 1 FROM items WHERE session = s.num)
    AND NOT EXISTS (SELECT 1 FROM conversation WHERE session = s.num)
    AND NOT EXISTS (SELECT 1 FROM messages WHERE session = s.num AND delivered_at IS NULL)
    AND last_history < coalesce((SELECT min(seq) FROM history WHERE server = ?1), 0) LIMIT ?3";

/// Numbers of the rows to remove, per table.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Expired {
    items: Vec<i64>,
    messages: Vec<i64>,
    history: Vec<i64>,
    conversation: Vec<i64>,
    sessions: Vec<i64>,
    /// What has happened since stays.
    before: i64,
    /// The server whose hours before this go too.
    hours: (i64, i64),
}

impl Expired {
    pub fn len(&self) -> usize {
        let rows = [&self.items, &self.messages, &self.history, &self.conversation, &self.sessions];
        rows.iter().map(|rows| rows.len()).sum()
    }
}

pub fn find(connection: &Connection, server: i64, before: i64, limit: usize) -> Result<Expired> {
    let find = |sql: &str| -> Result<Vec<i64>> {
        connection.prepare_cached(sql)?.query_map(params![server, before, limit as i64], |row| row.get(0))?.collect()
    };
    Ok(Expired {
        items: find("SELECT seq FROM items WHERE server = ?1 AND ended < ?2 ORDER BY ended LIMIT ?3")?,
        messages: find(MESSAGES)?,
        // Entries are numbered in the order of time, so the old ones come first and the scan ends at a young one.
        history: find(
            "SELECT seq FROM (SELECT seq, at FROM history WHERE server = ?1 ORDER BY seq LIMIT ?3)
             WHERE at < ?2 AND seq < (SELECT max(seq) FROM history WHERE server = ?1)",
        )?,
        conversation: find(CONVERSATION)?,
        before,
        sessions: find(SESSIONS)?,
        hours: (server, before.saturating_sub_unsigned(HOURS_KEPT.get())),
    })
}

/// Looks again at what could have changed since it was found: a session may have come back to life.
pub fn remove(connection: &Connection, expired: &Expired) -> Result<usize> {
    let remove = |sql: &str, keys: &[i64]| -> Result<usize> {
        let mut statement = connection.prepare_cached(sql)?;
        keys.iter().try_fold(0, |sum, key| Ok(sum + statement.execute([key])?))
    };
    let (server, before) = expired.hours;
    connection.prepare_cached("DELETE FROM hours WHERE server = ?1 AND hour < ?2")?.execute([server, before])?;
    Ok(remove("DELETE FROM items WHERE seq = ?1 AND ended IS NOT NULL", &expired.items)?
        + remove_messages(connection, server, &expired.messages)?
        + remove("DELETE FROM history WHERE seq = ?1", &expired.history)?
        + remove(
            &format!(
                "DELETE FROM conversation WHERE seq = ?1 AND EXISTS
                 (SELECT 1 FROM sessions WHERE num = conversation.session AND active_at < {})",
                expired.before
            ),
            &expired.conversation,
        )?
        + remove(
            "DELETE FROM sessions WHERE num = ?1 AND NOT EXISTS (SELECT 1 FROM items WHERE session = ?1)
             AND NOT EXISTS (SELECT 1 FROM conversation WHERE session = ?1)
             AND NOT EXISTS (SELECT 1 FROM messages WHERE session = ?1 AND delivered_at IS NULL)
             AND last_history < (SELECT min(seq) FROM history WHERE server = sessions.server)",
            &expired.sessions,
        )?)
}

/// A closed session has fewer to tell afterwards, which whoever remembers it has to notice; what nobody is told any more
/// counts as withdrawn.
fn remove_messages(connection: &Connection, server: i64, keys: &[i64]) -> Result<usize> {
    let mut statement = connection.prepare_cached(
        "DELETE FROM messages WHERE seq = ?1 AND (delivered_at IS NOT NULL OR EXISTS
         (SELECT 1 FROM sessions WHERE num = messages.session AND state = 'closed'))
         RETURNING session, delivered_at IS NULL",
    )?;
    let (mut removed, mut untold) = (0, BTreeMap::<i64, i64>::new());
    for key in keys {
        let gone: Option<(i64, bool)> = statement.query_row([key], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        removed += usize::from(gone.is_some());
        if let Some((session, true)) = gone {
            *untold.entry(session).or_default() += 1;
        }
    }
    let mut less = connection.prepare_cached(
        "UPDATE sessions SET version = version + 1, pending_messages = pending_messages - ?2 WHERE num = ?1",
    )?;
    for (session, count) in &untold {
        less.execute([session, count])?;
    }
    if !untold.is_empty() {
        add_tally(connection, server, tally::MESSAGES_WITHDRAWN, untold.values().sum())?;
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_is_to_stay_is_not_looked_at() {
        let connection = Connection::open_in_memory().unwrap();
        for step in [include_str!("migrations/0001.sql"), include_str!("migrations/0002.sql")] {
            connection.execute_batch(step).unwrap();
        }
        for (sql, index) in [
            (SESSIONS, "INDEX sessions_idle (server=? AND active_at<?)"),
            (MESSAGES, "INDEX sessions_untold (server=? AND active_at<?)"),
            (CONVERSATION, "INDEX conversation_at (server=? AND at<?)"),
        ] {
            let mut explained = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let steps = explained.query_map(params![1, 2, 3], |row| row.get::<_, String>(3)).unwrap();
            let plan = steps.collect::<Result<Vec<_>>>().unwrap().join("; ");
            assert!(plan.contains(index), "{plan}");
        }
    }
}
