//! A group of batches into one statement. One, so that the database carries it out whole or not at all without hearing
//! from us again: a node that hangs in the middle of a commit keeps nobody waiting.
//!
//! Nothing is decided here but "is the version still the expected one". Rows are locked in the order of the sessions'
//! names, and the server's row last; so nodes never wait for each other in a circle, and the numbers of commits and of
//! history entries have the order in which they become visible.

use super::{
    lane::{Fault, Lane},
    text::stored,
};
use crate::{StoreError, StoredAgent, query::hour_of};
use reveille_core::{AgentId, Batch, Item, ItemWrite, Message, MessageWrite, RequestKey, batch::tally};
use std::{borrow::Cow, collections::HashMap};
use tokio::time::Instant;
use tokio_postgres::types::ToSql;

/// `$1` server, `$2` node, `$3` whether other nodes are to be told.
pub const COMMIT: &str = "
WITH b AS MATERIALIZED (
    SELECT * FROM unnest($4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::bigint[], $9::bigint[], $10::bigint[],
        $11::bigint[], $12::bigint[], $13::text[], $14::text[], $15::text[],
        $16::text[], $17::bigint[], $18::text[]) WITH ORDINALITY
    AS b (name, decided_on, version, state, created_at, active_at, live_timers, live_reminders, pending_messages, client,
        cwd, agent, quiet, entries, body, idx)
), s AS (
    INSERT INTO reveille.sessions AS s (server, name, decided_on, version, state, created_at, active_at, live_timers,
        live_reminders, pending_messages, client, cwd, agent, quiet)
    SELECT $1, name, decided_on, version, state, created_at, active_at, live_timers, live_reminders, pending_messages,
        client, cwd, agent, quiet
    FROM b
    WHERE decided_on IS NULL OR EXISTS (SELECT 1 FROM reveille.sessions x WHERE x.server = $1 AND x.name = b.name)
    ORDER BY name
    ON CONFLICT (server, name) DO UPDATE SET decided_on = excluded.decided_on, version = excluded.version,
        state = excluded.state, active_at = excluded.active_at, live_timers = excluded.live_timers,
        live_reminders = excluded.live_reminders, pending_messages = excluded.pending_messages, client = excluded.client,
        cwd = excluded.cwd, agent = excluded.agent, quiet = excluded.quiet
    WHERE s.version = excluded.decided_on
    RETURNING s.num, s.name
), ok AS MATERIALIZED (
    SELECT b.idx, s.num, b.entries, b.body, (sum(b.entries) OVER (ORDER BY b.idx))::bigint - b.entries AS before,
        row_number() OVER (ORDER BY b.idx) AS place
    FROM s JOIN b ON b.name = s.name
), items_new AS (
    INSERT INTO reveille.items (server, session, id, kind, status, due, ended, request_key, request_print, body, awaits)
    SELECT $1, ok.num, i.id, i.kind, i.status, i.due, i.ended, i.request_key, i.request_print, i.body, i.awaits
    FROM unnest($19::bigint[], $20::text[], $21::text[], $22::text[], $23::bigint[], $24::bigint[], $25::text[],
        $26::text[], $27::text[], $67::bigint[]) WITH ORDINALITY
    AS i (idx, id, kind, status, due, ended, request_key, request_print, body, awaits, place) JOIN ok ON ok.idx = i.idx
    ORDER BY i.place
    RETURNING 1
), items_changed AS (
    UPDATE reveille.items t SET status = i.status, due = i.due, ended = i.ended, body = i.body, awaits = i.awaits
    FROM unnest($28::bigint[], $29::text[], $30::text[], $31::bigint[], $32::bigint[], $33::text[], $68::bigint[])
    AS i (idx, id, status, due, ended, body, awaits) JOIN ok ON ok.idx = i.idx
    WHERE t.server = $1 AND t.id = i.id
    RETURNING 1
), messages_new AS (
    INSERT INTO reveille.messages (server, session, id, kind, text, source, created_at, lease, leased_until,
        delivered_at, channel, expires_at)
    SELECT $1, ok.num, m.id, m.kind, m.text, m.source, m.created_at, m.lease, m.leased_until, m.delivered_at, m.channel,
        m.expires_at
    FROM unnest($34::bigint[], $35::text[], $36::text[], $37::text[], $38::text[], $39::bigint[], $40::text[],
        $41::bigint[], $42::bigint[], $43::text[], $44::bigint[]) WITH ORDINALITY
    AS m (idx, id, kind, text, source, created_at, lease, leased_until, delivered_at, channel, expires_at, place)
    JOIN ok ON ok.idx = m.idx
    ORDER BY m.place
    RETURNING 1
), messages_changed AS (
    UPDATE reveille.messages t
    SET lease = m.lease, leased_until = m.leased_until, delivered_at = m.delivered_at, channel = m.channel
    FROM unnest($45::bigint[], $46::text[], $47::text[], $48::bigint[], $49::bigint[], $50::text[])
    AS m (idx, id, lease, leased_until, delivered_at, channel) JOIN ok ON ok.idx = m.idx
    WHERE t.session = ok.num AND t.delivered_at IS NULL AND t.id = m.id
    RETURNING 1
), messages_gone AS (
    DELETE FROM reveille.messages t
    USING unnest($51::bigint[], $52::text[]) AS m (idx, id) JOIN ok ON ok.idx = m.idx
    WHERE t.session = ok.num AND t.delivered_at IS NULL AND t.id = m.id
    RETURNING 1
), said_new AS (
    INSERT INTO reveille.conversation (server, session, at, body)
    SELECT $1, ok.num, u.at, u.body
    FROM unnest($53::bigint[], $54::bigint[], $55::text[]) WITH ORDINALITY AS u (idx, at, body, place)
    JOIN ok ON ok.idx = u.idx
    ORDER BY u.place
    RETURNING 1
), written AS MATERIALIZED (
    SELECT count(*) AS commits, coalesce(sum(entries), 0)::bigint AS entries,
        (SELECT count(*) FROM items_new) + (SELECT count(*) FROM items_changed) + (SELECT count(*) FROM messages_new)
        + (SELECT count(*) FROM messages_changed) + (SELECT count(*) FROM messages_gone)
        + (SELECT count(*) FROM said_new) AS rows
    FROM ok
), c AS (
    UPDATE reveille.servers v SET commits = v.commits + w.commits, history = v.history + w.entries
    FROM written w WHERE v.num = $1 AND w.commits > 0 AND w.rows >= 0
    RETURNING v.commits - w.commits AS commits, v.history - w.entries AS history
), h AS (
    INSERT INTO reveille.history (server, seq, session, at, kind, subject, event, data)
    SELECT $1, c.history + ok.before + h.place, ok.num, h.at, h.kind, h.subject, h.event, h.data
    FROM unnest($56::bigint[], $57::bigint[], $58::bigint[], $59::text[], $60::text[], $61::text[], $62::text[])
    AS h (idx, place, at, kind, subject, event, data) JOIN ok ON ok.idx = h.idx CROSS JOIN c
), y AS MATERIALIZED (
    SELECT y.name, y.amount, y.hour
    FROM unnest($63::bigint[], $64::text[], $65::bigint[], $66::bigint[]) AS y (idx, name, amount, hour)
    JOIN ok ON ok.idx = y.idx CROSS JOIN c
), t AS (
    INSERT INTO reveille.tallies AS t (server, name, value)
    SELECT $1, name, sum(amount)::bigint FROM y GROUP BY name
    ON CONFLICT (server, name) DO UPDATE SET value = t.value + excluded.value
), t_hours AS (
    INSERT INTO reveille.hours AS t (server, hour, name, value)
    SELECT $1, hour, name, sum(amount)::bigint FROM y WHERE hour IS NOT NULL GROUP BY hour, name
    ON CONFLICT (server, hour, name) DO UPDATE SET value = t.value + excluded.value
), l AS (
    INSERT INTO reveille.commits (server, num, node, first_seq, body)
    SELECT $1, c.commits + ok.place, $2, c.history + ok.before + 1, ok.body FROM ok CROSS JOIN c WHERE $3
)
SELECT ok.idx, c.commits + ok.place AS num, c.history + ok.before + 1 AS first_seq FROM ok CROSS JOIN c
ORDER BY ok.idx";

