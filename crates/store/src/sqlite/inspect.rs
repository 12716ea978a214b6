//! Looking at a database without changing it, also while a server runs on it: what the doctor asks.

use super::{connect, failed, migrate};
use crate::StoreError;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// Steps of SQLite's machine between two looks at the clock.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;

#[derive(Clone, Debug, PartialEq)]
pub struct Inspection {
    pub format: i64,
    pub integrity: Integrity,
    /// When the last thing happened, in milliseconds since 1970.
    pub latest: Option<i64>,
    /// Agents that came by the API, of all servers that share the file: each one's name and body.
    pub agents: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Integrity {
    Whole,
    /// So big that the look took longer than it might; nothing wrong was found until then.
    Unfinished,
    Damaged(String),
}

/// Reads only. `patience`: how long the look at the whole file may take.
pub fn inspect(path: &Path, patience: Duration) -> Result<Inspection, StoreError> {
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let format = migrate::known_version(&connection, path)?;
    let last = "SELECT at FROM history ORDER BY seq DESC LIMIT 1";
    let latest = match format {
        0 => None,
        _ => connection.query_row(last, [], |row| row.get(0)).optional().map_err(failed)?,
    };
    let agents = agents(&connection)?;
    Ok(Inspection { format, integrity: integrity(&mut connection, patience)?, latest, agents })
}

/// None in a format that knows of none.
fn agents(connection: &Connection) -> Result<Vec<(String, String)>, StoreError> {
    let known = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'agents'";
    if connection.query_row(known, [], |_| Ok(())).optional().map_err(failed)?.is_none() {
        return Ok(Vec::new());
    }
    let mut select = connection.prepare("SELECT name, body FROM agents ORDER BY name").map_err(failed)?;
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).map_err(failed)?;
    rows.collect::<Result<_, _>>().map_err(failed)
}

fn integrity(connection: &mut Connection, patience: Duration) -> Result<Integrity, StoreError> {
    let deadline = Instant::now() + patience;
    connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(move || Instant::now() > deadline)).map_err(failed)?;
    match connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0)) {
        Ok(said) if said == "ok" => Ok(Integrity::Whole),
        Ok(said) => Ok(Integrity::Damaged(said)),
        Err(error) => match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => Ok(Integrity::Unfinished),
            Some(ErrorCode::DatabaseCorrupt) => Ok(Integrity::Damaged(error.to_string())),
            _ => Err(failed(error)),
        },
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;
    use crate::{SqliteStore, Store};
    use std::{
        fs::{self, OpenOptions},
        os::unix::fs::FileExt,
    };

    #[tokio::test]
    async fn a_database_is_looked_at_while_a_server_runs_on_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("reveille.db");
        assert!(inspect(&path, Duration::from_secs(5)).is_err(), "nothing is made");
        assert!(!path.exists());
        let store = SqliteStore::open(&path, None, "server_x").unwrap();
        let seen = inspect(&path, Duration::from_secs(5)).unwrap();
        assert_eq!((seen.integrity, seen.latest), (Integrity::Whole, None));
        assert!(seen.format > 0);
        store.close().await;
        assert_eq!(inspect(&path, Duration::from_secs(5)).unwrap().integrity, Integrity::Whole);
    }

    #[tokio::test]
    async fn damage_and_files_of_others_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("reveille.db");
        SqliteStore::open(&path, None, "server_x").unwrap().close().await;
        // The second page holds a table; what is written over it is none.
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&[0x55; 2048], 4096).unwrap();
        let seen = inspect(&path, Duration::from_secs(5));
        assert!(
            matches!(&seen, Ok(Inspection { integrity: Integrity::Damaged(_), .. }) | Err(StoreError::Damaged(_))),
            "{seen:?}"
        );
        fs::write(&path, "今日はこれはデータベースではありません 🗒️ and long enough to be looked at").unwrap();
        assert!(matches!(inspect(&path, Duration::from_secs(5)), Err(StoreError::NotOurs { .. })));
    }
}
