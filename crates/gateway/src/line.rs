//! A connection that speaks HTTP/1 and has one call at a time. Whoever waits for the call's answer moves the connection on, so no
//! second task is woken for every piece of it, and dropping the call closes the connection.

use crate::dial::Link;
use bytes::Bytes;
use http::{Request, Response, Uri, header, uri::PathAndQuery};
use http_body_util::Full;
use hyper::{
    body::Incoming,
    client::conn::http1::{Builder, Connection, SendRequest},
};
use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::{Context, Waker},
};

/// The head of an answer; a longer one is an error. It is also what one read takes at most: a read begins with 8 KiB, of which
/// a slow stream touches a page, and grows with what comes.
pub(crate) const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Headers of an answer; one with more is an error.
const HEADERS_MAX: usize = 256;

/// Boxed: calls carry a line from place to place.
type Driven = Box<Connection<Box<dyn Link>, Full<Bytes>>>;

pub(crate) struct Line {
    sender: SendRequest<Full<Bytes>>,
    /// Gone once it has ended.
    connection: Option<Driven>,
    answered: bool,
}

impl Line {
    pub async fn open(link: Box<dyn Link>) -> hyper::Result<Self> {
        let mut builder = Builder::new();
        let opening = builder.max_buf_size(HEAD_BYTES_MAX).max_headers(HEADERS_MAX).handshake(link);
        let (sender, connection) = opening.await?;
        Ok(Self { sender, connection: Some(Box::new(connection)), answered: false })
    }

    /// An answer came by it before.
    pub fn has_answered(&self) -> bool {
        self.answered
    }

    /// The head of the answer; its body goes on only as this line is driven.
    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        let mut sending = pin!(self.sender.send_request(in_origin_form(request)));
        let connection = &mut self.connection;
        let response = poll_fn(|cx| {
            drive(connection, cx);
            sending.as_mut().poll(cx)
        });
        let response = response.await?;
        self.answered = true;
        Ok(response)
    }

    pub fn drive(&mut self, cx: &mut Context<'_>) {
        drive(&mut self.connection, cx);
    }

    /// Whether another call may be made: the last one is over, and the peer has not closed.
    pub fn is_free(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.connection.is_some() && self.sender.is_ready()
    }
}

fn drive(connection: &mut Option<Driven>, cx: &mut Context<'_>) {
    // However it ended: the call, if there is one, is told.
    if connection.as_mut().is_some_and(|connection| Pin::new(connection).poll(cx).is_ready()) {
        *connection = None;
    }
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
