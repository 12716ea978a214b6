//! SQL into rows of the domain. Each read is one statement, and so of one instant.

use super::{
    lane::{Lane, words},
    text::{plain, stored},
};
use crate::{
    Found, HourTally, ItemFilter, Order, RECENT_ENDED_MAX, SessionFilter, StoreError, StoredAgent, query::hour_of,
};
use reveille_core::{
    AgentId, Hours, Item, ItemId, Kind, Lease, LeaseId, Message, MessageKind, Needs, RequestKey, Session, SessionId,
    Timestamp, Utterance,
    command::{Select, State},
    session::SessionState,
};
use std::collections::{BTreeMap, HashMap};
use tokio_postgres::{
    Row,
    types::{FromSql, ToSql},
};

pub type Read<T> = Result<T, StoreError>;

const SESSION: &str = "s.name, s.version, s.state, s.created_at, s.active_at, s.live_timers, s.live_reminders, \
     s.pending_messages, s.client, s.cwd, s.agent, s.quiet";
/// How many columns that is.
const SESSION_COLUMNS: usize = 12;
/// Kind and body in one text, since a row has room for one array of each.
const ITEM: &str = "i.kind || ' ' || i.body";
const INBOX: &str =
    "ARRAY(SELECT json_build_array(id, kind, text, source, created_at, lease, leased_until, expires_at)::text
     FROM reveille.messages WHERE session = s.num AND delivered_at IS NULL ORDER BY seq)";
const NONE: &str = "ARRAY[]::text[]";

/// Where something that fired ends its session, everything live is read instead: a second statement, and rare.
pub async fn load(lane: &Lane, server: i64, id: &SessionId, needs: &Needs) -> Read<State> {
    let state = load_selected(lane, server, id, needs).await?;
    if !matches!(needs.items, Select::Fired(_)) || !state.items.iter().any(Item::ends_session) {
        return Ok(state);
    }
    load_selected(lane, server, id, &Needs { items: Select::Live, ..needs.clone() }).await
}

async fn load_selected(lane: &Lane, server: i64, id: &SessionId, needs: &Needs) -> Read<State> {
    let name = stored(id.as_str());
    let mut params: Vec<&(dyn ToSql + Sync)> = vec![&server, &name];
    let key = needs.key.as_deref().map(stored);
    let ids: Vec<_>;
    let lease;
    let live = |kind: &str| {
        format!("ARRAY(SELECT {ITEM} FROM reveille.items i WHERE session = s.num AND ended IS NULL{kind} ORDER BY seq)")
    };
    let ended = |kind: &str| {
        format!(
            "ARRAY(SELECT {ITEM} FROM reveille.items i WHERE session = s.num AND ended IS NOT NULL{kind}
             ORDER BY ended DESC, seq DESC LIMIT {RECENT_ENDED_MAX})"
        )
    };
    let of = |kind: &Kind| format!(" AND kind = '{}'", kind.as_str());
    let items = match &needs.items {
        Select::None => NONE.to_owned(),
        Select::Ids(wanted) | Select::Fired(wanted) => {
            ids = wanted.iter().map(|id| stored(id.as_str())).collect();
            params.push(&ids);
            format!("ARRAY(SELECT {ITEM} FROM reveille.items i WHERE server = $1 AND id = ANY($3) AND session = s.num)")
        }
        Select::Live => live(""),
        Select::LiveOf(kind) => live(&of(kind)),
        Select::Recent => format!("{} || {}", live(""), ended("")),
        Select::RecentOf(kind) => format!("{} || {}", live(&of(kind)), ended(&of(kind))),
        // All that messages of the lease speak of; which of them it settles is not for the database to say.
        Select::SettledBy(wanted) => {
            lease = stored(wanted.as_str());
            params.push(&lease);
            format!(
                "ARRAY(SELECT {ITEM} FROM reveille.messages m JOIN reveille.items i ON i.server = $1 AND i.id = m.source
                 WHERE m.session = s.num AND m.delivered_at IS NULL AND m.lease = $3)"
            )
        }
    };
    let keyed = match &key {
        Some(key) => {
            params.push(key);
            let place = params.len();
            format!(
                "(SELECT ARRAY[{ITEM}, i.request_print] FROM reveille.items i WHERE session = s.num AND request_key = ${place})"
            )
        }
        None => "NULL::text[]".into(),
    };
    let inbox = if needs.inbox { INBOX } else { NONE };
    let sql = format!(
        "SELECT {SESSION}, {items}, {inbox}, {keyed} FROM reveille.sessions s WHERE s.server = $1 AND s.name = $2"
    );
    let rows = lane.read(&sql, &params).await?;
    let Some(row) = rows.first() else { return Ok(State::default()) };
    let found = get::<Vec<String>>(row, SESSION_COLUMNS)?;
    let found = found.iter().map(|text| item(text)).collect::<Read<Vec<Item>>>()?;
    let inbox = messages(row, SESSION_COLUMNS + 1)?;
    let items = match &needs.items {
        Select::Ids(wanted) | Select::Fired(wanted) => in_order(found, wanted.iter()),
        Select::SettledBy(lease) => {
            let settled = inbox.iter().filter(|message| message.settles_source(lease));
            in_order(found, settled.map(|message| &message.source))
        }
        _ => found,
    };
    let keyed = match (key, get::<Option<Vec<String>>>(row, SESSION_COLUMNS + 2)?.as_deref()) {
        (Some(key), Some([one, print])) => {
            Some((item(one)?, RequestKey { key: plain(&key), fingerprint: plain(print) }))
        }
        _ => None,
    };
    Ok(State { session: Some(session(row, 0)?), items, inbox, keyed })
}

