//! Bringing a database to this version, with several nodes starting at once: one does it, the others wait for it.

use super::{
    lane::{connect, refusal},
    options::Target,
};
use crate::StoreError;
use std::time::Duration;
use tokio::time::Instant;
use tokio_postgres::Client;

/// Each step brings the format one version further. Released steps are never edited.
const MIGRATIONS: &[&str] = &[include_str!("migrations/0001.sql")];
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
    let found: i64 =
        tx.query_one("SELECT coalesce(max(version), 0) FROM reveille.format", &[]).await.map_err(refusal)?.get(0);
    let known = MIGRATIONS.len() as i64;
    if found > known {
        return Err(StoreError::NewerSchema { found, known });
    }
    for (step, sql) in MIGRATIONS.iter().enumerate().skip(found as usize) {
        tx.batch_execute(sql).await.map_err(refusal)?;
        tx.execute("INSERT INTO reveille.format (version) VALUES ($1)", &[&(step as i64 + 1)])
            .await
            .map_err(refusal)?;
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
