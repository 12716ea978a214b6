//! One, two and three nodes on one PostgreSQL, with what PostgreSQL itself and others' job queues do on it in the same
//! run: creates, lateness and a burst.

use crate::{
    child::Server,
    lateness::{Bench, LEAD_MS, SPREAD_MS, TIMERS},
    load, queues, table,
};
use anyhow::{Context, ensure};
use reveille_store::{PostgresOptions, PostgresStore};
use scratch_postgres::{Care, Cluster};
use std::{path::Path, process::Command, sync::Arc};
use tokio::task::JoinSet;

const CONNECTIONS: usize = 64;
const REQUESTS: usize = 19_200;
/// Below the limit of live timers in a session.
const PER_SESSION: usize = 50;
const BODY: &str = r#"{"total_duration":86400,"mission":"restart the server"}"#;
const NODES_MAX: usize = 3;
/// From creation to the instant of the burst.
const BURST_LEAD_MS: u64 = 15_000;
const PGBENCH_SECONDS: &str = "10";

pub async fn run(dir: &Path, pending: usize) -> anyhow::Result<()> {
    let cluster = Cluster::start(Care::Durable, &["shared_buffers = 512MB", "max_wal_size = 4GB"]);
    let floor = pgbench(&cluster)?;
    let mut rows = vec![["pgbench: single-row commits".into(), format!("{floor:.0}"), "1.00".into()]];
    for nodes in 1..=NODES_MAX {
        let rate = creates(dir, &cluster.database(), nodes).await?;
        rows.push([format!("reveille, {}", named(nodes)), format!("{rate:.0}"), format!("{:.2}", rate / floor)]);
    }
    let full = cluster.database();
    seed(&cluster, &full, pending).await?;
    let rate = creates(dir, &full, 1).await?;
    let name = format!("reveille, 1 node, {pending} pending");
    rows.push([name, format!("{rate:.0}"), format!("{:.2}", rate / floor)]);
    let others = queues::run(dir, &cluster)?;
    for peer in &others {
        let ratio = format!("{:.2}", peer.creates / floor);
        rows.push([peer.name.clone(), format!("{:.0}", peer.creates), ratio]);
    }
    let title = format!("Durable creates on PostgreSQL, {CONNECTIONS} at a time");
    table::print(&title, ["", "creates/s", "× pgbench"], &rows);

    let mut rows = Vec::new();
    for nodes in 1..=NODES_MAX {
        let late = fire(dir, &full, nodes, |number| LEAD_MS + number as u64 * SPREAD_MS / TIMERS as u64).await?;
        let burst = fire(dir, &full, nodes, |_| BURST_LEAD_MS).await?;
        let [p50, p99] = [0.5, 0.99].map(|share| table::ms(table::percentile(&late, share)));
        let burst = table::ms(burst[burst.len() - 1]);
        rows.push([format!("reveille, {}, {pending} pending", named(nodes)), p50, p99, burst]);
    }
    for peer in others {
        rows.push([peer.name, peer.late_p50, peer.late_p99, peer.burst]);
    }
    let title = format!("Lateness on PostgreSQL, {TIMERS} over {} s; {TIMERS} at one instant", SPREAD_MS / 1000);
    table::print(&title, ["", "p50 ms", "p99 ms", "burst: last after ms"], &rows);
    println!("\nnone early, none lost, none twice");
    Ok(())
}

fn named(nodes: usize) -> String {
    format!("{nodes} node{}", if nodes == 1 { "" } else { "s" })
}