fn in_order<'a>(found: Vec<Item>, wanted: impl Iterator<Item = &'a ItemId>) -> Vec<Item> {
    let by_id: HashMap<&ItemId, &Item> = found.iter().map(|item| (item.id(), item)).collect();
    wanted.filter_map(|id| by_id.get(id).map(|item| (*item).clone())).collect()
}

pub async fn load_items(lane: &Lane, server: i64, ids: &[ItemId]) -> Read<Vec<(SessionId, State)>> {
    let names: Vec<_> = ids.iter().map(|id| stored(id.as_str())).collect();
    let sql = format!(
        "SELECT {SESSION}, {ITEM}, s.num FROM unnest($2::text[]) WITH ORDINALITY AS w (id, place)
         JOIN reveille.items i ON i.server = $1 AND i.id = w.id JOIN reveille.sessions s ON s.num = i.session
         ORDER BY w.place"
    );
    let rows = lane.read(&sql, &[&server, &names]).await?;
    let mut place: HashMap<i64, usize> = HashMap::new();
    let mut states: Vec<(SessionId, State)> = Vec::new();
    let (mut watching, mut ending): (Vec<i64>, Vec<i64>) = Default::default();
    for row in &rows {
        let (found, num) = (item(&get::<String>(row, SESSION_COLUMNS)?)?, get::<i64>(row, SESSION_COLUMNS + 1)?);
        let at = match place.get(&num) {
            Some(at) => *at,
            None => {
                let session = session(row, 0)?;
                states.push((session.id.clone(), State { session: Some(session), ..State::default() }));
                place.insert(num, states.len() - 1);
                states.len() - 1
            }
        };
        if found.ends_session() && !ending.contains(&num) {
            ending.push(num);
        }
        if (found.watches_inbox() || found.ends_session()) && !watching.contains(&num) {
            watching.push(num);
        }
        states[at].1.items.push(found);
    }
    if !watching.is_empty() {
        // A moment later than the sessions above: whoever changed one meanwhile makes the decision on it stale.
        let live =
            format!("ARRAY(SELECT {ITEM} FROM reveille.items i WHERE session = s.num AND ended IS NULL ORDER BY seq)");
        let sql = format!(
            "SELECT s.num, {INBOX}, CASE WHEN s.num = ANY($2) THEN {live} END FROM reveille.sessions s WHERE s.num = ANY($1)"
        );
        for row in &lane.read(&sql, &[&watching, &ending]).await? {
            if let Some(at) = place.get(&get::<i64>(row, 0)?) {
                let state = &mut states[*at].1;
                state.inbox = messages(row, 1)?;
                if let Some(live) = get::<Option<Vec<String>>>(row, 2)? {
                    state.items = live.iter().map(|text| item(text)).collect::<Read<_>>()?;
                }
            }
        }
    }
    Ok(states)
}

pub async fn deadlines(lane: &Lane, server: i64, limit: usize) -> Read<Vec<(Timestamp, ItemId)>> {
    let sql = "SELECT due, id FROM reveille.items WHERE server = $1 AND due IS NOT NULL ORDER BY due, id LIMIT $2";
    let limit = rows(limit);
    let rows = lane.read(sql, &[&server, &limit]).await?;
    rows.iter().map(|row| Ok((Timestamp::from_millis(get(row, 0)?), ItemId::new(text(row, 1)?)))).collect()
}

