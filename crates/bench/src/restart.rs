//! From a start after kill -9 to the first overdue firing.

use crate::{child::Server, load, seed, table};
use anyhow::Context;
use serde_json::Value;
use std::{path::Path, time::Duration};
use tokio::net::TcpStream;

/// Due while the server is down.
const OVERDUE: usize = 100;
const DUE_MS: u64 = 1_500;

/// Each start is measured this often; best and median are shown.
pub const ROUNDS: usize = 5;

pub async fn run(dir: &Path, pending: usize) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for pending in [100_000, pending] {
        let directory = seed::directory(dir, pending).await?;
        let [listening, firing] = rounds(|| Server::reveille(directory.path())).await?;
        rows.push([pending.to_string(), listening, firing]);
    }
    let title = format!("Restart after kill -9, from the start of the process, best / median of {ROUNDS}");
    table::print(&title, ["pending", "listening after ms", "first overdue firing after ms"], &rows);
    Ok(())
}

/// Milliseconds to listening and to the first firing of a server that is killed and started again, best / median.
pub async fn rounds(start: impl Fn() -> anyhow::Result<Server>) -> anyhow::Result<[String; 2]> {
    let (mut listening, mut firing) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (listens, fires) = restart(&start, round).await?;
        listening.push(listens);
        firing.push(fires);
    }
    Ok([figures(&mut listening), figures(&mut firing)])
}

fn figures(micros: &mut [i64]) -> String {
    micros.sort_unstable();
    format!("{} / {}", table::ms(micros[0]), table::ms(micros[micros.len() / 2]))
}

/// Kills a server with timers that fall due while it is down; microseconds to listening and to the first firing.
async fn restart(start: &impl Fn() -> anyhow::Result<Server>, round: usize) -> anyhow::Result<(i64, i64)> {
    let mut server = start()?;
    let body = format!(r#"{{"total_duration":{},"mission":"overdue"}}"#, DUE_MS as f64 / 1000.0);
    let made_at = seed::now().as_millis();
    load::run(&server.address, 10, OVERDUE, move |connection, _| {
        load::post(&format!("/api/sessions/restart-{round}-{connection}/tools/timer"), &body)
    })
    .await?;
    server.kill()?;
    tokio::time::sleep(Duration::from_millis(DUE_MS + 500)).await;
    let server = start()?;
    let listening = server.began.elapsed().as_micros() as i64;
    let first = first_firing(&server.address, made_at).await?;
    Ok((listening, first * 1000 - server.began_at))
}

/// When the first of the overdue timers was completed, by the history: milliseconds since 1970.
async fn first_firing(address: &str, since: i64) -> anyhow::Result<i64> {
    let mut stream = TcpStream::connect(address).await?;
    let mut buffer = vec![0; 4 << 20];
    loop {
        // Rarely enough not to be in the way of what is measured.
        tokio::time::sleep(Duration::from_millis(20)).await;
        tokio::io::AsyncWriteExt::write_all(&mut stream, &load::get("/api/history?limit=1000")).await?;
        let history: Value = serde_json::from_str(&load::answer(&mut stream, &mut buffer).await?)?;
        let completed: Vec<&Value> = history["entries"]
            .as_array()
            .context("no entries")?
            .iter()
            .filter(|entry| entry["event"] == "timer.completed" && entry["at"].as_i64() > Some(since))
            .collect();
        if completed.len() >= OVERDUE {
            return completed.iter().filter_map(|entry| entry["at"].as_i64()).min().context("no instant");
        }
    }
}
