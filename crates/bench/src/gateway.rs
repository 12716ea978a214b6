//! The gateway against its floor: what it adds to a call, what it costs per request and per chunk, what a splice costs,
//! and what an open stream takes.

use crate::{child::Server, llm, seed, table};
use bytes::Bytes;
use reveille_gateway::{Draft, Outline, Protocol};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{
    path::Path,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

/// Short and many, one server after another, so that a neighbour's noise meets all of them.
const ROUNDS: usize = 9;
const SINGLE: usize = 1_000;
const CONNECTIONS: usize = 32;
const MANY: usize = 16_000;
const STREAMS_EACH: usize = 6;
const BURSTS_EACH: usize = 30;
/// As many as the machine's limit on descriptors allows: a stream has two of them in the gateway.
const OPEN_MAX: usize = 10_000;
/// For everything else in the process.
const DESCRIPTORS_SPARE: usize = 500;

pub async fn run(dir: &Path) -> anyhow::Result<()> {
    // Children inherit it.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    let upstream = Server::part(&["llm"])?;
    let floor = Server::part(&["llm", &upstream.address])?;
    let directory = seed::directory(dir, 0).await?;
    let ours = Server::gateway(directory.path(), &upstream.address)?;
    let servers = [("direct", &upstream), ("floor: bare hyper pass-through", &floor), ("reveille", &ours)];
    calls(&servers).await?;
    streams(&servers, "1 ms apart", "hello", STREAMS_EACH).await?;
    streams(&servers, "in a burst", llm::BURST, BURSTS_EACH).await?;
    splice();
    open(&servers[1..]).await
}

async fn calls(servers: &[(&str, &Server)]) -> anyhow::Result<()> {
    let request = llm::request(false, "hello");
    let mut best = vec![(i64::MAX, f64::MAX, 0f64); servers.len()];
    for _ in 0..ROUNDS {
        for ((_, server), best) in servers.iter().zip(&mut best) {
            let mut took = one_by_one(&server.address, &request, SINGLE).await?;
            took.sort_unstable();
            let (began, before) = (Instant::now(), server.cpu_us()?);
            at_once(&server.address, &request, CONNECTIONS, MANY / CONNECTIONS).await?;
            let cpu = (server.cpu_us()? - before) / MANY as f64;
            let rate = MANY as f64 / began.elapsed().as_secs_f64();
            *best = (best.0.min(table::percentile(&took, 0.5)), best.1.min(cpu), best.2.max(rate));
        }
    }
    let added = |index: usize| (best[index].0 - best[0].0) as f64 / 1000.0;
    let rows: Vec<_> = (0..servers.len())
        .map(|index| {
            let (p50, cpu, rate) = best[index];
            let ratio = |ours: f64, floor: f64| if index == 0 { "–".into() } else { format!("{:.2}", ours / floor) };
            [
                servers[index].0.to_owned(),
                format!("{:.1}", p50 as f64 / 1000.0),
                format!("{:.1}", added(index)),
                ratio(added(index), added(1)),
                format!("{cpu:.1}"),
                ratio(cpu, best[1].1),
                format!("{rate:.0}"),
            ]
        })
        .collect();
    let header = ["", "p50 µs, 1 connection", "added µs", "× floor", "CPU µs, 32 connections", "× floor", "requests/s"];
    table::print("Gateway: small whole answers, best of 9 rounds", header, &rows);
    Ok(())
}

async fn streams(servers: &[(&str, &Server)], how: &str, content: &str, each: usize) -> anyhow::Result<()> {
    let request = llm::request(true, content);
    let chunks = (CONNECTIONS * each * llm::CHUNKS) as f64;
    let mut best = vec![f64::MAX; servers.len()];
    for _ in 0..ROUNDS {
        for ((_, server), best) in servers.iter().zip(&mut best) {
            let before = server.cpu_us()?;
            at_once(&server.address, &request, CONNECTIONS, each).await?;
            *best = best.min((server.cpu_us()? - before) / chunks);
        }
    }
    let rows: Vec<_> = (1..servers.len())
        .map(|index| {
            [servers[index].0.to_owned(), format!("{:.2}", best[index]), format!("{:+.2}", best[index] - best[1])]
        })
        .collect();
    let title = format!("Gateway: streams, chunks {how}, 32 connections, best of 9 rounds");
    table::print(&title, ["", "CPU µs per chunk", "over the floor"], &rows);
    Ok(())
}

/// Reading a request of 77 kB, and adding a tool to it.
fn splice() {
    let tools: Vec<String> = (0..40).map(|number| tool(number, 1_400)).collect();
    let text = "All the words of a long conversation. ".repeat(500);
    let body = format!(
        r#"{{"model":"m","messages":[{{"role":"user","content":"{text}"}}],"tools":[{}],"stream":true}}"#,
        tools.join(",")
    );
    let (length, body, added) = (body.len(), Bytes::from(body), tool(99, 600));
    let read = time(|| std::hint::black_box(Outline::read(Protocol::Chat, &body)).is_ok());
    let spliced = time(|| {
        let outline = Outline::read(Protocol::Chat, &body).expect("valid");
        let mut draft = Draft::new(Protocol::Chat, outline, body.clone());
        draft.append_tool(&added);
        std::hint::black_box(draft.body()).len() > length
    });
    let anew = time(|| {
        let mut value: serde_json::Value = serde_json::from_slice(&body).expect("valid");
        value["tools"].as_array_mut().expect("a list").push(serde_json::from_str(&added).expect("valid"));
        std::hint::black_box(value.to_string()).len() > length
    });
    let rows =
        [("read for routing", read), ("read, and a tool spliced in", spliced), ("parsed and written anew", anew)]
            .map(|(what, micros)| [what.to_owned(), format!("{micros:.1}")]);
    table::print(&format!("Gateway: a request of {} kB", length / 1000), ["", "µs"], &rows);
}

fn tool(number: usize, length: usize) -> String {
    let text = "what it does, ".repeat(length / 14);
    format!(
        r#"{{"type":"function","function":{{"name":"tool_{number}","description":"{text}","parameters":{{"type":"object"}}}}}}"#
    )
}

/// Microseconds, best of many.
fn time(run: impl Fn() -> bool) -> f64 {
    let once = || {
        let began = Instant::now();
        assert!(run());
        began.elapsed()
    };
    (0..2_000).map(|_| once()).min().expect("some").as_nanos() as f64 / 1000.0
}

/// How many streams may be open at once, by the limit that every server here takes for its own.
fn open_max() -> usize {
    let limit =
        getrlimit(Resource::Nofile).maximum.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    OPEN_MAX.min(limit.saturating_sub(DESCRIPTORS_SPARE) / 2)
}

async fn open(servers: &[(&str, &Server)]) -> anyhow::Result<()> {
    let open = open_max();
    let request = llm::request(true, llm::STALL);
    let mut rows = Vec::new();
    for (name, server) in servers {
        let before = server.resident_kib()?;
        let mut streams = Vec::with_capacity(open);
        for _ in 0..open {
            let mut stream = TcpStream::connect(&server.address).await?;
            stream.write_all(&request).await?;
            let mut buffer = [0; 1024];
            let mut seen = Vec::new();
            while !seen.windows(4).any(|window| window == b"word") {
                let read = stream.read(&mut buffer).await?;
                anyhow::ensure!(read > 0, "{name} closed the stream: {}", String::from_utf8_lossy(&seen));
                seen.extend_from_slice(&buffer[..read]);
            }
            streams.push(stream);
        }
        let each = (server.resident_kib()? - before) as f64 / open as f64;
        let cpu = server.cpu_ms()?;
        tokio::time::sleep(Duration::from_secs(5)).await;
        rows.push([name.to_string(), format!("{each:.1}"), (server.cpu_ms()? - cpu).to_string()]);
    }
    table::print(&format!("Gateway: {open} open streams"), ["", "KiB each", "CPU ms in 5 s"], &rows);
    Ok(())
}

/// Nanoseconds of each, on one connection.
pub async fn one_by_one(address: &str, request: &[u8], times: usize) -> anyhow::Result<Vec<i64>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; 64 * 1024];
    let mut took = Vec::with_capacity(times);
    for _ in 0..times {
        let began = Instant::now();
        stream.write_all(request).await?;
        answer(&mut stream, &mut buffer).await?;
        took.push(began.elapsed().as_nanos() as i64);
    }
    Ok(took)
}

