//! Everything of an SQLite file into PostgreSQL, once. Rows are copied in portions, each in one transaction with a note of
//! how far it has come: cut off anywhere, it goes on from there. If the file was used meanwhile, everything is copied anew.
//! At the end the rows of both are counted.

use super::{
    lane::{connect, refusal},
    migrate,
    options::PostgresOptions,
    text::stored,
};
use crate::{SqliteStore, Store, StoreError};
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use tokio_postgres::{Client, GenericClient, types::ToSql};

/// Rows in one transaction.
const PORTION: usize = 2000;

/// How a column's text is written down.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Number,
    Text,
    /// JSON, which has its own way with NUL.
    Json,
}

use Form::{Json, Number, Text};

/// A table, the column by which its rows are numbered, and what is copied as it is. `session` becomes the name here and
/// the number there.
struct Table {
    name: &'static str,
    order: &'static str,
    of_session: bool,
    columns: &'static [(&'static str, Form)],
}

const TABLES: &[Table] = &[
    Table {
        name: "sessions",
        order: "num",
        of_session: false,
        columns: &[
            ("name", Text),
            ("version", Number),
            ("state", Text),
            ("created_at", Number),
            ("active_at", Number),
            ("live_timers", Number),
            ("live_reminders", Number),
            ("pending_messages", Number),
            ("client", Text),
            ("cwd", Text),
            ("agent", Text),
            ("quiet", Text),
        ],
    },
    Table {
        name: "items",
        order: "seq",
        of_session: true,
        columns: &[
            ("id", Text),
            ("kind", Text),
            ("status", Text),
            ("due", Number),
            ("ended", Number),
            ("request_key", Text),
            ("request_print", Text),
            ("awaits", Number),
            ("body", Json),
        ],
    },
    Table {
        name: "messages",
        order: "seq",
        of_session: true,
        columns: &[
            ("id", Text),
            ("kind", Text),
            ("text", Text),
            ("source", Text),
            ("created_at", Number),
            ("lease", Text),
            ("leased_until", Number),
            ("delivered_at", Number),
            ("channel", Text),
            ("expires_at", Number),
        ],
    },
    Table {
        name: "history",
        order: "seq",
        of_session: true,
        columns: &[("seq", Number), ("at", Number), ("kind", Text), ("subject", Text), ("event", Text), ("data", Json)],
    },
    Table { name: "conversation", order: "seq", of_session: true, columns: &[("at", Number), ("body", Json)] },
];

/// Tables whose rows have no numbers, and what their rows are told apart by. They are small, and copied at once in the end.
const SMALL: &[(Table, &str)] = &[
    (
        Table {
            name: "agents",
            order: "",
            of_session: false,
            columns: &[("name", Text), ("changed_at", Number), ("body", Text)],
        },
        "name",
    ),
    (Table { name: "tallies", order: "", of_session: false, columns: &[("name", Text), ("value", Number)] }, "name"),
    (
        Table {
            name: "hours",
            order: "",
            of_session: false,
            columns: &[("hour", Number), ("name", Text), ("value", Number)],
        },
        "hour, name",
    ),
];

const KEEP: &str = "INSERT INTO reveille.meta (key, value) VALUES ($1, $2)
                    ON CONFLICT (key) DO UPDATE SET value = excluded.value";

/// What was copied, and how many rows of each kind there are now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    pub server_id: String,
    pub tables: Vec<(&'static str, i64)>,
    /// Servers of this database that give no `server_id` are this one.
    pub is_default: bool,
}

