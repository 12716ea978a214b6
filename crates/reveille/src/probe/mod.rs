//! Looks at what timers wait for, so that no model has to. A condition and its end are in the store; looks are not: which
//! come next is a matter of memory, and after a restart they begin anew.
//!
//! One task keeps the schedule and learns of every change from the feed; looks are tasks of their own, few at a time and
//! at a bounded pace, and are dropped the moment nobody waits for them any more. Of several nodes one looks at each
//! condition, as it would fire the timer; at files, processes and by commands, the node that took the call.
//!
//! That a condition holds is a command like any other ([`reveille_core::Command::Meet`]): being late or wrong with it
//! changes nothing.
//!
//! Whoever drives a manual clock asks for rounds: one look at everything, whatever the pace, and all that holds is written.

pub mod board;
mod look;
mod rules;
mod schedule;

pub use board::{Board, Seen};
pub(crate) use look::Eyes;
pub use rules::Rules;

pub(crate) use look::process::runs_since;

use crate::engine::Engine;
use futures_util::future::BoxFuture;
use look::Look;
use reveille_core::{
    Condition, ItemId, Kind, Millis, Needs, Reject, RequestKey, SessionId, Timer, Timestamp,
    condition::{Sighting, Wanted},
};
use reveille_store::{Feed, ItemFilter, News, StoreError};
use schedule::{Due, Pace, Schedule};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};
use tokio::{
    sync::{mpsc, oneshot},
    task::{AbortHandle, Id, JoinError, JoinSet},
};
use tokio_util::sync::CancellationToken;

/// Conditions in memory, about a kilobyte each; beyond it new ones are refused.
pub const CONDITIONS_MAX: usize = 100_000;
/// Read from the store in one go.
const PAGE: usize = 1000;
/// After a failure of the store: how long until the next try.
const RETRY: Millis = Millis::from_secs(1);
/// A condition that another node looks at: this long until the question who does is asked again.
const OTHERS: Millis = Millis::from_secs(2);
/// Setting a condition waits this long for the name of a host, the state of a file.
const PREPARE_MAX: Millis = Millis::from_secs(5);

#[derive(Clone, Debug)]
pub struct Settings {
    pub rules: Rules,
    /// Looks at once.
    pub concurrency: usize,
    /// Looks in a second.
    pub rate: u64,
    /// From one look at a condition to the next, at the longest.
    pub interval_max: Millis,
    /// The name of this node, if there may be others.
    pub node: Option<Arc<str>>,
}

impl Default for Settings {
    fn default() -> Self {
        let (rules, interval_max) = (Rules::default(), Millis::from_secs(15));
        Self { rules, concurrency: 64, rate: 200, interval_max, node: None }
    }
}

impl Engine {
    /// A condition that is asked for in this session under this key, as it is to be kept; or why it may not be waited for.
    pub async fn wanted(
        &self,
        condition: Condition,
        session: &SessionId,
        key: Option<&RequestKey>,
    ) -> Result<Wanted, Reject> {
        match self.prepared(condition.clone()).await {
            // Asked again: what was made then counts, not how things are now.
            Err(_) if self.was_asked(session, key).await => Ok(Wanted { condition, node: None }),
            prepared => prepared,
        }
    }

    async fn was_asked(&self, session: &SessionId, key: Option<&RequestKey>) -> bool {
        let Some(key) = key else { return false };
        let needs = Needs { key: Some(key.key.clone()), ..Needs::default() };
        self.store().load(session, needs).await.is_ok_and(|state| state.keyed.is_some())
    }

