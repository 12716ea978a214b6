//! Databases with many pending timers, made once through the store's own write path and copied for each use.

use futures_util::{StreamExt, stream};
use reveille_core::{
    Batch, Call, Command, ItemId, Limits, Millis, Purpose, SessionId, Timestamp, command::State, decide,
};
use reveille_store::{SqliteStore, Store};
use std::path::{Path, PathBuf};

const PER_SESSION: usize = 100;
const DAY: u64 = 24 * 3600;
/// How many sessions are written at once.
const WRITERS: usize = 256;

/// A fresh directory with a database that holds `pending` timers, due from tomorrow on over 30 days.
pub async fn directory(base: &Path, pending: usize) -> anyhow::Result<tempfile::TempDir> {
    let seed = seed(base, pending).await?;
    let directory = tempfile::tempdir_in(base)?;
    std::fs::copy(&seed, directory.path().join("reveille.db"))?;
    Ok(directory)
}

async fn seed(base: &Path, pending: usize) -> anyhow::Result<PathBuf> {
    let path = base.join(format!("seed-{pending}.db"));
    if path.exists() {
        return Ok(path);
    }
    eprintln!("making a database with {pending} pending timers …");
    let making = base.join(format!("making-{pending}.db"));
    let _ = std::fs::remove_file(&making);
    let store = SqliteStore::open(&making, None, "bench")?;
    let now = now();
    stream::iter(0..pending.div_ceil(PER_SESSION))
        .map(|number| fill(&store, number, pending, now))
        .buffer_unordered(WRITERS)
        .collect::<Vec<_>>()
        .await
        .into_iter()
        .collect::<anyhow::Result<Vec<()>>>()?;
    store.close().await;
    std::fs::rename(&making, &path)?;
    Ok(path)
}

/// One session and its timers.
async fn fill(store: &SqliteStore, number: usize, pending: usize, now: Timestamp) -> anyhow::Result<()> {
    let session = SessionId::new(format!("seed-{number}"));
    let mut state = State::default();
    let mut whole: Option<Batch> = None;
    for timer in number * PER_SESSION..((number + 1) * PER_SESSION).min(pending) {
        // Spread, without a pattern the index could profit from.
        let spread = (timer as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) % (30 * DAY);
        let command = Command::Create {
            id: ItemId::new(format!("timer_{:08x}", (timer as u32).reverse_bits())),
            purpose: Purpose::Mission("pending while others are measured".into()),
            total: Millis::from_secs(DAY + spread),
            timeout: None,
            until: None,
            key: None,
            task: None,
        };
        let decision = decide(&session, &state, &Call::new(command), now, &Limits::default())?;
        let batch = decision.batch.expect("a creation writes");
        state.session = Some(batch.session.clone());
        // One write for the whole session: making the database is not what is measured.
        match &mut whole {
            None => whole = Some(batch),
            Some(whole) => {
                whole.session = batch.session;
                whole.items.extend(batch.items);
                whole.history.extend(batch.history);
                whole.tallies.extend(batch.tallies);
            }
        }
    }
    if let Some(whole) = whole {
        store.commit(whole).await?;
    }
    Ok(())
}

pub fn now() -> Timestamp {
    Timestamp::from_millis(micros() / 1000)
}

/// The wall clock, finer than the engine's.
pub fn micros() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("the clock is after 1970");
    since.as_micros() as i64
}