/// Nanoseconds of each, on one connection, as long as there is time; at least one.
pub async fn until(address: &str, request: &[u8], end: Instant) -> anyhow::Result<Vec<i64>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut buffer, mut took) = (vec![0; 256 * 1024], Vec::new());
    loop {
        let began = Instant::now();
        stream.write_all(request).await?;
        answer(&mut stream, &mut buffer).await?;
        took.push(began.elapsed().as_nanos() as i64);
        if Instant::now() >= end {
            return Ok(took);
        }
    }
}

pub async fn at_once(address: &str, request: &Bytes, connections: usize, each: usize) -> anyhow::Result<()> {
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        let (address, request) = (address.to_owned(), request.clone());
        tasks.spawn(async move { one_by_one(&address, &request, each).await });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

/// Reads one answer, whole or chunked.
async fn answer(stream: &mut TcpStream, buffer: &mut [u8]) -> anyhow::Result<()> {
    let mut filled = 0;
    let mut end = None;
    loop {
        let read = stream.read(&mut buffer[filled..]).await?;
        anyhow::ensure!(read > 0, "the server closed the connection");
        filled += read;
        if end.is_none()
            && let Some(head) = buffer[..filled].windows(4).position(|window| window == b"\r\n\r\n")
        {
            let text = std::str::from_utf8(&buffer[..head])?.to_ascii_lowercase();
            anyhow::ensure!(text.starts_with("http/1.1 200"), "{text}");
            let length =
                text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
            end = Some(length.map(|length| head + 4 + length));
        }
        match end {
            Some(Some(end)) if filled >= end => return Ok(()),
            Some(None) if buffer[..filled].ends_with(b"0\r\n\r\n") => return Ok(()),
            _ => {}
        }
    }
}
