//! One SQLite file in WAL mode with `synchronous=FULL`: one writer thread with group commit, one lane for the small
//! reads that decisions need and one for lists, so that a long list never delays a firing.

mod history;
mod inspect;
mod lane;
mod migrate;
mod purge;
mod read;
mod write;
mod writer;

pub use inspect::{Inspection, Integrity, inspect};

use crate::{
    CommitError, Committed, Feed, Found, HistoryFilter, HourTally, ItemFilter, Recorded, SessionFilter, Store,
    StoreError, StoredAgent, feed::Listeners,
};
use async_trait::async_trait;
use lane::Lane;
use reveille_core::{AgentId, Batch, ItemId, Needs, Session, SessionId, Timestamp, Utterance, command::State};
use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig, hooks::Wal};
use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions, TryLockError},
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
};
use tokio::sync::oneshot;
use writer::{Checkpointer, Job, Start};

/// Pages each connection keeps in memory. The operating system caches the file as well, so more buys little.
const WRITER_CACHE_KIB: i64 = 4 * 1024;
const READER_CACHE_KIB: i64 = 4 * 1024;
const STATEMENTS_CACHED: usize = 64;

pub struct SqliteStore {
    server_id: String,
    server: i64,
    jobs: mpsc::Sender<Job>,
    quick: Lane,
    slow: Lane,
    listeners: Arc<Listeners>,
}

impl SqliteStore {
    /// Opens the file, made if absent. `server_id`: which server to be; without it the database's own, which is
    /// `fresh_server_id` if it has none yet.
    pub fn open(path: &Path, server_id: Option<&str>, fresh_server_id: &str) -> Result<Self, StoreError> {
        let lock = lock(path)?;
        let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
        migrate::migrate(&mut connection, path)?;
        restrict(path)?;
        configure(&connection, WRITER_CACHE_KIB)?;
        let log_pages = Arc::new(AtomicU32::new(0));
        let counted = log_pages.clone();
        let hook = move |_: &mut Wal, pages: i32| {
            counted.store(pages.unsigned_abs(), Ordering::Relaxed);
            Ok(())
        };
        connection.wal_hook(Some(hook)).map_err(failed)?;
        let (server, server_id) = migrate::server(&connection, server_id, fresh_server_id)?;
        let last_seq: i64 =
            connection.query_row("SELECT coalesce(max(seq), 0) FROM history", [], |row| row.get(0)).map_err(failed)?;

        let reader = || -> Result<Connection, StoreError> {
            let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            connection.pragma_update(None, "cache_size", -READER_CACHE_KIB).map_err(failed)?;
            Ok(connection)
        };
        let checkpointing = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let listeners = Arc::new(Listeners::default());
        let (jobs, queue) = mpsc::channel();
        let writer = Start {
            connection,
            server,
            next_seq: last_seq + 1,
            log_pages,
            checkpointer: Checkpointer::start(checkpointing)?,
            listeners: listeners.clone(),
            lock,
        };
        writer.spawn(queue)?;
        Ok(Self {
            server_id,
            server,
            jobs,
            quick: Lane::start("sqlite-quick", reader()?)?,
            slow: Lane::start("sqlite-slow", reader()?)?,
            listeners,
        })
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn server_id(&self) -> &str {
        &self.server_id
    }

    async fn commit(&self, batch: Batch) -> Result<Arc<Committed>, CommitError> {
        let (answer, result) = oneshot::channel();
        let job = Job::Commit { batch: Box::new(batch), answer };
        self.jobs.send(job).map_err(|_| StoreError::Closed)?;
        result.await.map_err(|_| StoreError::Closed)?
    }

    async fn try_write(&self) -> Result<(), StoreError> {
        let (answer, result) = oneshot::channel();
        self.jobs.send(Job::Try { answer }).map_err(|_| StoreError::Closed)?;
        result.await.map_err(|_| StoreError::Closed)?
    }

    async fn load(&self, session: &SessionId, needs: Needs) -> Result<State, StoreError> {
        let (server, session) = (self.server, session.clone());
        self.quick.read(move |connection| read::load(connection, server, &session, &needs)).await
    }

    async fn load_items(&self, ids: Vec<ItemId>) -> Result<Vec<(SessionId, State)>, StoreError> {
        let server = self.server;
        self.quick.read(move |connection| read::load_items(connection, server, &ids)).await
    }

    async fn deadlines(&self, limit: usize) -> Result<Vec<(Timestamp, ItemId)>, StoreError> {
        let server = self.server;
        self.quick.read(move |connection| read::deadlines(connection, server, limit)).await
    }

    async fn items(&self, filter: ItemFilter) -> Result<Vec<Found>, StoreError> {
        let server = self.server;
        self.slow.read(move |connection| read::items(connection, server, &filter)).await
    }

    async fn sessions(&self, filter: SessionFilter) -> Result<Vec<(i64, Session)>, StoreError> {
        let server = self.server;
        self.slow.read(move |connection| read::sessions(connection, server, &filter)).await
    }

    async fn history(&self, filter: HistoryFilter) -> Result<Vec<Recorded>, StoreError> {
        let server = self.server;
        self.slow.read(move |connection| history::history(connection, server, &filter)).await
    }

    async fn conversation(&self, session: &SessionId, limit: usize) -> Result<Vec<Utterance>, StoreError> {
        let (server, session) = (self.server, session.clone());
        self.quick.read(move |connection| read::conversation(connection, server, &session, limit)).await
    }

    async fn set_agent(&self, id: &AgentId, agent: Option<StoredAgent>) -> Result<bool, StoreError> {
        let (answer, result) = oneshot::channel();
        let job = Job::Agent { id: id.clone(), agent, answer };
        self.jobs.send(job).map_err(|_| StoreError::Closed)?;
        result.await.map_err(|_| StoreError::Closed)?
    }

    async fn agent(&self, id: &AgentId) -> Result<Option<StoredAgent>, StoreError> {
        let (server, id) = (self.server, id.clone());
        self.quick.read(move |connection| read::agent(connection, server, &id)).await
    }

    async fn agents(&self) -> Result<Vec<(AgentId, StoredAgent)>, StoreError> {
        let server = self.server;
        self.slow.read(move |connection| read::agents(connection, server)).await
    }

    async fn tallies(&self) -> Result<BTreeMap<String, i64>, StoreError> {
        let server = self.server;
        self.slow.read(move |connection| read::tallies(connection, server)).await
    }

    async fn hours(&self, since: Timestamp) -> Result<Vec<HourTally>, StoreError> {
        let server = self.server;
        self.slow.read(move |connection| read::hours(connection, server, since)).await
    }

    async fn purge(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let server = self.server;
        let find = move |connection: &Connection| purge::find(connection, server, before.as_millis(), limit);
        let expired = self.slow.read(find).await?;
        if expired.len() == 0 {
            return Ok(0);
        }
        let (answer, result) = oneshot::channel();
        self.jobs.send(Job::Purge { expired, answer }).map_err(|_| StoreError::Closed)?;
        result.await.map_err(|_| StoreError::Closed)?
    }

    fn feed(&self) -> Feed {
        self.listeners.add()
    }

    async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.jobs.send(Job::Close { done }).is_ok() {
            let _ = closed.await;
        }
    }
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(failed)?;
    connection.busy_timeout(std::time::Duration::from_secs(5)).map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    // Plans must not depend on bound values: with partial indexes SQLite would plan every statement anew on each use.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(failed)?;
    Ok(connection)
}

