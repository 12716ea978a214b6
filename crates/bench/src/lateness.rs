//! From deadline to durable firing, under load, against a bare in-memory queue.

use crate::{baseline, seed, table};
use anyhow::ensure;
use futures_util::{StreamExt, stream};
use reveille::{
    clock::SystemClock,
    engine::{Engine, EngineError, Settings},
};
use reveille_core::{
    AgentId, Call, Command, Millis, Purpose, SessionId,
    session_timer::{Action, Reset, Spec},
};
use reveille_store::{Feed, SqliteStore, Store};
use std::{collections::HashMap, path::Path, sync::Arc, time::Duration};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker, time::DelayQueue};

pub const TIMERS: usize = 10_000;
pub const SPREAD_MS: u64 = 10_000;
/// From creation to the first deadline, so that creating does not disturb firing.
pub const LEAD_MS: u64 = 5_000;
const PER_SESSION: usize = 10;
const CREATORS: usize = 64;

pub async fn run(dir: &Path, pending: usize) -> anyhow::Result<()> {
    let memory = delay_queue().await;
    let naive = naive(dir)?;
    let directory = seed::directory(dir, pending).await?;
    let bench = Bench::start(directory.path()).await?;
    let ours = bench.fire(|number| LEAD_MS + number as u64 * SPREAD_MS / TIMERS as u64).await?;
    bench.stop().await;
    let base = [table::percentile(&memory, 0.5) as f64, table::percentile(&memory, 0.99) as f64];
    let row = |name: String, late: &[i64]| {
        let (p50, p99) = (table::percentile(late, 0.5), table::percentile(late, 0.99));
        [
            name,
            table::ms(p50),
            table::ms(p99),
            table::ms(late[late.len() - 1]),
            format!("{:.2} / {:.2}", p50 as f64 / base[0], p99 as f64 / base[1]),
        ]
    };
    table::print(
        &format!("Lateness, {TIMERS} timers over {} s", SPREAD_MS / 1000),
        ["", "p50 ms", "p99 ms", "max ms", "× memory p50 / p99"],
        &[
            row("memory: bare DelayQueue".into(), &memory),
            row(format!("reveille to the durable firing, {pending} pending"), &ours),
            row("naive: SQLite, one-second poll".into(), &naive),
        ],
    );
    println!("\nnone early, none lost, none twice");
    Ok(())
}

/// A production engine on a database of its own.
pub struct Bench {
    pub engine: Arc<Engine>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Bench {
    pub async fn start(dir: &Path) -> anyhow::Result<Self> {
        Ok(Self::on(Arc::new(SqliteStore::open(&dir.join("reveille.db"), None, "bench")?)))
    }

    /// On any store.
    pub fn on(store: Arc<dyn Store>) -> Self {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let engine = Engine::start(store, Arc::new(SystemClock), Settings::default(), stop.clone(), &tasks);
        Self { engine, stop, tasks }
    }

    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.engine.store().close().await;
    }

    /// Makes timers due `due_in(number)` milliseconds from now and waits for all of them; lateness in microseconds,
    /// sorted.
    pub async fn fire(&self, due_in: impl Fn(usize) -> u64) -> anyhow::Result<Vec<i64>> {
        let feed = self.engine.store().feed();
        let began = seed::micros() / 1000;
        let due: Vec<i64> = (0..TIMERS).map(|number| began + due_in(number) as i64).collect();
        let dues = self.create("fire", &due).await?;
        collect(feed, dues, "timer.completed").await
    }

    /// One mission per deadline (milliseconds since 1970); what is due when, by id.
    pub async fn create(&self, name: &str, due: &[i64]) -> anyhow::Result<HashMap<String, i64>> {
        // Neighbours in different sessions: commands on one session take turns, and that is not what is measured.
        let sessions = due.len().div_ceil(PER_SESSION);
        let made = stream::iter(due.iter().enumerate())
            .map(|(number, due)| self.mission(format!("{name}-{}", number % sessions), *due))
            .buffer_unordered(CREATORS);
        made.collect::<Vec<_>>().await.into_iter().collect()
    }

    async fn mission(&self, session: String, due: i64) -> anyhow::Result<(String, i64)> {
        let left = due - self.engine.now().as_millis();
        ensure!(left > 0, "creating took longer than the lead");
        let session = SessionId::new(session);
        let done = loop {
            let command = Command::Create {
                id: self.engine.fresh_timer(),
                purpose: Purpose::Mission("measure".into()),
                total: Millis::new(left as u64),
                timeout: None,
                until: None,
                key: None,
                task: None,
            };
            match self.engine.execute(&session, Call::new(command)).await {
                Err(EngineError::IdTaken) => {} // drawn twice in one second: once in a hundred million
                done => break done?,
            }
        };
        let reveille_core::Reply::Timer { timer, .. } = done.reply else { anyhow::bail!("not a timer") };
        let due = timer.due().expect("a new timer has a deadline").as_millis();
        Ok((timer.id.to_string(), due))
    }
}

