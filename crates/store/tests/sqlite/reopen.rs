//! What was answered is there when the file is opened again.

use crate::{beside, drive::*, open, open_when_free};
use reveille_core::Call;
use reveille_store::{CommitError, SqliteStore, Store, StoreError};
use std::sync::Arc;

/// Something of everything: live, ended, pending, leased, delivered, keyed, closed.
async fn furnish(store: &dyn Store) {
    run(store, "a", keyed("timer_1", "key", "print", 10), at(0)).await;
    run(store, "a", mission("timer_2", "重启服务器🙂", 600), at(0)).await;
    run(store, "a", wait("timer_3", "x", 10), at(0)).await;
    run(store, "a", pause("timer_2", 60), at(5)).await;
    run(store, "a", fire(&["timer_1", "timer_3"]), at(10)).await;
    call(store, "a", collect("lease_1", 1), at(11)).await;
    run(store, "a", commit_lease("lease_1"), at(12)).await;
    call(store, "a", collect("lease_2", 1), at(13)).await;
    run(store, "b", wait("timer_4", "x", 600), at(14)).await;
    run(store, "b", close(), at(15)).await;
}

#[tokio::test]
async fn everything_is_there_after_closing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("reveille.db");
    let store = open(&path);
    furnish(&store).await;
    let before = picture(&store).await;
    store.close().await;
    let store = open(&path); // at once: closing has let go of the file
    assert_eq!(picture(&store).await, before);
    let next = batch(&store, "a", wait("timer_5", "x", 600), at(20)).await;
    assert_eq!(store.commit(next).await.unwrap().first_seq, before.history.len() as i64 + 1, "numbers go on");
}

#[tokio::test]
async fn everything_is_there_after_dropping() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("reveille.db");
    let store = open(&path);
    furnish(&store).await;
    let before = picture(&store).await;
    drop(store);
    assert_eq!(picture(&open_when_free(&path)).await, before);
}

#[tokio::test]
async fn a_closed_store_commits_nothing_more() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("reveille.db");
    let store = open(&path);
    let late = batch(&store, "a", wait("timer_1", "x", 600), at(0)).await;
    store.close().await;
    let answer = store.commit(late).await;
    assert!(matches!(answer, Err(CommitError::Store(StoreError::Closed))), "{answer:?}");
    assert!(picture(&open(&path)).await.sessions.is_empty());
}

/// The log is written back by closing, so that a copy of the one file is a backup.
#[tokio::test]
async fn after_closing_the_file_alone_holds_everything() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("reveille.db");
    let store = open(&path);
    furnish(&store).await;
    let before = picture(&store).await;
    store.close().await;
    let copy = directory.path().join("copy.db");
    std::fs::copy(&path, &copy).unwrap();
    assert_eq!(picture(&open(&copy)).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn hundreds_of_commits_at_once_are_all_answered_and_all_kept() {
    const TASKS: usize = 40;
    const TIMERS: usize = 12;
    const SESSIONS: usize = 8;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("reveille.db");
    let store: Arc<SqliteStore> = Arc::new(open(&path));
    let mut feed = store.feed();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let store = store.clone();
            tokio::spawn(async move {
                for number in 0..TIMERS {
                    let create = Call::new(wait(&format!("timer_{task}_{number}"), "x", 600));
                    // Tasks of one session get in each other's way and try again, as the engine does.
                    try_call(&*store, &format!("s{}", task % SESSIONS), &create, at(0)).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let told: Vec<_> = std::iter::from_fn(|| feed.try_recv().ok()).flat_map(|news| news.commits().to_vec()).collect();
    assert_eq!(told.len(), TASKS * TIMERS);
    assert_eq!(told.iter().flat_map(|one| one.recorded()).collect::<Vec<_>>(), history(&*store).await);
    store.close().await;

    let store = open(&path);
    let kept = picture(&store).await;
    assert_eq!(kept.items.len(), TASKS * TIMERS);
    assert_eq!(kept.tallies["timers.created"], (TASKS * TIMERS) as i64);
    assert_eq!(kept.sessions.len(), SESSIONS);
    for session in kept.sessions {
        assert_eq!(session.version as usize, TASKS * TIMERS / SESSIONS, "one version per commit, none lost");
        assert_eq!(session.live_timers as u64, session.version);
    }
    let next = batch(&store, "s0", stop("timer_0_0"), at(1)).await;
    assert_eq!(store.commit(next).await.unwrap().first_seq, kept.history.len() as i64 + 1);
}

/// Long enough for the log to be written back in the background meanwhile, which closing must wait for.
#[tokio::test]
async fn after_a_long_run_too_the_file_alone_holds_everything() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("reveille.db");
    let store = open(&path);
    let text = "很长的理由".repeat(4000); // 60 kB
    for number in 0..90 {
        run(&store, &format!("s{}", number % 3), wait(&format!("timer_{number}"), &text, 600), at(number)).await;
    }
    let before = picture(&store).await;
    store.close().await;
    let log = std::fs::metadata(beside(&path, "-wal")).map_or(0, |log| log.len());
    assert_eq!(log, 0, "bytes left in the log");
    let copy = directory.path().join("copy.db");
    std::fs::copy(&path, &copy).unwrap();
    assert_eq!(picture(&open(&copy)).await, before);
}
