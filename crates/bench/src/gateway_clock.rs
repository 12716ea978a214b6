//! What the clock adds to a call that has nothing to do with it, and what a held turn takes.

use crate::{
    child::Server,
    gateway::{at_once, one_by_one},
    llm, seed, table,
};
use bytes::Bytes;
use std::{path::Path, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Short and many, one server after another, so that a neighbour's noise meets both.
const ROUNDS: usize = 15;
const SINGLE: usize = 1_000;
const CONNECTIONS: usize = 32;
const EACH: usize = 250;
const STREAMS_EACH: usize = 30;
/// One descriptor each, and some more while they begin.
const HELD: usize = 10_000;
/// A request as coding agents send it.
const LARGE: usize = 70_000;

pub async fn run(dir: &Path) -> anyhow::Result<()> {
    let upstream = Server::part(&["llm"])?;
    let (quiet, busy) = (seed::directory(dir, 0).await?, seed::directory(dir, 0).await?);
    let off = Server::gateway_with(quiet.path(), &upstream.address, "tools = []\nhold = false\n")?;
    let on = Server::gateway_with(busy.path(), &upstream.address, "")?;
    // One session has nothing at all, the other a reminder far away.
    schedule(&on.address, "waiting", "30d").await?;
    calls(&off, &on).await?;
    held(&on).await
}

/// With a tool of the client's, so that it is part of a conversation. Without a session nothing is looked for.
fn request(session: Option<&str>, stream: bool, content: &str) -> Bytes {
    let session = session.map(|session| format!("x-reveille-session: {session}\r\n")).unwrap_or_default();
    let tool = r#"{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}"#;
    let body = format!(
        r#"{{"model":"m","messages":[{{"role":"user","content":"{content}"}}],"tools":[{tool}],"stream":{stream}}}"#
    );
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    format!("{head}{session}content-length: {}\r\n\r\n{body}", body.len()).into()
}

async fn calls(off: &Server, on: &Server) -> anyhow::Result<()> {
    let large = "All the words of a long conversation. ".repeat(LARGE / 38);
    let mut rows = Vec::new();
    for (what, stream, content, each) in [
        ("small whole answers", false, "hello", EACH),
        ("a request of 70 kB", false, large.as_str(), EACH),
        ("streams of 100 chunks in a burst", true, llm::BURST, STREAMS_EACH),
    ] {
        let mut cases = vec![
            ("off", off, request(None, stream, content)),
            ("on, nothing kept for the session", on, request(Some("empty"), stream, content)),
        ];
        if stream {
            // These answers do not say that they stopped, so the turn is not held.
            cases.push(("on, a reminder pending", on, request(Some("waiting"), stream, content)));
        }
        let mut best = vec![(i64::MAX, f64::MAX); cases.len()];
        for _ in 0..ROUNDS {
            for ((_, server, request), best) in cases.iter().zip(&mut best) {
                let mut took = one_by_one(&server.address, request, SINGLE / if stream { 10 } else { 1 }).await?;
                took.sort_unstable();
                let before = server.cpu_us()?;
                at_once(&server.address, request, CONNECTIONS, each).await?;
                let cpu = (server.cpu_us()? - before) / (CONNECTIONS * each) as f64;
                *best = (best.0.min(table::percentile(&took, 0.5)), best.1.min(cpu));
            }
        }
        for ((name, ..), (p50, cpu)) in cases.iter().zip(&best) {
            let ratio = |value: f64, base: f64| format!("{:.2}", value / base);
            rows.push([
                format!("{what}: clock {name}"),
                format!("{:.1}", *p50 as f64 / 1000.0),
                ratio(*p50 as f64, best[0].0 as f64),
                format!("{cpu:.1}"),
                ratio(*cpu, best[0].1),
            ]);
        }
    }
    let header = ["", "p50 µs, 1 connection", "× off", "CPU µs, 32 connections", "× off"];
    table::print(&format!("Gateway: the clock on and off, best of {ROUNDS} rounds"), header, &rows);
    Ok(())
}

async fn schedule(address: &str, session: &str, length: &str) -> anyhow::Result<()> {
    let body = format!(r#"{{"action":"schedule","task":"t","in":"{length}"}}"#);
    let path = format!("/api/sessions/{session}/tools/clock");
    let mut stream = TcpStream::connect(address).await?;
    let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    let request = format!("{head}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    anyhow::ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    Ok(())
}

async fn held(server: &Server) -> anyhow::Result<()> {
    for number in 0..HELD {
        schedule(&server.address, &format!("held-{number}"), "30d").await?;
    }
    let before = server.resident_kib()?;
    let mut streams = Vec::with_capacity(HELD);
    for number in 0..HELD {
        let session = format!("held-{number}");
        let mut stream = TcpStream::connect(&server.address).await?;
        stream.write_all(&request(Some(&session), true, llm::STOP)).await?;
        let mut buffer = [0; 1024];
        let mut seen = Vec::new();
        while !seen.windows(4).any(|window| window == b"word") {
            let read = stream.read(&mut buffer).await?;
            anyhow::ensure!(read > 0, "the stream was closed: {}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&buffer[..read]);
        }
        streams.push(stream);
    }
    for _ in 0..100 {
        if holds(&server.address).await? == HELD {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    anyhow::ensure!(holds(&server.address).await? == HELD, "not all turns are held");
    let each = (server.resident_kib()? - before) as f64 / HELD as f64;
    let cpu = server.cpu_ms()?;
    tokio::time::sleep(Duration::from_secs(24)).await;
    let cpu = (server.cpu_ms()? - cpu) as f64 / 24.0;
    let rows = [[HELD.to_string(), format!("{each:.1}"), format!("{:.2}", cpu / HELD as f64 * 1000.0)]];
    table::print("Gateway: held turns", ["turns", "KiB each", "CPU µs each per second, signs of life"], &rows);
    Ok(())
}

async fn holds(address: &str) -> anyhow::Result<usize> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let line = answer.lines().find_map(|line| line.strip_prefix("reveille_gateway_holds "));
    Ok(line.and_then(|count| count.trim().parse().ok()).unwrap_or(0))
}
