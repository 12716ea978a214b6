//! From a start after kill -9 to the first overdue firing.

use crate::{child::Server, load, seed, table};
use anyhow::Context;
use serde_json::Value;
use std::{path::Path, time::Duration};
use tokio::net::TcpStream;

/// Due while the server is down.
const OVERDUE: usize = 100;
const DUE_MS: u64 = 1_500;

pub async fn run(dir: &Path, pending: usize) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for pending in [100_000, pending] {
        let directory = seed::directory(dir, pending).await?;
        let mut server = Server::reveille(directory.path())?;
        let body = format!(r#"{{"total_duration":{},"mission":"overdue"}}"#, DUE_MS as f64 / 1000.0);
        load::run(&server.address, 10, OVERDUE, move |connection, _| {
            load::post(&format!("/api/sessions/restart-{connection}/tools/timer"), &body)
        })
        .await?;
        server.kill()?;
        tokio::time::sleep(Duration::from_millis(DUE_MS + 500)).await;
        let server = Server::reveille(directory.path())?;
        let listening = server.began.elapsed();
        let first = first_firing(&server.address).await?;
        rows.push([
            pending.to_string(),
            format!("{:.1}", listening.as_secs_f64() * 1000.0),
            format!("{:.1}", first as f64 - server.began_at as f64 / 1000.0),
        ]);
    }
    let title = "Restart after kill -9, measured from the start of the process";
    table::print(title, ["pending", "listening after ms", "first overdue firing after ms"], &rows);
    Ok(())
}

/// When the first of the overdue timers was completed, by the history: milliseconds since 1970.
async fn first_firing(address: &str) -> anyhow::Result<i64> {
    let mut stream = TcpStream::connect(address).await?;
    let mut buffer = vec![0; 4 << 20];
    loop {
        tokio::io::AsyncWriteExt::write_all(&mut stream, &load::get("/api/history?limit=1000")).await?;
        let history: Value = serde_json::from_str(&load::answer(&mut stream, &mut buffer).await?)?;
        let completed: Vec<&Value> = history["entries"]
            .as_array()
            .context("no entries")?
            .iter()
            .filter(|entry| entry["event"] == "timer.completed")
            .collect();
        if completed.len() >= OVERDUE {
            return completed.iter().filter_map(|entry| entry["at"].as_i64()).min().context("no instant");
        }
    }
}
