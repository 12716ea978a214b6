//! `commit`: all of a batch or nothing, and nothing on a state that is gone.

use crate::drive::*;
use reveille_core::{Batch, Call, ItemWrite, MessageWrite, RequestKey, Timestamp, command::Select};
use reveille_store::{CommitError, Store};
use std::sync::Arc;

async fn refused_as_stale(store: &dyn Store, batch: Batch) {
    let before = picture(store).await;
    let answer = store.commit(batch.clone()).await;
    assert!(matches!(answer, Err(CommitError::Conflict)), "{answer:?} to {batch:?}");
    assert_eq!(picture(store).await, before, "a stale batch left something behind: {batch:?}");
}

async fn refused_as_taken(store: &dyn Store, batch: Batch) {
    let before = picture(store).await;
    let answer = store.commit(batch.clone()).await;
    assert!(matches!(answer, Err(CommitError::IdTaken)), "{answer:?} to {batch:?}");
    assert_eq!(picture(store).await, before, "a refused batch left something behind: {batch:?}");
}

pub async fn a_batch_is_written_whole(store: &Arc<dyn Store>) {
    let first = batch(&**store, "a", wait("timer_1", "build", 60), at(0)).await;
    let committed = store.commit(first.clone()).await.unwrap();
    assert_eq!((&committed.batch, committed.first_seq), (&first, 1));

    let completed = batch(&**store, "a", fire(&["timer_1"]), at(60)).await;
    assert_eq!((completed.items.len(), completed.messages.len()), (1, 1), "this batch has a part of every kind");
    let committed = store.commit(completed.clone()).await.unwrap();
    assert_eq!(committed.first_seq, 1 + first.history.len() as i64);

    let shown = picture(&**store).await;
    assert_eq!(shown.sessions, std::slice::from_ref(&completed.session));
    assert_eq!(shown.items, [(sid("a"), completed.items[0].item().clone())]);
    assert_eq!(shown.states[0].0.inbox, [completed.messages[0].message().clone()]);
    let written: Vec<_> = first.history.iter().chain(&completed.history).cloned().collect();
    assert_eq!(shown.history.iter().map(|recorded| recorded.entry.clone()).collect::<Vec<_>>(), written);
    assert_eq!(shown.tallies["timers.created"], 1);
    assert_eq!(shown.tallies["timers.running"], 0);
    assert_eq!(shown.tallies["timers.completed"], 1);
    assert_eq!(shown.tallies["messages.created"], 1);
}

pub async fn a_batch_for_a_session_that_exists_by_now_is_stale(store: &Arc<dyn Store>) {
    let late = batch(&**store, "a", wait("timer_late", "x", 60), at(0)).await;
    run(&**store, "a", wait("timer_1", "x", 60), at(0)).await;
    refused_as_stale(&**store, late).await;
}

pub async fn a_batch_for_a_session_that_does_not_exist_is_stale(store: &Arc<dyn Store>) {
    run(&**store, "a", wait("timer_1", "x", 60), at(0)).await;
    let mut lost = batch(&**store, "a", wait("timer_2", "x", 60), at(1)).await;
    lost.session.id = sid("never");
    refused_as_stale(&**store, lost).await;
}

pub async fn a_batch_on_another_version_is_stale(store: &Arc<dyn Store>) {
    for second in 0..5 {
        run(&**store, "a", wait(&format!("timer_{second}"), "x", 600), at(second)).await;
    }
    let right = batch(&**store, "a", stop("timer_0"), at(9)).await;
    assert_eq!(right.expected, Some(5));
    for expected in [None, Some(0), Some(1), Some(4), Some(6), Some(99), Some(i64::MAX as u64)] {
        refused_as_stale(&**store, Batch { expected, ..right.clone() }).await;
    }
    store.commit(right).await.unwrap();
}

/// Decisions with every kind of write, each overtaken by another change of the same session.
pub async fn a_stale_batch_of_any_kind_writes_nothing(store: &Arc<dyn Store>) {
    let store = &**store;
    run(store, "a", wait("timer_done", "x", 10), at(0)).await;
    run(store, "a", wait("timer_due", "x", 20), at(0)).await;
    run(store, "a", wait("timer_long", "x", 600), at(0)).await;
    run(store, "a", fire(&["timer_done"]), at(10)).await;
    call(store, "a", collect("lease_1", 10), at(11)).await;

    let mut stale = Vec::new();
    for command in [
        wait("timer_new", "x", 60),
        keyed("timer_keyed", "key", "print", 60),
        fire(&["timer_due"]),
        stop("timer_long"),
        pause("timer_long", 60),
        cancel("timer_long"),
        commit_lease("lease_1"),
    ] {
        stale.push(batch(store, "a", command, at(20)).await);
    }
    let later: Timestamp = at(60); // the lease has run out
    stale.push(decided(store, "a", &collect("lease_2", 10), later).await.unwrap().batch.unwrap());
    run(store, "a", wait("timer_first", "x", 600), at(12)).await;
    for batch in stale {
        refused_as_stale(store, batch).await;
    }
}

pub async fn work_decided_again_after_a_conflict_succeeds(store: &Arc<dyn Store>) {
    let late = batch(&**store, "a", wait("timer_late", "x", 60), at(0)).await;
    run(&**store, "a", wait("timer_1", "x", 60), at(0)).await;
    refused_as_stale(&**store, late).await;
    run(&**store, "a", wait("timer_late", "x", 60), at(0)).await;
    assert_eq!(loaded(&**store, "a", Select::Live).await, ["timer_1", "timer_late"]);
}

