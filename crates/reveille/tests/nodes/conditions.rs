//! Conditions with two nodes: each is looked at by one of them, by the other when that is gone, and files only where they
//! were asked about.

use crate::support::*;
use axum::{Router, http::StatusCode, routing::any};
use serde_json::json;
use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::net::TcpListener;

fn looks(world: &World) -> u64 {
    *world.server().engine.board().looks().borrow()
}

/// Both together have made so many.
async fn looked(worlds: [&World; 2], wanted: u64) {
    let mut of = worlds.map(|world| world.server().engine.board().looks());
    within("looks at conditions", async {
        while worlds.iter().map(|world| looks(world)).sum::<u64>() < wanted {
            let [first, second] = &mut of;
            tokio::select! {
                _ = first.changed() => {}
                _ = second.changed() => {}
            }
        }
    })
    .await;
}

#[tokio::test]
async fn one_node_looks_and_the_other_takes_over() {
    let ready = Arc::new(AtomicBool::new(false));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let answer = ready.clone();
    let page = any(move || async move {
        if answer.load(Ordering::SeqCst) { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
    });
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback_service(page)).await });

    let mut first = World::start().await;
    let mut second = first.beside().await;
    let asked = json!({"total_duration": "1h", "mission": "部署", "until": {"http": url}});
    let timer = id(&first.done("s", "timer", asked).await);
    for made in 1..=5 {
        looked([&first, &second], made).await;
        first.advance(3);
    }
    looked([&first, &second], 6).await;
    let by = [looks(&first), looks(&second)];
    assert!(by.contains(&0), "both looked: {by:?}");

    // The one that looks is gone; the other goes on as soon as it knows.
    let (gone, left) = if by[1] == 0 { (&mut first, &second) } else { (&mut second, &first) };
    gone.down().await;
    ready.store(true, Ordering::SeqCst);
    let message = within("the other node looks", async {
        loop {
            left.advance(3);
            let inbox = left.inbox("s").await;
            if let Some(message) = inbox.into_iter().find(|message| message["timer_id"] == timer.as_str()) {
                return message;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    assert!(text(&message["text"]).contains("answered 200"), "{message}");
}

#[tokio::test]
async fn a_file_is_looked_at_where_it_was_asked_about() {
    let first = World::start().await;
    let second = first.beside().await;
    let dir = tempfile::tempdir().unwrap();
    let mut timers = Vec::new();
    for number in 0..6 {
        let until = json!({"file": dir.path().join(number.to_string()).to_str().unwrap()});
        let asked = json!({"total_duration": "1h", "mission": "x", "until": until});
        timers.push(id(&second.done("s", "timer", asked).await));
    }
    looked([&first, &second], 6).await;
    assert_eq!(looks(&first), 0, "these files may be others there");
    for number in 0..6 {
        fs::write(dir.path().join(number.to_string()), "").unwrap();
    }
    second.advance(1);
    for timer in &timers {
        first.until_message("s", timer).await;
    }
    assert_eq!(looks(&first), 0);
}
