//! The endpoints of a make-believe shop: what its chatbot's tools are for. Each call is passed on as it comes.

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, Uri},
};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::{Mutex, mpsc},
    task::JoinHandle,
};

/// Calls that nobody has looked at yet. The story makes a handful; more are refused by making their callers wait.
const CALLS_MAX: usize = 64;

#[derive(Debug)]
pub struct Called {
    pub tool: String,
    /// The session timer that did it.
    pub timer: String,
    pub arguments: Value,
}

pub struct Platform {
    pub url: String,
    calls: Mutex<mpsc::Receiver<Called>>,
    door: JoinHandle<()>,
}

impl Platform {
    pub async fn open() -> anyhow::Result<Self> {
        let (sender, calls) = mpsc::channel(CALLS_MAX);
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let router = Router::new().fallback(answer).with_state(sender);
        let door = tokio::spawn(async move { drop(axum::serve(listener, router).await) });
        Ok(Self { url, calls: Mutex::new(calls), door })
    }

    /// The next call.
    pub async fn called(&self) -> Option<Called> {
        self.calls.lock().await.recv().await
    }
}

impl Drop for Platform {
    fn drop(&mut self) {
        self.door.abort();
    }
}

async fn answer(
    State(calls): State<mpsc::Sender<Called>>,
    headers: HeaderMap,
    uri: Uri,
    arguments: Option<Json<Value>>,
) -> Json<Value> {
    let timer = headers.get("x-reveille-timer").and_then(|timer| timer.to_str().ok()).unwrap_or_default().to_owned();
    let (tool, arguments) = (uri.path().trim_start_matches('/').to_owned(), arguments.unwrap_or_default().0);
    let _ = calls.send(Called { tool, timer, arguments }).await;
    Json(json!({"ok": true}))
}
