//! The history read: all of it by number, a session's by its links, a rare event's by an index.

use super::read::{known, unreadable};
use crate::{HistoryFilter, Recorded, query};
use reveille_core::{HistoryEntry, SessionId, SubjectKind, Timestamp};
use rusqlite::{Connection, OptionalExtension, Result, Row, ToSql, params};
use std::collections::VecDeque;

const HISTORY: &str = "seq, name, at, kind, subject, event, data";

pub fn history(connection: &Connection, server: i64, filter: &HistoryFilter) -> Result<Vec<Recorded>> {
    let owners = match (&filter.session, &filter.subject) {
        (Some(session), _) => place(connection, server, session.as_str())?.into_iter().collect(),
        (None, Some(subject)) => owners(connection, server, subject)?,
        (None, None) => Vec::new(),
    };
    // Retention may have removed what an entry is about before the entry: then it is looked for among all.
    if filter.session.is_none() && owners.is_empty() {
        return history_of_all(connection, server, filter);
    }
    let mut found = Vec::new();
    for owner in owners {
        found.extend(session_history(connection, owner, filter)?);
    }
    Ok(query::page(found, filter))
}

fn history_of_all(connection: &Connection, server: i64, filter: &HistoryFilter) -> Result<Vec<Recorded>> {
    let (sql, values) = statement(server, filter);
    let parameters: Vec<&dyn ToSql> = values.iter().map(AsRef::as_ref).collect();
    connection.prepare_cached(&sql)?.query_map(parameters.as_slice(), recorded)?.collect()
}

fn statement(server: i64, filter: &HistoryFilter) -> (String, Vec<Box<dyn ToSql>>) {
    let mut sql = format!("SELECT {HISTORY} FROM history h JOIN sessions s ON s.num = h.session WHERE h.server = ?1");
    let mut values: Vec<Box<dyn ToSql>> = vec![Box::new(server)];
    let mut and = |condition: &str, value: Box<dyn ToSql>| {
        values.push(value);
        sql.push_str(&format!(" AND {condition} ?{}", values.len()));
    };
    if let Some(subject) = &filter.subject {
        and("subject =", Box::new(subject.clone()));
    }
    if let Some(event) = &filter.event {
        and("event =", Box::new(event.clone()));
    }
    if let Some(after) = filter.after {
        and("seq >", Box::new(after));
    }
    if let Some(before) = filter.before {
        and("seq <", Box::new(before));
    }
    if filter.event.as_deref().is_some_and(query::is_indexed) {
        // What the index is made for, word for word.
        sql.push_str(&format!(" AND event <> '{}'", query::NOT_INDEXED));
    }
    sql.push_str(if filter.after.is_some() { " ORDER BY seq" } else { " ORDER BY seq DESC" });
    values.push(Box::new(filter.limit as i64));
    sql.push_str(&format!(" LIMIT ?{}", values.len()));
    (sql, values)
}

/// A session's row, and its newest entry.
type Place = (i64, i64);

fn place(connection: &Connection, server: i64, session: &str) -> Result<Option<Place>> {
    connection
        .prepare_cached("SELECT num, last_history FROM sessions WHERE server = ?1 AND name = ?2")?
        .query_row(params![server, session], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

/// The sessions in which something of this name is: an item, or the session itself.
fn owners(connection: &Connection, server: i64, subject: &str) -> Result<Vec<Place>> {
    connection
        .prepare_cached(
            "SELECT num, last_history FROM sessions
             WHERE num IN (SELECT session FROM items WHERE server = ?1 AND id = ?2
                           UNION SELECT num FROM sessions WHERE server = ?1 AND name = ?2)",
        )?
        .query_map(params![server, subject], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

/// Follows a session's entries from the newest, or from `before`, to the oldest that is wanted or kept.
fn session_history(connection: &Connection, (num, mut at): Place, filter: &HistoryFilter) -> Result<Vec<Recorded>> {
    let mut one = connection.prepare_cached(&format!(
        "SELECT {HISTORY}, h.prev, h.session FROM history h JOIN sessions s ON s.num = h.session WHERE seq = ?1"
    ))?;
    let mut entry = |seq: i64| {
        one.query_row([seq], |row| Ok((recorded(row)?, row.get::<_, i64>(7)?, row.get::<_, i64>(8)?))).optional()
    };
    // Where a page ended the next begins; no need to walk there from the newest.
    if let Some(before) = filter.before
        && let Some((_, prev, owner)) = entry(before)?
        && owner == num
    {
        at = prev;
    }
    let (after, before) = (filter.after.unwrap_or(i64::MIN), filter.before.unwrap_or(i64::MAX));
    let mut found = VecDeque::new();
    while at > after
        && let Some((recorded, prev, _)) = entry(at)?
    {
        at = prev;
        let wanted = filter.subject.as_deref().is_none_or(|subject| subject == recorded.entry.subject.as_ref())
            && filter.event.as_deref().is_none_or(|event| event == recorded.entry.event);
        if recorded.seq >= before || !wanted {
            continue;
        }
        match filter.after {
            None if found.len() == filter.limit => break,
            None => found.push_back(recorded),
            Some(_) => {
                found.push_front(recorded);
                found.truncate(filter.limit);
            }
        }
    }
    Ok(found.into())
}

fn recorded(row: &Row<'_>) -> Result<Recorded> {
    let data = match row.get_ref(6)?.as_str_or_null()? {
        Some(text) => serde_json::from_str(text).map_err(|error| unreadable(6, error))?,
        None => serde_json::Value::Null,
    };
    Ok(Recorded {
        seq: row.get(0)?,
        session: SessionId::new(row.get::<_, String>(1)?),
        entry: HistoryEntry {
            at: Timestamp::from_millis(row.get(2)?),
            kind: known(3, row.get_ref(3)?.as_str()?, SubjectKind::parse)?,
            subject: row.get::<_, String>(4)?.into(),
            event: row.get::<_, String>(5)?.into(),
            data,
        },
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// How SQLite would go about what is asked for, in its own words.
    fn plan(filter: &HistoryFilter) -> String {
        let connection = Connection::open_in_memory().unwrap();
        for step in [include_str!("migrations/0001.sql"), include_str!("migrations/0002.sql")] {
            connection.execute_batch(step).unwrap();
        }
        let (sql, values) = statement(1, filter);
        let parameters: Vec<&dyn ToSql> = values.iter().map(AsRef::as_ref).collect();
        let mut explained = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let steps = explained.query_map(parameters.as_slice(), |row| row.get::<_, String>(3)).unwrap();
        steps.collect::<Result<Vec<_>>>().unwrap().join("; ")
    }

    #[test]
    fn rare_events_are_found_without_walking_over_others() {
        let of = |event: &str| HistoryFilter { event: Some(event.into()), limit: 50, ..HistoryFilter::default() };
        let walk =
            "SEARCH h USING INDEX history_event (server=? AND event=?); SEARCH s USING INTEGER PRIMARY KEY (rowid=?)";
        for event in
            ["wake.started", "wake.given_up", "timer.completed", "message.delivered", "session_timer.triggered"]
        {
            assert_eq!(plan(&of(event)), walk, "newest first, without sorting");
        }
        let onwards = plan(&HistoryFilter { after: Some(7), ..of("wake.ended") });
        assert!(onwards.contains("history_event (server=? AND event=? AND rowid>?)"), "{onwards}");
        // By number, from the newest: it is what most entries are.
        let common = plan(&of(query::NOT_INDEXED));
        assert!(common.starts_with("SCAN h;"), "{common}");
    }
}
