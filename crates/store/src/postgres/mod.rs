//! Several nodes on one PostgreSQL as one server. Sessions are fenced by versions as everywhere; what crosses between
//! nodes is the feed (`relay`) and a little about who is alive (`nodes`). The database does all the coordination, in
//! plain SQL: nothing here elects, locks or votes.
//!
//! One task writes, in groups (`writer`); a few connections read (`lane`); one listens.

mod history;
mod import;
mod inspect;
mod lane;
mod listen;
mod migrate;
mod nodes;
mod options;
mod purge;
mod read;
mod relay;
mod text;
mod tls;
mod write;
mod writer;

pub use import::{Imported, import};
pub use inspect::inspect;
pub use options::PostgresOptions;

use crate::{
    CommitError, Committed, Feed, Found, HistoryFilter, HourTally, ItemFilter, Recorded, SessionFilter, Store,
    StoreError, StoredAgent, feed::Listeners,
};
use async_trait::async_trait;
use lane::{Away, Lane};
use nodes::Nodes;
use options::Target;
use relay::Relay;
use reveille_core::{AgentId, Batch, ItemId, Needs, Session, SessionId, Timestamp, Utterance, command::State};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tokio_util::sync::{CancellationToken, DropGuard};
use writer::{Job, Waiting, Writer};

pub struct PostgresStore {
    server_id: String,
    server: i64,
    wait: Duration,
    jobs: mpsc::UnboundedSender<Job>,
    /// For the small reads that decisions need.
    quick: Vec<Lane>,
    next: AtomicUsize,
    /// For lists, so that a long one never delays a firing.
    slow: Lane,
    /// For retention, which may take long and delays nobody.
    sweep: Lane,
    /// For what nodes tell each other, which need not be durable.
    pulse: Arc<Lane>,
    nodes: Arc<Nodes>,
    away: Away,
    listeners: Arc<Listeners>,
    stop: CancellationToken,
    _stop: DropGuard,
}

impl PostgresStore {
    /// `server_id`: which server to be; without it the database's own, which is `fresh_server_id` if it has none yet.
    pub async fn open(
        options: &PostgresOptions,
        server_id: Option<&str>,
        fresh_server_id: &str,
    ) -> Result<Self, StoreError> {
        let target = options.target()?;
        let (server, server_id) = migrate::migrate(&target, server_id, fresh_server_id).await?;
        let away = Away::default();
        let lane = |target: &Target| Lane::new(target.clone(), options.wait, options.statement_timeout, away.clone());
        let mut hasty = target.clone();
        hasty.settings.push_str("; SET synchronous_commit = off");
        let pulse = Arc::new(lane(&hasty));
        let node = (rand::random::<u64>() >> 1) as i64;
        let rows = pulse.read("SELECT commits FROM reveille.servers WHERE num = $1", &[&server]).await?;
        let told = rows.first().map_or(0, |row| row.get(0));
        let (listeners, stop) = (Arc::new(Listeners::default()), CancellationToken::new());
        let (relay, nodes) =
            (Arc::new(Relay::new(server, node, told, listeners.clone())), Arc::new(Nodes::new(server, node)));
        nodes.beat_once(&pulse, &relay).await?;

        let (jobs, queue) = mpsc::unbounded_channel();
        let writer = Writer { lane: lane(&target), server, node, relay: relay.clone() };
        tokio::spawn(writer.serve(queue));
        let store = Self {
            server_id,
            server,
            wait: options.wait,
            jobs,
            quick: (0..options.readers.max(1)).map(|_| lane(&target)).collect(),
            next: AtomicUsize::new(0),
            slow: lane(&target),
            sweep: lane(&target),
            pulse: pulse.clone(),
            nodes: nodes.clone(),
            away,
            listeners,
            _stop: stop.clone().drop_guard(),
            stop,
        };
        store.start(options, target, relay);
        Ok(store)
    }

