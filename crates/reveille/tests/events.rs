//! Following changes by server-sent events: everything, in order, once, also across restarts and for slow readers.

#![allow(clippy::unwrap_used)]

mod support;

use futures_util::{Stream, StreamExt, future::join_all};
use serde_json::{Value, json};
use std::pin::Pin;
use support::*;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpSocket,
};

/// A client such as a browser's `EventSource`.
struct Follower {
    chunks: Pin<Box<dyn Stream<Item = reqwest::Result<bytes::Bytes>>>>,
    text: String,
}

#[derive(Debug, PartialEq)]
struct Event {
    id: i64,
    name: String,
    data: Value,
}

impl Follower {
    async fn new(world: &World, query: &str, last: Option<&str>) -> Self {
        let mut request = world.http.get(format!("{}/api/events{query}", world.url));
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last);
        }
        let response = within("the stream begins", request.send()).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { chunks: Box::pin(response.bytes_stream()), text: String::new() }
    }

    /// The next event; `None` when the server has ended the stream.
    async fn next(&mut self) -> Option<Event> {
        within("an event", async {
            loop {
                if let Some((block, rest)) = self.text.split_once("\n\n") {
                    let event = parse(block);
                    self.text = rest.to_owned();
                    if event.is_some() {
                        return event;
                    }
                    continue;
                }
                let chunk = self.chunks.next().await?.ok()?;
                self.text.push_str(std::str::from_utf8(&chunk).unwrap());
            }
        })
        .await
    }

    async fn take(&mut self, count: usize) -> Vec<Event> {
        let mut events = Vec::new();
        for _ in 0..count {
            events.push(self.next().await.expect("the stream goes on"));
        }
        events
    }
}

fn parse(block: &str) -> Option<Event> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let data = serde_json::from_str(field("data:")?).unwrap();
    Some(Event { id: field("id:")?.parse().unwrap(), name: field("event:")?.to_owned(), data })
}

/// The events are exactly these entries of the history.
#[track_caller]
fn same(events: &[Event], entries: &[Value]) {
    assert_eq!(events.len(), entries.len());
    for (event, entry) in events.iter().zip(entries) {
        assert_eq!(&event.data, entry);
        assert_eq!((json!(event.id), json!(event.name)), (entry["seq"].clone(), entry["event"].clone()));
    }
}

async fn mission(world: &World, session: &str, seconds: u64) -> String {
    id(&world.done(session, "timer", json!({"total_duration": seconds, "mission": "m"})).await)
}

#[tokio::test]
async fn changes_are_told_as_they_happen() {
    let world = World::start().await;
    mission(&world, "before", 100).await;
    let mut live = Follower::new(&world, "", None).await;
    let timer = mission(&world, "agent", 10).await;
    let events = live.take(2).await;
    assert_eq!((events[0].name.as_str(), events[1].name.as_str()), ("session.opened", "timer.created"));
    has(
        &events[1].data,
        json!({
            "session": "agent", "kind": "timer", "id": timer, "event": "timer.created", "at": START,
            "data": {"mission": "m", "total_duration": 10},
        }),
    );
    world.advance(10);
    let completed = live.next().await.unwrap();
    has(&completed.data, json!({"id": timer, "event": "timer.completed", "at": START + 10_000}));
    let message = &completed.data["data"]["message"];
    assert_eq!(message["text"], finished(&timer, "Mission", "m", 10));
    world.done("agent", "read_timer", json!({})).await;
    let delivered = live.next().await.unwrap();
    has(&delivered.data, json!({"id": message["id"], "event": "message.delivered", "kind": "message"}));
}

#[tokio::test]
async fn a_follower_that_comes_back_misses_nothing_and_sees_nothing_twice() {
    let mut world = World::start().await;
    let mut seen = Vec::new();
    let mut first = Follower::new(&world, "?after=0", None).await;
    for seconds in [10, 20, 30] {
        mission(&world, "agent", seconds).await;
    }
    seen.extend(first.take(2).await);
    drop(first);
    mission(&world, "agent", 40).await;
    world.advance(10);
    world.until("it has fired", || async { (world.inbox("agent").await.len() == 1).then_some(()) }).await;

    // The server restarts; what it does at its start is history too.
    let mut second = Follower::new(&world, "", Some(&seen[1].id.to_string())).await;
    seen.extend(second.take(1).await);
    world.down().await;
    while let Some(event) = second.next().await {
        seen.push(event); // sent before the stream ended
    }
    world.advance(10);
    world.up().await;
    let last = seen.last().unwrap().id.to_string();
    let mut third = Follower::new(&world, "?after=0", Some(&last)).await;
    mission(&world, "other", 50).await; // in a session of its own, where no message rides along
    world.advance(100);
    for (session, count) in [("agent", 4), ("other", 1)] {
        world.until("all have fired", || async { (world.inbox(session).await.len() == count).then_some(()) }).await;
    }
    let history = world.history().await;
    seen.extend(third.take(history.len() - seen.len()).await);
    same(&seen, &history);
    // And then it goes on live.
    mission(&world, "third", 60).await;
    assert_eq!(third.next().await.unwrap().id, history.last().unwrap()["seq"].as_i64().unwrap() + 1);
}

