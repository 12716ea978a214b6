//! What the demo plays on: the real server in a directory of its own, a scripted model behind its gateway, and the
//! endpoints of a make-believe shop. All of it goes with the stage.

use super::{model, platform::Platform, sse::Events};
use crate::{clock::SystemClock, config::Config, run::Server};
use anyhow::{Context, bail};
use reqwest::{Method, RequestBuilder};
use scripted_upstream::{Listening, Upstream};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tempfile::TempDir;

/// Sessions that are woken by a command.
pub const NIGHT_SHIFT: &str = "night-shift";
/// An agent that asked instead of sleeping would ask this often; real ones every 15 seconds, but here time is short.
pub const POLL: Duration = Duration::from_millis(500);
/// Streams of the demo may be silent this long.
pub const IDLE: Duration = Duration::from_secs(1);
/// What has not happened by then will not happen.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

pub struct Stage {
    pub url: String,
    pub upstream: Listening,
    pub platform: Platform,
    /// What the wake command was given.
    pub woken: PathBuf,
    http: reqwest::Client,
    server: Server,
    data: TempDir,
}

impl Stage {
    pub async fn build() -> anyhow::Result<Self> {
        let data = tempfile::Builder::new().prefix("reveille-demo-").tempdir().context("no room for the demo")?;
        let upstream = Upstream::new(&[model::AGENT, model::PLANNER, model::SUPPORT]).saying(model::answer);
        let upstream = upstream.listen("127.0.0.1:0").await?;
        let woken = data.path().join("woken.txt");
        let config = config(data.path(), &woken, &upstream.url()).context("the demo's own configuration")?;
        let server = Server::start(&config, Arc::new(SystemClock)).await?;
        let http = reqwest::Client::builder().no_proxy().build()?;
        let url = format!("http://{}", server.address);
        Ok(Self { url, upstream, platform: Platform::open().await?, woken, http, server, data })
    }

    /// Ends everything and removes what was kept.
    pub async fn strike(self) -> anyhow::Result<()> {
        self.server.stop().await;
        self.data.close().context("the demo's directory could not be removed")
    }

    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        answer(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        answer(self.request(Method::POST, path).json(body)).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        answer(self.request(Method::PUT, path).json(body)).await
    }

    /// One call of a tool, as an agent makes it.
    pub async fn tool(&self, session: &str, tool: &str, arguments: &Value) -> anyhow::Result<Value> {
        self.post(&format!("/api/sessions/{session}/tools/{tool}"), arguments).await
    }

    /// One call of the model through the gateway, with the whole answer.
    pub async fn ask(&self, session: &str, body: &Value) -> anyhow::Result<Value> {
        answer(self.model(session).json(body)).await
    }

    /// The same as a stream.
    pub async fn stream(&self, session: &str, body: &Value) -> anyhow::Result<Events> {
        let response = self.model(session).json(body).send().await?;
        anyhow::ensure!(response.status().is_success(), "the gateway answered {}", response.status());
        Ok(Events::of(response))
    }

    /// What happens in a session, from now on.
    pub async fn events(&self, session: &str) -> anyhow::Result<Events> {
        let response = self.request(Method::GET, "/api/events").query(&[("session", session)]).send().await?;
        Ok(Events::of(response.error_for_status()?))
    }

    /// Looks again and again until there is something to see.
    pub async fn until<T>(
        &self,
        what: &str,
        mut look: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<T> {
        let looking = async {
            loop {
                match look().await? {
                    Some(seen) => return anyhow::Ok(seen),
                    None => tokio::time::sleep(LOOK_AGAIN).await,
                }
            }
        };
        match tokio::time::timeout(PATIENCE, looking).await {
            Ok(seen) => seen,
            Err(_) => bail!("not seen within {} s: {what}", PATIENCE.as_secs()),
        }
    }

    /// How often this model was asked, and what it was sent last.
    pub fn asked(&self, model: &str) -> (usize, Value) {
        let bodies = self.upstream.upstream.log.requests().into_iter();
        let bodies = bodies.filter_map(|request| serde_json::from_slice::<Value>(&request.body).ok());
        let mut bodies: Vec<Value> = bodies.filter(|body| body["model"] == model).collect();
        (bodies.len(), bodies.pop().unwrap_or_default())
    }

    fn model(&self, session: &str) -> RequestBuilder {
        self.request(Method::POST, "/v1/chat/completions").header("x-reveille-session", session)
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url))
    }
}

/// As a user would write it, only with shorter times.
fn config(data: &Path, woken: &Path, upstream: &str) -> anyhow::Result<Config> {
    let config = json!({
        "listen": "127.0.0.1:0",
        "data_dir": data,
        "stats": {"poll_interval": POLL.as_secs_f64()},
        "gateway": {
            // Reminders are told on the second instead of up to a minute before.
            "due_window": "1ms",
            "limits": [{"models": ["demo-stream-*"], "idle_timeout": IDLE.as_secs_f64()}],
            "upstream": [{"name": "scripted", "base_url": upstream, "protocols": ["chat"]}],
        },
        "wake": {"night-shift": {
            "match": NIGHT_SHIFT,
            // In earnest: ["claude", "-p", "--resume", "{session}"]
            "command": ["sh", "-c", "cat > \"$WOKEN.part\" && mv \"$WOKEN.part\" \"$WOKEN\""],
            "env": {"WOKEN": woken},
            "grace": "100ms",
        }},
    });
    Ok(serde_json::from_value(config)?)
}

async fn answer(request: RequestBuilder) -> anyhow::Result<Value> {
    let response = request.send().await?;
    let (status, path) = (response.status(), response.url().path().to_owned());
    let body: Value = response.json().await.with_context(|| format!("{path} answered {status} without JSON"))?;
    anyhow::ensure!(status.is_success(), "{path} answered {status}: {body}");
    Ok(body)
}