type Text<'a> = Cow<'a, str>;

/// The arrays of one statement, one for each column of each table.
#[derive(Default)]
pub struct Rows<'a> {
    sessions: Sessions<'a>,
    new_items: NewItems<'a>,
    items: Items<'a>,
    new_messages: NewMessages<'a>,
    messages: Messages<'a>,
    gone: Gone<'a>,
    history: History<'a>,
    said: Said<'a>,
    tallies: Tallies<'a>,
    awaits: Awaits,
}

macro_rules! columns {
    ($name:ident$(<$life:lifetime>)? { $($field:ident: $type:ty),+ $(,)? }) => {
        #[derive(Default)]
        struct $name$(<$life>)? { $($field: Vec<$type>),+ }
        impl$(<$life>)? $name$(<$life>)? {
            fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
                vec![$(&self.$field),+]
            }
        }
    };
}

columns!(Sessions<'a> {
    name: Text<'a>, decided_on: Option<i64>, version: i64, state: &'a str, created_at: i64, active_at: i64,
    live_timers: i64, live_reminders: i64, pending_messages: i64, client: Option<Text<'a>>, cwd: Option<Text<'a>>,
    agent: Option<Text<'a>>, quiet: Option<String>, entries: i64, body: String,
});
columns!(NewItems<'a> {
    idx: i64, id: Text<'a>, kind: &'a str, status: &'a str, due: Option<i64>, ended: Option<i64>,
    request_key: Option<Text<'a>>, request_print: Option<Text<'a>>, body: String,
});
columns!(Items<'a> {
    idx: i64, id: Text<'a>, status: &'a str, due: Option<i64>, ended: Option<i64>, body: String,
});
columns!(NewMessages<'a> {
    idx: i64, id: Text<'a>, kind: &'a str, text: Text<'a>, source: Text<'a>, created_at: i64, lease: Option<Text<'a>>,
    leased_until: Option<i64>, delivered_at: Option<i64>, channel: Option<Text<'a>>, expires_at: Option<i64>,
});
columns!(Messages<'a> {
    idx: i64, id: Text<'a>, lease: Option<Text<'a>>, leased_until: Option<i64>, delivered_at: Option<i64>,
    channel: Option<Text<'a>>,
});
columns!(Gone<'a> { idx: i64, id: Text<'a> });
columns!(Said<'a> { idx: i64, at: i64, body: Text<'a> });
columns!(History<'a> {
    idx: i64, place: i64, at: i64, kind: &'a str, subject: Text<'a>, event: &'a str, data: Option<String>,
});

