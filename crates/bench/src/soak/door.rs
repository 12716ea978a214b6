//! The way to the server, and the book of what came back.

use anyhow::{Context, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, Response, body::Incoming};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// Everything that has to be answered at least once.
pub const DOORS: [&str; 24] = [
    "tools",
    "standby",
    "inbox",
    "clock",
    "looks",
    "events",
    "gateway",
    "clocked",
    "held",
    "left",
    "turns",
    "activity",
    "endpoints",
    "webhooks",
    "sockets",
    "sessions",
    "mcp",
    "mcp connections",
    "mcp standby",
    "mcp tasks",
    "woken",
    "cli",
    "hooks",
    "agents",
];
/// Between two rounds of one client, so that every door has its share of the machine.
const BREATH: Duration = Duration::from_millis(10);
/// Whatever is waited for comes long before.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub struct Door {
    http: Client<HttpConnector, Full<Bytes>>,
    pub address: String,
    until: Instant,
    notes: Arc<Mutex<Notes>>,
}

#[derive(Clone, Default)]
pub struct Notes {
    pub answers: BTreeMap<&'static str, u64>,
    pub errors: Vec<String>,
}

/// A request, but for where it goes.
pub struct Ask<'a> {
    pub method: Method,
    pub path: &'a str,
    pub headers: Vec<(&'a str, String)>,
    pub body: Bytes,
}

impl<'a> Ask<'a> {
    pub fn get(path: &'a str) -> Self {
        Self { method: Method::GET, path, headers: Vec::new(), body: Bytes::new() }
    }

    pub fn post(path: &'a str, body: &Value) -> Self {
        Self { method: Method::POST, body: body.to_string().into(), ..Self::get(path) }
    }

    pub fn with(mut self, name: &'a str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

impl Door {
    pub fn new(address: &str, until: Instant) -> Self {
        let http = Client::builder(TokioExecutor::new()).build_http();
        Self { http, address: address.to_owned(), until, notes: Arc::default() }
    }

    /// Breathes; whether there is time for another round.
    pub async fn goes_on(&self) -> bool {
        tokio::time::sleep(BREATH).await;
        Instant::now() < self.until
    }

    pub async fn ask(&self, what: &'static str, path: &str, body: Value) -> Option<Value> {
        let bytes = self.send(what, Ask::post(path, &body)).await?;
        serde_json::from_slice(&bytes).ok()
    }

    /// The body of an answer that is good.
    pub async fn send(&self, what: &'static str, ask: Ask<'_>) -> Option<Bytes> {
        let path = ask.path.to_owned();
        self.noted(what, &path, self.read(ask)).await
    }

    /// The body of an answer that is good and holds these words, in this order.
    pub async fn hears(&self, what: &'static str, ask: Ask<'_>, words: &[&str]) {
        let path = ask.path.to_owned();
        let heard = async {
            let bytes = self.read(ask).await?;
            let said = String::from_utf8_lossy(&bytes);
            let mut rest: &str = &said;
            for word in words {
                rest = rest.split_once(word).with_context(|| format!("no {word:?} in its place: {said}"))?.1;
            }
            Ok(())
        };
        self.noted(what, &path, heard).await;
    }

    /// Writes down how it went.
    pub async fn noted<T>(
        &self,
        what: &'static str,
        about: &str,
        doing: impl Future<Output = anyhow::Result<T>>,
    ) -> Option<T> {
        let done = match tokio::time::timeout(PATIENCE, doing).await {
            Ok(done) => done,
            Err(_) => Err(anyhow::anyhow!("nothing for {PATIENCE:?}")),
        };
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        match done {
            Ok(value) => {
                *notes.answers.entry(what).or_default() += 1;
                Some(value)
            }
            Err(error) => {
                notes.errors.push(format!("{what} {about}: {error:#}"));
                None
            }
        }
    }

    pub async fn open(&self, ask: Ask<'_>) -> anyhow::Result<Response<Incoming>> {
        let request = Request::builder().method(ask.method).uri(format!("http://{}{}", self.address, ask.path));
        let mut request = request.header("content-type", "application/json");
        if ask.headers.iter().all(|(name, _)| *name != "accept") {
            request = request.header("accept", "application/json, text/event-stream");
        }
        for (name, value) in ask.headers {
            request = request.header(name, value);
        }
        let response = self.http.request(request.body(Full::new(ask.body))?).await.context("no answer")?;
        if !response.status().is_success() {
            let status = response.status();
            let bytes = response.into_body().collect().await.context("the answer broke off")?.to_bytes();
            anyhow::bail!("{status}: {}", String::from_utf8_lossy(&bytes));
        }
        Ok(response)
    }

    async fn read(&self, ask: Ask<'_>) -> anyhow::Result<Bytes> {
        let response = self.open(ask).await?;
        let bytes = response.into_body().collect().await.context("the answer broke off")?.to_bytes();
        ensure!(!bytes.is_empty(), "an empty answer");
        Ok(bytes)
    }

    /// Beside the book.
    pub async fn text(&self, path: &str) -> String {
        let read = self.read(Ask::get(path)).await.unwrap_or_default();
        String::from_utf8_lossy(&read).into_owned()
    }

    pub fn notes(&self) -> Notes {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
