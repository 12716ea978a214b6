//! Guards what only the SQLite store promises: what was answered is in the file when it is opened again, one server
//! never sees another's rows, one process holds the file, and a file that is not ours, too new or damaged is refused
//! in plain words. Failing disks are in `faults.rs`, other processes in `processes.rs`.

#![allow(clippy::unwrap_used)]

#[path = "sqlite/damage.rs"]
mod damage;
mod drive;
#[path = "sqlite/files.rs"]
mod files;
#[path = "sqlite/reopen.rs"]
mod reopen;
#[path = "sqlite/servers.rs"]
mod servers;

use reveille_store::{SqliteStore, StoreError};
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, None, "srv_fresh").unwrap()
}

fn refused(path: &Path) -> StoreError {
    SqliteStore::open(path, None, "srv_fresh").err().expect("the file is refused")
}

/// Opens a file whose last store was dropped, not closed: its threads let go of it in their own time.
fn open_when_free(path: &Path) -> SqliteStore {
    let patience = Instant::now() + Duration::from_secs(30);
    loop {
        match SqliteStore::open(path, None, "srv_fresh") {
            Ok(store) => return store,
            Err(StoreError::InUse { .. }) if Instant::now() < patience => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}
