//! Guards that moving to PostgreSQL takes everything along, also if it is cut off anywhere.

#![allow(clippy::unwrap_used)]

mod drive;

use drive::*;
use reveille_core::AgentId;
use reveille_store::{PostgresOptions, PostgresStore, SqliteStore, Store, StoreError, StoredAgent, postgres::import};
use scratch_postgres::Cluster;
use std::{future::Future, path::Path, pin::pin, task::Poll, time::Duration};

/// Enough for several portions of every table that matters, with a bit of everything.
async fn fill(path: &Path) -> Picture {
    let store = SqliteStore::open(path, None, "srv_moved").unwrap();
    for number in 0..40 {
        let session = format!("会话{number}🙂\0");
        for timer in 0..3 {
            let id = format!("timer_{number}_{timer}");
            run(&store, &session, keyed(&id, &format!("key {timer}"), "print", 60 + timer), at(number)).await;
        }
        let (done, stopped) = (format!("timer_{number}_0"), format!("timer_{number}_1"));
        run(&store, &session, stop(&stopped), at(number + 1)).await;
        run(&store, &session, fire(&[&done]), at(number + 60)).await;
        run(&store, &session, remind(&format!("task_{number}"), "喝水", at(10_000)), at(number + 60)).await;
        let timers = vec![spec(&format!("st_{number}"), 300, 2, says("还在吗？"))];
        run(&store, &session, message(timers, "你好🙂\0", at(number + 60)), at(number + 60)).await;
        run(&store, &session, response("在", at(number + 61)), at(number + 61)).await;
        if number % 2 == 0 {
            call(&store, &session, collect("lease", 10), at(number + 61)).await;
        }
        if number % 4 == 0 {
            run(&store, &session, commit_lease("lease"), at(number + 62)).await;
        }
    }
    let agent = StoredAgent { body: r#"{"model":"好"}"#.into(), changed_at: at(9) };
    store.set_agent(&AgentId::new(AGENT), Some(agent)).await.unwrap();
    let shown = picture(&store).await;
    // The beginning, the message and the answer.
    assert!(!shown.hours.is_empty() && shown.conversations.iter().all(|said| said.len() == 3));
    store.close().await;
    shown
}

/// Statements over millions of rows take longer than any that a server may wait for.
#[tokio::test]
async fn slow_statements_do_not_end_it() {
    let directory = scratch();
    let path = directory.path().join("reveille.db");
    fill(&path).await;
    let options = PostgresOptions::new(Cluster::shared().database());
    PostgresStore::open(&options, None, "srv_other").await.unwrap().close().await;
    let (client, connection) = tokio_postgres::connect(&options.url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let slow = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql
                AS $$ BEGIN PERFORM pg_sleep(1.5); RETURN NEW; END $$;
                CREATE TRIGGER slow BEFORE INSERT ON reveille.meta FOR EACH ROW
                WHEN (NEW.key LIKE 'import:%:conversation') EXECUTE FUNCTION slow()";
    client.batch_execute(slow).await.unwrap();
    let hurried = PostgresOptions { statement_timeout: Duration::from_secs(1), ..options };
    assert_eq!(import(&path, &hurried, |_, _| {}).await.unwrap()[0].tables[0], ("sessions", 40));
}

#[tokio::test]
async fn everything_is_moved_and_goes_on_there() {
    let directory = scratch();
    let path = directory.path().join("reveille.db");
    let before = fill(&path).await;
    let options = PostgresOptions::new(Cluster::shared().database());
    let moved = import(&path, &options, |_, _| {}).await.unwrap();
    assert_eq!(moved[0].server_id, "srv_moved");
    assert!(moved[0].is_default);
    assert_eq!(moved[0].tables[0], ("sessions", 40));
    // A second run finds nothing left to do.
    assert_eq!(import(&path, &options, |_, _| {}).await.unwrap(), moved);
    let store = PostgresStore::open(&options, None, "unused").await.unwrap();
    assert_eq!(store.server_id(), "srv_moved");
    assert_eq!(picture(&store).await, before);
    let next = batch(&store, "会话1🙂\0", wait("timer_next", "x", 600), at(500)).await;
    let last = before.history.last().unwrap().seq;
    assert_eq!(store.commit(next).await.unwrap().first_seq, last + 1, "numbers go on");
    // What has gone on there is not mixed with what was here.
    let refused = import(&path, &options, |_, _| {}).await.unwrap_err().to_string();
    assert!(refused.contains("has data of its own"), "{refused}");
}

#[tokio::test]
async fn a_move_that_is_cut_off_goes_on() {
    let directory = scratch();
    let path = directory.path().join("reveille.db");
    let before = fill(&path).await;
    let options = PostgresOptions::new(Cluster::shared().database());
    // Dropped after some polls, later each time: somewhere in every transaction.
    let mut patience = 5;
    loop {
        let mut moving = pin!(import(&path, &options, |_, _| {}));
        let mut polls = 0;
        let ended = std::future::poll_fn(|context| {
            polls += 1;
            match moving.as_mut().poll(context) {
                Poll::Ready(done) => Poll::Ready(Some(done)),
                Poll::Pending if polls > patience => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        });
        match ended.await {
            // The file is let go of a moment after the move was cut off.
            Some(Err(StoreError::InUse { .. })) => tokio::time::sleep(Duration::from_millis(5)).await,
            Some(done) => break drop(done.unwrap()),
            None => patience += 3,
        }
    }
    let store = PostgresStore::open(&options, None, "unused").await.unwrap();
    assert_eq!(picture(&store).await, before);
}

/// Somebody moves, looks, goes on with the file for a while and moves again.
#[tokio::test]
async fn what_was_done_to_the_file_after_a_move_is_moved_too() {
    let directory = scratch();
    let path = directory.path().join("reveille.db");
    fill(&path).await;
    let options = PostgresOptions::new(Cluster::shared().database());
    import(&path, &options, |_, _| {}).await.unwrap();
    let store = SqliteStore::open(&path, None, "unused").unwrap();
    run(&store, "会话1🙂\0", fire(&["timer_1_2"]), at(400)).await;
    run(&store, "会话3🙂\0", wait("timer_new", "x", 600), at(400)).await;
    store.set_agent(&AgentId::new(AGENT), None).await.unwrap();
    let changed = picture(&store).await;
    store.close().await;
    import(&path, &options, |_, _| {}).await.unwrap();
    let store = PostgresStore::open(&options, None, "unused").await.unwrap();
    assert_eq!(picture(&store).await, changed);
}

#[tokio::test]
async fn a_file_in_use_is_not_moved() {
    let directory = scratch();
    let path = directory.path().join("reveille.db");
    let options = PostgresOptions::new(Cluster::shared().database());
    assert!(import(&path, &options, |_, _| {}).await.unwrap_err().to_string().contains("is not there"));
    let store = SqliteStore::open(&path, None, "srv").unwrap();
    assert!(import(&path, &options, |_, _| {}).await.unwrap_err().to_string().contains("in use"));
    store.close().await;
}
