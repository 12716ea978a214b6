//! Everything due at one instant.

use crate::{lateness::Bench, seed, table};
use std::path::Path;

const ROUNDS: usize = 3;
const LEAD_MS: u64 = 5_000;

pub async fn run(dir: &Path, pending: usize) -> anyhow::Result<()> {
    let directory = seed::directory(dir, pending).await?;
    let bench = Bench::start(directory.path()).await?;
    let mut rows = Vec::new();
    for round in 1..=ROUNDS {
        let late = bench.fire(|_| LEAD_MS).await?;
        rows.push([
            round.to_string(),
            table::ms(late[0]),
            table::ms(table::percentile(&late, 0.5)),
            table::ms(late[late.len() - 1]),
        ]);
    }
    bench.stop().await;
    let title = format!("Burst: 10,000 due at one instant, {pending} pending");
    table::print(&title, ["round", "first ms", "half ms", "all fired and durable ms"], &rows);
    Ok(())
}
