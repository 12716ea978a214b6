//! Connections to upstreams come to an end, or have no room for another call: no call is lost by that.

mod support;

use async_trait::async_trait;
use bytes::Bytes;
use h2::{Reason, server};
use http::{Response, Uri};
use reveille_gateway::{Answer, Dial, Link, Protocol};
use serde_json::{Value, json};
use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use support::{Pipe, World, next, request, text};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    time::{Instant, timeout},
};
use tower::BoxError;

/// What an HTTP/2 peer does with its first call; all others are answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    Answered,
    /// Reset, with these words.
    Reset(Reason),
    /// The peer lets go of the connection instead.
    GoAway,
}

/// A peer that speaks HTTP/2 and takes 100 calls at once. It says one word and, if the call's content is `wait`, no more; if it
/// is `flood`, all the words that it may.
#[derive(Clone)]
struct Peer {
    first: First,
    connections: Arc<AtomicUsize>,
    calls: Arc<AtomicUsize>,
}

const CONCURRENT: u32 = 100;
const WORD: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word\"},\"finish_reason\":null}]}\n\n";
const END: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

impl Peer {
    fn new(first: First) -> Self {
        Self { first, connections: Arc::default(), calls: Arc::default() }
    }

    async fn serve(self, mut io: DuplexStream) {
        if self.first == First::GoAway && self.connections.load(Ordering::SeqCst) == 1 {
            return go_away(&mut io).await;
        }
        let mut builder = server::Builder::new();
        let mut connection = builder.max_concurrent_streams(CONCURRENT).handshake(io).await.expect("a handshake");
        while let Some(Ok((request, respond))) = connection.accept().await {
            let call = self.calls.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(self.clone().answer(call, request.into_body(), respond));
        }
    }

    async fn answer(self, call: usize, mut body: h2::RecvStream, mut respond: server::SendResponse<Bytes>) {
        if let (0, First::Reset(reason)) = (call, self.first) {
            return respond.send_reset(reason);
        }
        let mut read = Vec::new();
        while let Some(Ok(data)) = body.data().await {
            read.extend_from_slice(&data);
        }
        let asked: Value = serde_json::from_slice(&read).expect("JSON");
        let head = Response::builder().header("content-type", "text/event-stream").body(()).expect("valid");
        let mut answer = respond.send_response(head, false).expect("sent");
        let _ = answer.send_data(WORD.into(), false);
        match asked["messages"][0]["content"].as_str() {
            Some("wait") => drop(poll_fn(|cx| answer.poll_reset(cx)).await),
            Some("flood") => loop {
                answer.reserve_capacity(16 * 1024);
                let Some(Ok(room)) = poll_fn(|cx| answer.poll_capacity(cx)).await else { return };
                let _ = answer.send_data(": flood\n\n".repeat(room.div_ceil(9))[..room].to_owned().into(), false);
            },
            _ => drop(answer.send_data(END.into(), true)),
        }
    }
}

#[async_trait]
impl Dial for Peer {
    async fn dial(&self, _: Uri) -> Result<Box<dyn Link>, BoxError> {
        self.connections.fetch_add(1, Ordering::SeqCst);
        let (ours, theirs) = Pipe::http2();
        tokio::spawn(self.clone().serve(theirs));
        Ok(Box::new(ours))
    }
}

/// Greets, waits for a call, and says that it took none.
async fn go_away(io: &mut DuplexStream) {
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const GO_AWAY: [u8; 17] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    const HEADERS: u8 = 1;
    let mut preface = [0; 24];
    io.read_exact(&mut preface).await.expect("a preface");
    io.write_all(&SETTINGS).await.expect("written");
    loop {
        let mut head = [0; 9];
        io.read_exact(&mut head).await.expect("a frame");
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        io.read_exact(&mut payload).await.expect("the rest of it");
        if head[3] == HEADERS {
            io.write_all(&GO_AWAY).await.expect("written");
            // Lets go once the other side has.
            while io.read(&mut payload).await.is_ok_and(|read| read > 0) {}
            return;
        }
    }
}