    async fn prepared(&self, condition: Condition) -> Result<Wanted, Reject> {
        if self.board().awaited() >= CONDITIONS_MAX {
            return Err(Reject::TooManyConditions { max: CONDITIONS_MAX });
        }
        let eyes = self.eyes();
        let prepared = async {
            eyes.rules.check(&condition).await?;
            eyes.remember(condition.clone()).await
        };
        let prepared: Option<Result<Condition, Reject>> = tokio::select! {
            prepared = prepared => Some(prepared),
            () = self.clock().sleep(PREPARE_MAX) => None,
        };
        let condition = match prepared {
            Some(prepared) => prepared?,
            // A name that takes so long to be found is asked about at every look.
            None if !condition.is_local() => condition,
            None => {
                let why = format!("{} could not be looked at in time; try again", condition.target());
                return Err(Reject::InvalidArgument { field: "until".into(), why });
            }
        };
        let node = self.probe_settings().node.clone().filter(|_| condition.is_local());
        Ok(Wanted { condition, node })
    }
}

/// Told when a round is over; dropped when it cannot be made.
pub type Asked = oneshot::Sender<()>;

pub async fn run(engine: Arc<Engine>, feed: Feed, rounds: mpsc::UnboundedReceiver<Asked>, stop: CancellationToken) {
    let now = engine.now();
    let mut prober = Prober {
        schedule: Schedule::default(),
        pace: Pace::new(engine.probe_settings().rate, now),
        looking: JoinSet::new(),
        under_way: HashMap::new(),
        handles: HashMap::new(),
        sightings: Vec::new(),
        telling: JoinSet::new(),
        tell_at: now,
        scan_at: Some(now),
        looked_at: now,
        rounds,
        round: None,
        engine,
        feed,
    };
    stop.run_until_cancelled(prober.run()).await;
    // What was seen is written; looks are dropped with this.
    while prober.telling.join_next().await.is_some() {}
}

struct Prober {
    engine: Arc<Engine>,
    feed: Feed,
    schedule: Schedule,
    pace: Pace,
    looking: JoinSet<(Due, Look)>,
    /// By the looks, and by what they look at.
    under_way: HashMap<Id, Arc<str>>,
    handles: HashMap<ItemId, AbortHandle>,
    /// Seen, and not yet written.
    sightings: Vec<Sighting>,
    telling: JoinSet<Vec<Sighting>>,
    tell_at: Timestamp,
    /// The store is to be read.
    scan_at: Option<Timestamp>,
    looked_at: Timestamp,
    rounds: mpsc::UnboundedReceiver<Asked>,
    round: Option<Round>,
}

/// One look at everything that was waited for when it was asked for.
struct Round {
    left: HashSet<ItemId>,
    /// Looks that had begun before: they have to be made again.
    stale: HashSet<ItemId>,
    asked: Asked,
}

impl Prober {
    async fn run(&mut self) {
        let mut alarm = Alarm { at: self.engine.now(), rings: Box::pin(std::future::ready(())) };
        loop {
            self.proceed().await;
            let at = self.wake_at();
            if alarm.at != at {
                alarm = Alarm { at, rings: self.engine.clock().sleep_until(at) };
            }
            tokio::select! {
                biased;
                news = self.feed.recv() => match news {
                    Some(news) => self.learn(&news),
                    None => return, // the store is closed
                },
                Some(told) = self.telling.join_next() => self.told(told),
                Some(looked) = self.looking.join_next_with_id() => self.looked(looked),
                Some(asked) = self.rounds.recv() => self.begin_round(asked).await,
                () = &mut alarm.rings => alarm = Alarm { at, rings: self.engine.clock().sleep_until(at) },
            }
        }
    }