    /// The tasks between nodes. They end with the store.
    fn start(&self, options: &PostgresOptions, target: Target, relay: Arc<Relay>) {
        let spawn = |task: futures_util::future::BoxFuture<'static, ()>| {
            let stop = self.stop.clone();
            tokio::spawn(async move { stop.run_until_cancelled(task).await });
        };
        let (pulse, nodes, server, every) = (&self.pulse, &self.nodes, self.server, options.poll);
        let (n, p, r) = (nodes.clone(), pulse.clone(), relay.clone());
        spawn(Box::pin(async move { n.beat(&p, &r).await }));
        let (n, p) = (nodes.clone(), pulse.clone());
        spawn(Box::pin(async move { n.share_holds(&p).await }));
        let (p, r) = (pulse.clone(), relay.clone());
        spawn(Box::pin(async move { r.follow(&p).await }));
        if options.listen {
            let (p, r) = (pulse.clone(), relay.clone());
            spawn(Box::pin(async move { r.announce(&p).await }));
            spawn(Box::pin(async move { listen::listen(&target, &relay).await }));
        } else {
            let p = pulse.clone();
            spawn(Box::pin(async move { listen::poll(&p, server, every, &relay).await }));
        }
    }

    fn quick(&self) -> &Lane {
        &self.quick[self.next.fetch_add(1, Ordering::Relaxed) % self.quick.len()]
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn server_id(&self) -> &str {
        &self.server_id
    }

    async fn commit(&self, batch: Batch) -> Result<Arc<Committed>, CommitError> {
        let (answer, result) = oneshot::channel();
        let waiting = Waiting { batch, answer, deadline: Instant::now() + self.wait };
        self.jobs.send(Job::Commit(Box::new(waiting))).map_err(|_| StoreError::Closed)?;
        result.await.map_err(|_| StoreError::Closed)?
    }

    async fn try_write(&self) -> Result<(), StoreError> {
        write::tried(self.quick(), Instant::now() + self.wait).await
    }

    async fn load(&self, session: &SessionId, needs: Needs) -> Result<State, StoreError> {
        read::load(self.quick(), self.server, session, &needs).await
    }

    async fn load_items(&self, ids: Vec<ItemId>) -> Result<Vec<(SessionId, State)>, StoreError> {
        read::load_items(self.quick(), self.server, &ids).await
    }

    async fn deadlines(&self, limit: usize) -> Result<Vec<(Timestamp, ItemId)>, StoreError> {
        read::deadlines(self.quick(), self.server, limit).await
    }

    async fn items(&self, filter: ItemFilter) -> Result<Vec<Found>, StoreError> {
        read::items(&self.slow, self.server, &filter).await
    }

    async fn sessions(&self, filter: SessionFilter) -> Result<Vec<(i64, Session)>, StoreError> {
        read::sessions(&self.slow, self.server, &filter).await
    }

    async fn history(&self, filter: HistoryFilter) -> Result<Vec<Recorded>, StoreError> {
        history::history(&self.slow, self.server, &filter).await
    }

    async fn conversation(&self, session: &SessionId, limit: usize) -> Result<Vec<Utterance>, StoreError> {
        read::conversation(self.quick(), self.server, session, limit).await
    }

    async fn set_agent(&self, id: &AgentId, agent: Option<StoredAgent>) -> Result<bool, StoreError> {
        let deadline = Instant::now() + self.wait;
        write::set_agent(self.quick(), self.server, id, agent.as_ref(), deadline).await
    }

    async fn agent(&self, id: &AgentId) -> Result<Option<StoredAgent>, StoreError> {
        read::agent(self.quick(), self.server, id).await
    }

    async fn agents(&self) -> Result<Vec<(AgentId, StoredAgent)>, StoreError> {
        read::agents(&self.slow, self.server).await
    }

    async fn hours(&self, since: Timestamp) -> Result<Vec<HourTally>, StoreError> {
        read::hours(&self.slow, self.server, since).await
    }

    async fn tallies(&self) -> Result<BTreeMap<String, i64>, StoreError> {
        read::tallies(&self.slow, self.server).await
    }

    async fn purge(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        purge::purge(&self.sweep, self.server, before, limit).await
    }

    fn feed(&self) -> Feed {
        self.listeners.add()
    }

    fn acts_first(&self, id: &ItemId) -> bool {
        self.nodes.acts_first(id)
    }

    fn is_alone(&self) -> bool {
        self.nodes.are_alone()
    }

    fn holds(&self, session: &SessionId, held: bool) {
        self.nodes.holds(session, held);
    }

    async fn is_held_elsewhere(&self, session: &SessionId) -> Result<bool, StoreError> {
        self.nodes.is_held_elsewhere(self.quick(), session).await
    }

    fn is_away(&self) -> bool {
        self.away.is()
    }

    async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.jobs.send(Job::Close { done }).is_ok() {
            let _ = closed.await;
        }
        self.stop.cancel();
        self.nodes.leave(&self.pulse).await;
        for lane in self.quick.iter().chain([&self.slow, &self.sweep, &*self.pulse]) {
            lane.close();
        }
        self.listeners.close();
    }
}
