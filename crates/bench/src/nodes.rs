//! Creates with one, two and three nodes, in turns with what PostgreSQL itself does, and what the database's processes
//! waited for meanwhile: where the time goes when several nodes write.

use crate::{
    child::{Server, cpu_us},
    postgres::{self, NODES_MAX, named},
    table,
};
use scratch_postgres::{Care, Cluster};
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio_postgres::NoTls;

/// Between two looks at what the database's processes do.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// What is seldom waited for is not shown.
const SHOWN_MIN: f64 = 0.03;

pub async fn run(dir: &Path, rounds: usize) -> anyhow::Result<()> {
    let cluster = Arc::new(Cluster::start(Care::Durable, &["shared_buffers = 512MB", "max_wal_size = 4GB"]));
    let (mut rows, mut waits) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        let floor = postgres::pgbench(&cluster)?;
        rows.push([format!("{round}: pgbench"), format!("{floor:.0}"), "1.00".into(), String::new(), String::new()]);
        for nodes in 1..=NODES_MAX {
            let url = cluster.database();
            let directories: Vec<_> = (0..nodes).map(|_| tempfile::tempdir_in(dir)).collect::<Result<_, _>>()?;
            let servers = postgres::servers(&directories, &url).await?;
            let stop = Arc::new(AtomicBool::new(false));
            let looks = tokio::spawn(look(url.clone(), stop.clone()));
            let before = (spent(&servers)?, spent_by_database(&cluster)?);
            let (rate, made) = postgres::creates_by(&servers).await?;
            let after = (spent(&servers)?, spent_by_database(&cluster)?);
            stop.store(true, Ordering::Relaxed);
            let seen = looks.await??;
            let each = |before: f64, after: f64| format!("{:.0}", (after - before) / made as f64);
            rows.push([
                format!("{round}: {}", named(nodes)),
                format!("{rate:.0}"),
                format!("{:.2}", rate / floor),
                each(before.0, after.0),
                each(before.1, after.1),
            ]);
            waits.push([format!("{round}: {}", named(nodes)), seen]);
        }
    }
    let title = "Durable creates by nodes, 64 at a time";
    table::print(title, ["", "creates/s", "× pgbench", "nodes' CPU µs each", "database's CPU µs each"], &rows);
    table::print("Processes of the database, on average", ["", "busy with or waiting for"], &waits);
    Ok(())
}

fn spent(servers: &[Server]) -> anyhow::Result<f64> {
    servers.iter().map(Server::cpu_us).sum()
}

/// By all processes of the cluster that live now.
fn spent_by_database(cluster: &Cluster) -> anyhow::Result<f64> {
    let text = std::fs::read_to_string(Path::new(&cluster.data()).join("postmaster.pid"))?;
    let parent = text.lines().next().unwrap_or_default().to_owned();
    let mut sum = 0.0;
    for entry in std::fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let child = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)) == Some(&*parent);
        if child {
            sum += cpu_us(pid).unwrap_or_default();
        }
    }
    Ok(sum)
}

/// What the processes of this database did, by how many of them on average.
async fn look(url: String, stop: Arc<AtomicBool>) -> anyhow::Result<String> {
    const SQL: &str = "SELECT CASE WHEN query LIKE '%WITH b AS MATERIALIZED%' THEN 'commit' WHEN query LIKE '%pg_notify%' THEN 'notify'
                              WHEN query LIKE '%FROM reveille.commits%' THEN 'follow' ELSE 'other' END
                          || ' ' || coalesce(wait_event, 'running')
                       FROM pg_stat_activity
                       WHERE datname = current_database() AND state = 'active' AND pid <> pg_backend_pid()";
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
    tokio::spawn(connection);
    let statement = client.prepare(SQL).await?;
    let (mut seen, mut looks) = (BTreeMap::<String, u64>::new(), 0_u64);
    while !stop.load(Ordering::Relaxed) {
        for row in client.query(&statement, &[]).await? {
            *seen.entry(row.get(0)).or_default() += 1;
        }
        looks += 1;
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let mut shares: Vec<(f64, String)> =
        seen.into_iter().map(|(what, times)| (times as f64 / looks.max(1) as f64, what)).collect();
    shares.sort_by(|one, other| other.0.total_cmp(&one.0));
    let shown = shares.iter().filter(|(share, _)| *share >= SHOWN_MIN);
    Ok(shown.map(|(share, what)| format!("{what} {share:.2}")).collect::<Vec<_>>().join(", "))
}
