//! Agents standing by at once, over the API and over MCP: what they cost, and how fast all of them are released.

use crate::{child::Server, load, seed, table};
use anyhow::Context;
use std::{
    path::Path,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

const AGENTS: usize = 1_000;
const ROUNDS: usize = 3;
const WATCHED: Duration = Duration::from_secs(10);

/// By which way the agents come.
#[derive(Clone, Copy)]
enum Door {
    Api,
    /// `/mcp` in its revision of 2026-07-28, with progress, which is sent every few seconds.
    Mcp,
}

pub async fn run(dir: &Path) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for (door, round) in
        [Door::Api, Door::Mcp].into_iter().flat_map(|door| (1..=ROUNDS).map(move |round| (door, round)))
    {
        let directory = seed::directory(dir, 0).await?;
        let server = Server::reveille(directory.path())?;
        let alone = server.resident_kib()?;
        let mut agents = JoinSet::new();
        for agent in 0..AGENTS {
            let address = server.address.clone();
            agents.spawn(async move {
                match door {
                    Door::Api => stand_by(&address, agent).await,
                    Door::Mcp => stand_by_over_mcp(&address, agent).await,
                }
            });
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
            match door {
                Door::Api => format!("API, {round}"),
                Door::Mcp => format!("/mcp with progress, {round}"),
            },
            format!("{:.1}", (resident - alone) as f64 / AGENTS as f64),
            format!("{:.1}", resident as f64 / 1024.0),
            cpu.to_string(),
            table::ms(released[0]),
            table::ms(table::percentile(&released, 0.5)),
            table::ms(released[AGENTS - 1]),
        ]);
    }
    let title = format!("{AGENTS} agents standing by over HTTP, then all stopped");
    let header = ["by, round", "KiB each", "resident MiB", "CPU ms in 10 s", "first ms", "half ms", "all released ms"];
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

/// The same as an MCP client calls; when the result came after all the progress.
async fn stand_by_over_mcp(address: &str, agent: usize) -> anyhow::Result<Instant> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let body = serde_json::json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {
            "name": "timer", "arguments": {"total_duration": 3600, "reason": "the build"},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                // One that may stand by for hours.
                "io.modelcontextprotocol/clientInfo": {"name": "claude-code", "version": "1"},
                "progressToken": 1,
            },
        },
    })
    .to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\naccept: application/json, \
         text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: timer\r\n\
         x-reveille-session: agent-{agent}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await?;
    let (mut buffer, mut tail) = (vec![0; 4096], String::new());
    loop {
        let read = stream.read(&mut buffer).await?;
        anyhow::ensure!(read > 0, "the answer broke off: {tail}");
        tail.push_str(&String::from_utf8_lossy(&buffer[..read]));
        if tail.contains("\"outcome\":\"stopped\"") {
            return Ok(Instant::now());
        }
        // Progress is of no further use; the result is in one event.
        if let Some(end) = tail.rfind("\n\n") {
            tail.drain(..end);
        }
    }
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
