//! How long calls slept, written down after they were answered: nobody waits for it, so that many at once can share the
//! work.

use super::Engine;
use reveille_core::{Command, ItemId, Millis, Sleep};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
    time::Duration,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Written in one go.
const CHUNK: usize = 256;
/// Then the statistics lose them.
const TRIES_MAX: u32 = 5;
const RETRY: Millis = Millis::from_secs(1);
/// What is left when the server stops has this long.
const LAST: Duration = Duration::from_secs(5);

pub async fn run(engine: Arc<Engine>, mut sleeps: mpsc::UnboundedReceiver<Sleep>, stop: CancellationToken) {
    let mut chunk = Vec::with_capacity(CHUNK);
    while let Some(1..) = stop.run_until_cancelled(sleeps.recv_many(&mut chunk, CHUNK)).await {
        engine.write_sleeps(std::mem::take(&mut chunk)).await;
    }
    while let Ok(sleep) = sleeps.try_recv() {
        chunk.push(sleep);
    }
    let _ = tokio::time::timeout(LAST, engine.write_sleeps(chunk)).await;
}

impl Engine {
    async fn write_sleeps(&self, mut sleeps: Vec<Sleep>) {
        while !sleeps.is_empty() {
            // Several calls may have stood by for one timer.
            let mut first = BTreeMap::new();
            let mut others = Vec::new();
            for sleep in sleeps {
                match first.entry(sleep.id.clone()) {
                    Entry::Vacant(entry) => drop(entry.insert(sleep)),
                    Entry::Occupied(_) => others.push(sleep),
                }
            }
            self.write_one_of_each(&first).await;
            sleeps = others;
        }
    }

    async fn write_one_of_each(&self, sleeps: &BTreeMap<ItemId, Sleep>) {
        let mut left: Vec<ItemId> = sleeps.keys().cloned().collect();
        let slept = |ids: &[ItemId]| Command::Slept(ids.iter().filter_map(|id| sleeps.get(id).cloned()).collect());
        for attempt in 1.. {
            match self.to_each(left, slept, |_, _| {}).await.done() {
                Ok(()) => return,
                Err((error, undone)) if attempt == TRIES_MAX => {
                    tracing::warn!(%error, count = undone.len(), "sleeps could not be written down");
                    return;
                }
                Err((_, undone)) => left = undone,
            }
            self.clock.sleep(RETRY).await;
        }
    }
}
