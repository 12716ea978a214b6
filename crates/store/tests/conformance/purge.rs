//! `purge`: what is over goes, in portions; what is still owed to anyone stays, however old it is.

use crate::drive::*;
use reveille_core::{Needs, Timestamp, batch::tally, command::Select};
use reveille_store::Store;
use std::{future::Future, pin::pin, sync::Arc, task::Poll};

const FAR: Timestamp = Timestamp::from_millis(i64::MAX);

pub async fn live_items_stay(store: &Arc<dyn Store>) {
    let store = &**store;
    run(store, "a", wait("timer_running", "x", 600), at(0)).await;
    run(store, "a", wait("timer_background", "x", 600), at(0)).await;
    run(store, "a", mission("timer_paused", "x", 600), at(0)).await;
    run(store, "a", cancel("timer_background"), at(1)).await;
    run(store, "a", pause("timer_paused", 60), at(2)).await;
    let before = picture(store).await;
    purge_all(store, FAR, ALL).await;
    let after = picture(store).await;
    assert_eq!((&after.items, &after.states, &after.deadlines), (&before.items, &before.states, &before.deadlines));
    assert_eq!(after.sessions, before.sessions);
}

pub async fn ended_items_go_when_they_are_older(store: &Arc<dyn Store>) {
    let store = &**store;
    run(store, "a", wait("timer_completed", "x", 10), at(0)).await;
    for id in ["timer_stopped", "timer_later", "timer_live"] {
        run(store, "a", wait(id, "x", 600), at(0)).await;
    }
    run(store, "a", fire(&["timer_completed"]), at(10)).await;
    run(store, "a", stop("timer_stopped"), at(19)).await;
    run(store, "a", stop("timer_later"), at(20)).await;
    purge_all(store, at(20), ALL).await;
    assert_eq!(found_ids(store, every_item()).await, ["timer_live", "timer_later"], "older, not as old");
    assert_eq!(loaded(store, "a", Select::Ids(iids(&["timer_stopped"]))).await, [""; 0]);
    // An entry of the history goes by its own age.
    assert!(history(store).await.iter().all(|recorded| recorded.entry.at == at(20)));
    purge_all(store, at(21), ALL).await;
    assert_eq!(found_ids(store, every_item()).await, ["timer_live"]);
    assert_eq!(purge_all(store, at(21), ALL).await, 0, "nothing is removed twice");
}

pub async fn undelivered_messages_of_open_sessions_stay(store: &Arc<dyn Store>) {
    let store = &**store;
    for id in ["timer_free", "timer_leased"] {
        run(store, "a", wait(id, "x", 10), at(0)).await;
    }
    run(store, "a", fire(&["timer_free", "timer_leased"]), at(10)).await;
    call(store, "a", collect("lease", 1), at(11)).await;
    let before = inbox(store, "a").await;
    assert_eq!(before.len(), 2);
    purge_all(store, FAR, ALL).await;
    assert_eq!(found_ids(store, every_item()).await, [""; 0], "their timers are gone");
    assert_eq!(inbox(store, "a").await, before);
    assert_eq!(picture(store).await.sessions.len(), 1, "and so the session is not empty");
    run(store, "a", commit_lease("lease"), at(12)).await;
    assert_eq!(inbox(store, "a").await, before[1..], "still deliverable");
}

pub async fn undelivered_messages_of_closed_sessions_go(store: &Arc<dyn Store>) {
    let store = &**store;
    for (session, timer) in [("old", "timer_1"), ("young", "timer_2")] {
        run(store, session, wait(timer, "x", 10), at(0)).await;
        run(store, session, fire(&[timer]), at(10)).await;
    }
    run(store, "old", close(), at(20)).await;
    run(store, "young", close(), at(30)).await;
    run(store, "last", wait("timer_3", "x", 600), at(40)).await;
    assert_eq!(inbox(store, "old").await.len(), 1, "closing alone removes nothing");
    purge_all(store, at(20), ALL).await;
    assert_eq!(inbox(store, "old").await.len(), 1, "not yet old");
    purge_all(store, at(30), ALL).await;
    assert_eq!(inbox(store, "old").await, []);
    assert_eq!(inbox(store, "young").await.len(), 1);
    let names: Vec<String> = picture(store).await.sessions.iter().map(|session| session.id.to_string()).collect();
    assert_eq!(names, ["last", "young"]);
}

