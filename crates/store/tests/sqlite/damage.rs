//! Damaged files: an error, never a panic, never silence about it where SQLite notices.

use crate::{drive::*, open, refused};
use reveille_core::{Needs, Timestamp, command::Select};
use reveille_store::{CommitError, HistoryFilter, SessionFilter, SqliteStore, Store, StoreError};
use rusqlite::Connection;
use std::{fs, path::Path};

const PAGE_BYTES: usize = 4096;

/// A database of some dozen pages, as bytes.
async fn healthy(directory: &Path) -> Vec<u8> {
    let path = directory.join("healthy.db");
    let store = open(&path);
    for number in 0..60 {
        let (session, id) = (format!("s{}", number % 3), format!("timer_{number}"));
        run(&store, &session, wait(&id, &"理由 ".repeat(40), 10 + number), at(0)).await;
    }
    for session in ["s0", "s1"] {
        let ids: Vec<String> = (0..40).map(|number| format!("timer_{number}")).collect();
        run(&store, session, fire(&ids.iter().map(String::as_str).collect::<Vec<_>>()), at(40)).await;
    }
    store.close().await;
    fs::read(&path).unwrap()
}

/// Does everything that can be done with a store; the errors it got.
async fn everything(store: &SqliteStore) -> Vec<StoreError> {
    let mut errors = Vec::new();
    let every_entry = HistoryFilter { limit: ALL, ..HistoryFilter::default() };
    errors.extend(store.deadlines(ALL).await.err());
    errors.extend(store.items(every_item()).await.err());
    errors.extend(store.sessions(SessionFilter { after: None, limit: ALL, ..SessionFilter::default() }).await.err());
    errors.extend(store.history(every_entry).await.err());
    errors.extend(store.tallies().await.err());
    errors.extend(store.load_items((0..60).map(|number| iid(&format!("timer_{number}"))).collect()).await.err());
    for session in ["s0", "s1", "s2"] {
        let needs = Needs { items: Select::Recent, inbox: true, key: Some("key".into()) };
        match store.load(&sid(session), needs).await {
            Ok(state) => {
                // A state that was read is good enough to decide and to write on.
                let fire = fire(&["timer_2", "timer_5", "timer_59"]);
                let call = reveille_core::Call::new(fire);
                let decision = reveille_core::decide(&sid(session), &state, &call, at(600), &Default::default());
                if let Ok(Some(batch)) = decision.map(|decision| decision.batch)
                    && let Err(CommitError::Store(error)) = store.commit(batch).await
                {
                    errors.push(error);
                }
            }
            Err(error) => errors.push(error),
        }
    }
    errors.extend(store.purge(Timestamp::from_millis(i64::MAX), ALL).await.err());
    errors
}

/// Writes the bytes, opens them and does everything with them. A thread that panicked answers "closed".
async fn try_out(path: &Path, bytes: &[u8]) -> Vec<StoreError> {
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(crate::beside(path, suffix));
    }
    fs::write(path, bytes).unwrap();
    let errors = match SqliteStore::open(path, None, "srv") {
        Ok(store) => {
            let errors = everything(&store).await;
            store.close().await;
            errors
        }
        Err(error) => vec![error],
    };
    for error in &errors {
        assert!(!matches!(error, StoreError::Closed), "something panicked");
    }
    errors
}

#[tokio::test]
async fn damage_in_any_page_is_an_error_and_never_a_panic() {
    let directory = scratch();
    let bytes = healthy(directory.path()).await;
    let pages = bytes.len() / PAGE_BYTES;
    assert!(pages > 20, "{pages} pages");
    assert_eq!(try_out(&directory.path().join("as_it_was.db"), &bytes).await.len(), 0);
    let mut noticed = 0;
    for page in 1..pages {
        let range = page * PAGE_BYTES..(page + 1) * PAGE_BYTES;
        for (kind, damage) in DAMAGES.iter().enumerate() {
            let mut damaged = bytes.clone();
            damage(&mut damaged[range.clone()]);
            // A name of its own each: threads of the one before may still be about to close their files.
            let path = directory.path().join(format!("damaged_{page}_{kind}.db"));
            let errors = try_out(&path, &damaged).await;
            noticed += usize::from(errors.iter().any(|error| matches!(error, StoreError::Damaged(_))));
            for error in errors {
                assert!(matches!(error, StoreError::Damaged(_)), "page {page}, damage {kind}: {error:?}");
            }
        }
    }
    assert!(noticed > pages, "damage was noticed only {noticed} times in {pages} pages");
}

const DAMAGES: [fn(&mut [u8]); 4] = [
    |page| page.fill(0),
    |page| page.fill(0xA5),
    |page| page.iter_mut().skip(8).step_by(61).for_each(|byte| *byte ^= 0xFF),
    |page| page[PAGE_BYTES / 2..].reverse(),
];

#[tokio::test]
async fn a_file_cut_short_is_an_error_and_never_a_panic() {
    let directory = scratch();
    let bytes = healthy(directory.path()).await;
    for (number, length) in [2, 99, 512, 4095, 4096, 5000, bytes.len() / 2, bytes.len() - 1].into_iter().enumerate() {
        let path = directory.path().join(format!("cut_{number}.db"));
        let errors = try_out(&path, &bytes[..length]).await;
        assert!(!errors.is_empty(), "cut to {length} bytes");
    }
}

/// Our own database with a damaged first page is not somebody else's: "move it away" would be bad advice.
#[tokio::test]
async fn damage_to_our_schema_is_called_damage() {
    let directory = scratch();
    let mut bytes = healthy(directory.path()).await;
    bytes[100..108].fill(0xA5);
    let path = directory.path().join("damaged.db");
    fs::write(&path, &bytes).unwrap();
    let error = refused(&path);
    assert!(matches!(error, StoreError::Damaged(_)), "{error:?}");
    assert!(fs::read(&path).unwrap() == bytes, "and left as it was");
}

/// Rows that are sound for SQLite and mean nothing to us.
#[tokio::test]
async fn an_unreadable_row_is_damage_and_hides_no_other() {
    let directory = scratch();
    let bytes = healthy(directory.path()).await;
    for (number, sql) in [
        "UPDATE items SET body = '{' WHERE id = 'timer_0'",
        "UPDATE items SET body = x'ff00fe' WHERE id = 'timer_0'",
        "UPDATE items SET body = CAST(x'ff00fe' AS TEXT) WHERE id = 'timer_0'",
        "UPDATE items SET kind = 'sundial' WHERE id = 'timer_0'",
        "UPDATE sessions SET state = 'ajar' WHERE name = 's0'",
        "UPDATE sessions SET live_timers = -1 WHERE name = 's0'",
        "UPDATE sessions SET version = 'many' WHERE name = 's0'",
        "UPDATE messages SET kind = 'rumour'",
        "UPDATE messages SET text = x'ff'",
        "UPDATE history SET data = '{' WHERE subject = 'timer_0'",
        "UPDATE history SET kind = 'myth' WHERE subject = 'timer_0'",
    ]
    .into_iter()
    .enumerate()
    {
        let path = directory.path().join(format!("row_{number}.db"));
        fs::write(&path, &bytes).unwrap();
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let store = open(&path);
        let errors = everything(&store).await;
        assert!(!errors.is_empty(), "{sql}");
        for error in errors {
            assert!(matches!(error, StoreError::Damaged(_)), "{sql}: {error:?}");
        }
        assert_eq!(loaded(&store, "s2", Select::Ids(iids(&["timer_8"]))).await, ["timer_8"], "{sql}");
        run(&store, "new", wait("timer_new", "x", 600), at(700)).await;
        store.close().await;
    }
}
