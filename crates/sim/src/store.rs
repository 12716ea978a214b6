//! A store with everything that can befall one, around a real one: it refuses, is slow, does what it is asked and does not
//! answer, tells of others' commits late or not at all, and its process dies before or after a commit. What it takes is
//! written into the trace in the order in which it takes it.

use crate::{
    gate::{Gate, Life},
    plant::Plant,
    random::Drawn,
    time::NodeClock,
    trace::{Event, Process, Trace},
    weather::{Rates, Weather},
};
use async_trait::async_trait;
use reveille_core::{AgentId, Batch, ItemId, Needs, Session, SessionId, Timestamp, Utterance, command::State};
use reveille_store::{
    CommitError, Committed, Feed, Found, HistoryFilter, HourTally, ItemFilter, News, Recorded, SessionFilter, Store,
    StoreError, StoredAgent,
};
use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::mpsc;

/// In a storm, so long at most.
const SLOW_MS: u64 = 3000;
/// Word of another node's commit takes so long at most while all is well.
const WORD_MS: u64 = 30;

pub struct SimStore {
    pub inner: Arc<dyn Store>,
    pub by: Process,
    pub gate: Gate,
    pub clock: NodeClock,
    pub trace: Arc<Trace>,
    pub weather: Arc<Weather>,
    pub random: Arc<Drawn>,
    /// The database is elsewhere.
    pub remote: bool,
    pub plant: Option<Arc<Plant>>,
    /// The store's own threads tell of commits when they get to it, and a run could not be repeated: so it is told here.
    pub tells: Option<Mutex<Vec<mpsc::UnboundedSender<News>>>>,
}

/// What becomes of a commit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Done,
    Refused,
    Conflict,
    Unanswered,
    DiesBefore,
    DiesAfter,
}

/// The real store's answer, waited for in place: a run has one thread, and nothing else may happen meanwhile.
pub fn now<T>(asked: impl Future<Output = T>) -> T {
    // Without a budget: it cannot be given back while this thread waits.
    futures_executor::block_on(tokio::task::unconstrained(asked))
}

impl SimStore {
    fn rates(&self) -> Rates {
        self.weather.rates()
    }

    async fn takes_a_while(&self) {
        let slow = self.rates().slow;
        let wait = self.random.with(|random| match random.mille(slow) {
            true => random.spread(SLOW_MS),
            false => random.below(3),
        });
        if wait > 0 {
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
        self.gate.pass().await;
    }

    fn fate(&self) -> Fate {
        let rates = self.rates();
        self.random.with(|random| {
            if random.mille(rates.refuse) {
                return Fate::Refused;
            }
            if random.mille(rates.conflict) {
                return Fate::Conflict;
            }
            if random.mille(rates.crash) {
                return if random.mille(500) { Fate::DiesBefore } else { Fate::DiesAfter };
            }
            if self.remote && random.mille(rates.unanswered) { Fate::Unanswered } else { Fate::Done }
        })
    }

    fn failure(&self) -> StoreError {
        match self.remote {
            true => StoreError::Unavailable("the connection is lost".into()),
            false => {
                self.random.with(|random| random.pick(&[StoreError::Full, StoreError::Failed("I/O".into())]).clone())
            }
        }
    }

    async fn dies(&self) -> ! {
        self.gate.set(Life::Dead);
        loop {
            self.gate.pass().await;
        }
    }

    fn take(&self, batch: Batch) -> Result<Arc<Committed>, CommitError> {
        let planted = self.plant.as_ref().and_then(|plant| plant.instead(&batch));
        let taken = now(self.inner.commit(planted.unwrap_or(batch)));
        if let Ok(committed) = &taken {
            let (highest, batch) = (self.clock.highest(), Arc::new(committed.batch.clone()));
            self.trace.note(Event::Committed { by: self.by, highest, batch });
            if let Some(feeds) = &self.tells {
                let news = News::Committed(vec![committed.clone()].into());
                let mut feeds = feeds.lock().unwrap_or_else(PoisonError::into_inner);
                feeds.retain(|feed| feed.send(news.clone()).is_ok());
            }
        }
        taken
    }

    /// A read may be refused, too.
    async fn read<T>(&self, ask: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        self.gate.pass().await;
        self.takes_a_while().await;
        let refuse = self.rates().refuse / 2;
        if self.random.with(|random| random.mille(refuse)) {
            return Err(self.failure());
        }
        let read = now(ask);
        self.gate.pass().await;
        read
    }
}

/// How word of commits comes to a node.
struct Word {
    gate: Gate,
    weather: Arc<Weather>,
    random: Arc<Drawn>,
    remote: bool,
    plant: Option<Arc<Plant>>,
}

impl Word {
    async fn carry(self, mut from: Feed, to: mpsc::UnboundedSender<News>) {
        while let Some(news) = from.recv().await {
            self.gate.pass().await;
            let here = news.commits().iter().all(|committed| committed.here);
            let (rates, mut missed) = (self.weather.rates(), false);
            if self.remote {
                let wait = self.random.with(|random| {
                    missed = random.mille(rates.missed);
                    match random.mille(rates.slow) {
                        true => random.spread(SLOW_MS),
                        false if here => random.below(2),
                        false => random.spread(WORD_MS),
                    }
                });
                if wait > 0 {
                    tokio::time::sleep(Duration::from_millis(wait)).await;
                }
                self.gate.pass().await;
            }
            if self.plant.as_ref().is_some_and(|plant| plant.swallows_word()) {
                continue;
            }
            let news = if missed { News::Missed } else { news };
            if to.send(news).is_err() {
                return;
            }
        }
    }
}

#[async_trait]
impl Store for SimStore {
    fn server_id(&self) -> &str {
        self.inner.server_id()
    }

