//! The one thread that writes. Group commit: whatever has queued up while the last transaction was made durable goes
//! into the next one, and each caller is answered only after the commit that holds its batch. Nobody waits for a group
//! to fill, so a lone caller pays for one commit and a thousand share one.

use super::{
    failed,
    purge::{self, Expired},
    write::{self, Applied, Places, Statements},
};
use crate::{CommitError, Committed, StoreError, StoredAgent, feed::Listeners, query::hour_of};
use reveille_core::{AgentId, Batch, batch::tally};
use rusqlite::{Connection, ErrorCode};
use std::{
    collections::HashMap,
    fs::File,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
        mpsc,
    },
    thread,
};
use tokio::sync::oneshot;

/// Most batches in one transaction; bounds the time a batch can wait for others' work.
const GROUP_BATCHES_MAX: usize = 1024;
/// The log is written back into the database in the background from this many pages on (16 MiB) …
const LOG_PAGES_CHECKPOINT: u32 = 4096;
/// … and by the writer itself, which then waits, from this many on (64 MiB): the log must not grow without end.
const LOG_PAGES_MAX: u32 = 4 * LOG_PAGES_CHECKPOINT;

pub type Answer = oneshot::Sender<Result<Arc<Committed>, CommitError>>;

pub enum Job {
    Commit { batch: Box<Batch>, answer: Answer },
    Purge { expired: Expired, answer: oneshot::Sender<Result<usize, StoreError>> },
    Agent { id: AgentId, agent: Option<StoredAgent>, answer: oneshot::Sender<Result<bool, StoreError>> },
    Try { answer: oneshot::Sender<Result<(), StoreError>> },
    Close { done: oneshot::Sender<()> },
}

/// What the thread is started with.
pub struct Start {
    pub connection: Connection,
    pub server: i64,
    pub next_seq: i64,
    /// Pages in the log as of the last commit. The file's size says nothing: it is used again from its beginning.
    pub log_pages: Arc<AtomicU32>,
    /// Writes the log back into the database while this thread goes on committing.
    pub checkpointer: Checkpointer,
    pub listeners: Arc<Listeners>,
    /// Held as long as this thread may write, so that no second process does.
    pub lock: File,
}

impl Start {
    pub fn spawn(self, jobs: mpsc::Receiver<Job>) -> Result<thread::JoinHandle<()>, StoreError> {
        thread::Builder::new()
            .name("sqlite-writer".into())
            .spawn(move || self.serve(&jobs))
            .map_err(|error| StoreError::Failed(error.to_string()))
    }

    fn serve(self, jobs: &mpsc::Receiver<Job>) {
        let Start { connection, server, next_seq, log_pages, checkpointer, listeners, lock } = self;
        let mut writer = Writer {
            connection: &connection,
            statements: Statements::on(&connection),
            server,
            next_seq,
            places: Places::default(),
            log_pages,
            checkpointer: &checkpointer,
            listeners,
            broken: None,
        };
        let closing = writer.serve(jobs);
        drop(writer);
        let failing = checkpointer.failing.clone();
        // Two checkpoints exclude each other, and only the last one leaves everything in the one file.
        checkpointer.finish();
        checkpoint(&connection, "TRUNCATE", &failing);
        drop(connection);
        // Closing would not do: a process that is just being started may hold a copy of the descriptor for a moment.
        let _ = lock.unlock();
        if let Some(done) = closing {
            let _ = done.send(());
        }
    }
}

struct Writer<'c> {
    connection: &'c Connection,
    statements: Statements<'c>,
    server: i64,
    next_seq: i64,
    places: Places,
    log_pages: Arc<AtomicU32>,
    checkpointer: &'c Checkpointer,
    listeners: Arc<Listeners>,
    /// A commit whose durability is unknown: nothing may be written after it, or an answer could be a lie.
    broken: Option<StoreError>,
}

