//! Guards what only PostgreSQL has: plans that stay good however much there is, and encryption as it was asked for.

#![allow(clippy::unwrap_used)]

mod drive;

use drive::*;
use reveille_core::{Needs, command::Select};
use reveille_store::{
    HistoryFilter, ItemFilter, Order, PostgresOptions, PostgresStore, SessionFilter, Store, StoreError, postgres,
};
use scratch_postgres::{Care, Cluster};
use std::sync::Arc;

/// Every table that grows.
const GROWING: [&str; 6] = ["sessions", "items", "messages", "conversation", "history", "commits"];

/// What pages ask for, of which there may be none among any number of others.
const RARE: [&str; 4] = ["wake.started", "wake.given_up", "message.withdrawn", "session_timer.triggered"];

/// More rows than this that were read in vain are a walk through a table.
const IN_VAIN_MAX: u64 = 2000;

/// One of everything that a server asks while it works.
async fn work(store: &Arc<dyn Store>, name: &str) {
    let s = &**store;
    let (timer, task) = (format!("timer_{name}"), format!("task_{name}"));
    run(s, name, keyed(&timer, "key", "print", 60), at(0)).await;
    run(s, name, remind(&task, "x", at(600)), at(0)).await;
    run(s, name, message(vec![spec(&format!("st_{name}"), 900, 1, calls("close", true))], "x", at(0)), at(0)).await;
    run(s, name, response("y", at(0)), at(0)).await;
    run(s, name, pause(&timer, 10), at(1)).await;
    run(s, name, resume(&timer), at(2)).await;
    run(s, name, fire(&[&timer]), at(61)).await;
    run(s, name, fire(&[&task]), at(600)).await;
    call(s, name, collect("lease", 10), at(601)).await;
    run(s, name, commit_lease("lease"), at(602)).await;
    run(s, name, fire(&[&format!("st_{name}")]), at(900)).await;
}

async fn open(options: &PostgresOptions) -> Arc<dyn Store> {
    Arc::new(PostgresStore::open(options, Some("srv"), "x").await.unwrap())
}

async fn look(store: &Arc<dyn Store>, name: &str) {
    let s = &**store;
    for items in [Select::Live, Select::Recent, Select::Ids(iids(&["timer_x"]))] {
        let needs = Needs { items, inbox: true, key: Some("key".into()) };
        s.load(&sid(name), needs).await.unwrap();
    }
    s.load_items(iids(&["timer_x", "timer_y"])).await.unwrap();
    s.conversation(&sid(name), 50).await.unwrap();
    s.hours(at(0)).await.unwrap();
    s.deadlines(100).await.unwrap();
    let page = |order| ItemFilter { order, limit: 50, ..ItemFilter::default() };
    s.items(page(Order::Newest)).await.unwrap();
    s.items(page(Order::Soonest)).await.unwrap();
    s.items(ItemFilter { session: Some(sid(name)), ..page(Order::Newest) }).await.unwrap();
    s.items(ItemFilter { id: Some("timer_x".into()), ..page(Order::Newest) }).await.unwrap();
    s.sessions(SessionFilter { limit: 50, ..SessionFilter::default() }).await.unwrap();
    s.sessions(SessionFilter { undelivered: true, limit: 50, ..SessionFilter::default() }).await.unwrap();
    s.history(HistoryFilter { limit: 50, ..HistoryFilter::default() }).await.unwrap();
    s.history(HistoryFilter { session: Some(sid(name)), limit: 50, ..HistoryFilter::default() }).await.unwrap();
    for event in RARE {
        let rare = HistoryFilter { event: Some(event.into()), limit: 50, ..HistoryFilter::default() };
        s.history(rare.clone()).await.unwrap();
        s.history(HistoryFilter { after: Some(0), ..rare }).await.unwrap();
    }
    for subject in [name, &format!("timer_{name}"), "timer_empty"] {
        s.history(HistoryFilter { subject: Some(subject.into()), limit: 50, ..HistoryFilter::default() })
            .await
            .unwrap();
    }
    s.purge(at(-1000), 10).await.unwrap();
}

