//! A stand-in for model providers: speaks the three protocols exactly and does what the request's [`Script`] says:
//! wait, stall, break off, lie about its length, send nonsense. For tests, benchmarks and the demo.
//!
//! HTTP/1.1 is written by hand, because a proper server cannot be made to misbehave.

mod http;
mod script;
mod wire;

pub use http::Recorded;
pub use script::{Script, Step};
pub use wire::Protocol;

use serde_json::Value;
use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// What was asked and what became of it.
#[derive(Default)]
pub struct Log {
    requests: Mutex<Vec<Recorded>>,
    /// How often a script with a bounded effect was run, by its text.
    runs: Mutex<HashMap<String, u32>>,
    /// Answers that the other side did not wait for.
    abandoned: watch::Sender<u64>,
    connections: watch::Sender<u64>,
    /// Answers begun.
    answers: AtomicUsize,
    /// Bytes handed to the network.
    written: watch::Sender<u64>,
}

/// What to say to a request that brings no script; `None`: a greeting.
pub type Improvise = Arc<dyn Fn(&Value) -> Option<Script> + Send + Sync>;

#[derive(Clone, Default)]
pub struct Upstream {
    pub log: Arc<Log>,
    /// What `GET /v1/models` lists.
    pub models: Arc<Vec<String>>,
    improvise: Option<Improvise>,
    forgets: bool,
}

/// One that listens; stops when dropped.
pub struct Listening {
    pub address: SocketAddr,
    pub upstream: Upstream,
    task: JoinHandle<()>,
}

impl Upstream {
    pub fn new(models: &[&str]) -> Self {
        Self { models: Arc::new(models.iter().map(ToString::to_string).collect()), ..Self::default() }
    }

    /// Has words of its own for requests without a script.
    pub fn saying(self, improvise: impl Fn(&Value) -> Option<Script> + Send + Sync + 'static) -> Self {
        Self { improvise: Some(Arc::new(improvise)), ..self }
    }

    /// Keeps nothing of what it is asked, for runs of hours; and gives every answer ids of its own, as vendors do.
    pub fn forgetful(self) -> Self {
        Self { forgets: true, ..self }
    }

    fn improvise(&self, body: &Value) -> Option<Script> {
        self.improvise.as_ref()?(body)
    }

    pub async fn listen(self, address: &str) -> io::Result<Listening> {
        let listener = TcpListener::bind(address).await?;
        let (address, upstream) = (listener.local_addr()?, self.clone());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                let upstream = self.clone();
                tokio::spawn(async move { upstream.serve_tcp(stream).await });
            }
        });
        Ok(Listening { address, upstream, task })
    }

    /// Speaks on one connection, of whatever kind.
    pub async fn serve(&self, io: impl AsyncRead + AsyncWrite + Unpin + Send) {
        self.log.connections.send_modify(|count| *count += 1);
        let _ = http::serve(io, self).await;
    }

    async fn serve_tcp(&self, mut stream: TcpStream) {
        self.log.connections.send_modify(|count| *count += 1);
        if let Ok(http::End::Reset) = http::serve(&mut stream, self).await {
            let _ = stream.set_zero_linger();
        }
    }
}

impl Log {
    pub fn requests(&self) -> Vec<Recorded> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn abandoned(&self) -> watch::Receiver<u64> {
        self.abandoned.subscribe()
    }

    pub fn connections(&self) -> u64 {
        *self.connections.borrow()
    }

    pub fn written(&self) -> u64 {
        *self.written.borrow()
    }

    fn record(&self, request: Recorded) {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
    }

    /// The number of an answer, from 1.
    fn number(&self) -> usize {
        self.answers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// How often this script ran before.
    fn runs(&self, script: &str) -> u32 {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let count = runs.entry(script.to_owned()).or_default();
        *count += 1;
        *count - 1
    }
}

impl Listening {
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}