impl Bench {
    /// The same for session timers: sessions begin and are answered, and each has one timer that fires after a silence.
    pub async fn fire_sessions(&self, watched: usize) -> anyhow::Result<Vec<i64>> {
        let feed = self.engine.store().feed();
        let began = seed::micros() / 1000;
        let talk = |number: usize| {
            let due = began + (LEAD_MS + number as u64 * SPREAD_MS / watched as u64) as i64;
            self.talk(format!("watched-{number}"), due)
        };
        let made = stream::iter(0..watched).map(talk).buffer_unordered(CREATORS);
        let dues: HashMap<String, i64> = made.collect::<Vec<_>>().await.into_iter().collect::<anyhow::Result<_>>()?;
        collect(feed, dues, "session_timer.triggered").await
    }

    async fn talk(&self, session: String, due: i64) -> anyhow::Result<(String, i64)> {
        let session = SessionId::new(session);
        let left = due - self.engine.now().as_millis();
        ensure!(left > 0, "creating took longer than the lead");
        let spec = Spec {
            timer_id: "idle_reminder".into(),
            delay: Millis::new(left as u64),
            max_triggers: 1,
            reset: Reset::Session,
            action: Action::Say { text: "您好，请问还在吗？".into() },
            notify: Vec::new(),
        };
        let timers = Some(vec![(self.engine.fresh_session_timer(), spec)]);
        let message = Command::Message {
            agent: AgentId::new("bench:watched"),
            timers,
            turn: None,
            said: Vec::new(),
            quiet: None,
        };
        self.engine.execute(&session, Call::new(message)).await?;
        let response =
            Command::Response { agent: None, turn: None, said: Vec::new(), made: Vec::new(), notify: Vec::new() };
        let done = self.engine.execute(&session, Call::new(response)).await?;
        let reveille_core::Reply::Turn { timers, .. } = done.reply else { anyhow::bail!("not a turn") };
        let due = timers[0].due().expect("an answered session's timer has a deadline").as_millis();
        Ok((timers[0].id.to_string(), due))
    }
}

async fn collect(mut feed: Feed, mut dues: HashMap<String, i64>, event: &str) -> anyhow::Result<Vec<i64>> {
    let mut late = Vec::with_capacity(dues.len());
    let count = dues.len();
    let last = dues.values().max().copied().unwrap_or_default();
    while late.len() < count {
        let left = (last + 10_000).saturating_sub(seed::micros() / 1000).max(0) as u64;
        let Ok(Some(news)) = tokio::time::timeout(Duration::from_millis(left), feed.recv()).await else {
            anyhow::bail!("{} of {count} timers were lost", count - late.len());
        };
        let now = seed::micros();
        let entries = news.commits().iter().flat_map(|committed| &committed.batch.history);
        for entry in entries.filter(|entry| entry.event == event) {
            let Some(due) = dues.remove(&*entry.subject) else { anyhow::bail!("{} fired twice", entry.subject) };
            let micros = now - due * 1000;
            ensure!(micros >= 0, "{} fired {} µs early", entry.subject, -micros);
            late.push(micros);
        }
    }
    late.sort_unstable();
    Ok(late)
}

async fn delay_queue() -> Vec<i64> {
    let mut queue = DelayQueue::new();
    let began = Instant::now();
    for number in 0..TIMERS as u64 {
        let due = began + Duration::from_millis(100 + number * SPREAD_MS / TIMERS as u64);
        queue.insert_at(due, due);
    }
    let mut late = Vec::with_capacity(TIMERS);
    while let Some(expired) = queue.next().await {
        late.push(expired.into_inner().elapsed().as_micros() as i64);
    }
    late.sort_unstable();
    late
}

/// What one would write first: a poll every second, one transaction for each firing.
fn naive(dir: &Path) -> anyhow::Result<Vec<i64>> {
    let directory = tempfile::tempdir_in(dir)?;
    let connection = baseline::open(&directory.path().join("naive.db"))?;
    let began = seed::micros();
    connection.execute_batch("BEGIN")?;
    for number in 0..TIMERS as i64 {
        let due = began + 500_000 + number * SPREAD_MS as i64 * 1000 / TIMERS as i64;
        connection.execute("INSERT INTO timers (due, body) VALUES (?1, '')", [due])?;
    }
    connection.execute_batch("COMMIT")?;
    let mut late = Vec::with_capacity(TIMERS);
    while late.len() < TIMERS {
        std::thread::sleep(Duration::from_secs(1));
        let due: Vec<(i64, i64)> = connection
            .prepare_cached("SELECT id, due FROM timers WHERE due <= ?1 ORDER BY due")?
            .query_map([seed::micros()], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        for (id, due) in due {
            connection.execute("DELETE FROM timers WHERE id = ?1", [id])?;
            late.push(seed::micros() - due);
        }
    }
    late.sort_unstable();
    Ok(late)
}
