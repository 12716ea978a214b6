//! Looking at a database without becoming one of its nodes: what the doctor asks.

use super::{
    PostgresOptions,
    lane::{connect, refusal},
    migrate,
};
use crate::StoreError;

/// The format of what is kept there; 0: nothing of ours yet. Changes nothing.
pub async fn inspect(options: &PostgresOptions) -> Result<i64, StoreError> {
    let client = connect(&options.target()?).await?;
    let there = "SELECT to_regclass('reveille.format') IS NOT NULL";
    if !client.query_one(there, &[]).await.map_err(refusal)?.get::<_, bool>(0) {
        return Ok(0);
    }
    migrate::known(&client).await
}
