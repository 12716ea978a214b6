//! The daemon behind the bridge: found by the address it left in the data directory, started if there is none.

use super::{
    super::{Refusal, TaskAsk},
    attempt::ToolRequest,
};
use crate::{
    address::{Address, SERVER_HEADER},
    cli::client::segment,
    config::{Config, Token},
    http::tools::{
        CLIENT_HEADER, CWD_HEADER, HOLDS_HEADER, RECEIPT_EXPLICIT, RECEIPT_HEADER, STANDBY_MAX_HEADER, TASK_HEADER,
    },
    private,
};
use reqwest::{Method, RequestBuilder, StatusCode};
use reveille_core::SessionId;
use serde_json::{Value, json};
use std::{ffi::OsString, path::PathBuf, process::Stdio, time::Duration};
use tokio::{process::Command, sync::Mutex, time::Instant};

/// A daemon that is being started has this long to answer; one with a million timers takes half a second.
const START_MAX: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Longest pause before another start, when one was in vain.
const START_AGAIN_MAX: Duration = Duration::from_secs(2);
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Settling a lease may be tried this often; then it runs out.
const SETTLE_TRIES_MAX: usize = 3;
const LOG: &str = "server.log";

pub struct Daemon {
    http: reqwest::Client,
    place: Place,
    token: Option<Token>,
    /// Where the agent's client started this program, which is where it works unless a hook says otherwise.
    cwd: Option<String>,
    /// One start at a time; when the last one was given up.
    starting: Mutex<Option<Instant>>,
}

enum Place {
    /// Named by the user; not ours to start.
    At(Address),
    Local {
        data_dir: PathBuf,
        address_file: PathBuf,
        arguments: Vec<OsString>,
    },
}

/// No answer came.
pub enum Lost {
    /// The daemon cannot have seen the request.
    BeforeSending,
    /// It may have carried it out.
    AfterSending,
}

impl Daemon {
    pub fn at(url: &str) -> anyhow::Result<Self> {
        Self::new(Place::At(Address::at(url)), Token::from_environment())
    }

    /// The one that keeps the configured data directory, whatever its port.
    pub fn local(config: &Config, config_file: Option<PathBuf>) -> anyhow::Result<Self> {
        let data_dir = std::path::absolute(&config.data_dir)?;
        let mut arguments: Vec<OsString> = vec!["serve".into(), "--background".into()];
        arguments.extend(["--data-dir".into(), data_dir.clone().into()]);
        if let Some(file) = config_file {
            arguments.extend(["--config".into(), std::path::absolute(file)?.into()]);
        }
        let place = Place::Local { address_file: config.address_file(), data_dir, arguments };
        Self::new(place, config.token.clone())
    }