impl Writer<'_> {
    /// Until it is told to close, or nobody is left who could tell it anything.
    fn serve(&mut self, jobs: &mpsc::Receiver<Job>) -> Option<oneshot::Sender<()>> {
        let mut closing = None;
        while closing.is_none() {
            let Ok(first) = jobs.recv() else { break };
            let mut group = Vec::new();
            for job in std::iter::once(first).chain(jobs.try_iter().take(GROUP_BATCHES_MAX - 1)) {
                match job {
                    Job::Commit { batch, answer } => group.push((*batch, answer)),
                    Job::Purge { expired, answer } => {
                        let _ = answer.send(self.purge(&expired));
                    }
                    Job::Agent { id, agent, answer } => {
                        let _ = answer.send(self.set_agent(&id, agent.as_ref()));
                    }
                    Job::Try { answer } => {
                        let _ = answer.send(self.write_apart(write::tried));
                    }
                    Job::Close { done } => {
                        closing = Some(done);
                        break;
                    }
                }
            }
            self.commit(group);
            self.checkpoint_if_large();
        }
        closing
    }

    /// Commits the group in one transaction, or, if one of its batches cannot be written at all, each alone.
    fn commit(&mut self, group: Vec<(Batch, Answer)>) {
        if group.is_empty() {
            return;
        }
        if let Some(error) = &self.broken {
            for (_, answer) in group {
                let _ = answer.send(Err(error.clone().into()));
            }
            return;
        }
        match self.transact(&group) {
            Ok(applied) => self.answer(group, applied),
            Err(_) if group.len() > 1 && self.broken.is_none() => {
                for alone in group {
                    self.commit(vec![alone]);
                }
            }
            Err(error) => {
                for (_, answer) in group {
                    let _ = answer.send(Err(error.clone()));
                }
            }
        }
    }

    fn transact(&mut self, group: &[(Batch, Answer)]) -> Result<Vec<Applied>, CommitError> {
        let result = self.apply_all(group);
        if result.is_err() {
            self.places.forget();
        }
        if result.is_err() && !self.connection.is_autocommit() && self.connection.execute_batch("ROLLBACK").is_err() {
            self.broken = Some(StoreError::Failed("a failed change could not be undone; restart Reveille".into()));
        }
        result
    }

    fn apply_all(&mut self, group: &[(Batch, Answer)]) -> Result<Vec<Applied>, CommitError> {
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
        let mut seq = self.next_seq;
        let mut tallies: HashMap<(i64, &str), i64> = HashMap::new();
        let mut applied = Vec::with_capacity(group.len());
        for (batch, _) in group {
            let one = write::apply(&mut self.statements, self.server, &mut self.places, batch, seq).map_err(refused)?;
            if one == Applied::Yes {
                seq += batch.history.len() as i64;
                let hour = hour_of(batch.session.active_at);
                for tally in &batch.tallies {
                    *tallies.entry((hour, &tally.name)).or_default() += tally.by;
                }
            }
            applied.push(one);
        }
        for ((hour, name), by) in tallies {
            write::add_tally(self.connection, self.server, name, by).map_err(failed)?;
            if tally::is_count(name) {
                write::add_hour(self.connection, self.server, hour, name, by).map_err(failed)?;
            }
        }
        if let Err(error) = self.connection.execute_batch("COMMIT") {
            return Err(self.uncertain(failed(error)).into());
        }
        Ok(applied)
    }

    /// A commit failed. A full disk is refused before anything counts; any other failure to make it durable leaves
    /// unknown what the disk holds, and nothing may be written after it.
    fn uncertain(&mut self, error: StoreError) -> StoreError {
        if !matches!(error, StoreError::Full | StoreError::Unwritable(_)) {
            self.broken = Some(error.clone());
        }
        error
    }

    fn answer(&mut self, group: Vec<(Batch, Answer)>, applied: Vec<Applied>) {
        let mut told = Vec::with_capacity(group.len());
        let mut answers = Vec::with_capacity(group.len());
        for ((batch, answer), applied) in group.into_iter().zip(applied) {
            let result = match applied {
                Applied::Conflict => Err(CommitError::Conflict),
                Applied::Yes => {
                    let first_seq = self.next_seq;
                    self.next_seq += batch.history.len() as i64;
                    let committed = Arc::new(Committed { batch, first_seq, here: true });
                    told.push(committed.clone());
                    Ok(committed)
                }
            };
            answers.push((answer, result));
        }
        self.listeners.tell(told);
        for (answer, result) in answers {
            // A caller that went away has its change all the same.
            let _ = answer.send(result);
        }
    }

    fn purge(&mut self, expired: &Expired) -> Result<usize, StoreError> {
        self.places.forget();
        self.write_apart(|tx| purge::remove(tx, expired))
    }

    fn set_agent(&mut self, id: &AgentId, agent: Option<&StoredAgent>) -> Result<bool, StoreError> {
        let server = self.server;
        self.write_apart(|tx| write::set_agent(tx, server, id, agent))
    }

    /// What is no batch has a transaction of its own.
    fn write_apart<T>(&mut self, write: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let tx = self.connection.unchecked_transaction().map_err(failed)?;
        let written = write(&tx).map_err(failed)?;
        if let Err(error) = tx.commit() {
            return Err(self.uncertain(failed(error)));
        }
        Ok(written)
    }

    fn checkpoint_if_large(&mut self) {
        let pages = self.log_pages.load(Ordering::Relaxed);
        if pages > LOG_PAGES_MAX {
            checkpoint(self.connection, "TRUNCATE", &self.checkpointer.failing);
        } else if pages > LOG_PAGES_CHECKPOINT {
            // Full: one is already on its way.
            let _ = self.checkpointer.wishes.try_send(());
        }
    }
}

