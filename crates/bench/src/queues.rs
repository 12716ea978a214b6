//! Job queues of others on the same PostgreSQL, from npm, each by its own interface.

use anyhow::{Context, ensure};
use scratch_postgres::Cluster;
use std::{path::Path, process::Command, time::Duration};

const PROGRAM: &str = include_str!("queues.mjs");
const PACKAGES: [&str; 2] = ["graphile-worker", "pg-boss"];

pub struct Peer {
    pub name: String,
    pub creates: f64,
    pub late_p50: String,
    pub late_p99: String,
    pub burst: String,
    /// Memory and processor time while nothing is due, as [`crate::idle::watched`] has them.
    pub rest: [String; 2],
    /// From the start of the process to the first overdue job.
    pub restart: String,
}

/// Until what was made for it is overdue.
const OVERDUE_AFTER: Duration = Duration::from_secs(3);

pub fn run(dir: &Path, cluster: &Cluster) -> anyhow::Result<Vec<Peer>> {
    let place = dir.join("queues");
    std::fs::create_dir_all(&place)?;
    std::fs::write(place.join("queues.mjs"), PROGRAM)?;
    let installed = Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", "--prefix", "."])
        .args(PACKAGES)
        .current_dir(&place)
        .status()
        .context("npm is missing")?;
    ensure!(installed.success(), "npm could not install {}", PACKAGES.join(" and "));
    PACKAGES.iter().map(|package| measure(&place, package, &cluster.database())).collect()
}

fn node(place: &Path, package: &str, url: &str, part: &str) -> anyhow::Result<serde_json::Value> {
    let output = Command::new("node").args(["queues.mjs", package, url, part]).current_dir(place).output()?;
    ensure!(output.status.success(), "{package}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().rev().find(|line| line.starts_with('{')).context("no result")?;
    Ok(serde_json::from_str(line)?)
}

/// Milliseconds. Nobody works on what is made before; so its process has nothing to be killed in.
fn restart(place: &Path, package: &str, url: &str) -> anyhow::Result<f64> {
    node(place, package, url, "overdue")?;
    std::thread::sleep(OVERDUE_AFTER);
    let began = crate::seed::micros() as f64 / 1000.0;
    let first = node(place, package, url, "restart")?["first"].as_f64().context("a figure")?;
    Ok(first - began)
}

fn measure(place: &Path, package: &str, url: &str) -> anyhow::Result<Peer> {
    let result = node(place, package, url, "all")?;
    let ms = |name: &str| result[name].as_f64().map(|value| format!("{value:.2}")).context("a figure");
    Ok(Peer {
        name: format!("{package} {}, tuned", result["version"].as_str().unwrap_or_default()),
        creates: result["creates"].as_f64().context("a figure")?,
        late_p50: ms("p50")?,
        late_p99: ms("p99")?,
        burst: ms("burst")?,
        rest: [ms("resident")?, ms("cpu")?],
        restart: format!("{:.2}", restart(place, package, url)?),
    })
}