/// `told` hears of every portion: the table, and how many rows of it are copied.
pub async fn import(
    from: &Path,
    to: &PostgresOptions,
    mut told: impl FnMut(&str, i64),
) -> Result<Vec<Imported>, StoreError> {
    if !from.is_file() {
        return Err(StoreError::Unwritable(format!("{} is not there", from.display())));
    }
    // Refuses a file in use, and brings an old one to this version.
    let held = SqliteStore::open(from, None, "unused")?;
    let source = Connection::open_with_flags(from, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(crate::sqlite::failed)?;
    let mut servers = source.prepare("SELECT num, id FROM servers ORDER BY num").map_err(crate::sqlite::failed)?;
    let servers: Vec<(i64, String)> = servers
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .and_then(Iterator::collect)
        .map_err(crate::sqlite::failed)?;
    let target = to.target()?;
    let own = held.server_id().to_owned();
    let mut all = Vec::new();
    for (here, id) in servers {
        let (there, _) = migrate::migrate(&target, Some(&id), &id).await?;
        let mut client = connect(&target).await?;
        // Counting many rows takes its time, and nobody waits for this but who started it.
        client.batch_execute("SET statement_timeout = 0").await.map_err(refusal)?;
        let mut copy = Copy { source: &source, client: &mut client, here, there };
        copy.check_unused(&id).await?;
        copy.begin().await?;
        for table in TABLES {
            while let Some(rows) = copy.portion(table).await? {
                told(table.name, rows);
            }
        }
        let tables = copy.finish(&id, id == own).await?;
        let is_default = copy.is_default(&id).await?;
        all.push(Imported { server_id: id, tables, is_default });
    }
    held.close().await;
    Ok(all)
}

struct Copy<'a> {
    source: &'a Connection,
    client: &'a mut Client,
    here: i64,
    there: i64,
}

/// One column of a portion.
enum Column {
    Numbers(Vec<Option<i64>>),
    Texts(Vec<Option<String>>),
}

impl Column {
    fn param(&self) -> &(dyn ToSql + Sync) {
        match self {
            Column::Numbers(values) => values,
            Column::Texts(values) => values,
        }
    }
}