/// A thread that copies the log back into the database whenever it is told to.
pub struct Checkpointer {
    wishes: mpsc::SyncSender<()>,
    /// The last one did not work.
    failing: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl Checkpointer {
    pub fn start(connection: Connection) -> Result<Self, StoreError> {
        let (wishes, queue) = mpsc::sync_channel::<()>(1);
        let failing = Arc::<AtomicBool>::default();
        let shared = failing.clone();
        let thread = thread::Builder::new()
            .name("sqlite-checkpointer".into())
            .spawn(move || {
                while queue.recv().is_ok() {
                    checkpoint(&connection, "PASSIVE", &shared);
                }
            })
            .map_err(|error| StoreError::Failed(error.to_string()))?;
        Ok(Self { wishes, failing, thread })
    }

    fn finish(self) {
        drop(self.wishes);
        let _ = self.thread.join();
    }
}

/// Writes the log back into the database. What cannot be written back stays in the log, which is synced: nothing is lost and
/// nothing need be refused, so this is no reason to call the store broken. But the log grows meanwhile, until the disk is full:
/// that it began, and that it is over, is worth a line each.
fn checkpoint(connection: &Connection, mode: &str, failing: &AtomicBool) {
    let done = connection.execute_batch(&format!("PRAGMA wal_checkpoint({mode})"));
    match (done, failing.load(Ordering::Relaxed)) {
        (Ok(()), true) => tracing::info!("the database's log is written back again"),
        (Err(error), false) => {
            tracing::warn!(%error, "the database's log cannot be written back; nothing is lost, but it grows");
        }
        (Ok(()), false) | (Err(_), true) => return,
    }
    failing.fetch_xor(true, Ordering::Relaxed);
}

fn refused(error: rusqlite::Error) -> CommitError {
    match error.sqlite_error_code() {
        Some(ErrorCode::ConstraintViolation) => CommitError::IdTaken,
        _ => failed(error).into(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_log_that_cannot_be_written_back_is_noticed_until_it_can() {
        let directory = tempfile::tempdir().unwrap();
        let connection = Connection::open(directory.path().join("x.db")).unwrap();
        connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
        let failing = AtomicBool::default();
        let seen = |expected: bool| {
            checkpoint(&connection, "TRUNCATE", &failing);
            assert_eq!(failing.load(Ordering::Relaxed), expected);
        };
        seen(false);
        // One's own transaction is in the way of it.
        connection.execute_batch("BEGIN; CREATE TABLE t (x)").unwrap();
        seen(true);
        seen(true);
        connection.execute_batch("COMMIT").unwrap();
        seen(false);
    }
}
