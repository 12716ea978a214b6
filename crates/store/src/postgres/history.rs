//! The history read: all of it by number, a session's by its index, a rare event's by another.

use super::{
    lane::Lane,
    read::{Conditions, Read, get, known, rows, text},
    text::stored,
};
use crate::{HistoryFilter, Recorded, StoreError, query};
use reveille_core::{HistoryEntry, SessionId, SubjectKind, Timestamp};
use serde_json::Value;
use tokio_postgres::Row;

pub async fn history(lane: &Lane, server: i64, filter: &HistoryFilter) -> Read<Vec<Recorded>> {
    let owners = match (&filter.session, &filter.subject) {
        (Some(session), _) => {
            let sql = "SELECT num FROM reveille.sessions WHERE server = $1 AND name = $2";
            numbers(&lane.read(sql, &[&server, &stored(session.as_str())]).await?)?
        }
        (None, Some(subject)) => owners(lane, server, subject).await?,
        (None, None) => Vec::new(),
    };
    // Retention may have removed what an entry is about before the entry: then it is looked for among all.
    if filter.session.is_none() && owners.is_empty() {
        return within(lane, server, None, filter).await;
    }
    let mut found = Vec::new();
    for owner in owners {
        found.extend(within(lane, server, Some(owner), filter).await?);
    }
    Ok(query::page(found, filter))
}

/// The sessions in which something of this name is: an item, or the session itself.
async fn owners(lane: &Lane, server: i64, subject: &str) -> Read<Vec<i64>> {
    let sql = "SELECT session FROM reveille.items WHERE server = $1 AND id = $2
               UNION SELECT num FROM reveille.sessions WHERE server = $1 AND name = $2";
    numbers(&lane.read(sql, &[&server, &stored(subject)]).await?)
}

fn numbers(rows: &[Row]) -> Read<Vec<i64>> {
    rows.iter().map(|row| get(row, 0)).collect()
}

/// In one session, or in all.
async fn within(lane: &Lane, server: i64, session: Option<i64>, filter: &HistoryFilter) -> Read<Vec<Recorded>> {
    let sql = "SELECT h.seq, s.name, h.at, h.kind, h.subject, h.event, h.data FROM reveille.history h
         JOIN reveille.sessions s ON s.num = h.session WHERE h.server = $1"
        .to_owned();
    let (subject, limit) = (filter.subject.as_deref().map(stored), rows(filter.limit));
    let mut conditions = Conditions::new(sql, &server);
    conditions.and("h.session =", session.as_ref());
    conditions.and("h.subject =", subject.as_ref());
    conditions.and("h.event =", filter.event.as_ref());
    conditions.and("h.seq >", filter.after.as_ref());
    conditions.and("h.seq <", filter.before.as_ref());
    if session.is_none() && filter.event.as_deref().is_some_and(query::is_indexed) {
        // What the index is made for, word for word. A session's entries have a better one.
        conditions.sql.push_str(&format!(" AND h.event <> '{}'", query::NOT_INDEXED));
    }
    conditions.sql.push_str(if filter.after.is_some() { " ORDER BY h.seq" } else { " ORDER BY h.seq DESC" });
    let (sql, params) = conditions.limit(&limit);
    lane.read(&sql, &params).await?.iter().map(recorded).collect()
}

fn recorded(row: &Row) -> Read<Recorded> {
    let data = match get::<Option<String>>(row, 6)? {
        Some(text) => serde_json::from_str(&text).map_err(|error| StoreError::Damaged(error.to_string()))?,
        None => Value::Null,
    };
    Ok(Recorded {
        seq: get(row, 0)?,
        session: SessionId::new(text(row, 1)?),
        entry: HistoryEntry {
            at: Timestamp::from_millis(get(row, 2)?),
            kind: known(&get::<String>(row, 3)?, SubjectKind::parse)?,
            subject: text(row, 4)?.into(),
            event: get::<String>(row, 5)?.into(),
            data,
        },
    })
}
