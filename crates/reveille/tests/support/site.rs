//! The production engine and door on the production store, with a disk that can be filled and a feed of commits that
//! can be held back: what a slow or broken machine does, on demand.

use super::{Answer, Pending, START, client, send, within};
use async_trait::async_trait;
use reqwest::Method;
use reveille::{
    agents::{SessionStage, query::Turns},
    clock::ManualClock,
    config::{McpConfig, gateway::GatewayConfig},
    engine::{Engine, Settings},
    http::{self, App, serve::Doorman},
    mcp::StandbyLimits,
};
use reveille_core::{AgentId, Batch, ItemId, Needs, Session, SessionId, Timestamp, Utterance, command::State};
use reveille_store::{
    CommitError, Committed, Feed, Found, HistoryFilter, HourTally, ItemFilter, Recorded, SessionFilter, SqliteStore,
    Store, StoreError, StoredAgent,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub struct Disk {
    inner: Arc<SqliteStore>,
    fault: Arc<Mutex<Option<StoreError>>>,
    refused: Arc<AtomicUsize>,
    /// The first feed asked for, which tells calls and followers, flows only while this is true.
    flowing: watch::Sender<bool>,
    /// So many more commits are carried out; then they wait.
    allowed: watch::Sender<usize>,
    feeds: AtomicUsize,
    /// Reading the next deadlines is a bug, not an error.
    cursed: AtomicBool,
}

#[async_trait]
impl Store for Disk {
    fn server_id(&self) -> &str {
        self.inner.server_id()
    }
    /// Once asked for, it is carried out, whoever still waits for it: as every store does.
    async fn commit(&self, batch: Batch) -> Result<Arc<Committed>, CommitError> {
        let (inner, fault, refused) = (self.inner.clone(), self.fault.clone(), self.refused.clone());
        let left = self.allowed.clone();
        let committing = async move {
            let mut allowed = left.subscribe();
            if allowed.wait_for(|allowed| *allowed > 0).await.is_ok() {
                left.send_modify(|allowed| *allowed = allowed.saturating_sub(1));
            }
            let fault = fault.lock().unwrap().clone();
            if let Some(fault) = fault {
                refused.fetch_add(1, Ordering::SeqCst);
                return Err(fault.into());
            }
            inner.commit(batch).await
        };
        tokio::spawn(committing).await.expect("a commit does not panic")
    }
    async fn try_write(&self) -> Result<(), StoreError> {
        let fault = self.fault.lock().unwrap().clone();
        match fault {
            Some(fault) => Err(fault),
            None => self.inner.try_write().await,
        }
    }
    async fn load(&self, session: &SessionId, needs: Needs) -> Result<State, StoreError> {
        self.inner.load(session, needs).await
    }
    async fn load_items(&self, ids: Vec<ItemId>) -> Result<Vec<(SessionId, State)>, StoreError> {
        self.inner.load_items(ids).await
    }
    async fn deadlines(&self, limit: usize) -> Result<Vec<(Timestamp, ItemId)>, StoreError> {
        assert!(!self.cursed.load(Ordering::SeqCst), "a bug");
        self.inner.deadlines(limit).await
    }
    async fn items(&self, filter: ItemFilter) -> Result<Vec<Found>, StoreError> {
        self.inner.items(filter).await
    }
    async fn sessions(&self, filter: SessionFilter) -> Result<Vec<(i64, Session)>, StoreError> {
        self.inner.sessions(filter).await
    }
    async fn history(&self, filter: HistoryFilter) -> Result<Vec<Recorded>, StoreError> {
        self.inner.history(filter).await
    }
    async fn conversation(&self, session: &SessionId, limit: usize) -> Result<Vec<Utterance>, StoreError> {
        self.inner.conversation(session, limit).await
    }
    async fn set_agent(&self, id: &AgentId, agent: Option<StoredAgent>) -> Result<bool, StoreError> {
        self.inner.set_agent(id, agent).await
    }
    async fn agent(&self, id: &AgentId) -> Result<Option<StoredAgent>, StoreError> {
        self.inner.agent(id).await
    }
    async fn agents(&self) -> Result<Vec<(AgentId, StoredAgent)>, StoreError> {
        self.inner.agents().await
    }
    async fn tallies(&self) -> Result<BTreeMap<String, i64>, StoreError> {
        self.inner.tallies().await
    }
    async fn hours(&self, since: Timestamp) -> Result<Vec<HourTally>, StoreError> {
        self.inner.hours(since).await
    }
    async fn purge(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.inner.purge(before, limit).await
    }
    fn feed(&self) -> Feed {
        let mut feed = self.inner.feed();
        if self.feeds.fetch_add(1, Ordering::SeqCst) > 0 {
            return feed;
        }
        let (sender, held) = mpsc::unbounded_channel();
        let mut flowing = self.flowing.subscribe();
        tokio::spawn(async move {
            while let Some(committed) = feed.recv().await {
                if flowing.wait_for(|flowing| *flowing).await.is_err() || sender.send(committed).is_err() {
                    return;
                }
            }
        });
        held
    }
    async fn close(&self) {
        self.inner.close().await;
    }
}

pub struct Site {
    pub clock: ManualClock,
    pub engine: Arc<Engine>,
    pub url: String,
    pub http: reqwest::Client,
    pub app: App,
    /// Ends the door and the engine, whose tasks are these.
    pub stop: CancellationToken,
    pub tasks: TaskTracker,
    disk: Arc<Disk>,
    _data: tempfile::TempDir,
}

impl Site {
    pub async fn start() -> Self {
        Self::with(GatewayConfig::default()).await
    }

    pub async fn with(gateway: GatewayConfig) -> Self {
        let data = tempfile::tempdir().unwrap();
        let inner = SqliteStore::open(&data.path().join("reveille.db"), None, "server_test").unwrap();
        let disk = Arc::new(Disk {
            inner: Arc::new(inner),
            fault: Arc::default(),
            refused: Arc::default(),
            flowing: watch::Sender::new(true),
            allowed: watch::Sender::new(usize::MAX),
            feeds: AtomicUsize::new(0),
            cursed: AtomicBool::new(false),
        });
        let clock = ManualClock::at(Timestamp::from_millis(START));
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let engine = Engine::start(disk.clone(), Arc::new(clock.clone()), Settings::default(), stop.clone(), &tasks);
        let standby_limits = StandbyLimits::new(&McpConfig::default());
        let (agents, executor) = reveille::agents::open(&Default::default(), &engine).unwrap();
        let stage = SessionStage::new(engine.clone(), agents.clone(), tasks.clone(), stop.clone());
        let gateway = Arc::new(reveille::gateway::open(&gateway, &engine, stop.clone()).unwrap().stage(stage));
        let doorman = Doorman::default();
        let app = App {
            engine: engine.clone(),
            stop: stop.clone(),
            started_at: engine.now(),
            standby_limits,
            gateway,
            agents,
            executor,
            turns: Arc::new(Turns::new(8, TaskTracker::new(), stop.clone())),
            access: doorman.access.clone(),
            ui_dir: None,
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(http::serve::serve(listener, http::router(app.clone()), doorman, stop.clone()));
        Self { stop, tasks, disk, clock, app, engine, url, http: client(), _data: data }
    }

    pub fn fill(&self, fault: StoreError) {
        *self.disk.fault.lock().unwrap() = Some(fault);
    }

    /// The next look at the deadlines panics.
    pub fn curse(&self) {
        self.disk.cursed.store(true, Ordering::SeqCst);
    }

    pub fn free(&self) {
        *self.disk.fault.lock().unwrap() = None;
    }

    pub async fn tool(&self, tool: &str, arguments: Value) -> Answer {
        let url = format!("{}/api/sessions/agent/tools/{tool}", self.url);
        within(tool, send(&self.http, Method::POST, &url, Some(&arguments), None)).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        let url = format!("{}{path}", self.url);
        within(path, send(&self.http, Method::POST, &url, Some(&body), None)).await
    }

    pub async fn get(&self, path: &str) -> Value {
        send(&self.http, Method::GET, &format!("{}{path}", self.url), None, None).await.body
    }

    pub async fn everything(&self) -> Value {
        json!([
            self.get("/api/timers").await,
            self.get("/api/history?limit=1000").await,
            self.get("/api/sessions/agent/inbox").await,
        ])
    }

    /// Whether waiting calls and followers hear of commits.
    pub fn flow(&self, flowing: bool) {
        self.disk.flowing.send_replace(flowing);
    }

    /// So many more commits are carried out; then they wait for the next word.
    pub fn allow(&self, commits: usize) {
        self.disk.allowed.send_replace(commits);
    }

    /// Until all allowed commits are under way.
    pub async fn used_up(&self) {
        let mut allowed = self.disk.allowed.subscribe();
        within("the commits", allowed.wait_for(|allowed| *allowed == 0)).await.unwrap();
    }

    /// A `timer` call that stands by when this returns.
    pub async fn standing(&self, arguments: Value) -> Pending {
        let mut count = self.engine.standing_by();
        let before = *count.borrow_and_update();
        let (http, url) = (self.http.clone(), format!("{}/api/sessions/agent/tools/timer", self.url));
        let call = tokio::spawn(async move { send(&http, Method::POST, &url, Some(&arguments), None).await });
        within("the call stands by", count.wait_for(|count| *count > before)).await.unwrap();
        call
    }

    /// Until this many more commits were refused.
    pub async fn refusals(&self, more: usize) {
        let wanted = self.disk.refused.load(Ordering::SeqCst) + more;
        within("refused commits", async {
            while self.disk.refused.load(Ordering::SeqCst) < wanted {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}
