//! One batch into SQL. Statements only; nothing is decided here but "is the version still the expected one".

use crate::StoredAgent;
use reveille_core::{AgentId, Batch, Item, ItemWrite, Message, MessageWrite, SessionId};
use rusqlite::{Connection, OptionalExtension, Result, Statement, params};
use std::collections::HashMap;

/// The statements of most batches, prepared once: to find each again by its text would cost a good part of what it does.
pub struct Statements<'c> {
    connection: &'c Connection,
    often: [Option<Statement<'c>>; 5],
}

#[derive(Clone, Copy)]
enum Often {
    InsertSession,
    UpdateSession,
    InsertItem,
    UpdateItem,
    InsertHistory,
}

impl Often {
    const fn sql(self) -> &'static str {
        match self {
            Often::InsertSession => {
                "INSERT INTO sessions
                 (server, name, version, state, created_at, active_at, live_timers, live_reminders, pending_messages,
                  last_history, client, cwd, agent, quiet)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14) ON CONFLICT DO NOTHING"
            }
            Often::UpdateSession => {
                "UPDATE sessions
                 SET version = ?3, state = ?4, active_at = ?5, live_timers = ?6, live_reminders = ?7, pending_messages = ?8,
                     last_history = ?9, client = ?10, cwd = ?11, agent = ?12, quiet = ?13
                 WHERE num = ?1 AND version = ?2"
            }
            Often::InsertItem => {
                "INSERT INTO items
                 (server, session, id, kind, status, due, ended, request_key, request_print, awaits, body)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"
            }
            Often::UpdateItem => {
                "UPDATE items SET status = ?3, due = ?4, ended = ?5, awaits = ?6, body = ?7 WHERE server = ?1 AND id = ?2"
            }
            Often::InsertHistory => {
                "INSERT INTO history (seq, server, session, prev, at, kind, subject, event, data)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
            }
        }
    }
}

impl<'c> Statements<'c> {
    pub fn on(connection: &'c Connection) -> Self {
        Self { connection, often: [const { None }; 5] }
    }

    fn get(&mut self, which: Often) -> Result<&mut Statement<'c>> {
        let slot = &mut self.often[which as usize];
        if slot.is_none() {
            *slot = Some(self.connection.prepare(which.sql())?);
        }
        Ok(slot.as_mut().expect("it was just put there"))
    }
}

/// Whether the batch was applied, or was decided on a state that is gone.
#[derive(Debug, PartialEq, Eq)]
pub enum Applied {
    Yes,
    Conflict,
}

/// Where a session is kept: the number of its row, and its newest history entry.
#[derive(Clone, Copy)]
struct Place {
    num: i64,
    last_history: i64,
}

/// Places of the sessions written last, so that most batches need not look theirs up by name. What is known here was
/// committed or is in the open transaction: [`Places::forget`] after a rollback, and when rows are removed.
#[derive(Default)]
pub struct Places(HashMap<SessionId, Place>);

/// About a megabyte at most.
const PLACES_MAX: usize = 8192;

impl Places {
    pub fn forget(&mut self) {
        self.0.clear();
    }

    fn set(&mut self, session: &SessionId, place: Place) {
        if self.0.len() >= PLACES_MAX {
            self.0.clear();
        }
        self.0.insert(session.clone(), place);
    }
}