impl Copy<'_> {
    fn note(&self, table: &str) -> String {
        format!("import:{}:{table}", self.there)
    }

    /// What a server has written is not to be mixed with what another wrote elsewhere.
    async fn check_unused(&self, id: &str) -> Result<(), StoreError> {
        let used = "SELECT commits > 0 OR EXISTS (SELECT 1 FROM reveille.sessions WHERE server = $1)
                    AND NOT EXISTS (SELECT 1 FROM reveille.meta WHERE key = $2) FROM reveille.servers WHERE num = $1";
        let used: bool =
            self.client.query_one(used, &[&self.there, &self.note("sessions")]).await.map_err(refusal)?.get(0);
        match used {
            true => Err(StoreError::Failed(format!(
                "the server '{id}' has data of its own there already, which nothing is copied over; \
                 move to another database, or give the file to another server"
            ))),
            false => Ok(()),
        }
    }

    /// Goes on with a copy of the file as it is now. What was copied of it before it was used again is removed first.
    async fn begin(&mut self) -> Result<(), StoreError> {
        let (mark, note) = (mark(self.source, self.here).map_err(crate::sqlite::failed)?, self.note("source"));
        let known = "SELECT value FROM reveille.meta WHERE key = $1";
        let known = self.client.query_opt(known, &[&note]).await.map_err(refusal)?.map(|row| row.get::<_, String>(0));
        if known.as_ref() == Some(&mark) {
            return Ok(());
        }
        // Cut off from here on, it is found to be another file again, whatever that is by then.
        self.keep(&note, "none").await?;
        for table in TABLES.iter().rev() {
            self.clear(table).await?;
        }
        for (table, _) in SMALL {
            let sql = format!("DELETE FROM reveille.{} WHERE server = $1", table.name);
            self.client.execute(&sql, &[&self.there]).await.map_err(refusal)?;
        }
        let notes: Vec<String> = TABLES.iter().map(|table| self.note(table.name)).collect();
        self.client.execute("DELETE FROM reveille.meta WHERE key = ANY($1)", &[&notes]).await.map_err(refusal)?;
        self.keep(&note, &mark).await
    }

    async fn keep(&self, note: &str, value: &str) -> Result<(), StoreError> {
        self.client.execute(KEEP, &[&note, &value]).await.map(drop).map_err(refusal)
    }

    async fn clear(&self, table: &Table) -> Result<(), StoreError> {
        let (name, order, portion) = (table.name, table.order, PORTION as i64);
        let sql = format!(
            "DELETE FROM reveille.{name} WHERE server = $1 AND {order} IN (
                SELECT {order} FROM reveille.{name} WHERE server = $1 ORDER BY {order} LIMIT $2)"
        );
        while self.client.execute(&sql, &[&self.there, &portion]).await.map_err(refusal)? > 0 {}
        Ok(())
    }

    /// Copies the next rows of the table; how many are copied by now. `None`: all are.
    async fn portion(&mut self, table: &Table) -> Result<Option<i64>, StoreError> {
        let note = self.note(table.name);
        let tx = self.client.transaction().await.map_err(refusal)?;
        let known = tx.query_opt("SELECT value FROM reveille.meta WHERE key = $1 FOR UPDATE", &[&note]).await;
        let known: Option<String> = known.map_err(refusal)?.map(|row| row.get(0));
        let (after, before): (i64, i64) = known
            .as_deref()
            .and_then(|text| text.split_once(' '))
            .and_then(|(last, count)| Some((last.parse().ok()?, count.parse().ok()?)))
            .unwrap_or((i64::MIN, 0));
        let (columns, last, count) = read(self.source, table, self.here, after).map_err(crate::sqlite::failed)?;
        if count == 0 && known.is_some() {
            return Ok(None);
        }
        let sql = insert(table);
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![&self.there];
        params.extend(columns.iter().map(Column::param));
        let written = tx.execute(&sql, &params).await.map_err(refusal)? as i64;
        if written != count {
            let why = format!("{}: {written} of {count} rows were taken; nothing of them is kept", table.name);
            return Err(StoreError::Failed(why));
        }
        let value = format!("{} {}", last.unwrap_or(after), before + count);
        tx.execute(KEEP, &[&note, &value]).await.map_err(refusal)?;
        tx.commit().await.map_err(refusal)?;
        Ok(Some(before + count))
    }

    /// Counts both, and sets the counters that go on from here.
    async fn finish(&mut self, id: &str, own: bool) -> Result<Vec<(&'static str, i64)>, StoreError> {
        let mut counts = Vec::new();
        for table in TABLES {
            let count = format!("SELECT count(*) FROM {} WHERE server = ?1", table.name);
            let here: i64 =
                self.source.query_row(&count, [self.here], |row| row.get(0)).map_err(crate::sqlite::failed)?;
            counts.push(counted(self.client, table.name, self.there, here).await?);
        }
        let tx = self.client.transaction().await.map_err(refusal)?;
        for (table, key) in SMALL {
            let (columns, _, count) = read(self.source, table, self.here, 0).map_err(crate::sqlite::failed)?;
            let changed: Vec<String> =
                table.columns.iter().map(|(name, _)| format!("{name} = excluded.{name}")).collect();
            let sql = format!("{} ON CONFLICT (server, {key}) DO UPDATE SET {}", insert(table), changed.join(", "));
            let mut params: Vec<&(dyn ToSql + Sync)> = vec![&self.there];
            params.extend(columns.iter().map(Column::param));
            tx.execute(&sql, &params).await.map_err(refusal)?;
            counts.push(counted(&tx, table.name, self.there, count).await?);
        }
        let last = "UPDATE reveille.servers SET history =
                    (SELECT coalesce(max(seq), 0) FROM reveille.history WHERE server = $1) WHERE num = $1";
        tx.execute(last, &[&self.there]).await.map_err(refusal)?;
        if own {
            let keep = "INSERT INTO reveille.meta (key, value) VALUES ('server_id', $1) ON CONFLICT DO NOTHING";
            tx.execute(keep, &[&id]).await.map_err(refusal)?;
        }
        tx.commit().await.map_err(refusal)?;
        Ok(counts)
    }

    async fn is_default(&self, id: &str) -> Result<bool, StoreError> {
        let found = self.client.query_opt("SELECT value FROM reveille.meta WHERE key = 'server_id'", &[]).await;
        Ok(found.map_err(refusal)?.is_some_and(|row| row.get::<_, String>(0) == id))
    }
}

/// The table has as many rows there as here.
async fn counted(
    client: &impl GenericClient,
    table: &'static str,
    server: i64,
    here: i64,
) -> Result<(&'static str, i64), StoreError> {
    let count = format!("SELECT count(*) FROM reveille.{table} WHERE server = $1");
    let there: i64 = client.query_one(&count, &[&server]).await.map_err(refusal)?.get(0);
    match here == there {
        true => Ok((table, there)),
        false => Err(StoreError::Failed(format!("{table}: {here} rows here, {there} there"))),
    }
}