pub async fn items(lane: &Lane, server: i64, filter: &ItemFilter) -> Read<Vec<Found>> {
    let sql = format!(
        "SELECT i.seq, s.name, {ITEM} FROM reveille.items i JOIN reveille.sessions s ON s.num = i.session WHERE i.server = $1"
    );
    let (id, name) = (filter.id.as_deref().map(stored), filter.session.as_ref().map(|id| stored(id.as_str())));
    let (kind, limit) = (filter.kind.map(Kind::as_str), rows(filter.limit));
    let mut conditions = Conditions::new(sql, &server);
    conditions.and("i.id =", id.as_ref());
    conditions.and("i.kind =", kind.as_ref());
    if let Some(name) = &name {
        conditions.and("i.session = (SELECT num FROM reveille.sessions WHERE server = $1 AND name =", Some(name));
        conditions.sql.push(')');
    }
    conditions.and("i.seq <", filter.after.as_ref());
    if filter.awaiting {
        conditions.sql.push_str(" AND i.awaits IS NOT NULL");
    }
    if !filter.statuses.is_empty() {
        conditions.and("i.status = ANY(", Some(&filter.statuses));
        conditions.sql.push(')');
    }
    conditions.sql.push_str(match filter.order {
        Order::Newest => " ORDER BY i.seq DESC",
        Order::Soonest => " AND i.due IS NOT NULL ORDER BY i.due, i.id",
    });
    let (sql, params) = conditions.limit(&limit);
    let rows = lane.read(&sql, &params).await?;
    let found = |row: &Row| {
        let (session, item) = (SessionId::new(text(row, 1)?), item(&get::<String>(row, 2)?)?);
        Ok(Found { seq: get(row, 0)?, session, item })
    };
    rows.iter().map(found).collect()
}

pub async fn sessions(lane: &Lane, server: i64, filter: &SessionFilter) -> Read<Vec<(i64, Session)>> {
    let undelivered = match filter.undelivered {
        true => " AND s.pending_messages > 0",
        false => "",
    };
    let sql = format!(
        "SELECT {SESSION}, s.num FROM reveille.sessions s WHERE s.server = $1 AND s.num < $2{undelivered}
         ORDER BY s.num DESC LIMIT $3"
    );
    let (after, limit) = (filter.after.unwrap_or(i64::MAX), rows(filter.limit));
    let rows = lane.read(&sql, &[&server, &after, &limit]).await?;
    rows.iter().map(|row| Ok((get(row, SESSION_COLUMNS)?, session(row, 0)?))).collect()
}

pub async fn tallies(lane: &Lane, server: i64) -> Read<BTreeMap<String, i64>> {
    let rows = lane.read("SELECT name, value FROM reveille.tallies WHERE server = $1", &[&server]).await?;
    rows.iter().map(|row| Ok((text(row, 0)?, get(row, 1)?))).collect()
}

pub async fn hours(lane: &Lane, server: i64, since: Timestamp) -> Read<Vec<HourTally>> {
    let sql = "SELECT hour, name, value FROM reveille.hours WHERE server = $1 AND hour >= $2 ORDER BY hour, name";
    let tally = |row: &Row| {
        Ok(HourTally { hour: Timestamp::from_millis(get(row, 0)?), name: text(row, 1)?, value: get(row, 2)? })
    };
    lane.read(sql, &[&server, &hour_of(since)]).await?.iter().map(tally).collect()
}

pub async fn conversation(lane: &Lane, server: i64, id: &SessionId, limit: usize) -> Read<Vec<Utterance>> {
    let sql = "SELECT body FROM reveille.conversation
               WHERE session = (SELECT num FROM reveille.sessions WHERE server = $1 AND name = $2)
               ORDER BY seq DESC LIMIT $3";
    let found = lane.read(sql, &[&server, &stored(id.as_str()), &rows(limit)]).await?;
    let said = |row: &Row| {
        serde_json::from_str(&get::<String>(row, 0)?).map_err(|error| StoreError::Damaged(error.to_string()))
    };
    found.iter().rev().map(said).collect()
}

pub async fn agent(lane: &Lane, server: i64, id: &AgentId) -> Read<Option<StoredAgent>> {
    let sql = "SELECT name, changed_at, body FROM reveille.agents WHERE server = $1 AND name = $2";
    let found = lane.read(sql, &[&server, &stored(id.as_str())]).await?;
    Ok(found.first().map(agent_row).transpose()?.map(|(_, agent)| agent))
}

