//! All doors under mixed load for as long as one likes: memory and descriptors must stay flat, and no error come that was
//! not asked for. Ends with a verdict, and with a failure if that is bad.

use crate::child::Server;
use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{task::JoinSet, time::Instant};

/// Agents that use their tools at once.
const AGENTS: usize = 8;
/// Of the whole run: the first quarter is for caches and pools to fill.
const SAMPLES: usize = 40;
/// Memory at the end over that after the warm-up: what is allocated and freed is not given back to the byte.
const MEMORY_GROWTH_MAX: f64 = 1.10;
const MEMORY_SLACK_KIB: u64 = 8 * 1024;
const FILES_SLACK: u64 = 16;
/// A follower of events reads for so long, goes and comes back.
const FOLLOW: Duration = Duration::from_secs(3);

type Http = Client<HttpConnector, Full<Bytes>>;

#[derive(Clone)]
struct Door {
    http: Http,
    address: String,
    until: Instant,
    notes: Arc<Mutex<Notes>>,
}

#[derive(Default)]
struct Notes {
    answers: BTreeMap<&'static str, u64>,
    errors: Vec<String>,
}

#[derive(Clone, Copy)]
struct Sample {
    memory_kib: u64,
    files: u64,
}

pub async fn run(dir: &Path, minutes: f64) -> anyhow::Result<()> {
    let length = Duration::from_secs_f64(minutes * 60.0);
    let dir = tempfile::tempdir_in(dir)?;
    let upstream = Server::part(&["llm"])?;
    let server = Server::gateway(dir.path(), &upstream.address)?;
    let door = Door {
        http: Client::builder(TokioExecutor::new()).build_http(),
        address: server.address.clone(),
        until: Instant::now() + length,
        notes: Arc::default(),
    };
    let mut tasks = JoinSet::new();
    for agent in 0..AGENTS {
        tasks.spawn(door.clone().agent(agent));
    }
    tasks.spawn(door.clone().reminders());
    tasks.spawn(door.clone().models());
    tasks.spawn(door.clone().mcp());
    tasks.spawn(door.clone().looks());
    tasks.spawn(door.clone().follows());
    let mut samples = Vec::new();
    for _ in 0..SAMPLES {
        tokio::time::sleep(length / SAMPLES as u32).await;
        samples.push(Sample { memory_kib: server.resident_kib()?, files: server.files()? });
    }
    while let Some(ended) = tasks.join_next().await {
        ended?;
    }
    let notes = std::mem::take(&mut *door.notes.lock().unwrap_or_else(PoisonError::into_inner));
    verdict(&samples, &notes, minutes)
}

fn verdict(samples: &[Sample], notes: &Notes, minutes: f64) -> anyhow::Result<()> {
    let quarter = samples.len() / 4;
    let median = |part: &[Sample], of: fn(&Sample) -> u64| {
        let mut values: Vec<u64> = part.iter().map(of).collect();
        values.sort_unstable();
        values[values.len() / 2]
    };
    let (early, late) = (&samples[quarter..2 * quarter], &samples[samples.len() - quarter..]);
    let memory = (median(early, |sample| sample.memory_kib), median(late, |sample| sample.memory_kib));
    let files = (median(early, |sample| sample.files), median(late, |sample| sample.files));
    let answers: u64 = notes.answers.values().sum();
    println!("soak of {minutes} minutes: {answers} answers {:?}", notes.answers);
    println!("memory: {} KiB after the warm-up, {} KiB at the end", memory.0, memory.1);
    println!("descriptors: {} after the warm-up, {} at the end", files.0, files.1);
    println!("errors: {}", notes.errors.len());
    notes.errors.iter().take(10).for_each(|error| println!("  {error}"));
    ensure!(answers > 0, "nothing was answered");
    if !notes.errors.is_empty() {
        bail!("FAILED: errors that nobody asked for");
    }
    let bound = (memory.0 as f64 * MEMORY_GROWTH_MAX) as u64 + MEMORY_SLACK_KIB;
    ensure!(memory.1 <= bound, "FAILED: memory grows");
    ensure!(files.1 <= files.0 + FILES_SLACK, "FAILED: descriptors are not given back");
    println!("GOOD: memory and descriptors are flat, and no error came that was not asked for");
    Ok(())
}

impl Door {
    fn goes_on(&self) -> bool {
        Instant::now() < self.until
    }

