//! Durable creates through HTTP.

use crate::{child::Server, load, seed, table};
use std::path::Path;

const CONNECTIONS: usize = 64;
const REQUESTS: usize = 64_000;
/// Below the limit of live timers in a session.
const PER_SESSION: usize = 50;
/// Rounds; the best of each is compared, since the machine only ever makes things slower.
const ROUNDS: usize = 3;

pub async fn run(dir: &Path, pending: usize) -> anyhow::Result<()> {
    let mut best = [(0f64, f64::MAX); 4];
    for round in 0..ROUNDS {
        let measured = [
            baseline("naive", dir, REQUESTS / 8).await?,
            baseline("floor", dir, REQUESTS).await?,
            ours(dir, 0, round).await?,
            ours(dir, pending, round).await?,
        ];
        for (best, measured) in best.iter_mut().zip(measured) {
            *best = (best.0.max(measured.0), best.1.min(measured.1));
        }
    }
    let [naive, floor, empty, full] = best;
    let row = |name: &str, (rate, cpu): (f64, f64)| {
        [name.to_owned(), format!("{rate:.0}"), format!("{:.2}", rate / floor.0), format!("{cpu:.0}")]
    };
    table::print(
        &format!("Durable creates through HTTP, {CONNECTIONS} connections, best of {ROUNDS} rounds"),
        ["server", "creates/s", "× floor", "server CPU µs each"],
        &[
            row("naive: one transaction per request", naive),
            row("floor: axum + group-commit INSERT", floor),
            row("reveille, empty", empty),
            row(&format!("reveille, {pending} pending"), full),
        ],
    );
    println!("\nwith {pending} pending / empty: {:.2}", full.0 / empty.0);
    Ok(())
}

/// Requests per second, and the server's processor time for each in microseconds.
async fn baseline(kind: &str, dir: &Path, requests: usize) -> anyhow::Result<(f64, f64)> {
    let directory = tempfile::tempdir_in(dir)?;
    let server = Server::baseline(kind, directory.path())?;
    let rate = load::run(&server.address, CONNECTIONS, requests, |_, _| load::post("/insert", BODY)).await?;
    Ok((rate, server.cpu_ms()? as f64 * 1000.0 / requests as f64))
}

const BODY: &str = r#"{"total_duration":86400,"mission":"restart the server"}"#;

/// Of the real binary on SQLite.
pub async fn ours(dir: &Path, pending: usize, round: usize) -> anyhow::Result<(f64, f64)> {
    let directory = seed::directory(dir, pending).await?;
    let server = Server::reveille(directory.path())?;
    let rate = load::run(&server.address, CONNECTIONS, REQUESTS, move |connection, number| {
        let session = format!("bench-{round}-{connection}-{}", number / PER_SESSION);
        load::post(&format!("/api/sessions/{session}/tools/timer"), BODY)
    })
    .await?;
    Ok((rate, server.cpu_ms()? as f64 * 1000.0 / REQUESTS as f64))
}