fn world(peer: &Peer) -> World {
    World::dialling_to("https://upstream", peer.clone())
}

async fn ask(world: &World, content: &str) -> Answer {
    let body = json!({"model": "scripted", "stream": true, "messages": [{"role": "user", "content": content}]});
    let asking = world.gateway.handle(support::post(Protocol::Chat.path(), body.to_string()));
    timeout(Duration::from_secs(5), asking).await.expect("its head is there in time")
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_what_a_connection_takes_get_another() {
    let peer = Peer::new(First::Answered);
    let world = world(&peer);
    let mut open = Vec::new();
    for _ in 0..250 {
        let mut answer = ask(&world, "wait").await;
        assert_eq!(answer.status(), 200);
        assert!(next(&mut answer).await.expect("a word").contains("word"));
        open.push(answer);
    }
    let connections = peer.connections.load(Ordering::SeqCst);
    assert!((3..=5).contains(&connections), "{connections}");
    // A call that is over leaves its room to the next.
    for _ in 0..250 {
        drop(open.remove(0));
        open.push(ask(&world, "wait").await);
    }
    assert_eq!(peer.connections.load(Ordering::SeqCst), connections);
}

#[tokio::test(start_paused = true)]
async fn clients_that_do_not_read_hold_up_nobody_else() {
    let peer = Peer::new(First::Answered);
    let world = world(&peer);
    let mut stuck = Vec::new();
    for _ in 0..40 {
        stuck.push(ask(&world, "flood").await);
        // Whatever may be sent is.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let body = timeout(Duration::from_secs(5), text(ask(&world, "hello").await)).await.expect("it is not held up");
    assert!(body.ends_with(END), "{body}");
    assert_eq!(peer.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_the_peer_did_not_take_is_made_again_at_once() {
    for first in [First::Reset(Reason::REFUSED_STREAM), First::GoAway] {
        let peer = Peer::new(first);
        let world = world(&peer);
        let began = Instant::now();
        assert!(text(ask(&world, "hello").await).await.ends_with(END));
        assert_eq!(world.reports.all()[0].attempts, 2);
        assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
    }
    // What the peer may have begun with is not made again.
    let world = world(&Peer::new(First::Reset(Reason::INTERNAL_ERROR)));
    assert_eq!(ask(&world, "hello").await.status(), 502);
    assert_eq!(world.reports.all()[0].attempts, 1);
}

/// Answers so many calls on each connection over HTTP/1.1, reads one more, and closes.
struct Closing(usize);

#[async_trait]
impl Dial for Closing {
    async fn dial(&self, _: Uri) -> Result<Box<dyn Link>, BoxError> {
        let (ours, mut theirs) = Pipe::open();
        let answers = self.0;
        tokio::spawn(async move {
            let mut request = [0; 8192];
            for _ in 0..answers {
                let _ = theirs.read(&mut request).await;
                let _ = theirs.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
            }
            let _ = theirs.read(&mut request).await;
        });
        Ok(Box::new(ours))
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_closed_as_it_is_used_again_costs_no_call() {
    let world = World::dialling(Closing(1));
    let began = Instant::now();
    for _ in 0..10 {
        assert_eq!(world.ask(request(Protocol::Chat, &json!({}), false)).await.0, 200);
    }
    assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
    assert_eq!(world.reports.all().iter().map(|report| report.attempts).sum::<u32>(), 19);
}

#[tokio::test(start_paused = true)]
async fn one_that_never_answers_is_not_asked_again() {
    let world = World::dialling(Closing(0));
    let (status, body) = world.ask(request(Protocol::Chat, &json!({}), false)).await;
    assert_eq!(status, 502);
    assert!(body.contains("`script` ended the connection before it answered: "), "{body}");
    assert!(body.contains("\"code\":\"upstream_unanswered\""), "{body}");
    assert_eq!(world.reports.all()[0].attempts, 1);
}
