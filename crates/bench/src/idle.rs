//! What a server costs while nothing is due.

use crate::{child::Server, seed, table};
use std::{path::Path, time::Duration};

const SETTLE: Duration = Duration::from_secs(3);
const WATCHED: Duration = Duration::from_secs(10);

pub async fn run(dir: &Path, pending: usize) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for pending in [0, 100_000, pending] {
        let directory = seed::directory(dir, pending).await?;
        let server = Server::reveille(directory.path())?;
        let [resident, spent] = watched(&server).await?;
        rows.push([pending.to_string(), resident, spent]);
    }
    table::print("At rest", ["pending", "resident MiB", "CPU ms in 10 s"], &rows);
    Ok(())
}

/// Resident MiB, and milliseconds of processor time within ten seconds.
pub async fn watched(server: &Server) -> anyhow::Result<[String; 2]> {
    tokio::time::sleep(SETTLE).await;
    let before = server.cpu_ms()?;
    tokio::time::sleep(WATCHED).await;
    let spent = server.cpu_ms()? - before;
    Ok([format!("{:.1}", server.resident_kib()? as f64 / 1024.0), spent.to_string()])
}
