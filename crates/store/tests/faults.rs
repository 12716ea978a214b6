//! Guards what the SQLite store promises when the disk does not play along: nothing is answered before it is durable,
//! a full disk costs nothing but the refused change, and after a failed sync the store says nothing it cannot know.
//! Every promise is tried at every single disk operation, as SQLite's own tests do.

#![allow(clippy::unwrap_used, unsafe_code)] // the faulty disk is a layer of SQLite, which is C

#[path = "faults/disk.rs"]
mod disk;
mod drive;

use disk::{Disk, Trouble};
use drive::*;
use reveille_core::{Batch, command::Select};
use reveille_store::{CommitError, Committed, MemoryStore, SqliteStore, Store, StoreError};
use std::{
    future::{Future, poll_fn},
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    task::Poll,
};
use tempfile::TempDir;

/// A store on a disk of its own, and the same content in memory to compare with.
struct Bench {
    disk: Disk,
    path: PathBuf,
    store: Arc<dyn Store>,
    model: MemoryStore,
    _directory: TempDir,
}

impl Bench {
    async fn new() -> Self {
        let directory = scratch();
        // SQLite opens files by their real name.
        let disk = Disk::watch(&directory.path().canonicalize().unwrap());
        let path = directory.path().join("reveille.db");
        let store = Arc::new(SqliteStore::open(&path, None, "srv").unwrap());
        let bench = Self { disk, path, store, model: MemoryStore::new("srv"), _directory: directory };
        for id in ["timer_1", "timer_2", "timer_3"] {
            bench.both(batch(&bench.model, "old", wait(id, "earlier", 600), at(0)).await).await;
        }
        bench.both(batch(&bench.model, "old", stop("timer_2"), at(0)).await).await;
        bench
    }

    async fn both(&self, batch: Batch) {
        self.store.commit(batch.clone()).await.unwrap();
        self.model.commit(batch).await.unwrap();
    }

    async fn same(&self) -> bool {
        picture(&*self.store).await == picture(&self.model).await
    }

    async fn reopen(&mut self) {
        self.store.close().await;
        self.store = Arc::new(SqliteStore::open(&self.path, None, "srv").unwrap());
    }
}

type Answered = Result<Arc<Committed>, CommitError>;
type Pending = Pin<Box<dyn Future<Output = Answered> + Send>>;

/// A commit that has been handed over and not yet answered.
async fn begun(store: &Arc<dyn Store>, batch: Batch) -> Pending {
    let store = store.clone();
    let mut commit: Pending = Box::pin(async move { store.commit(batch).await });
    assert!(poll(&mut commit).await.is_pending(), "answered at once");
    commit
}

async fn poll(commit: &mut Pending) -> Poll<Answered> {
    poll_fn(|context| Poll::Ready(commit.as_mut().poll(context))).await
}

async fn new_sessions(store: &dyn Store, prefix: &str, count: usize) -> Vec<Batch> {
    let mut batches = Vec::new();
    for number in 0..count {
        let (session, id) = (format!("{prefix}{number}"), format!("timer_{prefix}{number}"));
        batches.push(batch(store, &session, wait(&id, "x", 600), at(1)).await);
    }
    batches
}

#[tokio::test]
async fn a_commit_is_answered_and_told_only_once_it_is_durable() {
    let bench = Bench::new().await;
    let mut feed = bench.store.feed();
    bench.disk.hold();
    let mut commit = begun(&bench.store, batch(&bench.model, "a", wait("timer_a", "x", 600), at(1)).await).await;
    bench.disk.wait_until_held();
    assert!(poll(&mut commit).await.is_pending(), "answered before it was durable");
    assert!(feed.try_recv().is_err(), "told before it was durable");
    assert!(bench.same().await, "shown before it was durable");
    bench.disk.let_go();
    commit.await.unwrap();
    assert!(feed.try_recv().is_ok());
    assert_eq!(loaded(&*bench.store, "a", Select::Live).await, ["timer_a"]);
}

/// `synchronous` is a setting of the writer's own connection; what it does is seen from here.
#[tokio::test]
async fn every_lone_commit_is_synced() {
    let bench = Bench::new().await;
    for batch in new_sessions(&bench.model, "s", 20).await {
        let before = bench.disk.log_syncs();
        bench.both(batch).await;
        assert!(bench.disk.log_syncs() > before, "a commit was answered without a sync");
    }
}

#[tokio::test]
async fn commits_that_queue_up_share_a_sync() {
    let mut bench = Bench::new().await;
    let batches = new_sessions(&bench.model, "s", 500).await;
    bench.disk.hold();
    let mut pending = Vec::new();
    for batch in &batches {
        pending.push(begun(&bench.store, batch.clone()).await);
        if pending.len() == 1 {
            bench.disk.wait_until_held(); // the first is on its way alone
        }
    }
    let before = bench.disk.log_syncs();
    bench.disk.let_go();
    for (commit, batch) in pending.into_iter().zip(batches) {
        assert_eq!(commit.await.unwrap().batch, batch);
        bench.model.commit(batch).await.unwrap(); // in the order in which they were handed over
    }
    let syncs = bench.disk.log_syncs() - before;
    assert!(syncs <= 3, "{syncs} syncs for 500 commits that waited together");
    assert!(bench.same().await);
    bench.reopen().await;
    assert!(bench.same().await);
}

