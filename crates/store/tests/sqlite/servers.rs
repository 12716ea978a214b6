//! Several servers in one file: each is alone in its world.

use crate::{drive::*, open};
use reveille_core::{Needs, Timestamp, command::Select};
use reveille_store::{SqliteStore, Store};

#[tokio::test]
async fn the_server_id_is_made_once_and_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("reveille.db");
    let store = SqliteStore::open(&path, None, "srv_first").unwrap();
    assert_eq!(store.server_id(), "srv_first");
    run(&store, "a", wait("timer_1", "x", 600), at(0)).await;
    store.close().await;
    for fresh in ["srv_second", "srv_third"] {
        let store = SqliteStore::open(&path, None, fresh).unwrap();
        assert_eq!(store.server_id(), "srv_first");
        assert_eq!(loaded(&store, "a", Select::Live).await, ["timer_1"]);
        store.close().await;
    }
    // Being somebody else for once does not change who the database is.
    let other = SqliteStore::open(&path, Some("srv_other"), "srv_fourth").unwrap();
    assert_eq!(other.server_id(), "srv_other");
    other.close().await;
    // Moving the file changes nothing: the id depends on no path.
    let moved = directory.path().join("moved.db");
    std::fs::copy(&path, &moved).unwrap();
    assert_eq!(open(&moved).server_id(), "srv_first");
}

#[tokio::test]
async fn an_id_given_first_is_not_the_databases_own() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("reveille.db");
    let given = SqliteStore::open(&path, Some("srv_given"), "srv_fresh").unwrap();
    assert_eq!(given.server_id(), "srv_given");
    given.close().await;
    let own = SqliteStore::open(&path, None, "srv_own").unwrap();
    assert_eq!(own.server_id(), "srv_own");
    own.close().await;
    assert_eq!(SqliteStore::open(&path, None, "srv_later").unwrap().server_id(), "srv_own");
}

/// The same names on both sides: sessions, items, keys, leases.
async fn furnish(store: &dyn Store) {
    run(store, "s", keyed("timer_1", "key", "print", 10), at(0)).await;
    run(store, "s", wait("timer_2", "x", 600), at(0)).await;
    run(store, "s", fire(&["timer_1"]), at(10)).await;
    call(store, "s", collect("lease", 1), at(11)).await;
}

#[tokio::test]
async fn nothing_crosses_between_servers_in_one_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("reveille.db");
    let first = SqliteStore::open(&path, Some("srv_1"), "").unwrap();
    furnish(&first).await;
    run(&first, "only_first", wait("timer_first", "x", 600), at(12)).await;
    let before = picture(&first).await;
    first.close().await;

    let second = SqliteStore::open(&path, Some("srv_2"), "").unwrap();
    let empty = picture(&second).await;
    assert!(empty.sessions.is_empty() && empty.items.is_empty() && empty.history.is_empty());
    assert!(empty.deadlines.is_empty() && empty.tallies.is_empty());
    assert_eq!(second.load_items(iids(&["timer_1", "timer_first"])).await.unwrap(), []);
    let needs = Needs { items: Select::Recent, inbox: true, key: Some("key".into()) };
    assert_eq!(second.load(&sid("s"), needs).await.unwrap(), Default::default());

    furnish(&second).await;
    let own = picture(&second).await;
    assert_eq!(own.items.len(), 2);
    assert_eq!(own.tallies["timers.created"], 2);
    assert_eq!(loaded(&second, "s", Select::Ids(iids(&["timer_2", "timer_first"]))).await, ["timer_2"]);
    run(&second, "s", commit_lease("lease"), at(12)).await;
    run(&second, "s", close(), at(13)).await;
    purge_all(&second, Timestamp::from_millis(i64::MAX), ALL).await;
    second.close().await;

    let first = SqliteStore::open(&path, Some("srv_1"), "").unwrap();
    assert_eq!(picture(&first).await, before, "whatever the other did");
    let next = batch(&first, "s", stop("timer_2"), at(20)).await;
    let committed = first.commit(next).await.unwrap();
    assert!(committed.first_seq > before.history.last().unwrap().seq, "numbers still rise");
}

#[tokio::test]
async fn each_server_keeps_its_own_newest_history_entry() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("reveille.db");
    let first = SqliteStore::open(&path, Some("srv_1"), "").unwrap();
    run(&first, "s", wait("timer_1", "x", 600), at(0)).await;
    let newest = history(&first).await.pop();
    first.close().await;
    let second = SqliteStore::open(&path, Some("srv_2"), "").unwrap();
    run(&second, "s", wait("timer_2", "x", 600), at(1)).await;
    second.close().await;
    let first = SqliteStore::open(&path, Some("srv_1"), "").unwrap();
    purge_all(&first, Timestamp::from_millis(i64::MAX), ALL).await;
    assert_eq!(history(&first).await.pop(), newest);
}