// Of new and of changed items, in the order of theirs.
columns!(Awaits { new: Option<i64>, changed: Option<i64> });
// `hour`: of what is counted by the hour too.
columns!(Tallies<'a> { idx: i64, name: Text<'a>, by: i64, hour: Option<i64> });

impl<'a> Rows<'a> {
    /// `told`: the batches are written down for other nodes too. No two batches may be of one session.
    pub fn of(batches: impl Iterator<Item = &'a Batch>, told: bool) -> Self {
        let mut rows = Self::default();
        for (batch, idx) in batches.zip(1..) {
            rows.session(batch, told);
            rows.items(batch, idx);
            rows.messages(batch, idx);
            for said in &batch.said {
                let body = serde_json::to_string(said).expect("what was said is representable as JSON");
                rows.said.idx.push(idx);
                rows.said.at.push(said.at.as_millis());
                rows.said.body.push(body.into());
            }
            for (entry, place) in batch.history.iter().zip(1..) {
                let history = &mut rows.history;
                history.idx.push(idx);
                history.place.push(place);
                history.at.push(entry.at.as_millis());
                history.kind.push(entry.kind.as_str());
                history.subject.push(stored(&entry.subject));
                history.event.push(&entry.event);
                history.data.push((!entry.data.is_null()).then(|| entry.data.to_string()));
            }
            rows.tallies(batch, idx);
        }
        rows
    }

