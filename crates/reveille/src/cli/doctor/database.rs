//! The database: opens, is of a known format, and is whole. Looked at read-only, beside a server if one runs.

use super::finding::Finding;
use crate::config::Config;
use reveille_store::{
    StoreError, postgres,
    sqlite::{Inspection, Integrity, inspect},
};
use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

const AREA: &str = "database";
/// A bigger file is looked at in part.
const PATIENCE: Duration = Duration::from_secs(10);
const RESTORE: &str =
    "stop the server, keep a copy of the file, and restore a backup or let `sqlite3 FILE .recover` save what it can";
const UNRELEASED: &str = "nothing brings such a form further: keep a copy if it holds anything, and begin anew";

pub async fn look(config: &Config) -> Vec<Finding> {
    match config.postgres() {
        Some(options) => vec![remote(postgres::inspect(&options).await)],
        None => file(config),
    }
}

fn remote(inspected: Result<i64, StoreError>) -> Finding {
    match inspected {
        Ok(0) => Finding::ok(AREA, "PostgreSQL answers; tables are made at the first start"),
        Ok(format) => Finding::ok(AREA, format!("PostgreSQL answers, format {format}")),
        Err(error @ StoreError::UnreleasedSchema { .. }) => Finding::problem(AREA, error.to_string(), UNRELEASED),
        Err(error) => Finding::problem(
            AREA,
            error.to_string(),
            "see that the host, the password and `sslmode` in `database_url` are right and the database runs",
        ),
    }
}

fn file(config: &Config) -> Vec<Finding> {
    let path = config.database();
    let Ok(metadata) = fs::metadata(&path) else {
        return vec![Finding::ok(AREA, "not there yet; made at the first start")];
    };
    let mut findings = vec![match inspect(&path, PATIENCE) {
        Ok(Inspection { integrity: Integrity::Damaged(how), .. }) => {
            Finding::problem(AREA, format!("{} is damaged: {how}", path.display()), RESTORE)
        }
        Ok(Inspection { format, integrity, .. }) => {
            let whole = if integrity == Integrity::Whole { "whole" } else { "whole as far as ten seconds showed" };
            Finding::ok(AREA, format!("{}, format {format}, {whole}, {} KB", path.display(), metadata.len() >> 10))
        }
        Err(StoreError::Damaged(how)) => {
            Finding::problem(AREA, format!("{} is damaged: {how}", path.display()), RESTORE)
        }
        Err(error @ StoreError::Unreleased { .. }) => Finding::problem(AREA, error.to_string(), UNRELEASED),
        Err(error) => {
            Finding::problem(AREA, error.to_string(), "see `reveille --help` for --data-dir, or mend what it says")
        }
    }];
    if metadata.permissions().mode() & 0o077 != 0 {
        let what = format!("{} can be read by other users: what agents write is in it", path.display());
        findings.push(Finding::warning(AREA, what, format!("`chmod 600 {}`; every start does it too", path.display())));
    }
    findings
}

/// When the last thing happened, if there is a file that says so.
pub fn latest(config: &Config) -> Option<i64> {
    glance(config)?.latest
}

/// The agents that are kept in the file, by name, as they were written.
pub fn agents(config: &Config) -> Vec<(String, String)> {
    glance(config).map(|seen| seen.agents).unwrap_or_default()
}

fn glance(config: &Config) -> Option<Inspection> {
    if config.database_url.is_some() || !config.database().exists() {
        return None;
    }
    inspect(&config.database(), Duration::ZERO).ok()
}