    /// One agent's life, over and over: a mission that ends, a wait, a pause, and messages taken.
    async fn agent(self, number: usize) {
        let session = format!("soak-{number}");
        let tool = |tool: &str| format!("/api/sessions/{session}/tools/{tool}");
        while self.goes_on() {
            self.ask("tools", &tool("timer"), json!({"total_duration": 0.2, "mission": "任务 🙂"})).await;
            self.ask("standby", &tool("timer"), json!({"total_duration": 0.3, "timeout_duration": 0.1, "reason": "r"}))
                .await;
            let made = self.ask("tools", &tool("timer"), json!({"total_duration": 600, "mission": "long"})).await;
            let Some(timer) = made.as_ref().and_then(|made| made["timer_id"].as_str()) else { continue };
            self.ask("tools", &tool("pause_timer"), json!({"timer_id": timer, "pause_duration": 60})).await;
            self.ask("tools", &tool("resume_timer"), json!({"timer_id": timer})).await;
            self.ask("tools", &tool("stop_timer"), json!({"timer_id": timer})).await;
            let leased = self.ask("inbox", &format!("/api/sessions/{session}/inbox/lease"), json!({})).await;
            if let Some(lease) = leased.as_ref().and_then(|leased| leased["lease"].as_str()) {
                self.ask("inbox", &format!("/api/sessions/{session}/inbox/commit"), json!({"lease": lease})).await;
            }
        }
    }

    async fn reminders(self) {
        let path = "/api/sessions/soak-reminded/tools/clock";
        while self.goes_on() {
            self.ask("clock", path, json!({"action": "schedule", "task": "报告", "in": "1h"})).await;
            self.ask("clock", path, json!({"action": "list"})).await;
            self.ask("clock", path, json!({"action": "clear"})).await;
        }
    }

    async fn models(self) {
        while self.goes_on() {
            for stream in [false, true] {
                let call = json!({"model": "canned", "stream": stream, "messages": [{"role": "user", "content": "burst-please"}]});
                self.ask("gateway", "/v1/chat/completions", call).await;
            }
        }
    }

    async fn mcp(self) {
        while self.goes_on() {
            let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": {"name": "read_timer", "arguments": {"session": "soak-0"}}});
            self.ask("mcp", "/mcp", call).await;
        }
    }

    async fn looks(self) {
        let paths = ["/api/timers", "/api/stats", "/api/history", "/api/sessions", "/metrics", "/api/deliveries", "/"];
        while self.goes_on() {
            for path in paths {
                self.send("looks", Method::GET, path, Bytes::new()).await;
            }
        }
    }

    async fn follows(self) {
        while self.goes_on() {
            let request = self.request(Method::GET, "/api/events", Bytes::new());
            let Ok(response) = self.http.request(request).await else {
                self.wrong("events: no connection".into());
                continue;
            };
            let mut body = response.into_body();
            let read = async {
                while let Some(frame) = body.frame().await {
                    if frame.is_err() {
                        return false;
                    }
                }
                false
            };
            match tokio::time::timeout(FOLLOW, read).await {
                Ok(_) => self.wrong("events: the stream ended by itself".into()),
                Err(_) => self.right("events"),
            }
        }
    }

    async fn ask(&self, what: &'static str, path: &str, body: Value) -> Option<Value> {
        let bytes = self.send(what, Method::POST, path, body.to_string().into()).await?;
        serde_json::from_slice(&bytes).ok()
    }

    async fn send(&self, what: &'static str, method: Method, path: &str, body: Bytes) -> Option<Bytes> {
        let answered = async {
            let response = self.http.request(self.request(method, path, body)).await.context("no answer")?;
            let status = response.status();
            let bytes = response.into_body().collect().await.context("the answer broke off")?.to_bytes();
            ensure!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&bytes));
            Ok(bytes)
        };
        match answered.await {
            Ok(bytes) => {
                self.right(what);
                Some(bytes)
            }
            Err(error) => {
                self.wrong(format!("{what} {path}: {error:#}"));
                None
            }
        }
    }

    fn request(&self, method: Method, path: &str, body: Bytes) -> Request<Full<Bytes>> {
        let request = Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        let request = request.header("content-type", "application/json");
        let request = request.header("accept", "application/json, text/event-stream");
        let request =
            if path.starts_with("/v1/") { request.header("x-reveille-session", "soak-model") } else { request };
        request.body(Full::new(body)).expect("a request")
    }

    fn right(&self, what: &'static str) {
        *self.notes.lock().unwrap_or_else(PoisonError::into_inner).answers.entry(what).or_default() += 1;
    }

    fn wrong(&self, error: String) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).errors.push(error);
    }
}