/// Applies the batch inside the open transaction. History entries get the numbers from `first_seq` on. After an error
/// the transaction must be rolled back: part of the batch may be in it.
pub fn apply(
    statements: &mut Statements<'_>,
    server: i64,
    places: &mut Places,
    batch: &Batch,
    first_seq: i64,
) -> Result<Applied> {
    let connection = statements.connection;
    let Some(place) = session(statements, server, places, batch, first_seq)? else {
        return Ok(Applied::Conflict);
    };
    for write in &batch.items {
        item(statements, server, place.num, write)?;
    }
    for write in &batch.messages {
        match write {
            MessageWrite::Insert(message) => insert_message(connection, server, place.num, message)?,
            MessageWrite::Update(message) => update_message(connection, place.num, message)?,
            MessageWrite::Withdraw(message) => withdraw_message(connection, place.num, message)?,
        }
    }
    for said in &batch.said {
        let body = serde_json::to_string(said).expect("what was said is representable as JSON");
        connection
            .prepare_cached("INSERT INTO conversation (server, session, at, body) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![server, place.num, said.at.as_millis(), body])?;
    }
    let mut prev = place.last_history;
    for (entry, seq) in batch.history.iter().zip(first_seq..) {
        let data = (!entry.data.is_null()).then(|| entry.data.to_string());
        statements.get(Often::InsertHistory)?.execute(params![
            seq,
            server,
            place.num,
            prev,
            entry.at.as_millis(),
            entry.kind.as_str(),
            entry.subject.as_ref(),
            entry.event.as_ref(),
            data,
        ])?;
        prev = seq;
    }
    Ok(Applied::Yes)
}

/// Raises the session to its new version, or makes it. Answers where it is and what its newest history entry was;
/// nothing when it is not at the expected version. Without RETURNING, for which SQLite would keep a journal for each
/// statement.
fn session(
    statements: &mut Statements<'_>,
    server: i64,
    places: &mut Places,
    batch: &Batch,
    first_seq: i64,
) -> Result<Option<Place>> {
    let session = &batch.session;
    let last_history = |before: i64| match batch.history.len() as i64 {
        0 => before,
        entries => first_seq + entries - 1,
    };
    let Some(expected) = batch.expected else {
        let inserted = statements.get(Often::InsertSession)?.execute(params![
            server,
            session.id.as_str(),
            session.version as i64,
            session.state.as_str(),
            session.created_at.as_millis(),
            session.active_at.as_millis(),
            session.live_timers,
            session.live_reminders,
            session.pending_messages,
            last_history(0),
            session.client,
            session.cwd,
            session.agent.as_ref().map(AgentId::as_str),
            session.quiet.encode(),
        ])?;
        if inserted == 0 {
            return Ok(None);
        }
        let num = statements.connection.last_insert_rowid();
        places.set(&session.id, Place { num, last_history: last_history(0) });
        return Ok(Some(Place { num, last_history: 0 }));
    };
    let Some(place) = place(statements.connection, server, places, &session.id)? else { return Ok(None) };
    let updated = statements.get(Often::UpdateSession)?.execute(params![
        place.num,
        expected as i64,
        session.version as i64,
        session.state.as_str(),
        session.active_at.as_millis(),
        session.live_timers,
        session.live_reminders,
        session.pending_messages,
        last_history(place.last_history),
        session.client,
        session.cwd,
        session.agent.as_ref().map(AgentId::as_str),
        session.quiet.encode(),
    ])?;
    if updated == 0 {
        return Ok(None);
    }
    places.set(&session.id, Place { last_history: last_history(place.last_history), ..place });
    Ok(Some(place))
}

fn place(connection: &Connection, server: i64, places: &Places, id: &SessionId) -> Result<Option<Place>> {
    if let Some(place) = places.0.get(id) {
        return Ok(Some(*place));
    }
    connection
        .prepare_cached("SELECT num, last_history FROM sessions WHERE server = ?1 AND name = ?2")?
        .query_row(params![server, id.as_str()], |row| Ok(Place { num: row.get(0)?, last_history: row.get(1)? }))
        .optional()
}

fn item(statements: &mut Statements<'_>, server: i64, session: i64, write: &ItemWrite) -> Result<()> {
    let millis = |item: &Item| (item.due().map(|t| t.as_millis()), item.ended_at().map(|t| t.as_millis()));
    let awaits = write.item().awaits().then_some(1);
    match write {
        ItemWrite::Insert { item, key } => {
            let (due, ended) = millis(item);
            statements.get(Often::InsertItem)?.execute(params![
                server,
                session,
                item.id().as_str(),
                item.kind().as_str(),
                item.status(),
                due,
                ended,
                key.as_ref().map(|key| key.key.as_str()),
                key.as_ref().map(|key| key.fingerprint.as_str()),
                awaits,
                item.encode(),
            ])?;
        }
        ItemWrite::Update(item) => {
            let (due, ended) = millis(item);
            statements.get(Often::UpdateItem)?.execute(params![
                server,
                item.id().as_str(),
                item.status(),
                due,
                ended,
                awaits,
                item.encode(),
            ])?;
        }
    }
    Ok(())
}

fn insert_message(connection: &Connection, server: i64, session: i64, message: &Message) -> Result<()> {
    let lease = message.lease.as_ref();
    connection
        .prepare_cached(
            "INSERT INTO messages (server, session, id, kind, text, source, created_at, lease, leased_until, expires_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
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
            message.expires_at.map(|at| at.as_millis()),
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

fn withdraw_message(connection: &Connection, session: i64, message: &Message) -> Result<()> {
    connection
        .prepare_cached("DELETE FROM messages WHERE session = ?1 AND delivered_at IS NULL AND id = ?2")?
        .execute(params![session, message.id.as_ref()])?;
    Ok(())
}

/// Whether anything can be written at all, see [`crate::Store::try_write`]. It counts, so that a page really changes.
pub fn tried(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT INTO meta (key, value) VALUES ('tries', '1')
         ON CONFLICT (key) DO UPDATE SET value = CAST(value AS INTEGER) + 1",
        [],
    )?;
    Ok(())
}

/// Whether there was one.
pub fn set_agent(connection: &Connection, server: i64, id: &AgentId, agent: Option<&StoredAgent>) -> Result<bool> {
    let removed = connection
        .prepare_cached("DELETE FROM agents WHERE server = ?1 AND name = ?2")?
        .execute(params![server, id.as_str()])?;
    if let Some(agent) = agent {
        connection
            .prepare_cached("INSERT INTO agents (server, name, changed_at, body) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![server, id.as_str(), agent.changed_at.as_millis(), agent.body])?;
    }
    Ok(removed > 0)
}

pub fn add_hour(connection: &Connection, server: i64, hour: i64, name: &str, by: i64) -> Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO hours (server, hour, name, value) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (server, hour, name) DO UPDATE SET value = value + excluded.value",
        )?
        .execute(params![server, hour, name, by])?;
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
