//! What can go wrong with a store, in words that say what to do.

use std::path::PathBuf;

#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    #[error(
        "{path} is in use by another Reveille{}; stop it first, or choose another directory with --data-dir",
        .pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
    )]
    InUse { path: PathBuf, pid: Option<u32> },
    #[error("{path} is not a Reveille database; move it away or choose another directory with --data-dir")]
    NotOurs { path: PathBuf },
    #[error(
        "{path} was written by a newer Reveille (format {found}, this one knows up to {known}); install the newer version again"
    )]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error(
        "{path} was written by a Reveille from between two releases: it says format {found}, but its tables are not those \
         of that format ({difference}). Nothing was changed. Go on with the program that wrote it, or move the file \
         away and begin anew"
    )]
    Unreleased { path: PathBuf, found: i64, difference: String },
    #[error("the database is damaged: {0}. Nothing was changed; restore a backup or look at it with `sqlite3`")]
    Damaged(String),
    #[error("the disk is full; nothing was changed. Free some space and try again")]
    Full,
    #[error("the database cannot be written: {0}; nothing was changed")]
    Unwritable(String),
    #[error("the database failed: {0}")]
    Failed(String),
    /// It will be there again; so will everything that was answered.
    #[error("the database cannot be reached now: {0}; try again in a moment")]
    Unavailable(String),
    #[error("database_url: {0}")]
    BadUrl(String),
    #[error(
        "the database was written by a newer Reveille (format {found}, this one knows up to {known}); install the newer version again"
    )]
    NewerSchema { found: i64, known: i64 },
    #[error(
        "the database was written by a Reveille from between two releases: it says format {found}, but its tables are not \
         those of that format ({difference}). Nothing was changed. Go on with the program that wrote it, or drop its \
         schema (`DROP SCHEMA reveille CASCADE`) and begin anew"
    )]
    UnreleasedSchema { found: i64, difference: String },
    #[error("the store is closed")]
    Closed,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum CommitError {
    /// Somebody else changed the session first: load and decide again.
    #[error("the session has changed meanwhile")]
    Conflict,
    /// A new item's id is taken: choose another.
    #[error("the id is taken")]
    IdTaken,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl StoreError {
    /// It ends by itself.
    pub const fn passes(&self) -> bool {
        matches!(self, StoreError::Unavailable(_))
    }

    /// Stable: clients may match on it.
    pub const fn code(&self) -> &'static str {
        match self {
            StoreError::InUse { .. } => "storage_in_use",
            StoreError::NotOurs { .. } => "storage_not_ours",
            StoreError::Newer { .. } => "storage_newer",
            StoreError::Unreleased { .. } | StoreError::UnreleasedSchema { .. } => "storage_unreleased",
            StoreError::Damaged(_) => "storage_damaged",
            StoreError::Full => "storage_full",
            StoreError::Unwritable(_) => "storage_unwritable",
            StoreError::Failed(_) => "storage_failed",
            StoreError::Unavailable(_) => "storage_unavailable",
            StoreError::BadUrl(_) => "storage_url",
            StoreError::NewerSchema { .. } => "storage_newer",
            StoreError::Closed => "storage_closed",
        }
    }
}
