//! Two nodes by one clock: any of them takes any request, and each hears of what the other does.

use crate::support::*;
use reqwest::Method;
use reveille::engine::{Event, Hold};
use reveille_core::SessionId;
use serde_json::json;
use std::collections::HashMap;

async fn two() -> (World, World) {
    let first = World::start().await;
    let second = first.beside().await;
    (first, second)
}

#[tokio::test]
async fn a_call_standing_by_here_is_released_by_what_happens_there() {
    for listen in [true, false] {
        let first = World::with(|config| config.database.listen = listen).await;
        let second = first.beside().await;
        for (action, outcome) in [("stop", "stopped"), ("cancel", "background")] {
            let session = format!("session_{action}");
            let call = first.standing(&session, json!({"total_duration": 600, "reason": "等待构建🙂"})).await;
            let timer = id(&list(&second.get("/api/timers?limit=1").await["timers"])[0]);
            let done = second.post(&format!("/api/timers/{timer}/{action}"), json!({})).await;
            assert_eq!(done.status, 200, "{done:?}");
            has(&result(call).await, json!({"outcome": outcome, "timer_id": timer}));
        }
    }
}

#[tokio::test]
async fn a_completion_is_told_once_whoever_fires_it() {
    let (first, second) = two().await;
    let mut calls = Vec::new();
    for number in 0..12 {
        let world = if number % 2 == 0 { &first } else { &second };
        let session = format!("session_{number}");
        calls.push((session.clone(), world.standing(&session, json!({"total_duration": 60, "reason": "x"})).await));
    }
    first.advance(60);
    for (session, call) in calls {
        let told = result(call).await;
        has(&told, json!({"outcome": "completed", "status": "completed"}));
        let message = id(&told).replace("timer_", "msg_");
        first.until_event(&message, "message.delivered").await;
        let delivered = first.history_of(&message).await;
        assert_eq!(delivered.iter().filter(|entry| entry["event"] == "message.delivered").count(), 1, "{delivered:?}");
        assert!(second.inbox(&session).await.is_empty());
    }
}

#[tokio::test]
async fn every_deadline_is_acted_on_once() {
    let (first, second) = two().await;
    let mut timers = Vec::new();
    for number in 0..100 {
        let world = if number % 3 == 0 { &second } else { &first };
        let made =
            world.done(&format!("s{}", number % 7), "timer", json!({"total_duration": 60, "mission": "x"})).await;
        timers.push(id(&made));
    }
    second.advance(60);
    for timer in &timers {
        first.until_event(timer, "timer.completed").await;
    }
    let mut completed: HashMap<String, usize> = HashMap::new();
    for entry in first.history().await.iter().filter(|entry| entry["event"] == "timer.completed") {
        *completed.entry(text(&entry["id"])).or_default() += 1;
    }
    assert_eq!(completed.len(), timers.len());
    assert!(completed.values().all(|count| *count == 1));
    assert_eq!(second.history().await, first.history().await);
}

#[tokio::test]
async fn a_creation_sent_to_both_is_carried_out_once() {
    let (first, second) = two().await;
    let body = json!({"total_duration": 60, "mission": "x"});
    for number in 0..10 {
        let key = format!("key_{number}");
        let send = |world: &World| {
            let (http, url) = (world.http.clone(), format!("{}/api/sessions/a/tools/timer", world.url));
            let (body, key) = (body.clone(), key.clone());
            tokio::spawn(async move { send(&http, Method::POST, &url, Some(&body), Some(&key)).await })
        };
        let (one, two) = (send(&first), send(&second));
        let (one, two) = (within("one", one).await.unwrap(), within("two", two).await.unwrap());
        assert_eq!((one.status, two.status), (200, 200), "{one:?} {two:?}");
        assert_eq!(id(&one.body), id(&two.body));
    }
    assert_eq!(first.timers().await.len(), 10);
}

#[tokio::test]
async fn followers_here_hear_of_what_happens_there_in_order() {
    let (first, second) = two().await;
    let mut events = first.server().engine.events();
    let mut made = Vec::new();
    for number in 0..30 {
        let world = if number % 2 == 0 { &second } else { &first };
        made.push(id(&world.done("a", "timer", json!({"total_duration": 60, "mission": "x"})).await));
    }
    let (mut heard, mut last) = (Vec::new(), 0);
    within("all of it", async {
        while heard.len() < made.len() {
            // Commits from before the nodes knew of each other may be told as missed.
            let Event::Recorded(recorded) = events.recv().await.unwrap() else { continue };
            assert!(recorded.seq > last, "out of order");
            last = recorded.seq;
            if recorded.entry.event == "timer.created" {
                heard.push(recorded.entry.subject.to_string());
            }
        }
    })
    .await;
    assert_eq!(heard, made);
}

#[tokio::test]
async fn a_session_held_here_is_known_there() {
    let (first, second) = two().await;
    let session = SessionId::new("会话🙂");
    let store = second.server().engine.store().clone();
    let until = async |held: bool| {
        within("the other node knows", async {
            while store.is_held_elsewhere(&session).await.unwrap() != held {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        })
        .await;
    };
    let hold = || first.server().engine.presence().hold(&session, Hold::Client { wakes: false, name: None });
    let (one, two) = (hold(), hold());
    until(true).await;
    drop(one);
    let follower = first.server().engine.presence().hold(&session, Hold::Follower);
    until(true).await;
    drop(two);
    until(false).await;
    drop(follower);
    let store = first.server().engine.store();
    assert!(!store.is_held_elsewhere(&session).await.unwrap(), "nobody is elsewhere");
}

#[tokio::test]
async fn many_nodes_may_start_at_once_on_an_empty_database() {
    let first = World::start().await;
    let url = scratch_postgres::Cluster::shared().database();
    let starts = (0..6).map(|_| {
        let (url, clock) = (url.clone(), first.clock.clone());
        tokio::spawn(async move {
            let data = tempfile::tempdir().unwrap();
            let config = reveille::config::Config {
                listen: "127.0.0.1:0".parse().unwrap(),
                data_dir: data.path().to_owned(),
                database_url: Some(url),
                ..Default::default()
            };
            let server = reveille::run::Server::start(&config, std::sync::Arc::new(clock)).await.unwrap();
            let id = server.engine.store().server_id().to_owned();
            server.stop().await;
            id
        })
    });
    let mut ids = Vec::new();
    for start in starts.collect::<Vec<_>>() {
        ids.push(within("a node starts", start).await.unwrap());
    }
    assert!(ids.iter().all(|id| *id == ids[0]), "one server, {ids:?}");
}
