//! The clock: sane, steady, kept by NTP if that can be known, and not behind what was already written.

use super::{database, finding::Finding};
use crate::{clock::Clock, clock::SystemClock, config::Config};
use std::{
    process::Stdio,
    time::{Duration, Instant},
};
use tokio::process::Command;

const AREA: &str = "clock";
/// 2026-01-01: this program is not older.
const EARLIEST: i64 = 1_767_225_600_000;
/// 2100-01-01.
const LATEST: i64 = 4_102_444_800_000;
/// How long the two clocks are watched, and how far they may part in that time, in milliseconds.
const WATCHED: Duration = Duration::from_millis(200);
const PARTING_MAX: i64 = 50;
/// Seconds between the server's clock and ours, or between ours and what was written last.
const APART_MAX: i64 = 5_000;
const ASKING_MAX: Duration = Duration::from_secs(3);
const NTP: &str = "switch NTP on: `timedatectl set-ntp true`, or install chrony";

pub async fn look(config: &Config, server_now: Option<i64>) -> Vec<Finding> {
    let now = SystemClock.now().as_millis();
    let mut findings = Vec::new();
    if !(EARLIEST..LATEST).contains(&now) {
        let shown = jiff::Timestamp::from_millisecond(now).map_or_else(|_| now.to_string(), |at| at.to_string());
        findings.push(Finding::problem(AREA, format!("it shows {shown}, which cannot be"), NTP));
    }
    if let Some(server) = server_now.filter(|server| (server - now).abs() > APART_MAX) {
        let what = format!("the server's clock and this one are {} s apart", (server - now).abs() / 1000);
        findings.push(Finding::warning(AREA, what, NTP));
    }
    if let Some(latest) = database::latest(config).filter(|latest| latest - now > APART_MAX) {
        let what = format!(
            "the last entry of the history is {} s in the future: the clock was set back",
            (latest - now) / 1000
        );
        findings.push(Finding::warning(AREA, what, format!("see that it is right now; {NTP}")));
    }
    let parted = parted().await;
    if parted > PARTING_MAX {
        let what = format!("it was set while this looked: {parted} ms in {} ms", WATCHED.as_millis());
        findings.push(Finding::warning(AREA, what, "see what sets it; deadlines move with the wall clock"));
    }
    match synchronised().await {
        Some(false) => findings.push(Finding::warning(AREA, "is not kept by NTP", NTP)),
        known if findings.is_empty() => {
            let kept = if known.is_some() { ", kept by NTP" } else { "; whether NTP keeps it is not known here" };
            findings.push(Finding::ok(AREA, format!("sane and steady{kept}")));
        }
        _ => {}
    }
    findings
}

/// How far wall clock and monotonic clock part in a moment, in milliseconds.
async fn parted() -> i64 {
    let (wall, steady) = (SystemClock.now().as_millis(), Instant::now());
    tokio::time::sleep(WATCHED).await;
    let (wall, steady) = (SystemClock.now().as_millis() - wall, steady.elapsed().as_millis() as i64);
    (wall - steady).abs()
}

/// What systemd says, where it is.
async fn synchronised() -> Option<bool> {
    let mut command = Command::new("timedatectl");
    command.args(["show", "--property=NTPSynchronized", "--value"]).stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(ASKING_MAX, command.output()).await.ok()?.ok()?;
    match output.stdout.trim_ascii() {
        b"yes" => Some(true),
        b"no" => Some(false),
        _ => None,
    }
}
