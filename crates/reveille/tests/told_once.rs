//! The end of a timer is told once: to the call that stands by, if its reply was really written, and else through the
//! inbox. What is between "it has ended" and "the reply was written" is looked at moment by moment.

#![allow(clippy::unwrap_used)]

mod support;

use reveille_core::Millis;
use serde_json::{Value, json};
use std::time::Duration;
use support::{site::Site, *};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpSocket,
};

fn waiting(total: u64, timeout: u64) -> Value {
    json!({"total_duration": total, "timeout_duration": timeout, "reason": "r"})
}

async fn only_timer(world: &World) -> String {
    id(&world.timers().await[0])
}

#[tokio::test]
async fn a_call_that_stands_by_to_the_end_is_told_and_nobody_else() {
    let world = World::start().await;
    for arguments in [waiting(300, 300), waiting(300, 5000), json!({"total_duration": "5m", "reason": "r"})] {
        let call = world.standing("agent", arguments).await;
        let timer = only_timer(&world).await;
        world.advance(300);
        let answer = result(call).await;
        has(
            &answer,
            json!({
                "timer_id": timer, "outcome": "completed", "timeout": false, "status": "completed",
                "elapsed_time": 300, "remaining_time": 0, "messages": [], "ends_at": world.now(),
            }),
        );
        let message = timer.replace("timer_", "msg_");
        let delivered = world.until_event(&message, "message.delivered").await;
        has(&delivered["data"], json!({"channel": "standby", "text": finished(&timer, "Reason", "r", 300)}));
        assert!(world.inbox("agent").await.is_empty());
        assert_eq!(world.done("agent", "read_timer", json!({})).await["messages"], json!([]));
    }
    has(&world.get("/api/stats").await["messages"], json!({"created": 3, "delivered": 3, "pending": 0}));
}

/// The end was already meant for the call when its client left: in each moment between the two.
#[tokio::test]
async fn a_reply_that_was_never_written_leaves_the_message() {
    for moment in ["committed", "released"] {
        let site = Site::start().await;
        let mut feed = site.engine.store().feed();
        let mut lease = Value::Null;
        if moment == "released" {
            // There is more to take along, as far as is known, which has to be written before the call can answer.
            site.tool("timer", json!({"total_duration": 1, "mission": "earlier"})).await;
            site.clock.advance(Millis::from_secs(1));
            while within("the mission", feed.recv()).await.unwrap().commits()[0].batch.messages.is_empty() {}
            lease =
                site.post("/api/sessions/agent/inbox/lease", json!({"duration": "10m"})).await.body["lease"].clone();
        }
        let call = site.standing(waiting(300, 300)).await;
        let timer = id(&site.get("/api/timers").await["timers"][0]);
        let mut standing = site.engine.standing_by();
        let mut feed = site.engine.store().feed();
        match moment {
            "committed" => site.flow(false), // the call has not yet heard of it
            _ => site.allow(1),              // the call has heard of it and cannot yet answer
        }
        site.clock.advance(Millis::from_secs(300));
        let fired = within("the firing", feed.recv()).await.unwrap();
        assert!(fired.commits()[0].batch.messages[0].message().lease.is_some(), "meant for the call");
        if moment == "released" {
            site.used_up().await;
            let stands = *standing.borrow();
            assert_eq!(stands, 1, "it has not answered");
        }
        call.abort();
        within("the call is gone", standing.wait_for(|count| *count == 0)).await.unwrap();
        site.flow(true);
        site.allow(usize::MAX);
        if !lease.is_null() {
            site.post("/api/sessions/agent/inbox/release", json!({"lease": lease})).await;
        }
        within("the message is free", async {
            let free = |messages: &[Value]| messages.iter().all(|message| message.get("leased_until").is_none());
            while !free(&list(&site.get("/api/sessions/agent/inbox").await["messages"])) {
                feed.recv().await.unwrap();
            }
        })
        .await;
        let told = site.tool("read_timer", json!({"timer_id": timer})).await.body;
        let last = list(&told["messages"]).pop().unwrap();
        assert_eq!(last["text"], finished(&timer, "Reason", "r", 300), "{moment}");
    }
}

