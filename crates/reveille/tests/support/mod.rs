//! A user's view of a running Reveille: the production server with a clock of one's own, spoken to over real HTTP.
//!
//! Nothing here waits for a length of time. Whatever has to happen first is waited for by its event (calls standing by,
//! commits of the store); [`within`] only turns a hang into a failure.

#![allow(dead_code, clippy::unwrap_used, reason = "each test uses what it needs, and a failed unwrap is a failed test")]

pub mod endpoint;
pub mod install;
pub mod mcp;
pub mod process;
pub mod site;

use reqwest::Method;
use reveille::{
    clock::{Clock, ManualClock},
    config::Config,
    run::Server,
};
use reveille_core::{Millis, Timestamp};
use scratch_postgres::Cluster;
use serde_json::{Value, json};
use std::{fmt::Debug, future::Future, sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::{io::AsyncWriteExt, net::TcpStream, task::JoinHandle};

/// Where the manual clock begins.
pub const START: i64 = 1_800_000_000_000;

/// Fails instead of hanging.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(Duration::from_secs(20), future).await {
        Ok(done) => done,
        Err(_) => panic!("nothing happened within 20 seconds: {what}"),
    }
}

/// These tests are run on SQLite, and once more as parts of `on_postgres.rs`; or all on PostgreSQL if one asks for it.
pub fn on_postgres() -> bool {
    let asked = std::env::var("REVEILLE_TEST_DATABASE").is_ok_and(|database| database == "postgres");
    asked || module_path!().starts_with("on_postgres") || module_path!().starts_with("nodes")
}

/// The same of whole processes; those of `nodes` are told where to keep things by each test.
pub fn homes_on_postgres() -> bool {
    on_postgres() && !module_path!().starts_with("nodes")
}

pub struct World {
    pub clock: ManualClock,
    pub config: Config,
    pub http: reqwest::Client,
    pub url: String,
    server: Option<Server>,
    _data: TempDir,
}

/// A response: its status and its JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
}

/// A call in the background.
pub type Pending = JoinHandle<Answer>;

