//! Servers that run already, ours and others', under the same calls, one after another. `bench/peers/run` starts them.

use crate::{child, gateway, llm, table};
use bytes::Bytes;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

const ROUNDS: usize = 3;
/// Of one measurement. A slow server answers fewer calls, not longer.
const WHILE: Duration = Duration::from_millis(1500);
const WARM_UP: Duration = Duration::from_secs(1);
const CONNECTIONS: usize = 32;

/// The first is the provider itself, the second the floor.
#[derive(Deserialize)]
struct Peer {
    name: String,
    address: String,
    pid: u32,
    /// What it needs to be told where the provider is.
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

#[derive(Clone, Copy)]
struct Figures {
    p50_us: f64,
    cpu_us: f64,
    per_second: f64,
    stream_ms: f64,
    chunk_us: f64,
}

const WORST: Figures =
    Figures { p50_us: f64::MAX, cpu_us: f64::MAX, per_second: 0.0, stream_ms: f64::MAX, chunk_us: f64::MAX };

pub async fn run(servers: &Path) -> anyhow::Result<()> {
    let peers: Vec<Peer> = serde_json::from_str(&std::fs::read_to_string(servers)?)?;
    let mut best = vec![WORST; peers.len()];
    let mut streams = Vec::new();
    for peer in &peers {
        calls(peer, false, 1, WARM_UP).await?;
        // Others' failures are a row of the table, not the end of the run.
        let warm_up = calls(peer, true, 1, WARM_UP).await;
        if let Err(error) = &warm_up {
            eprintln!("no streams: {error:#}");
        }
        streams.push(warm_up.is_ok());
    }
    for _ in 0..ROUNDS {
        for ((peer, best), streams) in peers.iter().zip(&mut best).zip(&streams) {
            let now = measure(peer, *streams).await?;
            *best = Figures {
                p50_us: best.p50_us.min(now.p50_us),
                cpu_us: best.cpu_us.min(now.cpu_us),
                per_second: best.per_second.max(now.per_second),
                stream_ms: best.stream_ms.min(now.stream_ms),
                chunk_us: best.chunk_us.min(now.chunk_us),
            };
        }
    }
    let rows: Vec<_> = peers.iter().zip(&best).map(|(peer, figures)| row(&peer.name, figures, &best[0])).collect();
    let header = [
        "",
        "p50 µs, 1 connection",
        "added µs",
        "CPU µs per request, 32 connections",
        "requests/s",
        "stream of 100 chunks, p50 ms",
        "CPU µs per chunk, 32 connections",
    ];
    table::print(&format!("Gateways side by side, best of {ROUNDS} rounds"), header, &rows);
    Ok(())
}

async fn measure(peer: &Peer, streams: bool) -> anyhow::Result<Figures> {
    let (alone, _) = calls(peer, false, 1, WHILE).await?;
    let before = child::cpu_us(peer.pid)?;
    let (many, took) = calls(peer, false, CONNECTIONS, WHILE).await?;
    let cpu_us = (child::cpu_us(peer.pid)? - before) / many.len() as f64;
    let (stream_ms, chunk_us) = if streams { stream(peer).await? } else { (f64::MAX, f64::MAX) };
    Ok(Figures {
        p50_us: table::percentile(&alone, 0.5) as f64 / 1e3,
        cpu_us,
        per_second: many.len() as f64 / took.as_secs_f64(),
        stream_ms,
        chunk_us,
    })
}

/// Milliseconds of one alone, and CPU per chunk of many.
async fn stream(peer: &Peer) -> anyhow::Result<(f64, f64)> {
    let (alone, _) = calls(peer, true, 1, WHILE).await?;
    let before = child::cpu_us(peer.pid)?;
    let (many, _) = calls(peer, true, CONNECTIONS, WHILE).await?;
    let chunk_us = (child::cpu_us(peer.pid)? - before) / (many.len() * llm::CHUNKS) as f64;
    Ok((table::percentile(&alone, 0.5) as f64 / 1e6, chunk_us))
}

/// Nanoseconds of every call that began in time, sorted, and how long all took.
async fn calls(peer: &Peer, stream: bool, connections: usize, time: Duration) -> anyhow::Result<(Vec<i64>, Duration)> {
    let (request, began) = (request(peer, stream), Instant::now());
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        let (address, request) = (peer.address.clone(), request.clone());
        tasks.spawn(async move { gateway::until(&address, &request, began + time).await });
    }
    let mut all = Vec::new();
    while let Some(done) = tasks.join_next().await {
        all.extend(done?.map_err(|error| error.context(peer.name.clone()))?);
    }
    all.sort_unstable();
    Ok((all, began.elapsed()))
}

fn request(peer: &Peer, stream: bool) -> Bytes {
    let content = if stream { llm::BURST } else { "hello" };
    let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{content}"}}],"stream":{stream}}}"#);
    let own: String = peer.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\nauthorization: Bearer none\r\n{own}",
        peer.address
    );
    format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into()
}

fn row(name: &str, figures: &Figures, direct: &Figures) -> [String; 7] {
    let or_fails = |figure: f64, text: String| if figure == f64::MAX { "fails".to_owned() } else { text };
    [
        name.to_owned(),
        format!("{:.0}", figures.p50_us),
        format!("{:.0}", figures.p50_us - direct.p50_us),
        format!("{:.0}", figures.cpu_us),
        format!("{:.0}", figures.per_second),
        or_fails(figures.stream_ms, format!("{:.2}", figures.stream_ms)),
        or_fails(figures.chunk_us, format!("{:.1}", figures.chunk_us)),
    ]
}