pub async fn of_many_decisions_on_one_version_one_is_written(store: &Arc<dyn Store>) {
    for round in 0..3 {
        let mut rivals = Vec::new();
        for rival in 0..20 {
            rivals.push(batch(&**store, "a", wait(&format!("timer_{round}_{rival}"), "x", 600), at(round)).await);
        }
        let answers = commit_together(store, rivals).await;
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
        assert!(answers.iter().all(|answer| matches!(answer, Ok(_) | Err(CommitError::Conflict))));
        assert_eq!(loaded(&**store, "a", Select::Live).await.len() as i64, round + 1);
    }
    assert_eq!(store.tallies().await.unwrap()["timers.created"], 3);
}

pub async fn a_taken_id_is_refused_and_nothing_written(store: &Arc<dyn Store>) {
    let store = &**store;
    run(store, "a", wait("timer_1", "x", 60), at(0)).await;
    run(store, "b", wait("timer_2", "x", 60), at(0)).await;
    refused_as_taken(store, batch(store, "a", wait("timer_1", "again", 60), at(1)).await).await;
    refused_as_taken(store, batch(store, "b", wait("timer_1", "across", 60), at(1)).await).await;
    refused_as_taken(store, batch(store, "new", wait("timer_1", "across", 60), at(1)).await).await;
    // An ended item keeps its id.
    run(store, "a", stop("timer_1"), at(2)).await;
    refused_as_taken(store, batch(store, "a", wait("timer_1", "again", 60), at(3)).await).await;
}

pub async fn two_new_items_of_one_batch_cannot_share_an_id(store: &Arc<dyn Store>) {
    let mut double = batch(&**store, "a", wait("timer_1", "x", 60), at(0)).await;
    double.items.push(double.items[0].clone());
    refused_as_taken(&**store, double).await;
}

pub async fn a_request_key_is_new_in_its_session(store: &Arc<dyn Store>) {
    let store = &**store;
    run(store, "a", keyed("timer_1", "key", "print", 60), at(0)).await;
    run(store, "b", keyed("timer_2", "key", "print", 60), at(0)).await;
    // `decide` never asks for this: it loads the key and answers with the timer made then.
    let mut again = batch(store, "a", wait("timer_3", "x", 60), at(1)).await;
    let ItemWrite::Insert { key, .. } = &mut again.items[0] else { panic!("a creation inserts") };
    *key = Some(RequestKey { key: "key".into(), fingerprint: "print".into() });
    refused_as_taken(store, again).await;
}

pub async fn a_refused_batch_harms_no_other_in_its_group(store: &Arc<dyn Store>) {
    run(&**store, "old", wait("timer_taken", "x", 600), at(0)).await;
    let stale = batch(&**store, "old", wait("timer_stale", "x", 600), at(1)).await;
    run(&**store, "old", wait("timer_newer", "x", 600), at(1)).await;
    let before = history(&**store).await.len();
    let mut batches = Vec::new();
    for number in 0..100 {
        let session = format!("s{number}");
        batches.push(match number % 10 {
            3 => batch(&**store, &session, wait("timer_taken", "x", 600), at(2)).await,
            7 => stale.clone(),
            _ => batch(&**store, &session, wait(&format!("timer_{number}"), "x", 600), at(2)).await,
        });
    }
    let answers = commit_together(store, batches).await;
    let mut numbers = Vec::new();
    for (number, answer) in answers.iter().enumerate() {
        match (number % 10, answer) {
            (3, Err(CommitError::IdTaken)) | (7, Err(CommitError::Conflict)) => {}
            (_, Ok(committed)) => numbers.extend(committed.recorded().map(|recorded| recorded.seq)),
            (_, answer) => panic!("batch {number}: {answer:?}"),
        }
        let made = loaded(&**store, &format!("s{number}"), Select::Live).await;
        assert_eq!(made.len(), usize::from(answer.is_ok()), "session s{number}");
    }
    numbers.sort_unstable();
    let last = numbers.len() + before;
    assert_eq!(numbers, (before as i64 + 1..=last as i64).collect::<Vec<_>>(), "numbers without gaps");
    assert_eq!(history(&**store).await.len(), last);
    assert_eq!(store.tallies().await.unwrap()["timers.created"], 82);
}

/// Even if the batch says otherwise: telling twice is the one mistake no later step could repair.
pub async fn what_is_delivered_stays_delivered(store: &Arc<dyn Store>) {
    let store = &**store;
    run(store, "a", wait("timer_1", "x", 10), at(0)).await;
    run(store, "a", fire(&["timer_1"]), at(10)).await;
    let pending = inbox(store, "a").await;
    call(store, "a", collect("lease", 10), at(11)).await;
    run(store, "a", commit_lease("lease"), at(12)).await;
    assert_eq!(inbox(store, "a").await, []);
    let mut revived = batch(store, "a", wait("timer_2", "x", 10), at(13)).await;
    revived.messages = pending.into_iter().map(MessageWrite::Update).collect();
    store.commit(revived).await.unwrap();
    assert_eq!(inbox(store, "a").await, []);
    let nothing = decided(store, "a", &collect("lease_2", 10), at(14)).await.unwrap();
    assert_eq!((nothing.batch, nothing.riding), (None, vec![]));
    let again = decided(store, "a", &Call::new(commit_lease("lease")), at(15)).await;
    assert_eq!(again.unwrap_err().code(), "unknown_lease");
}