/// The plans of what was really asked, as the database itself wrote them down; on empty tables, on large ones it knows
/// nothing about yet, and on large ones it knows.
#[tokio::test]
async fn nothing_reads_a_whole_table() {
    let settings = [
        "shared_preload_libraries = 'auto_explain'",
        "auto_explain.log_min_duration = 0",
        "auto_explain.log_analyze = on",
        "auto_explain.log_timing = off",
        "log_min_messages = log",
        "autovacuum = off",
    ];
    let cluster = Cluster::start(Care::None, &settings);
    let url = cluster.database();
    let database = url.rsplit('/').next().unwrap();
    let options = PostgresOptions::new(&url);
    let store = open(&options).await;
    work(&store, "empty").await;
    look(&store, "empty").await;
    cluster.sql(
        database,
        "SET enable_seqscan = off;
         INSERT INTO reveille.sessions (server, name, version, state, created_at, active_at, live_timers, live_reminders, pending_messages)
             SELECT 1, 's' || n, 1, 'open', 0, 1790000000000, 0, 0, 0 FROM generate_series(1, 50000) n;
         INSERT INTO reveille.items (server, session, id, kind, status, due, ended, body)
             SELECT 1, n, 'i' || n, 'timer', 'running', 2000000000000 + n, NULL, body
             FROM generate_series(1, 50000) n, (SELECT body FROM reveille.items WHERE server = 1 AND id = 'timer_empty') b;
         INSERT INTO reveille.messages (server, session, id, kind, text, source, created_at)
             SELECT 1, n, 'm' || n, 'timer_completed', '', 'i' || n, 0 FROM generate_series(1, 50000) n;
         INSERT INTO reveille.conversation (server, session, at, body)
             SELECT 1, n, 1790000000000, '{}' FROM generate_series(1, 50000) n;
         INSERT INTO reveille.history (server, seq, session, at, kind, subject, event)
             SELECT 1, 1000 + n, n, 1790000000000, 'timer', 'i' || n, 'timer.created' FROM generate_series(1, 50000) n;
         UPDATE reveille.servers SET history = 51000",
    );
    work(&store, "unknown").await;
    look(&store, "unknown").await;
    cluster.sql(database, "ANALYZE");
    let store = open(&options).await;
    work(&store, "known").await;
    look(&store, "known").await;
    let log = cluster.log();
    assert!(log.contains("Index Scan using items_id"), "plans are written down");
    let deadlines = log.matches("Index Only Scan using items_due").count();
    assert!(deadlines >= 3, "deadlines come from their index alone, {deadlines} times");
    assert!(log.contains("sessions_idle"), "sessions in which something lives are not looked at by retention");
    let scans = log.lines().filter(|line| GROWING.iter().any(|table| line.contains(&format!("Seq Scan on {table}"))));
    let scans: Vec<&str> = scans.collect();
    assert!(scans.is_empty(), "whole tables are read: {scans:#?}");
    assert!(log.contains("Index Scan Backward using history_event"), "rare events are found by their index");
    let in_vain = log.lines().enumerate().filter(|(_, line)| {
        let count = line.split_once("Rows Removed by Filter: ").and_then(|(_, count)| count.trim().parse().ok());
        count.is_some_and(|count: u64| count > IN_VAIN_MAX)
    });
    // The statement and its plan are in the lines before.
    let lines: Vec<&str> = log.lines().collect();
    let in_vain: Vec<_> = in_vain.map(|(at, _)| lines[at.saturating_sub(12)..=at].join("\n")).collect();
    assert!(in_vain.is_empty(), "walked over: {}", in_vain.join("\n\n"));
}

#[tokio::test]
async fn a_database_of_the_first_format_is_gone_on_with() {
    let cluster = Cluster::shared();
    let url = cluster.database();
    let (database, options) = (url.rsplit('/').next().unwrap(), PostgresOptions::new(&url));
    let format = "CREATE SCHEMA reveille; CREATE TABLE reveille.format (version bigint NOT NULL);
                  INSERT INTO reveille.format VALUES (1)";
    cluster.sql(database, format);
    cluster.sql(database, include_str!("../src/postgres/migrations/0001.sql"));
    cluster.sql(
        database,
        "INSERT INTO reveille.servers (id, commits, history) VALUES ('srv', 1, 1);
         INSERT INTO reveille.sessions (server, name, version, state, created_at, active_at, live_timers,
             live_reminders, pending_messages) VALUES (1, 'demo', 1, 'open', 0, 0, 0, 0, 0)",
    );
    assert_eq!(postgres::inspect(&options).await.unwrap(), 1, "looking changes nothing");
    let store = open(&options).await;
    assert_eq!(postgres::inspect(&options).await.unwrap(), 2);
    let sessions = SessionFilter { limit: 50, ..SessionFilter::default() };
    let names: Vec<String> =
        store.sessions(sessions).await.unwrap().iter().map(|(_, session)| session.id.to_string()).collect();
    assert_eq!(names, ["demo"]);
    work(&store, "demo_2").await;
    look(&store, "demo_2").await;
    store.close().await;
    // And once more, as every start does.
    open(&options).await.close().await;
}

