//! Request bodies of all calls together stay within their budget: further ones wait, then come back later.

mod support;

use bytes::Bytes;
use futures_util::{future::join_all, stream};
use http::{Method, Request};
use http_body::Frame;
use http_body_util::StreamBody;
use reveille_gateway::{Answer, Protocol};
use serde_json::{Value, json};
use std::{convert::Infallible, time::Duration};
use support::{World, post, request, text};
use tokio::time::{Instant, sleep};

const KIB: usize = 1024;

fn world() -> World {
    World::with(|settings| {
        settings.body_bytes_max = 100 * KIB;
        settings.bodies_bytes_max = 200 * KIB;
    })
}

/// A call of 80 KiB whose answer comes after these milliseconds.
fn call(protocol: Protocol, wait_ms: u64) -> Request<http_body_util::Full<Bytes>> {
    let script = json!({"head_after": wait_ms, "steps": [{"text": "done"}]});
    let mut call = request(protocol, &script, true);
    let mut body: Value = serde_json::from_slice(&bytes(&mut call)).expect("JSON");
    body["padding"] = "x".repeat(80 * KIB).into();
    post(protocol.path(), body.to_string())
}

fn bytes(call: &mut Request<http_body_util::Full<Bytes>>) -> Bytes {
    use futures_util::FutureExt;
    use http_body_util::BodyExt;
    call.body_mut().collect().now_or_never().expect("there").expect("never fails").to_bytes()
}

async fn refused(answer: Answer, protocol: Protocol) {
    assert_eq!(answer.status(), 503);
    assert_eq!(answer.headers()["retry-after"], "2");
    let error: Value = serde_json::from_str(&text(answer).await).expect("JSON");
    assert!(error["error"]["message"].as_str().expect("a message").contains("try again in 2 s"), "{error}");
    if protocol == Protocol::Messages {
        assert_eq!(error["error"]["type"], "overloaded_error");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_waits_for_room_and_gets_it_in_time() {
    let world = world();
    let began = Instant::now();
    // Two fit; their heads come after 2 s, and with them their bodies go.
    let three = join_all((0..3).map(|_| world.gateway.handle(call(Protocol::Chat, 2000)))).await;
    assert!(three.iter().all(|answer| answer.status() == 200));
    assert!(began.elapsed() >= Duration::from_secs(4), "the third had to wait: {:?}", began.elapsed());
    for answer in three {
        assert!(text(answer).await.contains("done"));
    }
}

#[tokio::test(start_paused = true)]
async fn beyond_its_patience_the_client_is_told_when_to_come_back() {
    for protocol in Protocol::ALL {
        let world = world();
        let (one, two) = (world.gateway.handle(call(protocol, 60_000)), world.gateway.handle(call(protocol, 60_000)));
        let late = async {
            sleep(Duration::from_millis(10)).await;
            let began = Instant::now();
            refused(world.gateway.handle(call(protocol, 0)).await, protocol).await;
            assert_eq!(began.elapsed().as_secs(), 5);
            // Small ones find room beside the large.
            assert_eq!(world.gateway.handle(request(protocol, &json!({}), true)).await.status(), 200);
        };
        let (one, two, ()) = tokio::join!(one, two, late);
        assert_eq!((one.status().as_u16(), two.status().as_u16()), (200, 200));
        assert_eq!(world.reports.outcomes().iter().filter(|outcome| **outcome == "busy").count(), 1);
        // All is given back.
        let two = join_all((0..2).map(|_| world.gateway.handle(call(protocol, 0)))).await;
        assert!(two.iter().all(|answer| answer.status() == 200));
    }
}

#[tokio::test(start_paused = true)]
async fn clients_that_leave_and_calls_that_fail_give_their_room_back() {
    let world = world();
    for round in 0..20 {
        let leaves = world.gateway.handle(call(Protocol::Chat, 60_000));
        assert!(tokio::time::timeout(Duration::from_secs(1), leaves).await.is_err(), "{round}");
        let broken = post("/v1/messages", format!("{{\"model\":{}", "x".repeat(90 * KIB)));
        assert_eq!(world.gateway.handle(broken).await.status(), 400);
    }
    let began = Instant::now();
    assert_eq!(world.gateway.handle(call(Protocol::Chat, 0)).await.status(), 200);
    assert!(began.elapsed() < Duration::from_secs(1));
}

/// A head may promise anything; only what came counts.
#[tokio::test(start_paused = true)]
async fn promises_take_no_room() {
    let world = world();
    let promised = |sent: usize| {
        let first = stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b' '; sent])))]);
        let body = StreamBody::new(futures_util::StreamExt::chain(first, stream::pending()));
        let request = Request::builder().method(Method::POST).uri("/v1/chat/completions");
        request.header("content-length", (100 * KIB).to_string()).body(body).expect("valid")
    };
    let slow = join_all((0..50).map(|_| world.gateway.handle(promised(100))));
    let other = async {
        sleep(Duration::from_millis(10)).await;
        world.gateway.handle(call(Protocol::Chat, 0)).await
    };
    let (slow, other) = tokio::join!(slow, other);
    assert_eq!(other.status(), 200);
    assert!(slow.iter().all(|answer| answer.status() == 408));
}

/// A hundred bodies in many pieces: none is stuck for ever, and most get through in turn.
#[tokio::test(start_paused = true)]
async fn bodies_in_pieces_cannot_lock_each_other_out() {
    let world = world();
    let pieces = || {
        let piece = || Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b' '; 9 * KIB])));
        let last = Ok(Frame::data(Bytes::from_static(br#"{"model":"scripted","messages":[]}"#)));
        let body = StreamBody::new(stream::iter((0..10).map(move |_| piece()).chain([last])));
        Request::builder().method(Method::POST).uri("/v1/chat/completions").body(body).expect("valid")
    };
    let answers = join_all((0..100).map(|_| world.gateway.handle(pieces()))).await;
    let served = answers.iter().filter(|answer| answer.status() == 200).count();
    let busy = answers.iter().filter(|answer| answer.status() == 503).count();
    assert!(served > 0 && served + busy == 100, "{served} served, {busy} told to come back");
}