    async fn proceed(&mut self) {
        let now = self.engine.now();
        if now < self.looked_at {
            self.schedule.hurry(now);
            self.tell_at = now;
            self.scan_at = self.scan_at.map(|_| now);
        }
        self.looked_at = now;
        if self.scan_at.is_some_and(|at| at <= now) {
            self.scan_at = match self.scan(now).await {
                Ok(()) => None,
                Err(error) => {
                    tracing::warn!(%error, "the conditions cannot be read; trying again");
                    Some(now.plus(RETRY))
                }
            };
        }
        if !self.sightings.is_empty() && self.telling.is_empty() && self.tell_at <= now {
            let (engine, sightings) = (self.engine.clone(), std::mem::take(&mut self.sightings));
            self.telling.spawn(async move { engine.meet(sightings).await });
        }
        self.launch(now);
        self.engine.board().count(self.schedule.len());
        self.engine.metrics.conditions.set(self.schedule.len() as i64);
        let written = self.sightings.is_empty() && self.telling.is_empty();
        if let Some(round) = self.round.take_if(|round| written && round.left.is_empty()) {
            let _ = round.asked.send(());
        }
    }

    /// By the store, not by what is known here: the news of a condition may still be on its way.
    async fn begin_round(&mut self, asked: Asked) {
        let now = self.engine.now();
        if let Err(error) = self.scan(now).await {
            tracing::warn!(%error, "the conditions cannot be read");
            return;
        }
        self.schedule.hurry(now);
        let (left, stale) = (self.schedule.ids().cloned().collect(), self.handles.keys().cloned().collect());
        self.round = Some(Round { left, stale, asked });
    }

    /// Of the present round, nothing is left to be seen of this one.
    fn seen_in_round(&mut self, id: &ItemId) {
        if let Some(round) = &mut self.round {
            round.left.remove(id);
        }
    }

    fn wake_at(&self) -> Timestamp {
        let room = self.looking.len() < self.engine.probe_settings().concurrency;
        let look = self.schedule.next().filter(|_| room).map(|next| next.max(self.pace.next()));
        let tell = (!self.sightings.is_empty() && self.telling.is_empty()).then_some(self.tell_at);
        [look, tell, self.scan_at].into_iter().flatten().min().unwrap_or(Timestamp::from_millis(i64::MAX))
    }

    /// Everything that waits for a condition, by the store. What was committed meanwhile is still to come by the feed.
    async fn scan(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let mut filter = ItemFilter { awaiting: true, kind: Some(Kind::Timer), limit: PAGE, ..ItemFilter::default() };
        loop {
            let page = self.engine.store().items(filter.clone()).await?;
            for timer in page.iter().filter_map(|found| found.item.as_timer()) {
                self.waits(timer, now);
            }
            match page.last() {
                Some(last) if page.len() == PAGE => filter.after = Some(last.seq),
                _ => return Ok(()),
            }
        }
    }

    fn learn(&mut self, news: &News) {
        let now = self.engine.now();
        if let News::Missed = news {
            // Also of what has ended unseen: looks are begun anew.
            (self.looking, self.under_way, self.handles) = (JoinSet::new(), HashMap::new(), HashMap::new());
            (self.schedule, self.round) = (Schedule::default(), None);
            self.scan_at = Some(now);
        }
        for committed in news.commits() {
            for timer in committed.batch.items.iter().filter_map(|write| write.item().as_timer()) {
                if timer.until.is_some() {
                    self.waits(timer, now);
                }
            }
        }
    }

    /// What this timer waits for now. A look at anything else is dropped.
    fn waits(&mut self, timer: &Timer, now: Timestamp) {
        let (id, watch) = (&timer.id, timer.awaits());
        if !self.schedule.learn(id, watch, timer.next_due(), now) {
            return;
        }
        if let Some(handle) = self.handles.remove(id) {
            handle.abort();
        }
        self.sightings.retain(|sighting| sighting.id != *id || watch.is_some_and(|new| new.since == sighting.since));
        if let Some(round) = &mut self.round {
            round.stale.remove(id);
        }
        if watch.is_none() {
            self.seen_in_round(id);
            self.engine.board().over(id);
        }
    }