#[tokio::test]
async fn a_database_of_a_later_version_is_refused_untouched() {
    let cluster = Cluster::shared();
    let url = cluster.database();
    let (database, options) = (url.rsplit('/').next().unwrap(), PostgresOptions::new(&url));
    let store = open(&options).await;
    work(&store, "demo").await;
    store.close().await;
    cluster
        .sql(database, "INSERT INTO reveille.format VALUES (3); ALTER TABLE reveille.sessions ADD COLUMN later text");
    let content = || {
        let tables = ["format", "servers", "sessions", "items", "messages", "history", "tallies", "nodes"];
        tables.map(|table| cluster.sql(database, &format!("SELECT * FROM reveille.{table} t ORDER BY t")))
    };
    let before = content();
    let looked = postgres::inspect(&options).await.unwrap_err();
    let refused = PostgresStore::open(&options, Some("srv_new"), "x").await.err().unwrap();
    for error in [looked, refused] {
        assert!(matches!(error, StoreError::NewerSchema { found: 3, known: 2 }), "{error:?}");
        assert_eq!(error.code(), "storage_newer");
    }
    assert_eq!(content(), before);
}

#[tokio::test]
async fn a_form_that_was_never_released_is_refused() {
    let cluster = Cluster::shared();
    let url = cluster.database();
    let options = PostgresOptions::new(&url);
    open(&options).await.close().await;
    cluster.sql(url.rsplit('/').next().unwrap(), "ALTER TABLE reveille.sessions DROP COLUMN quiet");
    let looked = postgres::inspect(&options).await.unwrap_err();
    let refused = PostgresStore::open(&options, Some("srv"), "x").await.err().unwrap();
    for error in [looked, refused] {
        assert_eq!(error.code(), "storage_unreleased");
        assert!(error.to_string().contains("no column sessions.quiet"), "{error}");
    }
}

#[tokio::test]
async fn encryption_is_as_asked_for() {
    let cluster = Cluster::start(Care::None, &[]);
    let issuer_key = rcgen::KeyPair::generate().unwrap();
    let mut issuer = rcgen::CertificateParams::new(Vec::new()).unwrap();
    issuer.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = issuer.self_signed(&issuer_key).unwrap();
    let signer = rcgen::Issuer::new(issuer, issuer_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let named = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap().signed_by(&key, &signer).unwrap();
    let certificate = cluster.file("server.crt", &named.pem());
    let key = cluster.file("server.key", &key.serialize_pem());
    let roots = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(roots.path(), authority.pem()).unwrap();
    for (name, value) in
        [("ssl_cert_file", certificate.to_str().unwrap()), ("ssl_key_file", key.to_str().unwrap()), ("ssl", "on")]
    {
        cluster.sql("postgres", &format!("ALTER SYSTEM SET {name} = '{value}'"));
    }
    cluster.restart();
    let database = cluster.database();
    let (at, name) = database.rsplit_once('/').unwrap();
    let roots = roots.path().to_str().unwrap();
    let other = at.replace("127.0.0.1", "localhost");
    for (host, query, expected) in [
        (&other[..], format!("sslmode=verify-full&sslrootcert={roots}"), Ok(true)),
        (at, format!("sslmode=verify-full&sslrootcert={roots}"), Err("certificate")),
        (at, format!("sslmode=verify-ca&sslrootcert={roots}"), Ok(true)),
        (&other, "sslmode=verify-full".into(), Err("certificate")),
        (at, "sslmode=require".into(), Ok(true)),
        (at, "sslmode=prefer".into(), Ok(true)),
        (at, "sslmode=disable".into(), Ok(false)),
    ] {
        let options = PostgresOptions::new(format!("{host}/{name}?{query}"));
        let opened = PostgresStore::open(&options, None, "srv").await;
        match (opened, expected) {
            (Ok(store), Ok(encrypted)) => {
                let shown = cluster.sql(
                    name,
                    "SELECT bool_or(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'reveille'",
                );
                assert_eq!(shown == "t", encrypted, "{query}");
                store.close().await;
            }
            (Err(error), Err(word)) => assert!(error.to_string().contains(word), "{query}: {error}"),
            (opened, expected) => panic!("{query}: {:?} instead of {expected:?}", opened.map(drop)),
        }
    }
}
