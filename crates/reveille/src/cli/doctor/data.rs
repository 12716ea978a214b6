//! The data directory: there, ours alone, writable, with room, on a disk that locks.

use super::finding::Finding;
use crate::config::Config;
use rustix::fs::{Access, access, statfs, statvfs};
use std::{fs, os::unix::fs::PermissionsExt, path::Path};

const AREA: &str = "data directory";
/// A log of a few thousand changes; with less the next ones are refused soon.
const ROOM_NEEDED: u64 = 16 << 20;
const ROOM_WANTED: u64 = 256 << 20;
/// File systems of other machines, on which SQLite's locks and its shared memory cannot be relied on.
const REMOTE: [(u64, &str); 4] = [(0x6969, "NFS"), (0xFF53_4D42, "CIFS"), (0xFE53_4D42, "SMB"), (0x0102_1997, "9p")];

pub fn look(config: &Config) -> Vec<Finding> {
    let (path, shown) = (config.data_dir.as_path(), config.data_dir.display());
    let Ok(metadata) = fs::metadata(path) else { return vec![absent(path)] };
    if !metadata.is_dir() {
        return vec![Finding::problem(AREA, format!("{shown} is not a directory"), "choose another with --data-dir")];
    }
    let mut findings = Vec::new();
    if access(path, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        let cure = format!("`chown` it to whoever runs the server, or `chmod u+rwx {shown}`");
        findings.push(Finding::problem(AREA, format!("{shown} cannot be written by this user"), cure));
    }
    let others = metadata.permissions().mode() & 0o022;
    if others != 0 {
        let what = format!("{shown} can be written by other users (mode {:o})", metadata.permissions().mode() & 0o777);
        findings.push(Finding::warning(AREA, what, format!("`chmod 700 {shown}`")));
    }
    findings.extend(room(path));
    if config.database_url.is_none() {
        findings.extend(remote(path));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(AREA, format!("{shown}, {} free", size(free(path).unwrap_or_default()))));
    }
    findings
}

/// It is made at the first start, if that is possible.
fn absent(path: &Path) -> Finding {
    let above = path.ancestors().skip(1).find(|above| above.exists());
    match above.map(|above| access(above, Access::WRITE_OK | Access::EXEC_OK)) {
        Some(Ok(())) => Finding::ok(AREA, format!("{} is made at the first start", path.display())),
        _ => Finding::problem(
            AREA,
            format!("{} is not there and cannot be made by this user", path.display()),
            "make it, or choose another with --data-dir",
        ),
    }
}

fn room(path: &Path) -> Option<Finding> {
    let free = free(path)?;
    let (what, cure) =
        (format!("{} free", size(free)), "free some space; nothing is lost, but changes are refused (507)");
    match free {
        free if free < ROOM_NEEDED => Some(Finding::problem(AREA, what, cure)),
        free if free < ROOM_WANTED => Some(Finding::warning(AREA, what, cure)),
        _ => None,
    }
}

fn free(path: &Path) -> Option<u64> {
    let found = statvfs(path).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

fn remote(path: &Path) -> Option<Finding> {
    let kind = statfs(path).ok()?.f_type as u64 & 0xFFFF_FFFF;
    let (_, name) = REMOTE.iter().find(|(number, _)| *number == kind)?;
    let cure = "move it to a local disk with --data-dir, or use PostgreSQL (`database_url`)";
    Some(Finding::warning(AREA, format!("{} is on {name}, where SQLite's locks do not hold", path.display()), cure))
}

fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 30 => format!("{:.1} GB", bytes as f64 / f64::from(1 << 30)),
        bytes => format!("{} MB", bytes >> 20),
    }
}
