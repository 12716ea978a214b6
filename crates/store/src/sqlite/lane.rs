//! A read-only connection on its own thread. Whatever has queued up meanwhile is answered from one snapshot, which
//! costs one wake-up and one transaction however much it is.

use super::failed;
use crate::StoreError;
use rusqlite::Connection;
use std::{sync::mpsc, thread};
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce(&Connection) + Send>;

pub struct Lane(mpsc::Sender<Job>);

impl Lane {
    pub fn start(name: &str, connection: Connection) -> Result<Self, StoreError> {
        let (sender, jobs) = mpsc::channel::<Job>();
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || serve(&connection, &jobs))
            .map_err(|error| StoreError::Failed(error.to_string()))?;
        Ok(Self(sender))
    }

    /// Sees everything that was committed before this was called.
    pub async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (sender, answer) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            let _ = sender.send(read(connection).map_err(failed));
        });
        self.0.send(job).map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }
}

/// Most jobs answered from one snapshot: a long queue must not keep old pages from being checkpointed.
const SNAPSHOT_JOBS_MAX: usize = 1024;

fn serve(connection: &Connection, jobs: &mpsc::Receiver<Job>) {
    while let Ok(first) = jobs.recv() {
        // Taken before the snapshot begins: a job that arrives later may expect to see what was committed since.
        let waiting: Vec<Job> = jobs.try_iter().take(SNAPSHOT_JOBS_MAX).collect();
        // Should BEGIN fail, the statements fail too and each job gets its own error.
        let begun = connection.execute_batch("BEGIN").is_ok();
        first(connection);
        waiting.into_iter().for_each(|job| job(connection));
        if begun {
            let _ = connection.execute_batch("COMMIT");
        }
    }
}
