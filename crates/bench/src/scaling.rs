//! How the cost of a create and of a firing grows with what is pending.

use crate::{lateness::Bench, seed, table};
use std::{path::Path, time::Instant};

const SIZES: [usize; 4] = [10_000, 100_000, 1_000_000, 5_000_000];
const CREATES: usize = 20_000;
const DAY_MS: i64 = 24 * 3600 * 1000;

pub async fn run(dir: &Path) -> anyhow::Result<()> {
    let mut rows: Vec<[String; 5]> = Vec::new();
    let mut base = None;
    for pending in SIZES {
        let directory = seed::directory(dir, pending).await?;
        let bench = Bench::start(directory.path()).await?;
        let due: Vec<i64> = (0..CREATES as i64).map(|number| seed::micros() / 1000 + DAY_MS + number * 997).collect();
        // Once to warm up: the first touch of a page is the disk's, not ours.
        bench.create("warm", &due).await?;
        let began = Instant::now();
        bench.create("measured", &due).await?;
        let create = began.elapsed().as_secs_f64() * 1e6 / CREATES as f64;
        let late = bench.fire(|_| 5_000).await?;
        let fire = late[late.len() - 1] as f64 / late.len() as f64;
        bench.stop().await;
        let (first_create, first_fire, first_log) = *base.get_or_insert((create, fire, (pending as f64).ln()));
        rows.push([
            pending.to_string(),
            format!("{create:.1}"),
            format!("{fire:.1}"),
            format!("{:.2} / {:.2}", create / first_create, fire / first_fire),
            format!("{:.2}", (pending as f64).ln() / first_log),
        ]);
    }
    table::print(
        "Cost by what is pending, 64 callers, without HTTP",
        ["pending", "µs per create", "µs per firing", "× at 10,000", "log n"],
        &rows,
    );
    Ok(())
}
