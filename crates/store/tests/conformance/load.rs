//! `load` and `load_items`: the part of a session that was asked for, and never a part of another's.

use crate::drive::*;
use reveille_core::{Command, LeaseId, Millis, Needs, RequestKey, Sleep, State, Status, command::Select};
use reveille_store::{RECENT_ENDED_MAX, Store};
use std::{collections::HashMap, sync::Arc};

fn everything(key: &str) -> Needs {
    Needs { items: Select::Recent, inbox: true, key: Some(key.into()) }
}

pub async fn a_session_that_does_not_exist_is_empty(store: &Arc<dyn Store>) {
    run(&**store, "other", keyed("timer_1", "key", "print", 60), at(0)).await;
    for items in [Select::None, Select::Ids(iids(&["timer_1"])), Select::Live, Select::Recent] {
        let needs = Needs { items, inbox: true, key: Some("key".into()) };
        assert_eq!(store.load(&sid("never"), needs).await.unwrap(), State::default());
    }
    // Reading alone makes no session.
    run(&**store, "never", Command::Read { id: None }, at(1)).await;
    assert_eq!(picture(&**store).await.sessions.len(), 1);
}

pub async fn only_what_is_needed_is_loaded(store: &Arc<dyn Store>) {
    run(&**store, "a", keyed("timer_1", "key", "print", 10), at(0)).await;
    run(&**store, "a", fire(&["timer_1"]), at(10)).await;
    let bare = store.load(&sid("a"), Needs::default()).await.unwrap();
    let session = bare.session.clone().unwrap();
    assert_eq!((session.version, session.live_timers, session.active_at), (2, 0, at(10)));
    assert_eq!(bare, State { session: Some(session), ..State::default() });
    let all = store.load(&sid("a"), everything("key")).await.unwrap();
    assert_eq!((all.items.len(), all.inbox.len(), all.keyed.is_some()), (1, 1, true));
    assert_eq!(all.session, bare.session);
}

pub async fn items_by_id_come_in_the_order_asked_for(store: &Arc<dyn Store>) {
    for id in ["timer_1", "timer_2", "timer_3"] {
        run(&**store, "a", wait(id, "x", 60), at(0)).await;
    }
    run(&**store, "a", stop("timer_2"), at(1)).await;
    let ids = Select::Ids(iids(&["timer_3", "timer_unknown", "timer_2", "timer_1"]));
    assert_eq!(loaded(&**store, "a", ids).await, ["timer_3", "timer_2", "timer_1"]);
    assert!(loaded(&**store, "a", Select::Ids(vec![])).await.is_empty());
}

pub async fn items_of_another_session_are_not_loaded(store: &Arc<dyn Store>) {
    run(&**store, "a", wait("timer_a", "x", 60), at(0)).await;
    run(&**store, "b", wait("timer_b", "x", 60), at(0)).await;
    let both = Select::Ids(iids(&["timer_a", "timer_b"]));
    assert_eq!(loaded(&**store, "a", both.clone()).await, ["timer_a"]);
    assert_eq!(loaded(&**store, "b", both).await, ["timer_b"]);
    assert_eq!(loaded(&**store, "a", Select::Live).await, ["timer_a"]);
    assert_eq!(loaded(&**store, "b", Select::Recent).await, ["timer_b"]);
}

pub async fn live_items_come_in_the_order_of_creation(store: &Arc<dyn Store>) {
    for (id, seconds) in [("timer_1", 600), ("timer_2", 60), ("timer_3", 300), ("timer_4", 10), ("timer_5", 30)] {
        run(&**store, "a", wait(id, "x", seconds), at(0)).await;
    }
    run(&**store, "a", pause("timer_1", 5), at(1)).await;
    run(&**store, "a", cancel("timer_2"), at(1)).await;
    run(&**store, "a", stop("timer_3"), at(1)).await;
    run(&**store, "a", fire(&["timer_4"]), at(10)).await;
    assert_eq!(loaded(&**store, "a", Select::Live).await, ["timer_1", "timer_2", "timer_5"]);
}

pub async fn recent_items_are_the_live_ones_and_the_latest_ended(store: &Arc<dyn Store>) {
    let ended = RECENT_ENDED_MAX + 10;
    for number in 0..ended {
        run(&**store, "a", wait(&format!("timer_{number:02}"), "x", 600), at(0)).await;
    }
    run(&**store, "a", wait("timer_live", "x", 600), at(0)).await;
    // Ended two at a time, the youngest first: the order of ending is not that of creation.
    for number in 0..ended {
        let when = at(1 + (ended - 1 - number) as i64 / 2);
        run(&**store, "a", stop(&format!("timer_{number:02}")), when).await;
    }
    run(&**store, "a", wait("timer_live_2", "x", 600), at(60)).await;
    let recent = loaded(&**store, "a", Select::Recent).await;
    let mut expected = vec!["timer_live".to_owned(), "timer_live_2".to_owned()];
    // The latest ended first; of two that ended together the younger one.
    for pair in (0..ended).collect::<Vec<_>>().chunks(2).take(RECENT_ENDED_MAX / 2) {
        expected.extend(pair.iter().rev().map(|number| format!("timer_{number:02}")));
    }
    assert_eq!(recent, expected);
}