impl World {
    pub async fn start() -> Self {
        Self::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut Config)) -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut config = Config {
            listen: "127.0.0.1:0".parse().unwrap(),
            data_dir: data.path().to_owned(),
            server_id: None,
            ..Config::default()
        };
        if on_postgres() {
            config.database_url = Some(Cluster::shared().database());
        }
        change(&mut config);
        let clock = ManualClock::at(Timestamp::from_millis(START));
        let mut world = Self { clock, config, http: client(), url: String::new(), server: None, _data: data };
        world.up().await;
        world
    }

    /// Another node of the same server, by the same clock.
    pub async fn beside(&self) -> Self {
        let data = tempfile::tempdir().unwrap();
        let config = Config { data_dir: data.path().to_owned(), ..self.config.clone() };
        let clock = self.clock.clone();
        let mut world = Self { clock, config, http: client(), url: String::new(), server: None, _data: data };
        world.up().await;
        world
    }

    /// Starts the server (again) on the same data.
    pub async fn up(&mut self) {
        let clock: Arc<dyn Clock> = Arc::new(self.clock.clone());
        let server = within("the server starts", async {
            loop {
                match Server::start(&self.config, clock.clone()).await {
                    Ok(server) => return server,
                    // A program that another test is just starting has a copy of the lock for a moment.
                    Err(error) if error.to_string().contains("in use") => {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    Err(error) => panic!("the server does not start: {error:#}"),
                }
            }
        })
        .await;
        self.url = format!("http://{}", server.address);
        self.server = Some(server);
    }

    /// Stops the server as SIGTERM does.
    pub async fn down(&mut self) {
        let server = self.server.take().expect("the server runs");
        within("the server stops", server.stop()).await;
        // Idle connections belong to the server that is gone.
        self.http = client();
    }

    pub fn server(&self) -> &Server {
        self.server.as_ref().expect("the server runs")
    }

    pub fn now(&self) -> i64 {
        self.clock.now().as_millis()
    }

    pub fn advance(&self, seconds: u64) {
        self.clock.advance(Millis::from_secs(seconds));
    }

    pub async fn request(&self, method: Method, path: &str, body: Option<&Value>) -> Answer {
        send(&self.http, method, &format!("{}{path}", self.url), body, None).await
    }

    pub async fn get(&self, path: &str) -> Value {
        let answer = self.request(Method::GET, path, None).await;
        assert_eq!(answer.status, 200, "GET {path}: {}", answer.body);
        answer.body
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.request(Method::POST, path, Some(&body)).await
    }

    /// One tool call, whatever comes back.
    pub async fn tool(&self, session: &str, tool: &str, arguments: Value) -> Answer {
        self.post(&format!("/api/sessions/{session}/tools/{tool}"), arguments).await
    }

    /// One tool call that is expected to be carried out at once.
    pub async fn done(&self, session: &str, tool: &str, arguments: Value) -> Value {
        let answer = within(tool, self.tool(session, tool, arguments.clone())).await;
        assert_eq!(answer.status, 200, "{tool} {arguments}: {}", answer.body);
        checked(answer.body)
    }

    /// One tool call that is expected to be refused: its status and code.
    pub async fn refused(&self, session: &str, tool: &str, arguments: Value) -> (u16, String, Value) {
        let answer = within(tool, self.tool(session, tool, arguments.clone())).await;
        let code = answer.body["code"].as_str().unwrap_or_else(|| panic!("{tool} {arguments}: {answer:?}"));
        (answer.status, code.to_owned(), answer.body)
    }

    /// A `timer` call that stands by when this returns.
    pub async fn standing(&self, session: &str, arguments: Value) -> Pending {
        self.standing_keyed(session, arguments, None).await
    }

    pub async fn standing_keyed(&self, session: &str, arguments: Value, key: Option<&str>) -> Pending {
        let url = format!("{}/api/sessions/{session}/tools/timer", self.url);
        let (http, key) = (self.http.clone(), key.map(str::to_owned));
        self.stands(async move { send(&http, Method::POST, &url, Some(&arguments), key.as_deref()).await }).await
    }

    /// Whatever makes a call, in the background; the call stands by when this returns.
    pub async fn stands<T>(&self, call: impl Future<Output = T> + Send + 'static) -> JoinHandle<T>
    where
        T: Debug + Send + 'static,
    {
        let mut count = self.server().engine.standing_by();
        let before = *count.borrow_and_update();
        let mut call = tokio::spawn(call);
        within("the call stands by", async {
            tokio::select! {
                reached = count.wait_for(|count| *count > before) => { reached.unwrap(); }
                answer = &mut call => panic!("it did not stand by: {answer:?}"),
            }
        })
        .await;
        call
    }

    /// The same on a connection of its own.
    pub async fn standing_raw(&self, session: &str, arguments: &Value) -> TcpStream {
        let mut count = self.server().engine.standing_by();
        let before = *count.borrow_and_update();
        let body = arguments.to_string();
        let mut stream = TcpStream::connect(self.server().address).await.unwrap();
        let head = format!("POST /api/sessions/{session}/tools/timer HTTP/1.1\r\nhost: localhost\r\n");
        let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(request.as_bytes()).await.unwrap();
        within("the call stands by", count.wait_for(|count| *count > before)).await.unwrap();
        stream
    }

    /// Until this many calls stand by.
    pub async fn standing_count(&self, wanted: usize) {
        let mut count = self.server().engine.standing_by();
        within("calls standing by", count.wait_for(|count| *count == wanted)).await.unwrap();
    }

    /// Looks again after every commit until the look succeeds.
    pub async fn until<T, F: Future<Output = Option<T>>>(&self, what: &str, mut look: impl FnMut() -> F) -> T {
        let mut feed = self.server().engine.store().feed();
        within(what, async {
            loop {
                if let Some(seen) = look().await {
                    return seen;
                }
                feed.recv().await.expect("the store is open");
            }
        })
        .await
    }

    /// Waits for this event of this timer or message.
    pub async fn until_event(&self, id: &str, event: &str) -> Value {
        self.until(&format!("{event} of {id}"), || async {
            self.history_of(id).await.into_iter().find(|entry| entry["event"] == event)
        })
        .await
    }

    /// Waits until a message about this timer is in the inbox and free to be taken.
    pub async fn until_message(&self, session: &str, timer: &str) -> Value {
        self.until(&format!("a message about {timer}"), || async {
            let messages = self.inbox(session).await;
            messages.into_iter().find(|message| message["timer_id"] == timer && message.get("leased_until").is_none())
        })
        .await
    }

    pub async fn inbox(&self, session: &str) -> Vec<Value> {
        list(&self.get(&format!("/api/sessions/{session}/inbox")).await["messages"])
    }

    pub async fn timers(&self) -> Vec<Value> {
        list(&self.get("/api/timers?limit=1000").await["timers"])
    }

    /// All history, oldest first.
    pub async fn history(&self) -> Vec<Value> {
        list(&self.get("/api/history?after=0&limit=1000").await["entries"])
    }

    pub async fn history_of(&self, id: &str) -> Vec<Value> {
        list(&self.get(&format!("/api/history?after=0&limit=1000&id={id}")).await["entries"])
    }

    /// The names of the events of one session, in order.
    pub async fn events_of(&self, session: &str) -> Vec<String> {
        let entries = self.get(&format!("/api/history?after=0&limit=1000&session={session}")).await;
        list(&entries["entries"]).iter().map(|entry| text(&entry["event"])).collect()
    }
}

pub fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

pub async fn send(
    http: &reqwest::Client,
    method: Method,
    url: &str,
    body: Option<&Value>,
    key: Option<&str>,
) -> Answer {
    try_send(http, method, url, body, key).await.unwrap_or_else(|error| panic!("{url}: {error:?}"))
}

pub async fn try_send(
    http: &reqwest::Client,
    method: Method,
    url: &str,
    body: Option<&Value>,
    key: Option<&str>,
) -> reqwest::Result<Answer> {
    let mut request = http.request(method, url);
    if let Some(body) = body {
        request = request.json(body);
    }
    if let Some(key) = key {
        request = request.header("Idempotency-Key", key);
    }
    let response = request.send().await?;
    let status = response.status().as_u16();
    let bytes = response.bytes().await?;
    let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)));
    Ok(Answer { status, body })
}

