//! SQL into rows of the domain. All of it runs on read-only connections.

use crate::{Found, HourTally, ItemFilter, Order, RECENT_ENDED_MAX, SessionFilter, StoredAgent, query::hour_of};
use reveille_core::{
    AgentId, Hours, Item, ItemId, Kind, Lease, LeaseId, Message, MessageKind, Needs, RequestKey, Session, SessionId,
    Timestamp, Utterance,
    command::{Select, State},
    message::Delivered,
    session::SessionState,
};
use rusqlite::{Connection, OptionalExtension, Result, Row, ToSql, params, types::Type};
use std::collections::{BTreeMap, HashMap};

pub fn load(connection: &Connection, server: i64, id: &SessionId, needs: &Needs) -> Result<State> {
    let Some((num, session)) = session_named(connection, server, id)? else {
        return Ok(State::default());
    };
    let inbox = if needs.inbox { inbox(connection, num)? } else { Vec::new() };
    let items = match &needs.items {
        Select::None => Vec::new(),
        Select::Ids(ids) => named(connection, server, num, ids)?,
        Select::Fired(ids) => match named(connection, server, num, ids)? {
            items if items.iter().any(Item::ends_session) => live(connection, num, None)?,
            items => items,
        },
        Select::Live => live(connection, num, None)?,
        Select::LiveOf(kind) => live(connection, num, Some(*kind))?,
        Select::Recent => recent(connection, num, None)?,
        Select::RecentOf(kind) => recent(connection, num, Some(*kind))?,
        Select::SettledBy(lease) => {
            let mut found = Vec::new();
            for message in inbox.iter().filter(|message| message.settles_source(lease)) {
                found.extend(item_by_id(connection, server, &message.source)?.map(|(_, item)| item));
            }
            found
        }
    };
    let keyed = match &needs.key {
        Some(key) => keyed(connection, num, key)?,
        None => None,
    };
    Ok(State { session: Some(session), items, inbox, keyed })
}

fn named(connection: &Connection, server: i64, num: i64, ids: &[ItemId]) -> Result<Vec<Item>> {
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        let item = item_by_id(connection, server, id)?;
        found.extend(item.filter(|(owner, _)| *owner == num).map(|(_, item)| item));
    }
    Ok(found)
}

fn live(connection: &Connection, num: i64, kind: Option<Kind>) -> Result<Vec<Item>> {
    items_where(connection, &format!("session = ?1 AND ended IS NULL{} ORDER BY seq", of(kind)), num)
}

fn recent(connection: &Connection, num: i64, kind: Option<Kind>) -> Result<Vec<Item>> {
    let mut items = live(connection, num, kind)?;
    let latest = format!(
        "session = ?1 AND ended IS NOT NULL{} ORDER BY ended DESC, seq DESC LIMIT {RECENT_ENDED_MAX}",
        of(kind)
    );
    items.extend(items_where(connection, &latest, num)?);
    Ok(items)
}

fn of(kind: Option<Kind>) -> String {
    kind.map(|kind| format!(" AND kind = '{}'", kind.as_str())).unwrap_or_default()
}

pub fn load_items(connection: &Connection, server: i64, ids: &[ItemId]) -> Result<Vec<(SessionId, State)>> {
    let mut place: HashMap<i64, usize> = HashMap::new();
    let mut states: Vec<(SessionId, State)> = Vec::new();
    for id in ids {
        let Some((num, item)) = item_by_id(connection, server, id)? else { continue };
        let at = match place.get(&num) {
            Some(at) => *at,
            None => {
                let session = session_numbered(connection, num)?;
                states.push((session.id.clone(), State { session: Some(session), ..State::default() }));
                place.insert(num, states.len() - 1);
                states.len() - 1
            }
        };
        if item.watches_inbox() && states[at].1.inbox.is_empty() {
            states[at].1.inbox = inbox(connection, num)?;
        }
        states[at].1.items.push(item);
    }
    for (num, at) in place {
        let state = &mut states[at].1;
        if state.items.iter().any(Item::ends_session) {
            (state.items, state.inbox) = (live(connection, num, None)?, inbox(connection, num)?);
        }
    }
    Ok(states)
}

pub fn deadlines(connection: &Connection, server: i64, limit: usize) -> Result<Vec<(Timestamp, ItemId)>> {
    connection
        .prepare_cached("SELECT due, id FROM items WHERE server = ?1 AND due IS NOT NULL ORDER BY due, id LIMIT ?2")?
        .query_map(params![server, limit as i64], |row| {
            Ok((Timestamp::from_millis(row.get(0)?), ItemId::new(row.get::<_, String>(1)?)))
        })?
        .collect()
}