    pub fn params<'p>(&'p self, server: &'p i64, node: &'p i64, told: &'p bool) -> Vec<&'p (dyn ToSql + Sync)> {
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![server, node, told];
        params.extend(self.sessions.params());
        params.extend(self.new_items.params());
        params.extend(self.items.params());
        params.extend(self.new_messages.params());
        params.extend(self.messages.params());
        params.extend(self.gone.params());
        params.extend(self.said.params());
        params.extend(self.history.params());
        params.extend(self.tallies.params());
        params.extend(self.awaits.params());
        params
    }

    fn session(&mut self, batch: &'a Batch, told: bool) {
        let (session, rows) = (&batch.session, &mut self.sessions);
        rows.name.push(stored(session.id.as_str()));
        rows.decided_on.push(batch.expected.map(|version| version as i64));
        rows.version.push(session.version as i64);
        rows.state.push(session.state.as_str());
        rows.created_at.push(session.created_at.as_millis());
        rows.active_at.push(session.active_at.as_millis());
        rows.live_timers.push(session.live_timers.into());
        rows.live_reminders.push(session.live_reminders.into());
        rows.pending_messages.push(session.pending_messages.into());
        rows.client.push(session.client.as_deref().map(stored));
        rows.cwd.push(session.cwd.as_deref().map(stored));
        rows.agent.push(session.agent.as_ref().map(|agent| stored(agent.as_str())));
        rows.quiet.push(session.quiet.encode());
        rows.entries.push(batch.history.len() as i64);
        let body = told.then(|| serde_json::to_string(batch).expect("a batch is always representable as JSON"));
        rows.body.push(body.unwrap_or_default());
    }

    fn tallies(&mut self, batch: &'a Batch, idx: i64) {
        let hour = hour_of(batch.session.active_at);
        for tally in &batch.tallies {
            self.tallies.idx.push(idx);
            self.tallies.name.push(stored(&tally.name));
            self.tallies.by.push(tally.by);
            self.tallies.hour.push(tally::is_count(&tally.name).then_some(hour));
        }
    }

    /// One statement touches a row once: what a batch writes twice is written as it is in the end.
    fn items(&mut self, batch: &'a Batch, idx: i64) {
        let mut last: HashMap<&str, &'a Item> = HashMap::new();
        for write in &batch.items {
            last.insert(write.item().id().as_str(), write.item());
        }
        for write in &batch.items {
            match write {
                // Two insertions of one id stay two, to be refused.
                ItemWrite::Insert { item, key } => {
                    self.new_item(last.get(item.id().as_str()).unwrap_or(&item), key.as_ref(), idx);
                }
                ItemWrite::Update(item) if !inserted(batch, item) => {
                    if let Some(item) = last.remove(item.id().as_str()) {
                        self.item(item, idx);
                    }
                }
                ItemWrite::Update(_) => {}
            }
        }
    }

    fn new_item(&mut self, item: &'a Item, key: Option<&'a RequestKey>, idx: i64) {
        let rows = &mut self.new_items;
        rows.idx.push(idx);
        rows.id.push(stored(item.id().as_str()));
        rows.kind.push(item.kind().as_str());
        rows.status.push(item.status());
        rows.due.push(item.due().map(|at| at.as_millis()));
        rows.ended.push(item.ended_at().map(|at| at.as_millis()));
        rows.request_key.push(key.map(|key| stored(&key.key)));
        rows.request_print.push(key.map(|key| stored(&key.fingerprint)));
        rows.body.push(item.encode());
        self.awaits.new.push(item.awaits().then_some(1));
    }

    fn item(&mut self, item: &'a Item, idx: i64) {
        let rows = &mut self.items;
        rows.idx.push(idx);
        rows.id.push(stored(item.id().as_str()));
        rows.status.push(item.status());
        rows.due.push(item.due().map(|at| at.as_millis()));
        rows.ended.push(item.ended_at().map(|at| at.as_millis()));
        rows.body.push(item.encode());
        self.awaits.changed.push(item.awaits().then_some(1));
    }