    fn launch(&mut self, now: Timestamp) {
        let concurrency = self.engine.probe_settings().concurrency;
        while self.looking.len() < concurrency && (self.round.is_some() || self.pace.may(now)) {
            let Some(due) = self.schedule.take(now, look::lane) else { return };
            if !self.is_ours(&due) {
                self.seen_in_round(&due.id);
                self.schedule.leave(&due.lane, now);
                self.schedule.again(&due, due.memory, now.plus(OTHERS));
                continue;
            }
            self.pace.spend();
            let (eyes, id, lane) = (self.engine.eyes().clone(), due.id.clone(), due.lane.clone());
            let look = async move {
                let look = eyes.look(&due).await;
                (due, look)
            };
            let handle = self.looking.spawn(look);
            self.under_way.insert(handle.id(), lane);
            self.handles.insert(id, handle);
        }
    }

    /// Of several nodes, this one is to look.
    fn is_ours(&self, due: &Due) -> bool {
        match (&due.watch.wanted.node, &self.engine.probe_settings().node) {
            (Some(node), Some(own)) => node == own,
            _ => self.engine.store().acts_first(&due.id),
        }
    }

    fn looked(&mut self, looked: Result<(Id, (Due, Look)), JoinError>) {
        let now = self.engine.now();
        let look = match &looked {
            Ok((look, _)) => *look,
            Err(error) => error.id(),
        };
        if let Some(lane) = self.under_way.remove(&look) {
            self.schedule.leave(&lane, now);
        }
        let (due, look) = match looked {
            Ok((_, looked)) => looked,
            Err(error) if error.is_panic() => return self.broke(look, &error, now),
            Err(_) => return, // nobody waited for it any more
        };
        if !self.schedule.is_awaited(&due.id, due.watch.since) {
            return;
        }
        self.handles.remove(&due.id);
        let result = if look.holds { "met" } else { "not_yet" };
        self.engine.metrics.looked(due.watch.wanted.condition.kind(), result);
        self.engine.board().note(&due.id, due.watch.since, now, look.seen.clone());
        let stale = self.round.as_mut().is_some_and(|round| round.stale.remove(&due.id));
        if look.holds {
            self.seen_in_round(&due.id);
            self.sightings.push(Sighting { id: due.id, since: due.watch.since, seen: look.seen });
        } else if stale {
            self.schedule.again(&due, look.memory, now);
        } else {
            self.seen_in_round(&due.id);
            self.again(&due, look, now);
        }
    }

    fn again(&mut self, due: &Due, look: Look, now: Timestamp) {
        let waited = now.since(due.watch.since);
        let pause = schedule::pause(waited, self.engine.probe_settings().interval_max, rand::random());
        self.schedule.again(due, look.memory, now.plus(pause));
    }

    /// A bug, but not a reason to forget what somebody waits for.
    fn broke(&mut self, look: Id, error: &JoinError, now: Timestamp) {
        tracing::error!(%error, "a look at a condition broke; everything is looked at again");
        let broken = self.handles.iter().find(|(_, handle)| handle.id() == look).map(|(id, _)| id.clone());
        if let Some(id) = broken {
            self.handles.remove(&id);
            self.seen_in_round(&id);
            self.schedule.learn(&id, None, None, now);
        }
        self.scan_at = Some(now.plus(RETRY));
    }

    fn told(&mut self, told: Result<Vec<Sighting>, JoinError>) {
        let left = match told {
            Ok(left) => left,
            Err(error) => {
                tracing::error!(%error, "what was seen could not be told; everything is looked at again");
                self.scan_at = Some(self.engine.now().plus(RETRY));
                Vec::new()
            }
        };
        if !left.is_empty() {
            self.tell_at = self.engine.now().plus(RETRY);
        }
        // What is no longer waited for by now is left out.
        let awaited = left.into_iter().filter(|sighting| self.schedule.is_awaited(&sighting.id, sighting.since));
        self.sightings.extend(awaited);
    }
}

/// A sleep that is kept as long as nothing changes what it is for.
struct Alarm {
    at: Timestamp,
    rings: BoxFuture<'static, ()>,
}