fn configure(connection: &Connection, cache_kib: i64) -> Result<(), StoreError> {
    let set = |name: &str, value: &dyn rusqlite::ToSql| connection.pragma_update(None, name, value).map_err(failed);
    // Answers the new mode as a row, hence not like the others.
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).map_err(failed)?;
    set("synchronous", &"FULL")?;
    set("cache_size", &-cache_kib)?;
    // The writer decides when to checkpoint (see `writer`).
    set("wal_autocheckpoint", &0)
}

/// One process per file. The lock is the operating system's, so a crash never leaves it behind.
fn lock(database: &Path) -> Result<File, StoreError> {
    let path = beside(database, ".lock");
    let unwritable = |error: std::io::Error| StoreError::Unwritable(format!("{}: {error}", path.display()));
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(unwritable)?;
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&path).map_err(unwritable)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let _ = file.read_to_string(&mut text);
            return Err(StoreError::InUse { path: database.to_owned(), pid: text.trim().parse().ok() });
        }
        Err(TryLockError::Error(error)) => return Err(unwritable(error)),
    }
    // Only for the message above; the lock does not depend on it.
    let pid = std::process::id().to_string();
    let _ = file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0))).and_then(|_| file.write_all(pid.as_bytes()));
    Ok(file)
}

/// What agents write is nobody else's business.
fn restrict(path: &Path) -> Result<(), StoreError> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))
            .map_err(|error| StoreError::Unwritable(format!("{}: {error}", path.display())))?;
    }
    Ok(())
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

pub(crate) fn failed(error: rusqlite::Error) -> StoreError {
    let text = error.to_string();
    match (&error, error.sqlite_error_code()) {
        (_, Some(ErrorCode::DiskFull)) => StoreError::Full,
        (_, Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied)) => {
            StoreError::Unwritable(text)
        }
        (_, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
        | (
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::Utf8Error(..)
            | rusqlite::Error::QueryReturnedNoRows,
            _,
        ) => StoreError::Damaged(text),
        _ => StoreError::Failed(text),
    }
}