    fn new(place: Place, token: Option<Token>) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder().no_proxy().connect_timeout(CONNECT_MAX).build()?;
        let cwd = std::env::current_dir().ok().and_then(|cwd| cwd.into_os_string().into_string().ok());
        Ok(Self { http, place, token, cwd, starting: Mutex::default() })
    }

    /// `None`: there is no daemon to ask.
    fn request(&self, method: Method, path: &str) -> Option<RequestBuilder> {
        let address = match &self.place {
            Place::At(address) => address.clone(),
            Place::Local { address_file, .. } => Address::read(address_file)?,
        };
        let mut request = self.http.request(method, format!("{}{path}", address.url));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose());
        }
        Some(match address.server {
            Some(server) => request.header(SERVER_HEADER, server),
            None => request,
        })
    }

    /// The outer error: no answer. The inner one: a refusal.
    pub async fn send(&self, request: ToolRequest) -> Result<Result<Value, Refusal>, Lost> {
        let path = format!("/api/sessions/{}/tools/{}", segment(&request.session), request.tool);
        let mut post = self
            .request(Method::POST, &path)
            .ok_or(Lost::BeforeSending)?
            .header(RECEIPT_HEADER, RECEIPT_EXPLICIT)
            .header(HOLDS_HEADER, "true")
            .header(STANDBY_MAX_HEADER, request.standby_max.to_string())
            .json(&request.arguments);
        if let Some(client) = request.client.and_then(|name| name.parse::<axum::http::HeaderValue>().ok()) {
            post = post.header(CLIENT_HEADER, client);
        }
        if let Some(key) = request.key {
            post = post.header("idempotency-key", key);
        }
        if request.task {
            post = post.header(TASK_HEADER, "true");
        }
        if let Some(cwd) = self.cwd.as_ref().and_then(|cwd| axum::http::HeaderValue::from_bytes(cwd.as_bytes()).ok()) {
            post = post.header(CWD_HEADER, cwd);
        }
        answer(post).await
    }

    pub async fn task(
        &self,
        asker: Option<&SessionId>,
        id: &str,
        ask: TaskAsk,
    ) -> Result<Result<Value, Refusal>, Lost> {
        let method = match ask {
            TaskAsk::Read => Method::GET,
            TaskAsk::Cancel => Method::DELETE,
        };
        let request = self.request(method, &format!("/api/tasks/{}", segment(id))).ok_or(Lost::BeforeSending)?;
        let asker = asker.map(|session| [("session", session.as_str())]);
        answer(
            request.query(asker.as_ref().map_or(&[][..], |asker| &asker[..])).header(RECEIPT_HEADER, RECEIPT_EXPLICIT),
        )
        .await
    }

    /// Holds the session for as long as the daemon lets it.
    pub async fn presence(&self, session: &SessionId) {
        let path = format!("/api/sessions/{}/presence", segment(session.as_str()));
        let Some(request) = self.request(Method::GET, &path) else { return };
        let cwd = self.cwd.as_ref().map(|cwd| [("cwd", cwd)]);
        let request = request.query(cwd.as_ref().map_or(&[][..], |cwd| &cwd[..]));
        let Ok(mut stream) = request.send().await else { return };
        while let Ok(Some(_)) = stream.chunk().await {}
    }

    /// Starts a daemon that was killed. One that was stopped took its address away, and is left to whoever stopped it.
    pub async fn revive_if_dead(&self) -> Result<(), Refusal> {
        match &self.place {
            Place::Local { address_file, .. } if address_file.exists() => self.revive().await,
            _ => Ok(()),
        }
    }

    /// One that was started by an older program goes on as that; whoever reads the log may wonder.
    pub async fn look_at_version(&self) {
        let Some(request) = self.request(Method::GET, "/api/stats") else { return };
        let Ok(Ok(stats)) = answer(request.timeout(CONNECT_MAX)).await else { return };
        let (theirs, own) = (stats["version"].as_str().unwrap_or("of an unknown version"), env!("CARGO_PKG_VERSION"));
        if theirs != own {
            tracing::warn!(
                "the Reveille server that runs is {theirs}, this program is {own}; `reveille doctor` says what to do"
            );
        }
    }

    /// A daemon answers when this returns.
    pub async fn revive(&self) -> Result<(), Refusal> {
        let asked = Instant::now();
        let mut given_up = self.starting.lock().await;
        if given_up.is_some_and(|at| at > asked) {
            return Err(self.unreachable()); // tried just now, while this one waited
        }
        let deadline = Instant::now() + START_MAX;
        let (mut started, mut pause) = (None, LOOK_AGAIN);
        while Instant::now() < deadline {
            if self.is_alive().await {
                return Ok(());
            }
            // A second bridge may have been faster: the store's lock lets one daemon live, and its address is awaited.
            let gone = match &mut started {
                None => true,
                Some(child) => tokio::process::Child::try_wait(child).is_ok_and(|ended| ended.is_some()),
            };
            if gone {
                started = self.start()?;
                // One that ends again and again is not helped by more of them.
                pause = (pause * 2).min(START_AGAIN_MAX);
                tokio::time::sleep(pause).await;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        *given_up = Some(Instant::now());
        Err(self.unreachable())
    }

    async fn is_alive(&self) -> bool {
        let Some(request) = self.request(Method::GET, "/healthz") else { return false };
        let Ok(asked) = request.timeout(CONNECT_MAX).send().await else { return false };
        // The address may be an old one, and somebody else's server there.
        asked.status() == StatusCode::OK && asked.text().await.is_ok_and(|said| said == "ok\n")
    }

    fn start(&self) -> Result<Option<tokio::process::Child>, Refusal> {
        let Place::Local { data_dir, arguments, .. } = &self.place else { return Ok(None) };
        let started = (|| {
            private::directory(data_dir)?;
            let log = private::append(&data_dir.join(LOG))?;
            Command::new(std::env::current_exe()?)
                .args(arguments)
                .current_dir(data_dir)
                .stdin(Stdio::null())
                .stdout(log.try_clone()?)
                .stderr(log)
                .spawn()
        })();
        started.map(Some).map_err(|error: std::io::Error| {
            let detail = format!("the Reveille daemon could not be started in {}: {error}", data_dir.display());
            Refusal::new("daemon_not_started", detail)
        })
    }

    fn unreachable(&self) -> Refusal {
        let detail = match &self.place {
            Place::At(Address { url, .. }) => {
                format!("no Reveille daemon answers at {url}; start it with `reveille`")
            }
            Place::Local { data_dir, .. } => {
                format!("the Reveille daemon could not be started; {} says why", data_dir.join(LOG).display())
            }
        };
        Refusal::new("daemon_not_started", detail)
    }

    /// Says what became of leased messages.
    pub async fn settle(&self, session: &SessionId, lease: &str, channel: Option<&str>, how: &'static str) {
        for _ in 0..SETTLE_TRIES_MAX {
            let path = format!("/api/sessions/{}/inbox/{how}", segment(session.as_str()));
            let Some(request) = self.request(Method::POST, &path) else { return };
            let settled = json!({"lease": lease, "channel": channel});
            if answer(request.json(&settled).timeout(CONNECT_MAX)).await.is_ok() {
                return;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

async fn answer(request: RequestBuilder) -> Result<Result<Value, Refusal>, Lost> {
    let lost = |error: reqwest::Error| if error.is_connect() { Lost::BeforeSending } else { Lost::AfterSending };
    let response = request.send().await.map_err(lost)?;
    let status = response.status();
    if status == StatusCode::MISDIRECTED_REQUEST {
        return Err(Lost::BeforeSending); // the daemon is gone, and another one has its port
    }
    let body: Value = response.json().await.map_err(lost)?;
    match body {
        body if status == StatusCode::OK => Ok(Ok(body)),
        Value::Object(problem) => Ok(Err(Refusal::of(problem))),
        other => Ok(Err(Refusal::new("unexpected_answer", format!("the daemon answered {status}: {other}")))),
    }
}