    async fn commit(&self, batch: Batch) -> Result<Arc<Committed>, CommitError> {
        self.gate.pass().await;
        self.takes_a_while().await;
        let fate = self.fate();
        match fate {
            Fate::Refused => return Err(self.failure().into()),
            Fate::Conflict => return Err(CommitError::Conflict),
            Fate::DiesBefore => self.dies().await,
            Fate::Done | Fate::Unanswered | Fate::DiesAfter => {}
        }
        let taken = self.take(batch);
        if fate == Fate::DiesAfter {
            self.dies().await;
        }
        self.takes_a_while().await;
        match (taken, fate) {
            (Ok(_), Fate::Unanswered) => Err(self.failure().into()),
            (taken, _) => taken,
        }
    }

    async fn try_write(&self) -> Result<(), StoreError> {
        self.gate.pass().await;
        match self.fate() {
            Fate::Refused => Err(self.failure()),
            _ => self.inner.try_write().await,
        }
    }

    async fn load(&self, session: &SessionId, needs: Needs) -> Result<State, StoreError> {
        let mut state = self.read(self.inner.load(session, needs)).await?;
        if let Some(plant) = &self.plant {
            plant.spoil(&mut state);
        }
        Ok(state)
    }

    async fn load_items(&self, ids: Vec<ItemId>) -> Result<Vec<(SessionId, State)>, StoreError> {
        self.read(self.inner.load_items(ids)).await
    }

    async fn deadlines(&self, limit: usize) -> Result<Vec<(Timestamp, ItemId)>, StoreError> {
        self.read(self.inner.deadlines(limit)).await
    }

    async fn items(&self, filter: ItemFilter) -> Result<Vec<Found>, StoreError> {
        self.read(self.inner.items(filter)).await
    }

    async fn sessions(&self, filter: SessionFilter) -> Result<Vec<(i64, Session)>, StoreError> {
        self.read(self.inner.sessions(filter)).await
    }

    async fn history(&self, filter: HistoryFilter) -> Result<Vec<Recorded>, StoreError> {
        self.read(self.inner.history(filter)).await
    }

    async fn conversation(&self, session: &SessionId, limit: usize) -> Result<Vec<Utterance>, StoreError> {
        self.read(self.inner.conversation(session, limit)).await
    }

    async fn set_agent(&self, id: &AgentId, agent: Option<StoredAgent>) -> Result<bool, StoreError> {
        self.read(self.inner.set_agent(id, agent)).await
    }

    async fn agent(&self, id: &AgentId) -> Result<Option<StoredAgent>, StoreError> {
        self.read(self.inner.agent(id)).await
    }

    async fn agents(&self) -> Result<Vec<(AgentId, StoredAgent)>, StoreError> {
        self.read(self.inner.agents()).await
    }

    async fn tallies(&self) -> Result<BTreeMap<String, i64>, StoreError> {
        self.read(self.inner.tallies()).await
    }

    async fn hours(&self, since: Timestamp) -> Result<Vec<HourTally>, StoreError> {
        self.read(self.inner.hours(since)).await
    }

    async fn purge(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.read(self.inner.purge(before, limit)).await
    }

    fn feed(&self) -> Feed {
        let (to, feed) = mpsc::unbounded_channel();
        let word = Word {
            gate: self.gate.clone(),
            weather: self.weather.clone(),
            random: self.random.clone(),
            remote: self.remote,
            plant: self.plant.clone(),
        };
        let from = match &self.tells {
            Some(feeds) => {
                let (own, from) = mpsc::unbounded_channel();
                feeds.lock().unwrap_or_else(PoisonError::into_inner).push(own);
                from
            }
            None => self.inner.feed(),
        };
        tokio::spawn(word.carry(from, to));
        feed
    }

    fn acts_first(&self, id: &ItemId) -> bool {
        self.inner.acts_first(id)
    }

    fn is_alone(&self) -> bool {
        self.inner.is_alone()
    }

    fn holds(&self, session: &SessionId, held: bool) {
        // What a dead process held, others believe held until they notice its death.
        if self.gate.life() != Life::Dead {
            self.inner.holds(session, held);
        }
    }

    async fn is_held_elsewhere(&self, session: &SessionId) -> Result<bool, StoreError> {
        self.read(self.inner.is_held_elsewhere(session)).await
    }

    async fn close(&self) {}
}
