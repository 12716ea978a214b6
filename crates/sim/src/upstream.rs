//! A model provider behind an in-memory connection: it refuses, stalls, answers with an error, breaks off in mid-stream, or
//! answers, over any of the protocols; now and then it calls the `clock` tool. Real bytes of HTTP, no sockets.

use crate::{
    gate::Gate,
    random::{Drawn, Random},
    trace::{Event, Process},
    wire::{self, Said},
    world::World,
};
use async_trait::async_trait;
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::TokioIo,
};
use reveille::config::gateway::GatewayConfig;
use reveille_gateway::{Dial, Link, Protocol};
use serde_json::json;
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    time::sleep,
};
use tower::BoxError;

const PIPE_BYTES: usize = 64 * 1024;

/// The gateway's settings, with patience that fits a run.
pub fn config() -> GatewayConfig {
    let config = json!({
        "retries": 0, "max_hold": "12s", "max_hold_whole": "12s", "first_byte_timeout": "15s", "idle_timeout": "10s",
        "total_timeout": "25s",
        "upstream": [{"name": "sim", "base_url": "http://model.test", "protocols": ["chat", "responses", "messages"]}],
    });
    serde_json::from_value(config).expect("a valid form")
}

pub struct Upstreams {
    by: Process,
    gate: Gate,
    world: Arc<World>,
    random: Drawn,
}

impl Upstreams {
    pub fn new(world: &Arc<World>, by: Process, gate: Gate, random: Random) -> Self {
        Self { by, gate, world: world.clone(), random: Drawn::new(random) }
    }
}

#[async_trait]
impl Dial for Upstreams {
    async fn dial(&self, _: Uri) -> Result<Box<dyn Link>, BoxError> {
        self.gate.pass().await;
        let outside = self.world.weather.rates().outside;
        let (refused, own) = self.random.with(|random| (random.mille(outside / 4), random.fork(9)));
        if refused {
            return Err("connection refused".into());
        }
        let (near, far) = duplex(PIPE_BYTES);
        let call = Call { by: self.by, gate: self.gate.clone(), world: self.world.clone(), random: own, wire: far };
        tokio::spawn(async move {
            // A connection that breaks is all in a day's work.
            let _ = call.serve().await;
        });
        Ok(Box::new(Pipe(TokioIo::new(near))))
    }
}

/// One request.
struct Call {
    by: Process,
    gate: Gate,
    world: Arc<World>,
    random: Random,
    wire: DuplexStream,
}

impl Call {
    async fn serve(mut self) -> io::Result<()> {
        let (protocol, body) = self.request().await?;
        let number = self.world.number();
        let (told, stream) = (wire::has_result(protocol, &body), body.contains("\"stream\":true"));
        self.world.trace.note(Event::Prompted { by: self.by, request: number, body: body.into() });
        let outside = self.world.weather.rates().outside;
        sleep(Duration::from_millis(self.random.spread(4000))).await;
        self.gate.pass().await;
        let breaks = self.random.mille(outside);
        match self.random.below(4) {
            0 if breaks => return Ok(()),
            1 if breaks => {
                let error = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
                return self.wire.write_all(error.as_bytes()).await;
            }
            2 if breaks => {
                sleep(Duration::from_secs(60)).await;
                return Ok(());
            }
            _ => {}
        }
        let calls = !told && self.random.mille(150);
        let said = if calls { self.reminder() } else { Said::Words { id: self.world.number() } };
        match stream {
            true => self.stream(number, protocol, &said, breaks).await,
            false => self.whole(number, protocol, &said, breaks).await,
        }
    }

    async fn stream(mut self, number: u64, protocol: Protocol, said: &Said, breaks: bool) -> io::Result<()> {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\
                    connection: close\r\n\r\n";
        self.wire.write_all(head.as_bytes()).await?;
        sleep(Duration::from_millis(self.random.spread(1000))).await;
        self.gate.pass().await;
        // A head alone is no answer.
        if breaks && self.random.mille(300) {
            return Ok(());
        }
        self.world.trace.note(Event::Spoke { request: number });
        if self.random.mille(200) {
            // All in one piece.
            self.chunk(&(said.opening(protocol) + &said.closing(protocol))).await?;
        } else {
            self.chunk(&said.opening(protocol)).await?;
            sleep(Duration::from_millis(self.random.spread(2000))).await;
            if breaks && self.random.mille(500) {
                return Ok(());
            }
            self.gate.pass().await;
            self.chunk(&said.closing(protocol)).await?;
        }
        self.wire.write_all(b"0\r\n\r\n").await?;
        self.wire.shutdown().await
    }

    async fn whole(mut self, number: u64, protocol: Protocol, said: &Said, breaks: bool) -> io::Result<()> {
        let body = said.whole(protocol).to_string();
        let length = body.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
        );
        self.wire.write_all(head.as_bytes()).await?;
        sleep(Duration::from_millis(self.random.spread(1000))).await;
        self.gate.pass().await;
        if breaks && self.random.mille(500) {
            return Ok(());
        }
        self.world.trace.note(Event::Spoke { request: number });
        self.wire.write_all(body.as_bytes()).await?;
        self.wire.shutdown().await
    }

    fn reminder(&mut self) -> Said {
        let task = format!("model-{} 提醒", self.world.number());
        let wait = format!("{}ms", self.random.spread(15_000) + 10);
        let arguments = json!({"action": "schedule", "items": [{"task": task, "in": wait}]}).to_string();
        Said::Call { id: self.world.number(), arguments }
    }

    async fn chunk(&mut self, text: &str) -> io::Result<()> {
        self.wire.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await
    }

    /// The body of the request, and in which protocol it is.
    async fn request(&mut self) -> io::Result<(Protocol, String)> {
        let mut bytes = Vec::new();
        loop {
            if self.wire.read_buf(&mut bytes).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let text = String::from_utf8_lossy(&bytes);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let head = head.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
            if body.len() >= length.unwrap_or(0) {
                let path = head.split(' ').nth(1).unwrap_or_default();
                let protocol = Protocol::ALL.into_iter().find(|protocol| protocol.path() == path);
                return Ok((protocol.ok_or(io::ErrorKind::InvalidData)?, body.to_owned()));
            }
        }
    }
}

/// The client's end of the connection.
struct Pipe(TokioIo<DuplexStream>);

impl Connection for Pipe {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Pipe {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl Write for Pipe {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
