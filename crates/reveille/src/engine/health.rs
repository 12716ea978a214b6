//! Whether changes are taken and deadlines acted on, as far as is known: the one state that readiness and metrics show.

use super::Engine;
use reveille_store::{CommitError, StoreError};
use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

#[derive(Default)]
pub struct Health {
    /// Why the last change could not be written, if it could not.
    refused: Mutex<Option<StoreError>>,
    /// The driver cannot act on what is due, or cannot read what will be.
    stuck: AtomicBool,
    /// One try at a time, whoever asks.
    trying: tokio::sync::Mutex<()>,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum NotReady {
    #[error("the last change could not be written: {0}")]
    Refused(StoreError),
    #[error("deadlines could not be acted on and are tried again; the log says why")]
    Stuck,
    #[error(transparent)]
    Unreadable(StoreError),
}

impl Health {
    /// What became of a write. Whether a database that is away is back, is found out by reading.
    pub fn wrote<T>(&self, result: &Result<T, CommitError>) {
        self.note(match result {
            Err(CommitError::Store(error)) if !error.passes() => Some(error.clone()),
            _ => None,
        });
    }

    pub fn stuck(&self, stuck: bool) {
        self.stuck.store(stuck, Ordering::Relaxed);
    }

    fn note(&self, refused: Option<StoreError>) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = refused;
    }

    fn refused(&self) -> Option<StoreError> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Engine {
    /// Whether the store answers, takes changes, and deadlines are kept. After a refused change it is tried again here: on
    /// an idle server nobody else would.
    pub async fn ready(&self) -> Result<(), NotReady> {
        let away = || StoreError::Unavailable("it does not answer".into());
        let read = self.briefly(self.store.deadlines(1)).await.unwrap_or_else(|| Err(away()));
        read.map_err(NotReady::Unreadable)?;
        if self.health.refused().is_some()
            && let Ok(_one) = self.health.trying.try_lock()
        {
            let tried = self.store.try_write().await;
            self.health.wrote(&tried.map_err(CommitError::Store));
        }
        if let Some(error) = self.health.refused() {
            return Err(NotReady::Refused(error));
        }
        match self.health.stuck.load(Ordering::Relaxed) {
            true => Err(NotReady::Stuck),
            false => Ok(()),
        }
    }
}