/// The answer of a background call, which must be a result.
pub async fn result(call: Pending) -> Value {
    let answer = within("the call answers", call).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
    checked(answer.body)
}

/// What holds for every timer ever shown.
fn checked(body: Value) -> Value {
    let timers = body["timers"].as_array().cloned().unwrap_or_else(|| vec![body.clone()]);
    for timer in &timers {
        let field = |name: &str| timer[name].as_f64().unwrap_or_else(|| panic!("{name} in {timer}"));
        let sum = field("elapsed_time") + field("remaining_time");
        assert!((sum - field("total_duration")).abs() < 1e-6, "elapsed + remaining is not total: {timer}");
    }
    assert!(!text(&body["hint"]).is_empty(), "no hint: {body}");
    body
}

/// Every expected field is there with that value; others are not looked at. `null` means "absent".
#[track_caller]
pub fn has(value: &Value, expected: Value) {
    for (name, wanted) in expected.as_object().expect("an object of expected fields") {
        assert_eq!(value.get(name).unwrap_or(&Value::Null), wanted, "`{name}` of {value}");
    }
}

#[track_caller]
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}")).to_owned()
}

#[track_caller]
pub fn list(value: &Value) -> Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}")).clone()
}

#[track_caller]
pub fn id(value: &Value) -> String {
    let id = text(&value["timer_id"]);
    let short = id.strip_prefix("timer_").expect("ids begin with timer_");
    assert!(
        (8..=10).contains(&short.len()) && short.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()),
        "{id}"
    );
    id
}

/// The text of the message that a timer's end leaves.
pub fn finished(id: &str, label: &str, text: &str, seconds: u64) -> String {
    format!(
        "[Timer Completed] Timer '{id}' has finished.\n{label}: {text}\nDuration: {seconds} seconds\nElapsed: {seconds} seconds"
    )
}