pub fn items(connection: &Connection, server: i64, filter: &ItemFilter) -> Result<Vec<Found>> {
    // The plus keeps SQLite from an index that would make it sort everything: newest first is the order of the rows, and
    // a session's own items are few.
    let by_rows = filter.id.is_none() && (filter.order == Order::Newest || filter.session.is_some());
    let plus = if by_rows && !filter.awaiting { "+" } else { "" };
    let mut sql = format!(
        "SELECT i.seq, s.name, i.kind, i.body FROM items i JOIN sessions s ON s.num = i.session
         WHERE {plus}i.server = ?1"
    );
    let mut values: Vec<Box<dyn ToSql>> = vec![Box::new(server)];
    let mut and = |condition: &str, value: Box<dyn ToSql>| {
        values.push(value);
        sql.push_str(&format!(" AND {condition} ?{}", values.len()));
    };
    if let Some(id) = &filter.id {
        and("i.id =", Box::new(id.clone()));
    }
    if let Some(kind) = filter.kind {
        and("i.kind =", Box::new(kind.as_str()));
    }
    if let Some(session) = &filter.session {
        let num = session_named(connection, server, session)?.map(|(num, _)| num);
        and("i.session =", Box::new(num.unwrap_or(-1)));
    }
    if let Some(after) = filter.after {
        and("i.seq <", Box::new(after));
    }
    if filter.awaiting {
        sql.push_str(" AND i.awaits IS NOT NULL");
    }
    if !filter.statuses.is_empty() {
        let places: Vec<String> = filter
            .statuses
            .iter()
            .map(|status| {
                values.push(Box::new(status.clone()));
                format!("?{}", values.len())
            })
            .collect();
        sql.push_str(&format!(" AND i.status IN ({})", places.join(", ")));
    }
    sql.push_str(match filter.order {
        Order::Newest => " ORDER BY i.seq DESC",
        Order::Soonest => " AND i.due IS NOT NULL ORDER BY i.due, i.id",
    });
    values.push(Box::new(filter.limit as i64));
    sql.push_str(&format!(" LIMIT ?{}", values.len()));
    let parameters: Vec<&dyn ToSql> = values.iter().map(AsRef::as_ref).collect();
    connection
        .prepare_cached(&sql)?
        .query_map(parameters.as_slice(), |row| {
            Ok(Found {
                seq: row.get(0)?,
                session: SessionId::new(row.get::<_, String>(1)?),
                item: decode(row.get_ref(2)?.as_str()?, row.get_ref(3)?.as_str()?)?,
            })
        })?
        .collect()
}

pub fn sessions(connection: &Connection, server: i64, filter: &SessionFilter) -> Result<Vec<(i64, Session)>> {
    let sql = if filter.undelivered {
        // Led by the index of undelivered messages, which has the order as well.
        format!(
            "SELECT num, {SESSION} FROM messages CROSS JOIN sessions ON num = session
             WHERE delivered_at IS NULL AND session < ?2 AND +sessions.server = ?1
             GROUP BY session ORDER BY session DESC LIMIT ?3"
        )
    } else {
        format!("SELECT num, {SESSION} FROM sessions WHERE +server = ?1 AND num < ?2 ORDER BY num DESC LIMIT ?3")
    };
    connection
        .prepare_cached(&sql)?
        .query_map(params![server, filter.after.unwrap_or(i64::MAX), filter.limit as i64], |row| {
            Ok((row.get(0)?, session_row(row)?))
        })?
        .collect()
}

pub fn hours(connection: &Connection, server: i64, since: Timestamp) -> Result<Vec<HourTally>> {
    connection
        .prepare_cached("SELECT hour, name, value FROM hours WHERE server = ?1 AND hour >= ?2 ORDER BY hour, name")?
        .query_map(params![server, hour_of(since)], |row| {
            Ok(HourTally { hour: Timestamp::from_millis(row.get(0)?), name: row.get(1)?, value: row.get(2)? })
        })?
        .collect()
}