#[tokio::test]
async fn one_session_can_be_followed_alone() {
    let world = World::start().await;
    let mut live = Follower::new(&world, "?session=b", None).await;
    for session in ["a", "b", "a", "b", "a"] {
        mission(&world, session, 10).await;
    }
    world.advance(10);
    for session in ["a", "b"] {
        let wanted = if session == "a" { 3 } else { 2 };
        world.until("fired", || async { (world.inbox(session).await.len() == wanted).then_some(()) }).await;
    }
    let of_b: Vec<Value> = world.history().await.into_iter().filter(|entry| entry["session"] == "b").collect();
    assert_eq!(of_b.len(), 5);
    same(&live.take(5).await, &of_b);
    let mut later = Follower::new(&world, "?session=b", Some("0")).await;
    same(&later.take(5).await, &of_b);
    let middle = of_b[2]["seq"].to_string();
    let mut middle = Follower::new(&world, &format!("?session=b&after={middle}"), None).await;
    same(&middle.take(2).await, &of_b[3..]);
}

#[tokio::test]
async fn an_id_that_is_none_is_as_if_there_were_none() {
    let world = World::start().await;
    mission(&world, "agent", 100).await;
    for nonsense in ["", "x", "1.5", "99999999999999999999999"] {
        let mut live = Follower::new(&world, "", Some(nonsense)).await;
        let timer = mission(&world, "agent", 100).await;
        assert_eq!(live.next().await.unwrap().data["id"], timer, "{nonsense:?}");
    }
}

/// A database that was begun anew has smaller numbers than the client remembers. It must hear of new changes anyway.
#[tokio::test]
async fn an_id_from_another_database_does_not_silence_the_stream() {
    let world = World::start().await;
    mission(&world, "agent", 100).await;
    let mut live = Follower::new(&world, "", Some("1000000")).await;
    let timer = mission(&world, "agent", 100).await;
    assert_eq!(live.next().await.unwrap().data["id"], timer);
}

#[tokio::test]
async fn stopping_the_server_ends_the_stream() {
    let mut world = World::start().await;
    let mut live = Follower::new(&world, "", None).await;
    mission(&world, "agent", 100).await;
    live.take(2).await;
    world.down().await;
    assert_eq!(live.next().await, None);
}

/// A reader that stands still while more happens than is kept for it in memory gets the rest from the history.
#[tokio::test]
async fn a_slow_follower_loses_nothing() {
    /// Enough to fill the connection, then more than is buffered for a follower.
    const LARGE: (usize, usize) = (1, 24);
    const SMALL: (usize, usize) = (6, 95);
    let world = World::with(|config| config.limits.text_chars = 60_000).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut slow = socket.connect(world.server().address).await.unwrap();
    slow.write_all(b"GET /api/events HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut line = vec![0; 1024];
    let read = slow.read(&mut line).await.unwrap();
    line.truncate(read);
    assert!(line.starts_with(b"HTTP/1.1 200") && line.ends_with(b"\n"));
    line.clear();

    for ((sessions, each), seconds, mission) in [(LARGE, 1e6, "😴".repeat(60_000)), (SMALL, 1e3, "m".into())] {
        let makes = (0..sessions).map(|session| {
            let (world, mission) = (&world, &mission);
            async move {
                for _ in 0..each {
                    let ask = json!({"total_duration": seconds, "mission": mission});
                    world.done(&format!("s{session}-{seconds}"), "timer", ask).await;
                }
            }
        });
        join_all(makes).await;
    }
    world.advance(1000);
    let wanted = LARGE.0 * (1 + LARGE.1) + SMALL.0 * (1 + 2 * SMALL.1);
    let ids = within("all events", async {
        let (mut chunk, mut ids) = (vec![0; 1 << 20], Vec::new());
        while ids.len() < wanted {
            let read = slow.read(&mut chunk).await.unwrap();
            assert!(read > 0, "the stream ended after {} events", ids.len());
            // Each event comes in an HTTP chunk of its own; the line with its number is found all the same.
            for part in chunk[..read].split_inclusive(|byte| *byte == b'\n') {
                line.extend_from_slice(part);
                if part.ends_with(b"\n") {
                    let number = line.strip_prefix(b"id: ").map(|number| String::from_utf8_lossy(number));
                    ids.extend(number.map(|number| number.trim().parse::<i64>().unwrap()));
                    line.clear();
                }
            }
        }
        ids
    })
    .await;
    assert_eq!(ids, (1..=wanted as i64).collect::<Vec<_>>());
}
