//! Bringing a database to this version, with several nodes starting at once: one does it, the others wait for it.

use super::{
    lane::{connect, refusal},
    options::Target,
};
use crate::{StoreError, shape::Shape};
use std::time::Duration;
use tokio::time::Instant;
use tokio_postgres::{Client, GenericClient};

/// Brings the format one version further. Released steps are never edited.
struct Step {
    sql: &'static str,
    /// The columns that it adds, by table; the forms between two releases are told from formats by these.
    adds: &'static [(&'static str, &'static str)],
}

const MIGRATIONS: &[Step] = &[
    Step {
        sql: include_str!("migrations/0001.sql"),
        adds: &[
            ("meta", "key value"),
            ("servers", "num id commits history"),
            (
                "sessions",
                "num server name version decided_on state created_at active_at live_timers live_reminders \
                 pending_messages client cwd agent",
            ),
            ("items", "seq server session id kind status due ended request_key request_print body"),
            (
                "messages",
                "seq server session id kind text source created_at lease leased_until delivered_at channel expires_at",
            ),
            ("conversation", "seq server session at body"),
            ("agents", "server name changed_at body"),
            ("history", "server seq session at kind subject event data"),
            ("tallies", "server name value"),
            ("hours", "server hour name value"),
            ("commits", "server num node first_seq body"),
            ("nodes", "server node seen told"),
            ("holds", "server session node"),
        ],
    },
    Step { sql: include_str!("migrations/0002.sql"), adds: &[("sessions", "quiet"), ("items", "awaits")] },
];
/// Nobody else's, hopefully: `RVLE` twice.
const ADVISORY_LOCK: i64 = 0x5256_4c45_5256_4c45;
/// A database that starts together with us, or is just failing over, has this long.
const START_WAIT: Duration = Duration::from_secs(30);
const RETRY_EVERY: Duration = Duration::from_millis(250);

/// The number of our server's row, and its id.
pub async fn migrate(target: &Target, wanted: Option<&str>, fresh: &str) -> Result<(i64, String), StoreError> {
    let deadline = Instant::now() + START_WAIT;
    let mut client = loop {
        match connect(target).await {
            Ok(client) => break client,
            Err(error) if error.passes() && Instant::now() < deadline => {
                tracing::warn!(?error, "the database cannot be reached; trying again");
                tokio::time::sleep(RETRY_EVERY).await;
            }
            Err(error) => return Err(error.into()),
        }
    };
    steps(&mut client).await?;
    server(&client, wanted, fresh).await
}

/// The format of a database that this version can read. Reads only.
pub async fn known(client: &impl GenericClient) -> Result<i64, StoreError> {
    let latest = "SELECT coalesce(max(version), 0) FROM reveille.format";
    let found: i64 = client.query_one(latest, &[]).await.map_err(refusal)?.get(0);
    let known = MIGRATIONS.len() as i64;
    if found > known {
        return Err(StoreError::NewerSchema { found, known });
    }
    // The forms between two releases bear the number of one of them.
    match released(found).difference(&shape(client).await?) {
        Some(difference) => Err(StoreError::UnreleasedSchema { found, difference }),
        None => Ok(found),
    }
}

/// The tables that the steps up to this format make.
fn released(format: i64) -> Shape {
    let added = MIGRATIONS.iter().take(format as usize).flat_map(|step| step.adds);
    added.flat_map(|(table, columns)| columns.split(' ').map(move |column| (*table, column))).collect()
}

async fn shape(client: &impl GenericClient) -> Result<Shape, StoreError> {
    let sql = "SELECT t.relname::text, c.attname::text FROM pg_attribute c JOIN pg_class t ON t.oid = c.attrelid
               WHERE t.relnamespace = to_regnamespace('reveille') AND t.relkind = 'r'
               AND c.attnum > 0 AND NOT c.attisdropped";
    let mut shape = Shape::default();
    for row in client.query(sql, &[]).await.map_err(refusal)? {
        shape.add(row.get(0), row.get(1));
    }
    Ok(shape)
}

async fn steps(client: &mut Client) -> Result<(), StoreError> {
    let tx = client.transaction().await.map_err(refusal)?;
    // Others may be at it for longer than a statement usually takes.
    tx.batch_execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0").await.map_err(refusal)?;
    tx.execute("SELECT pg_advisory_xact_lock($1)", &[&ADVISORY_LOCK]).await.map_err(refusal)?;
    tx.batch_execute(
        "CREATE SCHEMA IF NOT EXISTS reveille; CREATE TABLE IF NOT EXISTS reveille.format (version bigint NOT NULL)",
    )
    .await
    .map_err(refusal)?;
    let found = known(&tx).await?;
    for (number, step) in (1..).zip(MIGRATIONS).skip(found as usize) {
        tx.batch_execute(step.sql).await.map_err(refusal)?;
        let format: i64 = number;
        tx.execute("INSERT INTO reveille.format (version) VALUES ($1)", &[&format]).await.map_err(refusal)?;
    }
    tx.commit().await.map_err(refusal)
}

/// The row of the server with this id, made if it is new. Without one: the database's own, made from `fresh` once.
async fn server(client: &Client, wanted: Option<&str>, fresh: &str) -> Result<(i64, String), StoreError> {
    let id = match wanted {
        Some(id) => id.to_owned(),
        None => {
            let keep = "INSERT INTO reveille.meta (key, value) VALUES ('server_id', $1) ON CONFLICT DO NOTHING";
            client.execute(keep, &[&fresh]).await.map_err(refusal)?;
            let kept = "SELECT value FROM reveille.meta WHERE key = 'server_id'";
            client.query_one(kept, &[]).await.map_err(refusal)?.get(0)
        }
    };
    let make = "INSERT INTO reveille.servers (id) VALUES ($1) ON CONFLICT DO NOTHING";
    client.execute(make, &[&id]).await.map_err(refusal)?;
    let num = client.query_one("SELECT num FROM reveille.servers WHERE id = $1", &[&id]).await.map_err(refusal)?.get(0);
    Ok((num, id))
}