pub fn tallies(connection: &Connection, server: i64) -> Result<BTreeMap<String, i64>> {
    connection
        .prepare_cached("SELECT name, value FROM tallies WHERE server = ?1")?
        .query_map([server], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

pub fn conversation(connection: &Connection, server: i64, id: &SessionId, limit: usize) -> Result<Vec<Utterance>> {
    let Some((num, _)) = session_named(connection, server, id)? else { return Ok(Vec::new()) };
    let mut said: Vec<Utterance> = connection
        .prepare_cached("SELECT body FROM conversation WHERE session = ?1 ORDER BY seq DESC LIMIT ?2")?
        .query_map(params![num, limit as i64], |row| {
            serde_json::from_str(row.get_ref(0)?.as_str()?).map_err(|error| unreadable(0, error))
        })?
        .collect::<Result<_>>()?;
    said.reverse();
    Ok(said)
}

pub fn agent(connection: &Connection, server: i64, id: &AgentId) -> Result<Option<StoredAgent>> {
    connection
        .prepare_cached("SELECT name, body, changed_at FROM agents WHERE server = ?1 AND name = ?2")?
        .query_row(params![server, id.as_str()], agent_row)
        .optional()
        .map(|found| found.map(|(_, agent)| agent))
}

pub fn agents(connection: &Connection, server: i64) -> Result<Vec<(AgentId, StoredAgent)>> {
    connection
        .prepare_cached("SELECT name, body, changed_at FROM agents WHERE server = ?1 ORDER BY name")?
        .query_map([server], agent_row)?
        .collect()
}

fn agent_row(row: &Row<'_>) -> Result<(AgentId, StoredAgent)> {
    let agent = StoredAgent { body: row.get(1)?, changed_at: Timestamp::from_millis(row.get(2)?) };
    Ok((AgentId::new(row.get::<_, String>(0)?), agent))
}

const SESSION: &str = "name, version, state, sessions.created_at, active_at, live_timers, live_reminders, pending_messages, client, \
     cwd, agent, quiet";

fn session_named(connection: &Connection, server: i64, id: &SessionId) -> Result<Option<(i64, Session)>> {
    connection
        .prepare_cached(&format!("SELECT num, {SESSION} FROM sessions WHERE server = ?1 AND name = ?2"))?
        .query_row(params![server, id.as_str()], |row| Ok((row.get(0)?, session_row(row)?)))
        .optional()
}

fn session_numbered(connection: &Connection, num: i64) -> Result<Session> {
    connection
        .prepare_cached(&format!("SELECT num, {SESSION} FROM sessions WHERE num = ?1"))?
        .query_row([num], session_row)
}

fn session_row(row: &Row<'_>) -> Result<Session> {
    Ok(Session {
        id: SessionId::new(row.get::<_, String>(1)?),
        version: row.get::<_, i64>(2)? as u64,
        state: known(3, row.get_ref(3)?.as_str()?, SessionState::parse)?,
        created_at: Timestamp::from_millis(row.get(4)?),
        active_at: Timestamp::from_millis(row.get(5)?),
        live_timers: row.get(6)?,
        live_reminders: row.get(7)?,
        pending_messages: row.get(8)?,
        client: row.get(9)?,
        cwd: row.get(10)?,
        agent: row.get::<_, Option<String>>(11)?.map(AgentId::new),
        quiet: row
            .get::<_, Option<String>>(12)?
            .map(|text| known(12, &text, Hours::decode))
            .transpose()?
            .unwrap_or_default(),
    })
}

fn item_by_id(connection: &Connection, server: i64, id: &ItemId) -> Result<Option<(i64, Item)>> {
    connection
        .prepare_cached("SELECT session, kind, body FROM items WHERE server = ?1 AND id = ?2")?
        .query_row(params![server, id.as_str()], |row| {
            Ok((row.get(0)?, decode(row.get_ref(1)?.as_str()?, row.get_ref(2)?.as_str()?)?))
        })
        .optional()
}

fn items_where(connection: &Connection, condition: &str, num: i64) -> Result<Vec<Item>> {
    connection
        .prepare_cached(&format!("SELECT kind, body FROM items WHERE {condition}"))?
        .query_map([num], |row| decode(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?))?
        .collect()
}

fn keyed(connection: &Connection, num: i64, key: &str) -> Result<Option<(Item, RequestKey)>> {
    connection
        .prepare_cached("SELECT kind, body, request_print FROM items WHERE session = ?1 AND request_key = ?2")?
        .query_row(params![num, key], |row| {
            let item = decode(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?)?;
            Ok((item, RequestKey { key: key.to_owned(), fingerprint: row.get(2)? }))
        })
        .optional()
}

fn inbox(connection: &Connection, num: i64) -> Result<Vec<Message>> {
    connection
        .prepare_cached(
            "SELECT id, kind, text, source, created_at, lease, leased_until, delivered_at, channel, expires_at
             FROM messages WHERE session = ?1 AND delivered_at IS NULL ORDER BY seq",
        )?
        .query_map([num], |row| {
            let lease = match (row.get::<_, Option<String>>(5)?, row.get::<_, Option<i64>>(6)?) {
                (Some(id), Some(until)) => Some(Lease { id: LeaseId::new(id), until: Timestamp::from_millis(until) }),
                _ => None,
            };
            let delivered = match (row.get::<_, Option<i64>>(7)?, row.get::<_, Option<String>>(8)?) {
                (Some(at), Some(channel)) => Some(Delivered { at: Timestamp::from_millis(at), channel }),
                _ => None,
            };
            Ok(Message {
                id: row.get::<_, String>(0)?.into(),
                kind: known(1, row.get_ref(1)?.as_str()?, MessageKind::parse)?,
                text: row.get(2)?,
                source: ItemId::new(row.get::<_, String>(3)?),
                created_at: Timestamp::from_millis(row.get(4)?),
                expires_at: row.get::<_, Option<i64>>(9)?.map(Timestamp::from_millis),
                lease,
                delivered,
            })
        })?
        .collect()
}

fn decode(kind: &str, body: &str) -> Result<Item> {
    Item::decode(kind, body).map_err(|error| unreadable(0, error))
}

pub fn known<T>(column: usize, text: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T> {
    parse(text).ok_or_else(|| unreadable(column, format!("unknown value {text:?}")))
}

pub fn unreadable(column: usize, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into())
}