/// Its history's last entry keeps the session; what cannot be told any more is not counted either.
pub async fn a_session_counts_no_messages_that_are_gone(store: &Arc<dyn Store>) {
    let store = &**store;
    run(store, "a", wait("timer_1", "x", 10), at(0)).await;
    run(store, "a", fire(&["timer_1"]), at(10)).await;
    run(store, "a", close(), at(20)).await;
    let session = async || picture(store).await.sessions.into_iter().next().unwrap();
    let before = session().await;
    assert_eq!(before.pending_messages, 1);
    let withdrawn = async || store.tallies().await.unwrap().get(tally::MESSAGES_WITHDRAWN).copied().unwrap_or(0);
    assert_eq!(withdrawn().await, 0);
    purge_all(store, at(30), ALL).await;
    assert_eq!(withdrawn().await, 1, "the server has fewer to tell, too");
    let after = session().await;
    assert_eq!(after.pending_messages, 0);
    assert!(after.version > before.version, "whoever remembers it has to look again");
    run(store, "a", wait("timer_2", "x", 10), at(40)).await;
    run(store, "a", fire(&["timer_2"]), at(50)).await;
    assert_eq!((session().await.pending_messages, inbox(store, "a").await.len()), (1, 1));
}

/// Delivered messages are not shown by anything: only the count tells.
pub async fn delivered_messages_go(store: &Arc<dyn Store>) {
    let store = &**store;
    let ids: Vec<String> = (0..5).map(|number| format!("timer_{number}")).collect();
    for id in &ids {
        run(store, "a", wait(id, "x", 10), at(0)).await;
    }
    run(store, "a", fire(&ids.iter().map(String::as_str).collect::<Vec<_>>()), at(10)).await;
    purge_all(store, at(11), ALL).await; // the timers and the history so far
    for (lease, when) in [("lease_1", 20), ("lease_2", 30)] {
        call(store, "a", collect(lease, 2), at(when)).await;
        run(store, "a", commit_lease(lease), at(when)).await;
    }
    assert_eq!(purge_all(store, at(20), ALL).await, 1, "only the entry that was the newest before");
    assert_eq!(purge_all(store, at(21), ALL).await, 2 + 2, "two messages and the entries of their delivery");
    assert_eq!(purge_all(store, at(31), ALL).await, 2 + 1, "two messages; the newest entry stays");
    assert_eq!(inbox(store, "a").await.len(), 1);
}

pub async fn the_newest_history_entry_stays_and_numbers_go_on(store: &Arc<dyn Store>) {
    let store = &**store;
    for number in 0..5 {
        let id = format!("timer_{number}");
        run(store, "a", wait(&id, "x", 600), at(0)).await;
        run(store, "a", stop(&id), at(1)).await;
    }
    let before = history(store).await;
    purge_all(store, FAR, ALL).await;
    assert_eq!(history(store).await, before[before.len() - 1..]);
    assert_eq!(picture(store).await.sessions.len(), 1, "the session of that entry stays with it");
    let next = batch(store, "a", wait("timer_next", "x", 600), at(2)).await;
    assert_eq!(store.commit(next).await.unwrap().first_seq, before.len() as i64 + 1);
}

