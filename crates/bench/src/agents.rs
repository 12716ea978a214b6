//! Agents standing by at once over HTTP: what they cost, and how fast all of them are released.

use crate::{child::Server, load, seed, table};
use anyhow::Context;
use std::{
    path::Path,
    time::{Duration, Instant},
};
use tokio::{io::AsyncWriteExt, net::TcpStream, task::JoinSet};

const AGENTS: usize = 1_000;
const ROUNDS: usize = 3;
const WATCHED: Duration = Duration::from_secs(10);

pub async fn run(dir: &Path) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for round in 1..=ROUNDS {
        let directory = seed::directory(dir, 0).await?;
        let server = Server::reveille(directory.path())?;
        let alone = server.resident_kib()?;
        let mut agents = JoinSet::new();
        for agent in 0..AGENTS {
            let address = server.address.clone();
            agents.spawn(async move { stand_by(&address, agent).await });
        }
        let mut stream = all_stand_by(&server.address).await?;
        let before = server.cpu_ms()?;
        tokio::time::sleep(WATCHED).await;
        let (cpu, resident) = (server.cpu_ms()? - before, server.resident_kib()?);
        let began = Instant::now();
        stream.write_all(&load::post("/api/timers/stop", r#"{"all":true}"#)).await?;
        let mut released = Vec::with_capacity(AGENTS);
        while let Some(one) = agents.join_next().await {
            released.push((one?? - began).as_micros() as i64);
        }
        released.sort_unstable();
        rows.push([
            round.to_string(),
            format!("{:.1}", (resident - alone) as f64 / AGENTS as f64),
            format!("{:.1}", resident as f64 / 1024.0),
            cpu.to_string(),
            table::ms(released[0]),
            table::ms(table::percentile(&released, 0.5)),
            table::ms(released[AGENTS - 1]),
        ]);
    }
    let title = format!("{AGENTS} agents standing by over HTTP, then all stopped");
    let header = ["round", "KiB each", "resident MiB", "CPU ms in 10 s", "first ms", "half ms", "all released ms"];
    table::print(&title, header, &rows);
    Ok(())
}

/// One call that stands by; when its answer came.
async fn stand_by(address: &str, agent: usize) -> anyhow::Result<Instant> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let body = r#"{"total_duration":3600,"reason":"the build"}"#;
    let request = load::post(&format!("/api/sessions/agent-{agent}/tools/timer"), body);
    stream.write_all(&request).await?;
    let answer = load::answer(&mut stream, &mut vec![0; 4096]).await?;
    anyhow::ensure!(answer.contains("\"outcome\":\"stopped\""), "{answer}");
    Ok(Instant::now())
}

/// A connection to the server, as soon as every agent stands by.
async fn all_stand_by(address: &str) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        stream.write_all(&load::get("/api/stats")).await?;
        let stats: serde_json::Value = serde_json::from_str(&load::answer(&mut stream, &mut buffer).await?)?;
        if stats["standby"]["now"].as_u64().context("no figure")? == AGENTS as u64 {
            return Ok(stream);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
