//! A platform's endpoints, over real HTTP: everything that is called is recorded, in order, and each path answers as it
//! was told to.

use super::within;
use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Method, StatusCode, Uri},
    response::Response,
};
use serde_json::Value;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};
use tokio::{net::TcpListener, sync::mpsc, task::JoinHandle};

#[derive(Clone, Debug)]
pub struct Called {
    pub method: Method,
    pub path: String,
    pub headers: HeaderMap,
    pub body: String,
}

#[derive(Clone, Debug)]
pub enum Answer {
    Says(u16, String),
    Redirects(String),
    /// Never answers.
    Hangs,
    /// So many bytes.
    Floods(usize),
}

#[derive(Clone, Default)]
struct Told {
    answers: Arc<Mutex<HashMap<String, Vec<Answer>>>>,
    called: Arc<Mutex<Option<mpsc::UnboundedSender<Called>>>>,
}

pub struct Endpoints {
    pub url: String,
    told: Told,
    calls: tokio::sync::Mutex<mpsc::UnboundedReceiver<Called>>,
    server: JoinHandle<()>,
}

impl Called {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| std::str::from_utf8(value.as_bytes()).unwrap())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }
}

impl Endpoints {
    pub async fn start() -> Self {
        let (sender, calls) = mpsc::unbounded_channel();
        let told = Told { called: Arc::new(Mutex::new(Some(sender))), ..Told::default() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(told.clone());
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, told, calls: tokio::sync::Mutex::new(calls), server }
    }

    /// The next calls of this path are answered so, in this order; the last goes on.
    pub fn answers(&self, path: &str, answers: &[Answer]) {
        self.told.answers.lock().unwrap().insert(path.to_owned(), answers.to_vec());
    }

    /// The next call, whatever it is.
    pub async fn next(&self) -> Called {
        within("an endpoint is called", async { self.calls.lock().await.recv().await.unwrap() }).await
    }

    /// Nobody has called since.
    pub async fn quiet(&self) {
        if let Ok(called) = self.calls.lock().await.try_recv() {
            panic!("called, and should not have been: {called:?}");
        }
    }
}

impl Drop for Endpoints {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn answer(State(told): State<Told>, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let path = uri.path().to_owned();
    let body = String::from_utf8_lossy(&body).into_owned();
    let called = Called { method, path: uri.to_string(), headers, body };
    if let Some(sender) = &*told.called.lock().unwrap() {
        let _ = sender.send(called);
    }
    let answer = {
        let mut all = told.answers.lock().unwrap();
        let answers = all.entry(path).or_default();
        match answers.len() {
            0 => Answer::Says(200, r#"{"ok":true}"#.into()),
            1 => answers[0].clone(),
            _ => answers.remove(0),
        }
    };
    let response = Response::builder();
    match answer {
        Answer::Says(status, text) => response.status(status).body(text.into()).unwrap(),
        Answer::Redirects(to) => response.status(302).header("location", to).body(Body::empty()).unwrap(),
        Answer::Hangs => std::future::pending().await,
        Answer::Floods(bytes) => response.status(StatusCode::OK).body(vec![b'x'; bytes].into()).unwrap(),
    }
}