pub async fn empty_old_sessions_go_and_their_names_can_be_used_again(store: &Arc<dyn Store>) {
    let store = &**store;
    run(store, "old", wait("timer_1", "x", 600), at(0)).await;
    run(store, "old", stop("timer_1"), at(1)).await; // open, but with nothing in it
    run(store, "young", wait("timer_2", "x", 600), at(5)).await;
    run(store, "young", stop("timer_2"), at(6)).await;
    purge_all(store, at(1), ALL).await;
    assert_eq!(picture(store).await.sessions.len(), 2);
    purge_all(store, at(6), ALL).await;
    let names: Vec<String> = picture(store).await.sessions.iter().map(|session| session.id.to_string()).collect();
    assert_eq!(names, ["young"]);
    assert_eq!(store.load(&sid("old"), Needs::default()).await.unwrap().session, None);

    let again = batch(store, "old", wait("timer_3", "x", 600), at(7)).await;
    assert_eq!((again.expected, again.session.version), (None, 1));
    store.commit(again).await.unwrap();
    let names: Vec<String> = picture(store).await.sessions.iter().map(|session| session.id.to_string()).collect();
    assert_eq!(names, ["old", "young"], "it is a new session, hence the newest");
    let filter = reveille_store::HistoryFilter { session: Some(sid("old")), limit: ALL, ..Default::default() };
    assert_eq!(store.history(filter).await.unwrap().len(), 2, "with a history of its own");
}

pub async fn no_more_than_the_limit_goes_at_once(store: &Arc<dyn Store>) {
    let store = &**store;
    for number in 0..20 {
        let (session, id) = (format!("s{number}"), format!("timer_{number}"));
        run(store, &session, wait(&id, "x", 10), at(0)).await;
        run(store, &session, fire(&[&id]), at(10)).await;
        run(store, &session, close(), at(11)).await;
    }
    run(store, "live", wait("timer_live", "x", 600), at(20)).await;
    let rows = async || {
        let shown = picture(store).await;
        let messages = shown.states.iter().map(|(state, _)| state.inbox.len()).sum();
        [shown.items.len(), messages, shown.history.len(), shown.sessions.len()]
    };
    let mut left = rows().await;
    assert_eq!(left, [21, 20, 20 * 4 + 2, 21]);
    loop {
        let removed = store.purge(at(20), 7).await.unwrap();
        let now = rows().await;
        let gone: Vec<usize> = left.iter().zip(now).map(|(before, after)| before - after).collect();
        assert!(gone.iter().all(|gone| *gone <= 7), "{gone:?} of each kind at once");
        assert_eq!(gone.iter().sum::<usize>(), removed);
        left = now;
        if removed == 0 {
            break;
        }
    }
    assert_eq!(left, [1, 0, 2, 1]);
    assert_eq!(store.purge(FAR, 0).await.unwrap(), 0);
}

pub async fn counters_stay(store: &Arc<dyn Store>) {
    run(&**store, "a", wait("timer_1", "x", 600), at(0)).await;
    run(&**store, "a", stop("timer_1"), at(1)).await;
    let before = store.tallies().await.unwrap();
    assert!(purge_all(&**store, FAR, ALL).await > 0);
    assert_eq!(store.tallies().await.unwrap(), before);
}

/// The session is closed and old when the purge begins, and opened again before it ends.
pub async fn a_session_that_comes_back_meanwhile_keeps_its_messages(store: &Arc<dyn Store>) {
    let store = &**store;
    run(store, "a", wait("timer_1", "x", 10), at(0)).await;
    run(store, "a", fire(&["timer_1"]), at(10)).await;
    run(store, "a", close(), at(20)).await;
    run(store, "b", wait("timer_2", "x", 600), at(20)).await;

    let mut purging = pin!(store.purge(at(30), ALL));
    let begun = std::future::poll_fn(|context| Poll::Ready(purging.as_mut().poll(context))).await;
    // Lists are answered in order: whatever the purge looks up first, it has by now.
    picture(store).await;
    run(store, "a", wait("timer_3", "x", 600), at(40)).await;
    // Mostly one message; none if the purge was quicker than the return.
    let expected = inbox(store, "a").await;
    match begun {
        Poll::Ready(removed) => removed.unwrap(),
        Poll::Pending => purging.await.unwrap(),
    };
    assert_eq!(inbox(store, "a").await, expected, "an open session lost a message it was not told");
}
