//! One, two and three nodes on one PostgreSQL, with what PostgreSQL itself, others' job queues on it, and one server on SQLite
//! do in the same run: creates, lateness, a burst, what it costs at rest, and a start after kill -9.

use crate::{
    child::Server,
    creates, idle,
    lateness::{Bench, LEAD_MS, SPREAD_MS, TIMERS},
    load, queues, restart, seed, table,
};
use anyhow::{Context, ensure};
use reveille_store::{PostgresOptions, PostgresStore};
use scratch_postgres::{Care, Cluster};
use std::{path::Path, process::Command, sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::task::JoinSet;

const CONNECTIONS: usize = 64;
const REQUESTS: usize = 57_600;
/// Below the limit of live timers in a session.
const PER_SESSION: usize = 50;
const BODY: &str = r#"{"total_duration":86400,"mission":"restart the server"}"#;
pub const NODES_MAX: usize = 3;
/// From creation to the instant of the burst.
const BURST_LEAD_MS: u64 = 15_000;
/// By then nodes that were just started know of each other.
const ACQUAINTED: Duration = Duration::from_secs(3);
const PGBENCH_SECONDS: &str = "10";

pub async fn run(dir: &Path, pending: usize) -> anyhow::Result<()> {
    let cluster = Cluster::start(Care::Durable, &["shared_buffers = 512MB", "max_wal_size = 4GB"]);
    let floor = pgbench(&cluster)?;
    let mut rows = vec![["pgbench: single-row commits".into(), format!("{floor:.0}"), "1.00".into()]];
    for nodes in 1..=NODES_MAX {
        let rate = creates_on(dir, &cluster.database(), nodes).await?;
        rows.push([format!("reveille, {}", named(nodes)), format!("{rate:.0}"), format!("{:.2}", rate / floor)]);
    }
    let full = cluster.database();
    fill(&cluster, &full, pending).await?;
    let rate = creates_on(dir, &full, 1).await?;
    let name = format!("reveille, 1 node, {pending} pending");
    rows.push([name, format!("{rate:.0}"), format!("{:.2}", rate / floor)]);
    let (rate, _) = creates::ours(dir, 0, 0).await?;
    rows.push(["reveille on SQLite".into(), format!("{rate:.0}"), format!("{:.2}", rate / floor)]);
    let others = queues::run(dir, &cluster)?;
    for peer in &others {
        let ratio = format!("{:.2}", peer.creates / floor);
        rows.push([peer.name.clone(), format!("{:.0}", peer.creates), ratio]);
    }
    let title = format!("Durable creates on PostgreSQL, {CONNECTIONS} at a time");
    table::print(&title, ["", "creates/s", "× pgbench"], &rows);

    let mut rows = Vec::new();
    let over_time = |number: usize| LEAD_MS + number as u64 * SPREAD_MS / TIMERS as u64;
    for nodes in 1..=NODES_MAX {
        let late = fire(dir, &full, nodes, over_time).await?;
        let burst = fire(dir, &full, nodes, |_| BURST_LEAD_MS).await?;
        rows.push(late_row(format!("reveille, {}, {pending} pending", named(nodes)), &late, &burst));
    }
    let file = seed::directory(dir, pending).await?;
    let bench = Bench::start(file.path()).await?;
    let (late, burst) = (bench.fire(over_time).await?, bench.fire(|_| BURST_LEAD_MS).await?);
    bench.stop().await;
    rows.push(late_row(format!("reveille on SQLite, {pending} pending"), &late, &burst));
    for peer in &others {
        rows.push([peer.name.clone(), peer.late_p50.clone(), peer.late_p99.clone(), peer.burst.clone()]);
    }
    let title = format!("Lateness on PostgreSQL, {TIMERS} over {} s; {TIMERS} at one instant", SPREAD_MS / 1000);
    table::print(&title, ["", "p50 ms", "p99 ms", "burst: last after ms"], &rows);
    println!("\nnone early, none lost, none twice");
    at_rest(dir, &full, pending, &others).await
}

fn late_row(name: String, late: &[i64], burst: &[i64]) -> [String; 4] {
    let [p50, p99] = [0.5, 0.99].map(|share| table::ms(table::percentile(late, share)));
    [name, p50, p99, table::ms(burst[burst.len() - 1])]
}

/// The database's own memory and time are not counted, for anybody.
async fn at_rest(dir: &Path, url: &str, pending: usize, others: &[queues::Peer]) -> anyhow::Result<()> {
    let (own, file) = (tempfile::tempdir_in(dir)?, seed::directory(dir, pending).await?);
    let node = || Server::node(own.path(), url);
    let alone = || Server::reveille(file.path());
    let starts: [(&str, &dyn Fn() -> anyhow::Result<Server>); 2] =
        [("reveille, 1 node", &node), ("reveille on SQLite", &alone)];
    let mut rows = Vec::new();
    for (name, start) in starts {
        let [resident, spent] = idle::watched(&start()?).await?;
        let [_, firing] = restart::rounds(start).await?;
        rows.push([format!("{name}, {pending} pending"), resident, spent, firing]);
    }
    for peer in others {
        let [resident, spent] = peer.rest.clone();
        rows.push([peer.name.clone(), resident, spent, peer.restart.clone()]);
    }
    let title = format!("At rest, and after kill -9 (ours: best / median of {})", restart::ROUNDS);
    table::print(&title, ["", "resident MiB", "CPU ms in 10 s", "first overdue firing after ms"], &rows);
    println!("\nothers with the 10,000 pending of their creates");
    Ok(())
}

pub fn named(nodes: usize) -> String {
    format!("{nodes} node{}", if nodes == 1 { "" } else { "s" })
}

/// What the same database does when each client inserts a row and commits.
pub fn pgbench(cluster: &Cluster) -> anyhow::Result<f64> {
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

async fn creates_on(dir: &Path, url: &str, nodes: usize) -> anyhow::Result<f64> {
    let directories: Vec<_> = (0..nodes).map(|_| tempfile::tempdir_in(dir)).collect::<Result<_, _>>()?;
    Ok(creates_by(&servers(&directories, url).await?).await?.0)
}

/// Nodes that know of each other.
pub async fn servers(directories: &[TempDir], url: &str) -> anyhow::Result<Vec<Server>> {
    let servers: Vec<Server> =
        directories.iter().map(|directory| Server::node(directory.path(), url)).collect::<Result<_, _>>()?;
    tokio::time::sleep(ACQUAINTED).await;
    Ok(servers)
}

/// Creates per second, and how many were made.
pub async fn creates_by(servers: &[Server]) -> anyhow::Result<(f64, usize)> {
    let nodes = servers.len();
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
    Ok((made as f64 / began.elapsed().as_secs_f64(), made))
}

/// One node is in this process, and counts from its feed what all of them fire.
async fn fire(dir: &Path, url: &str, nodes: usize, due_in: impl Fn(usize) -> u64) -> anyhow::Result<Vec<i64>> {
    let directories: Vec<_> = (1..nodes).map(|_| tempfile::tempdir_in(dir)).collect::<Result<_, _>>()?;
    let _others: Vec<Server> =
        directories.iter().map(|directory| Server::node(directory.path(), url)).collect::<Result<_, _>>()?;
    let store = PostgresStore::open(&PostgresOptions::new(url), None, "bench").await?;
    let bench = Bench::on(Arc::new(store));
    tokio::time::sleep(ACQUAINTED).await;
    let late = bench.fire(due_in).await;
    bench.stop().await;
    late
}

/// Timers far in the future, made by the database from one that a server made.
async fn fill(cluster: &Cluster, url: &str, pending: usize) -> anyhow::Result<()> {
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