/// Bytes that nobody has room for were not written, however ready the answer was.
#[tokio::test]
async fn a_reply_that_the_client_never_takes_is_not_delivered() {
    let world = World::with(|config| config.limits.text_chars = 60_000).await;
    let long = "😴".repeat(60_000);
    for _ in 0..20 {
        world.done("agent", "timer", json!({"total_duration": 1000, "mission": long})).await;
    }
    let timer = id(&world.done("agent", "timer", json!({"total_duration": 10, "mission": "m"})).await);
    world.advance(10);
    world.until_message("agent", &timer).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(world.server().address).await.unwrap();
    let mut feed = world.server().engine.store().feed();
    let head = "POST /api/sessions/agent/tools/read_timer HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    // The message is on its way; megabytes before the end of the answer the client leaves.
    let leased = within("the message is leased", feed.recv()).await.unwrap();
    assert_eq!(leased.commits()[0].batch.messages.len(), 1);
    let mut reply = [0; 1000];
    within("the answer begins", stream.read_exact(&mut reply)).await.unwrap();
    assert!(reply.starts_with(b"HTTP/1.1 200"));
    drop(stream);
    let delivered = world
        .until("the message is settled", || async {
            let delivered = !world.history_of(&timer.replace("timer_", "msg_")).await.is_empty();
            let free = world.inbox("agent").await.iter().any(|message| message.get("leased_until").is_none());
            (delivered || free).then_some(delivered)
        })
        .await;
    assert!(!delivered, "the client cannot have read it");
}

/// Leaving and completing race each other; whoever wins, the end is told and is not told twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_race_between_leaving_and_completing_loses_and_doubles_nothing() {
    let world = World::start().await;
    for round in 0..40u32 {
        let stream = world.standing_raw("agent", &waiting(10, 10)).await;
        let timer = only_timer(&world).await;
        world.advance(10);
        for _ in 0..round * 3 {
            tokio::task::yield_now().await;
        }
        // With something unread a close is a reset, without it is the end of the stream: both happen in life.
        let mut reply = vec![0; 4096];
        let read = stream.try_read(&mut reply).unwrap_or(0);
        drop(stream);
        let message = timer.replace("timer_", "msg_");
        let told = world
            .until("the end is settled", || async {
                let delivered = world.history_of(&message).await;
                let waiting = world.inbox("agent").await;
                let free = waiting.iter().any(|m| m["timer_id"] == timer && m.get("leased_until").is_none());
                (free || !delivered.is_empty()).then_some(!free)
            })
            .await;
        assert!(told || read == 0, "round {round}: the reply was received, and the message is still offered");
        let riding = world.done("agent", "read_timer", json!({"timer_id": timer})).await;
        assert_eq!(riding["messages"].as_array().unwrap().len(), usize::from(!told), "round {round}: {riding}");
        world.until_event(&message, "message.delivered").await;
        assert_eq!(world.history_of(&message).await.len(), 1);
    }
}

/// The machine was asleep: the call's own time and the timer's are over in the same moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_leap_over_both_durations_tells_the_end_once() {
    let world = World::start().await;
    for round in 0..60u32 {
        let call = world.standing("agent", waiting(300, 60)).await;
        let timer = only_timer(&world).await;
        world.advance(3600);
        let answer = result(call).await;
        let message = timer.replace("timer_", "msg_");
        let by_call = answer["outcome"] == "completed";
        let riding = list(&answer["messages"]).len();
        let channel = world
            .until("the end is settled", || async {
                let delivered = world.history_of(&message).await;
                let free = world.inbox("agent").await.iter().any(|m| m.get("leased_until").is_none());
                match delivered.first() {
                    Some(entry) => Some(text(&entry["data"]["channel"])),
                    None => free.then(|| "inbox".to_owned()),
                }
            })
            .await;
        let told = usize::from(by_call && channel == "standby") + riding + usize::from(channel == "inbox");
        assert_eq!(told, 1, "round {round}: settled as '{channel}', answered {answer}");
        assert!(!(by_call && channel == "inbox"), "round {round}: told by the call, and offered again: {answer}");
        let later = world.done("agent", "read_timer", json!({"timer_id": timer})).await;
        assert_eq!(list(&later["messages"]).len(), usize::from(channel == "inbox"));
        world.until_event(&message, "message.delivered").await;
    }
}

/// The same while whoever tells waiting calls of commits is behind with its work.
#[tokio::test]
async fn a_leap_over_both_durations_tells_the_end_once_on_a_busy_machine() {
    let site = Site::start().await;
    let call = site.standing(waiting(300, 60)).await;
    site.flow(false);
    site.clock.advance(Millis::from_secs(3600));
    let mut standing = site.engine.standing_by();
    // Either it answers without having heard of the firing, or it waits until it has, which only time can tell.
    let _ = tokio::time::timeout(Duration::from_millis(300), standing.wait_for(|count| *count == 0)).await;
    site.flow(true);
    let answer = result(call).await;
    has(&answer, json!({"outcome": "completed", "timeout": false, "status": "completed", "messages": []}));
    let told = within("the end is settled", async {
        loop {
            let inbox = list(&site.get("/api/sessions/agent/inbox").await["messages"]);
            if inbox.is_empty() {
                return true;
            }
            if inbox.iter().any(|message| message.get("leased_until").is_none()) {
                return false;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(told, "the call has told the end, and the message is offered again");
}
