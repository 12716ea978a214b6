//! A gateway in front of a scripted upstream, in one process and on one clock: no sockets, no threads.

#![allow(dead_code, clippy::unwrap_used, reason = "each test uses what it needs, and a failed unwrap is a failed test")]

use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::TokioIo,
};
use reveille_gateway::{
    Answer, Dial, Draft, Fault, Gateway, Interest, Limits, Link, Observer, Protocol, Report, Settings, Stage, Turn,
    Upstream, Visit,
};
use scripted_upstream::{Log, Script};
use serde_json::{Value, json};
use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};
use tokio::io::{AsyncWriteExt, DuplexStream};
use tower::BoxError;

/// Room in the pipe between gateway and upstream.
const PIPE_BYTES: usize = 16 * 1024;

/// Connections within the process.
pub struct Pipe {
    io: TokioIo<DuplexStream>,
    http2: bool,
}

impl Pipe {
    /// Our end, and that of the other side.
    pub fn open() -> (Self, DuplexStream) {
        let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
        (Self { io: TokioIo::new(ours), http2: false }, theirs)
    }

    /// The same, for sides that agreed on HTTP/2.
    pub fn http2() -> (Self, DuplexStream) {
        let (pipe, theirs) = Self::open();
        (Self { http2: true, ..pipe }, theirs)
    }
}

impl Connection for Pipe {
    fn connected(&self) -> Connected {
        if self.http2 { Connected::new().negotiated_h2() } else { Connected::new() }
    }
}

impl Read for Pipe {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl Write for Pipe {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// Every connection is answered by a scripted upstream.
struct Scripted(scripted_upstream::Upstream);

#[async_trait]
impl Dial for Scripted {
    async fn dial(&self, to: Uri) -> Result<Box<dyn Link>, BoxError> {
        match to.host() {
            Some("refused") => return Err(io::Error::from(io::ErrorKind::ConnectionRefused).into()),
            Some("slow") => std::future::pending().await,
            _ => {}
        }
        let (ours, theirs) = Pipe::open();
        let upstream = self.0.clone();
        tokio::spawn(async move { upstream.serve(theirs).await });
        Ok(Box::new(ours))
    }
}

/// Every connection gets these pieces, one by one, and then the end.
pub struct Fixed(pub Vec<Bytes>);

#[async_trait]
impl Dial for Fixed {
    async fn dial(&self, _: Uri) -> Result<Box<dyn Link>, BoxError> {
        let (ours, mut theirs) = Pipe::open();
        let pieces = self.0.clone();
        tokio::spawn(async move {
            let mut request = [0; 8192];
            let _ = tokio::io::AsyncReadExt::read(&mut theirs, &mut request).await;
            for piece in pieces {
                let _ = theirs.write_all(&piece).await;
                tokio::task::yield_now().await;
            }
        });
        Ok(Box::new(ours))
    }
}

/// A stage that takes part, serves a tool nobody calls, and wants nothing.
pub struct Onlooker;

impl Stage for Onlooker {
    fn enter(&self, _: &Turn) -> Option<Box<dyn Visit>> {
        Some(Box::new(Onlooker))
    }
}

#[async_trait]
impl Visit for Onlooker {
    async fn before_request(&mut self, draft: &mut Draft) -> Result<Interest, Fault> {
        draft.serve_tool("clock", "{}");
        Ok(Interest::Stay)
    }
}

/// Keeps every report.
#[derive(Clone, Default)]
pub struct Reports(Arc<Mutex<Vec<Report>>>, Arc<Mutex<Vec<String>>>);

impl Observer for Reports {
    fn finished(&self, report: &Report) {
        self.0.lock().unwrap().push(report.clone());
    }

    fn left_out(&self, upstream: &str, why: &str) {
        self.1.lock().unwrap().push(format!("{upstream}: {why}"));
    }
}

impl Reports {
    pub fn all(&self) -> Vec<Report> {
        self.0.lock().unwrap().clone()
    }

    pub fn left_out(&self) -> Vec<String> {
        self.1.lock().unwrap().clone()
    }

    pub fn outcomes(&self) -> Vec<&'static str> {
        self.all().iter().map(|report| report.outcome.name()).collect()
    }
}

pub struct World {
    pub gateway: Gateway,
    pub log: Arc<Log>,
    pub reports: Reports,
}

impl World {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut Settings)) -> Self {
        Self::build(change, |gateway| gateway)
    }

    pub fn build(change: impl FnOnce(&mut Settings), add: impl FnOnce(Gateway) -> Gateway) -> Self {
        let scripted = scripted_upstream::Upstream::new(&["scripted", "other"]);
        let mut settings = Settings { upstreams: vec![upstream("http://upstream")], ..Settings::default() };
        change(&mut settings);
        let (log, reports) = (scripted.log.clone(), Reports::default());
        let gateway = Gateway::new(settings, Arc::new(Scripted(scripted))).observe(Arc::new(reports.clone()));
        Self { gateway: add(gateway), log, reports }
    }

    /// One whose answers are relayed, and one in which a stage stays: they take different ways.
    pub fn both() -> [Self; 2] {
        Self::both_with(|_| {})
    }

    pub fn both_with(change: impl Fn(&mut Settings)) -> [Self; 2] {
        [Self::with(&change), Self::build(&change, |gateway| gateway.stage(Onlooker))]
    }

    pub fn dialling(dial: impl Dial + 'static) -> Self {
        Self::dialling_to("http://upstream", dial)
    }

    pub fn dialling_to(base: &str, dial: impl Dial + 'static) -> Self {
        let settings = Settings { upstreams: vec![upstream(base)], ..Settings::default() };
        let reports = Reports::default();
        let gateway = Gateway::new(settings, Arc::new(dial)).observe(Arc::new(reports.clone()));
        Self { gateway, log: Arc::default(), reports }
    }

    pub async fn send(&self, protocol: Protocol, script: &Value, stream: bool) -> Answer {
        self.gateway.handle(request(protocol, script, stream)).await
    }

    /// Status and whole body.
    pub async fn ask(&self, request: Request<Full<Bytes>>) -> (u16, String) {
        let answer = self.gateway.handle(request).await;
        let status = answer.status().as_u16();
        (status, text(answer).await)
    }
}

pub fn upstream(base: &str) -> Upstream {
    Upstream {
        name: "script".into(),
        base: base.parse().unwrap(),
        path: None,
        protocols: Protocol::ALL.to_vec(),
        models: vec!["scripted*".into()],
        key: None,
        limits: Limits::default(),
    }
}

/// A call whose answer is scripted.
pub fn request(protocol: Protocol, script: &Value, stream: bool) -> Request<Full<Bytes>> {
    let _: Script = serde_json::from_value(script.clone()).expect("a script");
    let prompt = format!("script:{script}");
    let mut body = json!({"model": "scripted", "stream": stream});
    match protocol {
        Protocol::Responses => body["input"] = prompt.into(),
        _ => body["messages"] = json!([{"role": "user", "content": prompt}]),
    }
    post(protocol.path(), body.to_string())
}

pub fn post(path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let request = Request::builder().method(Method::POST).uri(path).header("content-type", "application/json");
    request.body(Full::new(body.into())).unwrap()
}

pub async fn text(answer: Answer) -> String {
    let body = answer.into_body().collect().await.expect("the body is whole").to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

/// The next piece of a body.
pub async fn next(answer: &mut Answer) -> Option<String> {
    let frame = answer.body_mut().frame().await?.expect("data");
    Some(String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap())
}

pub fn seconds(seconds: u64) -> Option<Duration> {
    Some(Duration::from_secs(seconds))
}
