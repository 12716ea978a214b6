//! What stands around the server: its configuration, a scripted model, and the endpoints of a platform, which look at the
//! signature of everything they are told.

use super::{
    door::{Ask, Door},
    gateway::Api,
};
use crate::child::Server;
use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, Uri},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use hyper::Method;
use ring::hmac;
use scripted_upstream::{Listening, Upstream};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};
use tempfile::TempDir;
use tokio::{
    net::TcpListener,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

const KEY: [u8; 32] = [7; 32];

pub struct Stage {
    pub server: Server,
    pub endpoints: Endpoints,
    dir: TempDir,
    _model: Listening,
}

/// What an endpoint was told, for those who wait for it.
#[derive(Clone, Default)]
pub struct Endpoints {
    url: String,
    waiting: Arc<Mutex<HashMap<String, UnboundedSender<Told>>>>,
}

pub enum Told {
    /// A tool was called.
    Note,
    /// A webhook, with its type.
    Hook(String),
    /// One whose signature is not ours.
    Forged,
}

impl Stage {
    pub async fn set(dir: &Path) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir_in(std::fs::canonicalize(dir)?)?;
        let model = Upstream::new(&["scripted"]).forgetful().listen("127.0.0.1:0").await?;
        let endpoints = Endpoints::listen().await?;
        std::fs::create_dir(dir.path().join("desk"))?;
        let config = dir.path().join("reveille.toml");
        std::fs::write(&config, settings(&model.url(), &dir.path().join("desk")))?;
        let server = Server::configured(&config, dir.path(), &dir.path().join("log"))?;
        Ok(Self { server, endpoints, dir, _model: model })
    }

    /// Where wake commands leave what they were told.
    pub fn desk(&self) -> PathBuf {
        self.dir.path().join("desk")
    }

    /// What the server had to complain of.
    pub fn said(&self) -> anyhow::Result<Vec<String>> {
        let log = std::fs::read_to_string(self.dir.path().join("log"))?;
        Ok(log.lines().map(str::to_owned).collect())
    }

    /// Sets the agents: a chatbot whose timers call and close, and one for each protocol that is asked.
    pub async fn agents(&self, door: &Door) {
        let base = &self.endpoints.url;
        let chatbot = json!({
            "tools": [{"name": "note", "endpoint": format!("{base}/note/{{session}}")}],
            "system_actions": ["note"],
            "timers": [
                {"timer_id": "say", "delay_seconds": 1, "tool_name": "generate_response", "message": "在吗？"},
                {"timer_id": "note", "delay_seconds": 1, "tool_name": "note"},
                {"timer_id": "close", "delay_seconds": 2, "tool_name": "close_conversation"},
            ],
            "webhooks": [{"url": format!("{base}/hook/{{session}}"), "secret": format!("whsec_{}", STANDARD.encode(KEY))}],
        });
        put(door, "/api/agents/soak/chatbot", &chatbot).await;
        for api in Api::ALL {
            let asked = json!({
                "model": "scripted", "protocol": api.name(), "system_prompt": "你是客服。",
                "tools": [{"name": "look", "endpoint": format!("{base}/look/{{session}}")}],
            });
            put(door, &format!("/api/agents/soak/{}", api.name()), &asked).await;
        }
    }
}

async fn put(door: &Door, path: &str, agent: &Value) {
    door.send("agents", Ask { method: Method::PUT, ..Ask::post(path, agent) }).await;
}

/// Everything ended is forgotten after a minute, so that removing it is part of the load.
fn settings(model: &str, desk: &Path) -> String {
    format!(
        r#"
retention = "1m"
[gateway]
due_window = "1s"
[[gateway.upstream]]
name = "scripted"
base_url = "{model}"
protocols = ["chat", "responses", "messages"]
[wake.soak]
match = "soak-sleeper-*"
command = ["/bin/sh", "-c", "cat > \"$1.new\" && mv \"$1.new\" \"$1\"", "sh", "{}/{{session}}"]
grace = "100ms"
per_hour = 1000000
"#,
        desk.display()
    )
}

impl Endpoints {
    async fn listen() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let endpoints = Self { url: format!("http://{}", listener.local_addr()?), ..Self::default() };
        let router = Router::new().fallback(answer).with_state(endpoints.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(endpoints)
    }

    /// What this session's endpoints are told from now on.
    pub fn of(&self, session: &str) -> UnboundedReceiver<Told> {
        let (sender, told) = unbounded_channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(session.to_owned(), sender);
        told
    }
}

async fn answer(State(endpoints): State<Endpoints>, uri: Uri, headers: HeaderMap, body: Bytes) -> (StatusCode, String) {
    let (what, session) = uri.path().trim_start_matches('/').split_once('/').unwrap_or_default();
    let told = match what {
        "note" => Some(Told::Note),
        "hook" if signed(&headers, &body) => {
            let event: Value = serde_json::from_slice(&body).unwrap_or_default();
            Some(Told::Hook(event["type"].as_str().unwrap_or_default().to_owned()))
        }
        "hook" => Some(Told::Forged),
        _ => None,
    };
    let waiting = endpoints.waiting.lock().unwrap_or_else(PoisonError::into_inner);
    if let (Some(told), Some(sender)) = (told, waiting.get(session)) {
        let _ = sender.send(told);
    }
    (StatusCode::OK, r#"{"ok":true}"#.into())
}

/// As the Standard Webhooks specification has it.
fn signed(headers: &HeaderMap, body: &[u8]) -> bool {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut content = format!("{}.{}.", header("webhook-id"), header("webhook-timestamp")).into_bytes();
    content.extend_from_slice(body);
    let Some(signature) = header("webhook-signature").strip_prefix("v1,") else { return false };
    let Ok(signature) = STANDARD.decode(signature) else { return false };
    hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, &KEY), &content, &signature).is_ok()
}
