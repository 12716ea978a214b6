//! A connection that speaks HTTP/1 and has one call at a time. Whoever waits for the call's answer moves the connection on, so no
//! second task is woken for every piece of it, and dropping the call closes the connection.
//!
//! hyper writes the request and reads the head. The body of a stream is read without it, so that an open stream costs little.

use crate::{
    chunked::Chunked,
    dial::Link,
    gate::{Gate, Latch},
};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Uri, Version, header, response, uri::PathAndQuery};
use http_body_util::Full;
use hyper::{
    body::Incoming,
    client::conn::http1::{Builder, Connection, SendRequest},
    rt::{Read, ReadBuf},
};
use std::{
    future::poll_fn,
    mem::MaybeUninit,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
};

/// The head of an answer; a longer one is an error. It is also what one read of a body takes at most: a read begins with 8 KiB
/// and grows with what comes.
pub(crate) const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Headers of an answer; one with more is an error.
const HEADERS_MAX: usize = 256;

/// Boxed: calls carry a line from place to place.
type Driven = Box<Connection<Gate, Full<Bytes>>>;

pub(crate) struct Line {
    state: State,
    answered: bool,
}

enum State {
    /// Nobody speaks by it yet, or its last answer was read without hyper.
    Bare(Box<dyn Link>),
    Spoken(Spoken),
}

/// hyper's part of a line.
struct Spoken {
    sender: SendRequest<Full<Bytes>>,
    /// Gone once it has ended.
    connection: Option<Driven>,
    latch: Arc<Latch>,
}

/// Where the body of an answer comes from.
pub(crate) enum Source {
    /// From hyper, as the line is driven.
    Driven(Incoming, Line),
    /// From the connection itself. Whether that can be used again.
    Bare(Chunked, bool),
}

impl Line {
    pub fn new(link: Box<dyn Link>) -> Self {
        Self { state: State::Bare(link), answered: false }
    }

    /// One by which an answer came already.
    pub fn again(link: Box<dyn Link>) -> Self {
        Self { state: State::Bare(link), answered: true }
    }

    /// An answer came by it before.
    pub fn has_answered(&self) -> bool {
        self.answered
    }

    /// The head of the answer, and where the rest is to be had.
    pub async fn send(self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Source>> {
        let mut spoken = match self.state {
            State::Spoken(spoken) => spoken,
            State::Bare(link) => Spoken::open(link).await?,
        };
        let may_stream = *request.method() == Method::POST;
        let (head, body) = spoken.send(request).await?.into_parts();
        let bare = may_stream && spoken.latch.has_written() && is_stream(&head);
        let source = match spoken.connection.take_if(|_| bare) {
            Some(connection) => {
                let parts = connection.into_parts();
                debug_assert!(parts.read_buf.is_empty(), "the gate is shut behind the head");
                let (link, ahead) = parts.io.into_parts();
                Source::Bare(Chunked::new(link, ahead), stays_open(&head))
            }
            None => {
                spoken.latch.open();
                Source::Driven(body, Self { state: State::Spoken(spoken), answered: true })
            }
        };
        Ok(Response::from_parts(head, source))
    }

    pub fn drive(&mut self, cx: &mut Context<'_>) {
        if let State::Spoken(spoken) = &mut self.state {
            spoken.drive(cx);
        }
    }

    /// Whether another call may be made: the last one is over, and the peer has not closed.
    pub fn is_free(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        match &mut self.state {
            State::Spoken(spoken) => {
                spoken.drive(&mut cx);
                spoken.connection.is_some() && spoken.sender.is_ready()
            }
            // Nothing is to come, neither words nor the end.
            State::Bare(link) => {
                let mut room = [MaybeUninit::uninit()];
                Pin::new(link).poll_read(&mut cx, ReadBuf::uninit(&mut room).unfilled()).is_pending()
            }
        }
    }
}

impl Spoken {
    async fn open(link: Box<dyn Link>) -> hyper::Result<Self> {
        let (gate, latch) = Gate::new(link);
        let mut builder = Builder::new();
        let opening = builder.max_buf_size(HEAD_BYTES_MAX).max_headers(HEADERS_MAX).handshake(gate);
        let (sender, connection) = opening.await?;
        Ok(Self { sender, connection: Some(Box::new(connection)), latch })
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        self.latch.head();
        let Self { sender, connection, latch } = self;
        let mut sending = pin!(sender.send_request(in_origin_form(request)));
        let response = poll_fn(|cx| {
            loop {
                drive(connection, cx);
                match sending.as_mut().poll(cx) {
                    // That was no answer: a head of the kind that another follows.
                    Poll::Pending if latch.is_shut() => latch.head(),
                    sent => return sent,
                }
            }
        });
        response.await
    }

    fn drive(&mut self, cx: &mut Context<'_>) {
        drive(&mut self.connection, cx);
    }
}

fn drive(connection: &mut Option<Driven>, cx: &mut Context<'_>) {
    // However it ended: the call, if there is one, is told.
    if connection.as_mut().is_some_and(|connection| Pin::new(connection).poll(cx).is_ready()) {
        *connection = None;
    }
}

/// The answer to a POST comes in chunks, and may take hours.
fn is_stream(head: &response::Parts) -> bool {
    let is = |name, value: &str| {
        let mut found = head.headers.get_all(name).iter();
        found.next().is_some_and(|found| found.as_bytes().eq_ignore_ascii_case(value.as_bytes()))
            && found.next().is_none()
    };
    let kind = head.headers.get(header::CONTENT_TYPE);
    let events = kind.is_some_and(|kind| {
        const EVENTS: &[u8] = b"text/event-stream";
        kind.as_bytes().get(..EVENTS.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(EVENTS))
    });
    head.status == StatusCode::OK
        && head.version == Version::HTTP_11
        && events
        && is(header::TRANSFER_ENCODING, "chunked")
}

/// The peer does not say that it closes.
fn stays_open(head: &response::Parts) -> bool {
    let closes = |value: &str| value.split(',').any(|token| token.trim().eq_ignore_ascii_case("close"));
    !head.headers.get_all(header::CONNECTION).iter().any(|value| value.to_str().map_or(true, closes))
}

/// A path and a `Host`, as servers expect it.
fn in_origin_form(mut request: Request<Full<Bytes>>) -> Request<Full<Bytes>> {
    let host = request.uri().authority().and_then(|authority| authority.as_str().parse().ok());
    if let Some(host) = host {
        request.headers_mut().insert(header::HOST, host);
    }
    let path = request.uri().path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
    *request.uri_mut() = Uri::from(path);
    request
}