    fn messages(&mut self, batch: &'a Batch, idx: i64) {
        let mut last: HashMap<&str, &'a MessageWrite> = HashMap::new();
        let mut order: Vec<(&str, bool)> = Vec::new();
        for write in &batch.messages {
            let id = &*write.message().id;
            if last.insert(id, write).is_none() {
                order.push((id, matches!(write, MessageWrite::Insert(_))));
            }
        }
        for (id, is_new) in order {
            match last[id] {
                MessageWrite::Insert(message) => self.new_message(message, idx),
                MessageWrite::Update(message) if is_new => self.new_message(message, idx),
                MessageWrite::Update(message) => self.message(message, idx),
                MessageWrite::Withdraw(_) if is_new => {}
                MessageWrite::Withdraw(_) => {
                    self.gone.idx.push(idx);
                    self.gone.id.push(stored(id));
                }
            }
        }
    }

    fn new_message(&mut self, message: &'a Message, idx: i64) {
        let rows = &mut self.new_messages;
        rows.idx.push(idx);
        rows.id.push(stored(&message.id));
        rows.kind.push(message.kind.as_str());
        rows.text.push(stored(&message.text));
        rows.source.push(stored(message.source.as_str()));
        rows.created_at.push(message.created_at.as_millis());
        rows.lease.push(message.lease.as_ref().map(|lease| stored(lease.id.as_str())));
        rows.leased_until.push(message.lease.as_ref().map(|lease| lease.until.as_millis()));
        rows.delivered_at.push(message.delivered.as_ref().map(|delivered| delivered.at.as_millis()));
        rows.channel.push(message.delivered.as_ref().map(|delivered| stored(&delivered.channel)));
        rows.expires_at.push(message.expires_at.map(|at| at.as_millis()));
    }

    fn message(&mut self, message: &'a Message, idx: i64) {
        let rows = &mut self.messages;
        rows.idx.push(idx);
        rows.id.push(stored(&message.id));
        rows.lease.push(message.lease.as_ref().map(|lease| stored(lease.id.as_str())));
        rows.leased_until.push(message.lease.as_ref().map(|lease| lease.until.as_millis()));
        rows.delivered_at.push(message.delivered.as_ref().map(|delivered| delivered.at.as_millis()));
        rows.channel.push(message.delivered.as_ref().map(|delivered| stored(&delivered.channel)));
    }
}

/// Whether anything can be written at all, see [`crate::Store::try_write`].
pub async fn tried(lane: &Lane, deadline: Instant) -> Result<(), StoreError> {
    let sql = "INSERT INTO reveille.meta AS m (key, value) VALUES ('tries', '1')
               ON CONFLICT (key) DO UPDATE SET value = (m.value::bigint + 1)::text";
    lane.once(sql, &[], deadline).await?;
    Ok(())
}

/// Whether there was one. Tried once: a second try would find what the first has written.
pub async fn set_agent(
    lane: &Lane,
    server: i64,
    id: &AgentId,
    agent: Option<&StoredAgent>,
    deadline: Instant,
) -> Result<bool, StoreError> {
    let name = stored(id.as_str());
    let written = match agent {
        Some(agent) => {
            let sql = "WITH was AS (SELECT 1 FROM reveille.agents WHERE server = $1 AND name = $2), now AS (
                           INSERT INTO reveille.agents (server, name, changed_at, body) VALUES ($1, $2, $3, $4)
                           ON CONFLICT (server, name) DO UPDATE SET changed_at = excluded.changed_at, body = excluded.body
                       )
                       SELECT 1 FROM was";
            let (changed_at, body) = (agent.changed_at.as_millis(), stored(&agent.body));
            lane.once(sql, &[&server, &name, &changed_at, &body], deadline).await
        }
        None => {
            let sql = "DELETE FROM reveille.agents WHERE server = $1 AND name = $2 RETURNING 1";
            lane.once(sql, &[&server, &name], deadline).await
        }
    };
    match written {
        Ok(rows) => Ok(!rows.is_empty()),
        Err(Fault::Lost(why)) => {
            Err(StoreError::Unavailable(format!("{why}; whether the change was written is unknown")))
        }
        Err(fault) => Err(fault.into()),
    }
}

fn inserted(batch: &Batch, item: &Item) -> bool {
    batch.items.iter().any(|write| matches!(write, ItemWrite::Insert { item: new, .. } if new.id() == item.id()))
}