/// Two copies of a file with the same mark are the same: every change raises a session's version or an agent's time, and
/// retention changes how many rows there are.
fn mark(source: &Connection, server: i64) -> rusqlite::Result<String> {
    let mut parts = Vec::new();
    for Table { name, order, .. } in TABLES {
        parts.push(format!("(SELECT count(*) || ' ' || coalesce(max({order}), 0) FROM {name} WHERE server = ?1)"));
    }
    parts.push("(SELECT coalesce(sum(version), 0) FROM sessions WHERE server = ?1)".to_owned());
    parts.push("(SELECT count(*) || ' ' || coalesce(sum(changed_at), 0) FROM agents WHERE server = ?1)".to_owned());
    source.query_row(&format!("SELECT {}", parts.join(" || ' ' || ")), [server], |row| row.get(0))
}

/// The next rows by column, the last one's number, and how many there are.
fn read(
    source: &Connection,
    table: &Table,
    server: i64,
    after: i64,
) -> rusqlite::Result<(Vec<Column>, Option<i64>, i64)> {
    let session = [("s.name", Text)];
    let named = table.columns.iter().map(|(name, form)| (format!("t.{name}"), *form));
    let all: Vec<(String, Form)> = session
        .iter()
        .filter(|_| table.of_session)
        .map(|(name, form)| ((*name).to_owned(), *form))
        .chain(named)
        .collect();
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    let join = if table.of_session { " JOIN sessions s ON s.num = t.session" } else { "" };
    let (names, name, order) = (names.join(", "), table.name, table.order);
    let sql = match order {
        "" => format!("SELECT 0, {names} FROM {name} t WHERE t.server = ?1 AND ?2 = 0"),
        _ => format!(
            "SELECT t.{order}, {names} FROM {name} t{join}
             WHERE t.server = ?1 AND t.{order} > ?2 ORDER BY t.{order} LIMIT {PORTION}"
        ),
    };
    let mut columns: Vec<Column> = all
        .iter()
        .map(|(_, form)| if *form == Number { Column::Numbers(Vec::new()) } else { Column::Texts(Vec::new()) })
        .collect();
    let mut statement = source.prepare(&sql)?;
    let mut rows = statement.query([server, after])?;
    let (mut last, mut count) = (None, 0);
    while let Some(row) = rows.next()? {
        last = Some(row.get(0)?);
        count += 1;
        for (place, (column, (_, form))) in columns.iter_mut().zip(&all).enumerate() {
            match column {
                Column::Numbers(values) => values.push(row.get(place + 1)?),
                Column::Texts(values) => {
                    let text: Option<String> = row.get(place + 1)?;
                    values.push(if *form == Text { text.map(|text| stored(&text).into_owned()) } else { text });
                }
            }
        }
    }
    Ok((columns, last, count))
}

fn insert(table: &Table) -> String {
    let names: Vec<&str> = table.columns.iter().map(|(name, _)| *name).collect();
    let forms = table.columns.iter().map(|(_, form)| *form);
    let forms: Vec<Form> = [Text].into_iter().filter(|_| table.of_session).chain(forms).collect();
    let arrays: Vec<String> = forms
        .iter()
        .zip(2..)
        .map(|(form, place)| format!("${place}::{}[]", if *form == Number { "bigint" } else { "text" }))
        .collect();
    let (columns, arrays) = (names.join(", "), arrays.join(", "));
    let shown: Vec<String> = names.iter().map(|name| format!("r.{name}")).collect();
    let shown = shown.join(", ");
    let table_name = table.name;
    if table.of_session {
        format!(
            "INSERT INTO reveille.{table_name} (server, session, {columns}) SELECT $1, s.num, {shown}
             FROM unnest({arrays}) WITH ORDINALITY AS r (session_name, {columns}, place)
             JOIN reveille.sessions s ON s.server = $1 AND s.name = r.session_name ORDER BY r.place"
        )
    } else {
        format!(
            "INSERT INTO reveille.{table_name} (server, {columns}) SELECT $1, {shown}
             FROM unnest({arrays}) WITH ORDINALITY AS r ({columns}, place) ORDER BY r.place"
        )
    }
}