pub async fn agents(lane: &Lane, server: i64) -> Read<Vec<(AgentId, StoredAgent)>> {
    let sql = "SELECT name, changed_at, body FROM reveille.agents WHERE server = $1 ORDER BY name";
    lane.read(sql, &[&server]).await?.iter().map(agent_row).collect()
}

fn agent_row(row: &Row) -> Read<(AgentId, StoredAgent)> {
    let agent = StoredAgent { body: text(row, 2)?, changed_at: Timestamp::from_millis(get(row, 1)?) };
    Ok((AgentId::new(text(row, 0)?), agent))
}

/// A statement that grows by what is asked for.
pub struct Conditions<'a> {
    pub sql: String,
    params: Vec<&'a (dyn ToSql + Sync)>,
}

impl<'a> Conditions<'a> {
    pub fn new(sql: String, server: &'a i64) -> Self {
        Self { sql, params: vec![server] }
    }

    pub fn and<T: ToSql + Sync>(&mut self, condition: &str, value: Option<&'a T>) {
        if let Some(value) = value {
            self.params.push(value);
            self.sql.push_str(&format!(" AND {condition} ${}", self.params.len()));
        }
    }

    pub fn limit(mut self, limit: &'a i64) -> (String, Vec<&'a (dyn ToSql + Sync)>) {
        self.params.push(limit);
        self.sql.push_str(&format!(" LIMIT ${}", self.params.len()));
        (self.sql, self.params)
    }
}

/// As many as the database can count; more there are not.
pub fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn session(row: &Row, first: usize) -> Read<Session> {
    let count = |at: usize| -> Read<u32> { get::<i64>(row, first + at).map(|count| count as u32) };
    Ok(Session {
        id: SessionId::new(text(row, first)?),
        version: get::<i64>(row, first + 1)? as u64,
        state: known(&get::<String>(row, first + 2)?, SessionState::parse)?,
        created_at: Timestamp::from_millis(get(row, first + 3)?),
        active_at: Timestamp::from_millis(get(row, first + 4)?),
        live_timers: count(5)?,
        live_reminders: count(6)?,
        pending_messages: count(7)?,
        client: get::<Option<String>>(row, first + 8)?.as_deref().map(plain),
        cwd: get::<Option<String>>(row, first + 9)?.as_deref().map(plain),
        agent: get::<Option<String>>(row, first + 10)?.as_deref().map(plain).map(AgentId::new),
        quiet: get::<Option<String>>(row, first + 11)?
            .map(|text| known(&text, Hours::decode))
            .transpose()?
            .unwrap_or_default(),
    })
}

fn item(text: &str) -> Read<Item> {
    let (kind, body) = text.split_once(' ').unwrap_or((text, ""));
    Item::decode(kind, body).map_err(|error| StoreError::Damaged(error.to_string()))
}

fn messages(row: &Row, column: usize) -> Read<Vec<Message>> {
    get::<Vec<String>>(row, column)?.iter().map(|text| message(text)).collect()
}

/// The columns of [`INBOX`].
type Columns = (String, String, String, String, i64, Option<String>, Option<i64>, Option<i64>);

fn message(text: &str) -> Read<Message> {
    let columns: Columns = serde_json::from_str(text).map_err(|error| StoreError::Damaged(error.to_string()))?;
    let (id, kind, text, source, created_at, lease, leased_until, expires_at) = columns;
    let lease = lease.zip(leased_until);
    Ok(Message {
        id: plain(&id).into(),
        kind: known(&kind, MessageKind::parse)?,
        text: plain(&text),
        source: ItemId::new(plain(&source)),
        created_at: Timestamp::from_millis(created_at),
        expires_at: expires_at.map(Timestamp::from_millis),
        lease: lease.map(|(id, until)| Lease { id: LeaseId::new(plain(&id)), until: Timestamp::from_millis(until) }),
        delivered: None,
    })
}

pub fn get<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Read<T> {
    row.try_get(column).map_err(|error| StoreError::Damaged(words(&error)))
}

pub fn text(row: &Row, column: usize) -> Read<String> {
    get::<&str>(row, column).map(plain)
}

pub fn known<T>(text: &str, parse: impl Fn(&str) -> Option<T>) -> Read<T> {
    parse(text).ok_or_else(|| StoreError::Damaged(format!("unknown value {text:?}")))
}