#[tokio::test]
async fn closing_finishes_what_was_begun_and_refuses_the_rest() {
    let mut bench = Bench::new().await;
    let batches = new_sessions(&bench.model, "s", 10).await;
    let late = batch(&bench.model, "late", wait("timer_late", "x", 600), at(1)).await;
    bench.disk.hold();
    let mut pending = Vec::new();
    for batch in &batches {
        pending.push(begun(&bench.store, batch.clone()).await);
    }
    let store = bench.store.clone();
    let mut closing: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move { store.close().await });
    assert!(poll_fn(|context| Poll::Ready(closing.as_mut().poll(context))).await.is_pending());
    let after = begun(&bench.store, late.clone()).await;
    bench.disk.let_go();
    closing.await;
    for (commit, batch) in pending.into_iter().zip(batches) {
        commit.await.unwrap();
        bench.model.commit(batch).await.unwrap();
    }
    assert!(matches!(after.await, Err(CommitError::Store(StoreError::Closed))));
    assert!(matches!(bench.store.commit(late).await, Err(CommitError::Store(StoreError::Closed))));
    bench.store.close().await; // twice is harmless
    bench.reopen().await;
    assert!(bench.same().await);
}

#[tokio::test]
async fn a_caller_that_goes_away_has_its_change_all_the_same() {
    let bench = Bench::new().await;
    let batches = new_sessions(&bench.model, "s", 10).await;
    bench.disk.hold();
    for batch in &batches {
        drop(begun(&bench.store, batch.clone()).await);
        bench.model.commit(batch.clone()).await.unwrap();
    }
    bench.disk.let_go();
    bench.both(batch(&bench.model, "last", wait("timer_last", "x", 600), at(2)).await).await;
    assert!(bench.same().await);
}

type Trial = for<'a> fn(&'a mut Bench) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Lets the n-th operation fail and all that follow, for every n, until there is no n-th.
async fn at_every_operation(trouble: Trouble, trial: Trial) {
    for operations in 0.. {
        let mut bench = Bench::new().await;
        bench.disk.fail_after(operations, trouble);
        trial(&mut bench).await;
        if bench.disk.heal() == 0 {
            assert!(operations > 3, "the trouble reached nothing");
            return;
        }
    }
}

#[tokio::test]
async fn a_full_disk_costs_only_the_refused_change() {
    at_every_operation(Trouble::Full, |bench| {
        Box::pin(refused_and_works_again(bench, |error| matches!(error, StoreError::Full)))
    })
    .await;
}

#[tokio::test]
async fn a_disk_gone_read_only_costs_only_the_refused_change() {
    at_every_operation(Trouble::ReadOnly, |bench| {
        Box::pin(refused_and_works_again(bench, |error| matches!(error, StoreError::Unwritable(_))))
    })
    .await;
}

#[tokio::test]
async fn after_a_failed_sync_nothing_is_answered_with_success() {
    at_every_operation(Trouble::Sync, |bench| Box::pin(unknown_after_a_failed_sync(bench))).await;
}

async fn refused_and_works_again(bench: &mut Bench, refusal: fn(&StoreError) -> bool) {
    let accepted = |answer: &Answered| match answer {
        Ok(_) => true,
        Err(CommitError::Store(error)) if refusal(error) => false,
        Err(error) => panic!("{error:?}"),
    };
    // Alone: small and larger than a page. What is answered with success enters the model.
    for (number, reason) in ["x", &"长".repeat(2000), "y"].into_iter().enumerate() {
        let batch = batch(&bench.model, "old", wait(&format!("timer_alone_{number}"), reason, 600), at(1)).await;
        if accepted(&bench.store.commit(batch.clone()).await) {
            bench.model.commit(batch).await.unwrap();
        }
    }
    let batches = new_sessions(&bench.model, "together", 4).await;
    for (answer, batch) in commit_together(&bench.store, batches.clone()).await.iter().zip(batches) {
        if accepted(answer) {
            bench.model.commit(batch).await.unwrap();
        }
    }
    match bench.store.purge(at(1), ALL).await {
        Ok(removed) => assert_eq!(bench.model.purge(at(1), ALL).await.unwrap(), removed),
        Err(error) => assert!(refusal(&error), "{error:?}"),
    }
    assert!(bench.same().await, "what is shown is what was answered with success");

    bench.disk.heal();
    bench.both(batch(&bench.model, "old", wait("timer_again", "x", 600), at(2)).await).await;
    assert_eq!(purge_all(&*bench.store, at(2), ALL).await, purge_all(&bench.model, at(2), ALL).await);
    assert!(bench.same().await, "there is room again");
    bench.reopen().await;
    assert!(bench.same().await, "and this is what the file holds");
}

/// Whether the change is in the file nobody can say, so nothing may be built on either answer until it is opened anew.
async fn unknown_after_a_failed_sync(bench: &mut Bench) {
    let mut unknown = None;
    for number in 0..6 {
        let batch = batch(&bench.model, "old", wait(&format!("timer_{number}_new"), "x", 600), at(1)).await;
        match bench.store.commit(batch.clone()).await {
            Ok(_) => drop(bench.model.commit(batch).await.unwrap()),
            Err(error) => {
                assert!(matches!(error, CommitError::Store(StoreError::Failed(_))), "{error:?}");
                unknown = Some(batch);
                break;
            }
        }
    }
    let Some(unknown) = unknown else { return };
    bench.disk.heal();
    let next = batch(&bench.model, "other", wait("timer_next", "x", 600), at(2)).await;
    let answer = bench.store.commit(next.clone()).await;
    assert!(matches!(answer, Err(CommitError::Store(StoreError::Failed(_)))), "{answer:?}");
    picture(&*bench.store).await; // can still be read
    bench.reopen().await;
    if !bench.same().await {
        bench.model.commit(unknown).await.unwrap();
        assert!(bench.same().await, "either without the change or with all of it");
    }
    bench.both(next).await;
}
