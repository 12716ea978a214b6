//! Agents' sessions: how fast they begin, what they cost while nobody talks, and how late their timers are.

use crate::{child::Server, lateness::Bench, load, table};
use anyhow::ensure;
use std::{path::Path, time::Duration};
use tokio::net::TcpStream;

const CONNECTIONS: usize = 64;
pub const COUNT: usize = 100_000;
const SETTLE: Duration = Duration::from_secs(3);
/// Sessions whose timers are watched, beside those that wait; with fewer of those, as many.
const WATCHED: usize = 10_000;

/// The original's three timers, so late that none fires while the others are measured.
const AGENT: &str = r#"{"timers":[
    {"timer_id":"idle_reminder","delay_seconds":"1d","max_triggers":3,"tool_name":"generate_response","message":"您好，请问还有什么可以帮您的吗？"},
    {"timer_id":"auto_handoff","delay_seconds":"2d","tool_name":"generate_response","message":"…"},
    {"timer_id":"session_timeout","delay_seconds":"3d","tool_name":"close_conversation"}]}"#;
const TURN: &str = r#"{"agent":"acme:support"}"#;

pub async fn run(dir: &Path, count: usize) -> anyhow::Result<()> {
    let directory = tempfile::tempdir_in(dir)?;
    let server = Server::reveille(directory.path())?;
    let empty = server.resident_kib()?;
    put(&server.address).await?;
    let turn = |connection: usize, number: usize| {
        load::post(&format!("/api/sessions/bench-{connection}-{number}/activity"), TURN)
    };
    let rate = load::run(&server.address, CONNECTIONS, count, turn).await?;
    let again = load::run(&server.address, CONNECTIONS, count, turn).await?;
    drop(server);
    // What is kept of the work is not what the sessions cost.
    let server = Server::reveille(directory.path())?;
    tokio::time::sleep(SETTLE).await;
    let resident = server.resident_kib()?;
    drop(server);

    let bench = Bench::start(directory.path()).await?;
    let watched = WATCHED.min(count);
    let late = bench.fire_sessions(watched).await?;
    bench.stop().await;
    let mib = |kib: u64| format!("{:.1}", kib as f64 / 1024.0);
    table::print(
        &format!("{count} sessions of an agent with 3 timers each"),
        ["", ""],
        &[
            ["sessions begun per second (message and answer in one request)".into(), format!("{rate:.0}")],
            ["turns per second in sessions that exist".into(), format!("{again:.0}")],
            ["resident MiB, empty".into(), mib(empty)],
            [format!("resident MiB, {} session timers pending", 3 * count), mib(resident)],
            [format!("{watched} more sessions: lateness p50 ms"), table::ms(table::percentile(&late, 0.5))],
            ["p99 ms".into(), table::ms(table::percentile(&late, 0.99))],
            ["max ms".into(), table::ms(late[late.len() - 1])],
        ],
    );
    println!("\nnone early, none lost, none twice");
    Ok(())
}

async fn put(address: &str) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let request = String::from_utf8(load::post("/api/agents/acme/support", AGENT))?.replacen("POST", "PUT", 1);
    tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await?;
    let answer = load::answer(&mut stream, &mut vec![0; 64 * 1024]).await?;
    ensure!(answer.contains("created"), "{answer}");
    Ok(())
}
