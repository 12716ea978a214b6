//! One batch into SQL. Statements only; nothing is decided here but "is the version still the expected one".

use reveille_core::{Batch, Item, ItemWrite, Message, MessageWrite};
use rusqlite::{Connection, OptionalExtension, Result, params};

/// Whether the batch was applied, or was decided on a state that is gone.
#[derive(Debug, PartialEq, Eq)]
pub enum Applied {
    Yes,
    Conflict,
}

/// Applies the batch inside the open transaction. History entries get the numbers from `first_seq` on. After an error
/// the transaction must be rolled back: part of the batch may be in it.
pub fn apply(connection: &Connection, server: i64, batch: &Batch, first_seq: i64) -> Result<Applied> {
    let Some(session) = session(connection, server, batch)? else {
        return Ok(Applied::Conflict);
    };
    for write in &batch.items {
        item(connection, server, session, write)?;
    }
    for write in &batch.messages {
        match write {
            MessageWrite::Insert(message) => insert_message(connection, server, session, message)?,
            MessageWrite::Update(message) => update_message(connection, session, message)?,
        }
    }
    for (entry, seq) in batch.history.iter().zip(first_seq..) {
        let data = (!entry.data.is_null()).then(|| entry.data.to_string());
        connection
            .prepare_cached(
                "INSERT INTO history (seq, server, session, session_name, at, kind, subject, event, data)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?
            .execute(params![
                seq,
                server,
                session,
                batch.session.id.as_str(),
                entry.at.as_millis(),
                entry.kind.as_str(),
                entry.subject.as_ref(),
                entry.event.as_ref(),
                data,
            ])?;
    }
    Ok(Applied::Yes)
}

/// The number of the session's row, if it is at the expected version; it is raised here. Without RETURNING, for which
/// SQLite would keep a journal for each statement.
fn session(connection: &Connection, server: i64, batch: &Batch) -> Result<Option<i64>> {
    let session = &batch.session;
    let Some(expected) = batch.expected else {
        let inserted = connection
            .prepare_cached(
                "INSERT INTO sessions
                 (server, name, version, state, created_at, active_at, live_timers, pending_messages)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING",
            )?
            .execute(params![
                server,
                session.id.as_str(),
                session.version as i64,
                session.state.as_str(),
                session.created_at.as_millis(),
                session.active_at.as_millis(),
                session.live_timers,
                session.pending_messages,
            ])?;
        return Ok((inserted == 1).then(|| connection.last_insert_rowid()));
    };
    let found: Option<i64> = connection
        .prepare_cached("SELECT num FROM sessions WHERE server = ?1 AND name = ?2 AND version = ?3")?
        .query_row(params![server, session.id.as_str(), expected as i64], |row| row.get(0))
        .optional()?;
    if let Some(num) = found {
        connection
            .prepare_cached(
                "UPDATE sessions SET version = ?2, state = ?3, active_at = ?4, live_timers = ?5, pending_messages = ?6
                 WHERE num = ?1",
            )?
            .execute(params![
                num,
                session.version as i64,
                session.state.as_str(),
                session.active_at.as_millis(),
                session.live_timers,
                session.pending_messages,
            ])?;
    }
    Ok(found)
}

fn item(connection: &Connection, server: i64, session: i64, write: &ItemWrite) -> Result<()> {
    let millis = |item: &Item| (item.due().map(|t| t.as_millis()), item.ended_at().map(|t| t.as_millis()));
    match write {
        ItemWrite::Insert { item, key } => {
            let (due, ended) = millis(item);
            connection
                .prepare_cached(
                    "INSERT INTO items (server, session, id, kind, status, due, ended, request_key, request_print, body)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                )?
                .execute(params![
                    server,
                    session,
                    item.id().as_str(),
                    item.kind().as_str(),
                    item.status(),
                    due,
                    ended,
                    key.as_ref().map(|key| key.key.as_str()),
                    key.as_ref().map(|key| key.fingerprint.as_str()),
                    item.encode(),
                ])?;
        }
        ItemWrite::Update(item) => {
            let (due, ended) = millis(item);
            connection
                .prepare_cached(
                    "UPDATE items SET status = ?3, due = ?4, ended = ?5, body = ?6 WHERE server = ?1 AND id = ?2",
                )?
                .execute(params![server, item.id().as_str(), item.status(), due, ended, item.encode()])?;
        }
    }
    Ok(())
}

fn insert_message(connection: &Connection, server: i64, session: i64, message: &Message) -> Result<()> {
    let lease = message.lease.as_ref();
    connection
        .prepare_cached(
            "INSERT INTO messages (server, session, id, kind, text, source, created_at, lease, leased_until)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            server,
            session,
            message.id.as_ref(),
            message.kind.as_str(),
            message.text,
            message.source.as_str(),
            message.created_at.as_millis(),
            lease.map(|lease| lease.id.as_str()),
            lease.map(|lease| lease.until.as_millis()),
        ])?;
    Ok(())
}

fn update_message(connection: &Connection, session: i64, message: &Message) -> Result<()> {
    let (lease, delivered) = (message.lease.as_ref(), message.delivered.as_ref());
    connection
        .prepare_cached(
            "UPDATE messages SET lease = ?3, leased_until = ?4, delivered_at = ?5, channel = ?6
             WHERE session = ?1 AND delivered_at IS NULL AND id = ?2",
        )?
        .execute(params![
            session,
            message.id.as_ref(),
            lease.map(|lease| lease.id.as_str()),
            lease.map(|lease| lease.until.as_millis()),
            delivered.map(|delivered| delivered.at.as_millis()),
            delivered.map(|delivered| delivered.channel.as_str()),
        ])?;
    Ok(())
}

pub fn add_tally(connection: &Connection, server: i64, name: &str, by: i64) -> Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO tallies (server, name, value) VALUES (?1, ?2, ?3)
             ON CONFLICT (server, name) DO UPDATE SET value = value + excluded.value",
        )?
        .execute(params![server, name, by])?;
    Ok(())
}