pub async fn the_inbox_is_undelivered_messages_oldest_first(store: &Arc<dyn Store>) {
    let store = &**store;
    for (id, seconds) in [("timer_1", 30), ("timer_2", 20), ("timer_3", 10)] {
        run(store, "a", wait(id, "x", seconds), at(0)).await;
    }
    run(store, "b", mission("timer_b", "x", 10), at(0)).await;
    run(store, "b", fire(&["timer_b"]), at(10)).await;
    run(store, "a", fire(&["timer_3"]), at(10)).await;
    run(store, "a", fire(&["timer_2"]), at(20)).await;
    let standing = HashMap::from([(iid("timer_1"), LeaseId::new("lease_standing"))]);
    run(store, "a", Command::Fire { ids: iids(&["timer_1"]), standing }, at(30)).await;

    let messages = inbox(store, "a").await;
    let sources: Vec<&str> = messages.iter().map(|message| message.source.as_str()).collect();
    assert_eq!(sources, ["timer_3", "timer_2", "timer_1"]);
    assert_eq!(messages.iter().map(|message| message.created_at).collect::<Vec<_>>(), [at(10), at(20), at(30)]);
    assert_eq!((&messages[0].lease, &messages[1].lease), (&None, &None));
    let lease = messages[2].lease.clone().unwrap();
    assert_eq!((lease.id, lease.until), (LeaseId::new("lease_standing"), at(60)));

    let riding = call(store, "a", collect("lease_1", 1), at(31)).await.riding;
    assert_eq!(inbox(store, "a").await[0], riding[0], "the lease is kept");
    run(store, "a", Command::ReleaseLease { lease: LeaseId::new("lease_1") }, at(32)).await;
    assert_eq!(inbox(store, "a").await, messages, "and given back");
    call(store, "a", collect("lease_2", 2), at(33)).await;
    run(store, "a", commit_lease("lease_2"), at(34)).await;
    assert_eq!(inbox(store, "a").await, messages[2..], "what is delivered is gone");
    assert_eq!(inbox(store, "b").await.len(), 1, "another session's is untouched");
}

pub async fn a_key_finds_its_item_in_its_own_session_only(store: &Arc<dyn Store>) {
    run(&**store, "a", keyed("timer_a", "key", "print_a", 60), at(0)).await;
    run(&**store, "b", keyed("timer_b", "key", "print_b", 60), at(0)).await;
    run(&**store, "a", wait("timer_c", "x", 60), at(0)).await;
    let by_key = async |session: &str, key: &str| {
        let needs = Needs { key: Some(key.into()), ..Needs::default() };
        store.load(&sid(session), needs).await.unwrap().keyed
    };
    let (item, key) = by_key("a", "key").await.unwrap();
    assert_eq!((item.id().as_str(), &*key.fingerprint), ("timer_a", "print_a"));
    let (item, key) = by_key("b", "key").await.unwrap();
    assert_eq!((item.id().as_str(), key), ("timer_b", RequestKey { key: "key".into(), fingerprint: "print_b".into() }));
    assert_eq!(by_key("a", "other").await, None);
    assert_eq!(by_key("a", "").await, None);
    // The item as it is now, ended or not.
    run(&**store, "a", stop("timer_a"), at(5)).await;
    let (item, _) = by_key("a", "key").await.unwrap();
    assert_eq!(item.status(), Status::Stopped.as_str());
}

pub async fn items_are_loaded_with_their_sessions(store: &Arc<dyn Store>) {
    for (session, id) in [("a", "timer_a1"), ("b", "timer_b1"), ("a", "timer_a2"), ("c", "timer_c1")] {
        run(&**store, session, wait(id, "x", 60), at(0)).await;
    }
    run(
        &**store,
        "a",
        Command::Return(Sleep { id: iid("timer_a1"), since: at(0), slept: Millis::from_secs(1) }),
        at(1),
    )
    .await;
    let wanted = ["timer_b1", "timer_a2", "timer_unknown", "timer_a1"];
    let states = store.load_items(iids(&wanted)).await.unwrap();
    let shown: Vec<(&str, Vec<&str>)> = states
        .iter()
        .map(|(session, state)| (session.as_str(), state.items.iter().map(|item| item.id().as_str()).collect()))
        .collect();
    assert_eq!(shown, [("b", vec!["timer_b1"]), ("a", vec!["timer_a2", "timer_a1"])]);
    for (session, state) in &states {
        let ids = state.items.iter().map(|item| item.id().clone()).collect();
        let alone = store.load(session, Needs { items: Select::Ids(ids), ..Needs::default() }).await.unwrap();
        assert_eq!(*state, alone, "the same as loading the session for these items");
    }
    assert_eq!(store.load_items(vec![]).await.unwrap(), []);
    assert_eq!(store.load_items(iids(&["timer_unknown"])).await.unwrap(), []);
}