/// What the same database does when each client inserts a row and commits.
fn pgbench(cluster: &Cluster) -> anyhow::Result<f64> {
    let (url, directory) = (cluster.database(), tempfile::tempdir()?);
    let database = url.rsplit('/').next().context("a name")?;
    cluster.sql(database, "CREATE TABLE floor (id bigserial PRIMARY KEY, due bigint, body text)");
    let script = directory.path().join("insert.sql");
    std::fs::write(&script, "INSERT INTO floor (due, body) VALUES (1, 'restart the server');\n")?;
    let port = cluster.port.to_string();
    let output = Command::new(cluster.programs().join("pgbench"))
        .args(["-h", "127.0.0.1", "-p", &port, "-U", "reveille", "-n", "-M", "prepared", "-c", "64", "-j", "2"])
        .args(["-T", PGBENCH_SECONDS, "-f"])
        .arg(&script)
        .arg(database)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let rate = text.lines().find_map(|line| line.strip_prefix("tps = ")).context("pgbench gave no figure")?;
    Ok(rate.split_whitespace().next().context("a number")?.parse()?)
}

async fn creates(dir: &Path, url: &str, nodes: usize) -> anyhow::Result<f64> {
    let directories: Vec<_> = (0..nodes).map(|_| tempfile::tempdir_in(dir)).collect::<Result<_, _>>()?;
    let servers: Vec<Server> =
        directories.iter().map(|directory| Server::node(directory.path(), url)).collect::<Result<_, _>>()?;
    let (mut tasks, began) = (JoinSet::new(), std::time::Instant::now());
    let made = REQUESTS / nodes / CONNECTIONS * CONNECTIONS * nodes;
    for (node, server) in servers.iter().enumerate() {
        let address = server.address.clone();
        tasks.spawn(async move {
            load::run(&address, CONNECTIONS / nodes, made / nodes, move |connection, number| {
                let session = format!("bench-{nodes}-{node}-{connection}-{}", number / PER_SESSION);
                load::post(&format!("/api/sessions/{session}/tools/timer"), BODY)
            })
            .await
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(made as f64 / began.elapsed().as_secs_f64())
}

/// One node is in this process, and counts from its feed what all of them fire.
async fn fire(dir: &Path, url: &str, nodes: usize, due_in: impl Fn(usize) -> u64) -> anyhow::Result<Vec<i64>> {
    let directories: Vec<_> = (1..nodes).map(|_| tempfile::tempdir_in(dir)).collect::<Result<_, _>>()?;
    let _others: Vec<Server> =
        directories.iter().map(|directory| Server::node(directory.path(), url)).collect::<Result<_, _>>()?;
    let store = PostgresStore::open(&PostgresOptions::new(url), None, "bench").await?;
    let bench = Bench::on(Arc::new(store));
    // Until the nodes know of each other.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let late = bench.fire(due_in).await;
    bench.stop().await;
    late
}

/// Timers far in the future, made by the database from one that a server made.
async fn seed(cluster: &Cluster, url: &str, pending: usize) -> anyhow::Result<()> {
    let bench = Bench::on(Arc::new(PostgresStore::open(&PostgresOptions::new(url), None, "bench").await?));
    let tomorrow = crate::seed::micros() / 1000 + 86_400_000;
    let made = bench.create("seed", &[tomorrow]).await?;
    bench.stop().await;
    let id = made.keys().next().context("one timer")?;
    ensure!(pending > 0, "at least one pending timer");
    let database = url.rsplit('/').next().context("a name")?;
    cluster.sql(
        database,
        &format!(
            "INSERT INTO reveille.sessions (server, name, version, state, created_at, active_at, live_timers, live_reminders, pending_messages)
                 SELECT 1, 'pending-' || n, 1, 'open', {tomorrow}, {tomorrow}, 10, 0, 0 FROM generate_series(1, {pending} / 10) n;
             INSERT INTO reveille.items (server, session, id, kind, status, due, body)
                 SELECT 1, s.num, 'pending_' || n, i.kind, i.status, {tomorrow} + n, replace(i.body, '{id}', 'pending_' || n)
                 FROM generate_series(1, {pending}) n
                 JOIN reveille.sessions s ON s.server = 1 AND s.name = 'pending-' || (1 + n % ({pending} / 10)),
                 (SELECT * FROM reveille.items WHERE id = '{id}') i;
             ANALYZE"
        ),
    );
    Ok(())
}
