//! Load → decide → commit, for every door. The engine adds no rules of its own: it brings what deciding must not have
//! (the clock, randomness, the store) and carries out what was decided.

mod alive;
mod briefly;
mod delivery;
mod driver;
mod fire;
mod glance;
mod health;
mod locks;
mod many;
mod meet;
mod outside;
mod presence;
mod router;
mod sleeps;
mod standby;
mod step;

pub use delivery::Delivery;
pub use glance::Glance;
pub use health::NotReady;
pub use presence::{Held, Hold, Presence, REWAKE, Reach};
pub use standby::{Released, Standing};
pub use step::StepError;

use crate::{
    chance::{Chance, SystemChance},
    clock::Clock,
    metrics::Metrics,
    probe::{self, Board, Eyes},
    wake::{self, Rules},
};
use alive::watched;
use briefly::Impatience;
use delivery::Chore;
use glance::Glances;
use health::Health;
use locks::Locks;
use outside::Outside;
use reveille_core::{
    Batch, Call, Command, Decision, ItemId, Kind, LeaseId, Limits, Message, Millis, Needs, Reject, Reply, SessionId,
    Sleep, TaskId, Timestamp, ToolCall,
    command::{Ride, Select},
    decide, id,
};
use reveille_store::{CommitError, Committed, Recorded, Store, StoreError};
use standby::Standbys;
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};
use tokio::sync::{broadcast, mpsc, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// How often a decision is made anew because somebody else was faster. Within one process sessions are taken in turn,
/// so only other nodes and firings can be.
const CONFLICTS_MAX: usize = 64;
/// Messages that travel with one reply; more wait for the next.
pub const RIDING_MESSAGES_MAX: usize = 20;
/// Events a slow follower may be behind before it has to read the history instead.
const EVENTS_BUFFERED: usize = 1024;

pub struct Engine {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    limits: Limits,
    locks: Locks,
    standbys: Arc<Standbys>,
    presence: Arc<Presence>,
    glances: Glances,
    impatience: Impatience,
    chores: mpsc::UnboundedSender<Chore>,
    sleeps: mpsc::UnboundedSender<Sleep>,
    events: broadcast::Sender<Event>,
    begun: mpsc::UnboundedSender<Begun>,
    /// Until somebody makes the calls.
    to_make: Mutex<Option<mpsc::UnboundedReceiver<Begun>>>,
    pub metrics: Metrics,
    /// What is seen of conditions, who asks for looks at all of them, and what they are looked at with.
    board: Board,
    rounds: mpsc::UnboundedSender<probe::Asked>,
    eyes: Arc<Eyes>,
    wake: watch::Sender<Arc<Rules>>,
    settings: Settings,
    health: Health,
    /// Cancelled when one of the tasks below has died.
    broken: CancellationToken,
    /// Who moves a manual clock: one at a time.
    stepping: tokio::sync::Mutex<()>,
    /// What that has to wait for.
    pub outside: Outside,
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub limits: Limits,
    /// Ended timers, delivered messages and history are kept this long.
    pub retention: Millis,
    /// How often everything is looked at once more, should a deadline ever have been overlooked.
    pub rescan: Millis,
    /// Deadlines kept in memory, about 100 bytes each.
    pub window_max: usize,
    /// The wake commands there are at first; they decide whom a message can reach.
    pub wake: Arc<Rules>,
    pub probe: probe::Settings,
    /// What names of new things are drawn from.
    pub chance: Arc<dyn Chance>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            retention: Millis::from_secs(7 * 24 * 3600),
            rescan: Millis::from_secs(60),
            window_max: 8192,
            wake: Arc::default(),
            probe: probe::Settings::default(),
            chance: Arc::new(SystemChance),
        }
    }
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Reject(#[from] Reject),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the session is changed by too many at once; try again")]
    Contended,
    /// The id chosen for a new item exists: choose another and ask again.
    #[error("the id is taken")]
    IdTaken,
}

/// An attempt of a call that this process began.
#[derive(Clone, Debug)]
pub struct Begun {
    pub session: SessionId,
    pub call: ToolCall,
}

/// What followers of events are told.
#[derive(Clone, Debug)]
pub enum Event {
    Recorded(Arc<Recorded>),
    /// Entries were written that nobody told of here: the history has them.
    Missed,
}

/// A reply, and the messages that travel with it.
#[derive(Debug)]
pub struct Outcome {
    pub reply: Reply,
    /// The session's version that this command made; `None`: it changed nothing.
    pub version: Option<u64>,
    /// The session may have messages that are not delivered.
    pub pending: bool,
    pub riding: Vec<Message>,
    /// To be confirmed once the reply was written; dropped otherwise.
    pub delivery: Option<Arc<Delivery>>,
}

/// What is kept in memory for those who call. When nobody does, all of it is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attended {
    /// Calls that wait for a timer.
    pub waiting: usize,
    /// Holds of sessions.
    pub held: usize,
    /// Sessions being changed.
    pub turns: usize,
    pub followers: usize,
}

impl Engine {
    /// Starts the engine and the tasks that keep its deadlines. They end when `stop` is cancelled.
    pub fn start(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        settings: Settings,
        stop: CancellationToken,
        tasks: &TaskTracker,
    ) -> Arc<Self> {
        let (chores, settling) = mpsc::unbounded_channel();
        let (sleeps, slept) = mpsc::unbounded_channel();
        let (begun, to_make) = mpsc::unbounded_channel();
        let (rounds, asked) = mpsc::unbounded_channel();
        let engine = Arc::new(Self {
            standbys: Arc::new(Standbys::default()),
            presence: Arc::new(Presence::shared_by(store.clone())),
            glances: Glances::default(),
            impatience: Impatience::default(),
            locks: Locks::new(settings.chance.draw()),
            limits: settings.limits.clone(),
            events: broadcast::Sender::new(EVENTS_BUFFERED),
            begun,
            to_make: Mutex::new(Some(to_make)),
            metrics: Metrics::default(),
            board: Board::default(),
            rounds,
            eyes: Arc::new(Eyes::new(settings.probe.rules.clone(), clock.clone())),
            store,
            clock,
            chores,
            sleeps,
            wake: watch::Sender::new(settings.wake.clone()),
            settings,
            health: Health::default(),
            broken: CancellationToken::new(),
            stepping: tokio::sync::Mutex::default(),
            outside: Outside::default(),
        });
        // They subscribe before the first command can be committed.
        let (routed, driven, probed) = (engine.store.feed(), engine.store.feed(), engine.store.feed());
        let broken = || engine.broken.clone();
        tasks.spawn(watched("router", broken(), router::run(engine.clone(), routed, stop.clone())));
        tasks.spawn(watched("driver", broken(), driver::run(engine.clone(), driven, stop.clone())));
        tasks.spawn(watched("probe", broken(), probe::run(engine.clone(), probed, asked, stop.clone())));
        tasks.spawn(watched("wake", broken(), wake::run(engine.clone(), stop.clone())));
        tasks.spawn(watched("delivery", broken(), delivery::run(engine.clone(), settling, stop.clone())));
        tasks.spawn(watched("sleeps", broken(), sleeps::run(engine.clone(), slept, stop)));
        engine
    }

    /// The calls that this process has begun and has to make and report on. Given to whoever asks first.
    pub fn calls(&self) -> Option<mpsc::UnboundedReceiver<Begun>> {
        self.to_make.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Carries out one command on one session. Messages that travel with the reply are given back unless their
    /// delivery is confirmed.
    pub async fn execute(&self, session: &SessionId, call: Call) -> Result<Outcome, EngineError> {
        self.execute_for(session, call, "tool_result").await
    }

    /// The same, for a reply that goes out by this channel.
    async fn execute_for(
        &self,
        session: &SessionId,
        call: Call,
        channel: &'static str,
    ) -> Result<Outcome, EngineError> {
        // Made before the commit that leases: should the caller leave in the middle of it, the messages are given back.
        let delivery = call
            .ride
            .as_ref()
            .map(|ride| Arc::new(Delivery::new(session.clone(), ride.lease.clone(), channel, self.chores.clone())));
        let carried_out = self.carry_out(session, &call).await;
        delivery.iter().for_each(|delivery| delivery.is_written());
        let leased = carried_out.as_ref().is_ok_and(|(decision, _)| !decision.riding.is_empty());
        let tells = carried_out.as_ref().is_ok_and(|(decision, _)| self.may_tell(&decision.riding));
        let delivery = delivery.filter(|delivery| {
            if !leased {
                delivery.is_empty();
            }
            tells
        });
        let (mut decision, committed) = carried_out?;
        if !tells {
            decision.riding.clear();
        }
        let written = committed.as_ref().map(|committed| &committed.batch.session);
        let version = written.map(|session| session.version);
        let pending = written.is_none_or(|session| session.pending_messages > 0);
        Ok(Outcome { reply: decision.reply, version, pending, riding: decision.riding, delivery })
    }

    /// Messages for somebody who will commit or release the lease by name.
    pub async fn lease(
        &self,
        session: &SessionId,
        ride: Ride,
        client: Option<String>,
    ) -> Result<Vec<Message>, EngineError> {
        let cwd = self.presence.cwd_seen(session);
        let call = Call { ride: Some(ride), client, cwd, ..Call::new(Command::Collect) };
        let (decision, _) = self.carry_out(session, &call).await?;
        Ok(if self.may_tell(&decision.riding) { decision.riding } else { Vec::new() })
    }

    /// A lease that was over before it was written, on a machine that stood still in between, gives no right to tell anything.
    fn may_tell(&self, riding: &[Message]) -> bool {
        let now = self.now();
        riding.first().is_some_and(|message| message.held_until(now).is_some())
    }

    async fn carry_out(
        &self,
        session: &SessionId,
        call: &Call,
    ) -> Result<(Decision, Option<Arc<Committed>>), EngineError> {
        let mut turn = self.locks.take(session).await;
        for _ in 0..CONFLICTS_MAX {
            let needs = call.needs();
            let (state, remembered) = match turn.recall(&needs) {
                Some(state) => (state, true),
                None => (self.store.load(session, needs).await?, false),
            };
            let mut decision = match decide(session, &state, call, self.clock.now(), &self.limits) {
                Ok(decision) => decision,
                // What was remembered may be old; a refusal must be true.
                Err(_) if remembered => {
                    turn.forget();
                    continue;
                }
                Err(Reject::Overdue(ids)) => {
                    // Boxed, as all that is rare: every call carries the size of what it awaits.
                    self.fire_boxed(ids).await.done().map_err(|(error, _)| error)?;
                    continue;
                }
                Err(Reject::UnknownTimer { id, .. }) => {
                    let live = Box::pin(self.live(session, Kind::Timer)).await?;
                    return Err(Reject::UnknownTimer { id, live }.into());
                }
                Err(Reject::UnknownReminder { id, .. }) => {
                    let live = Box::pin(self.live(session, Kind::Reminder)).await?;
                    return Err(Reject::UnknownReminder { id, live }.into());
                }
                Err(reject) => return Err(reject.into()),
            };
            let Some(batch) = decision.batch.take() else {
                // Nothing is written, so nothing checks the version: only what was loaded counts.
                if remembered {
                    turn.forget();
                    continue;
                }
                return Ok((decision, None));
            };
            match self.commit(batch).await {
                Ok(committed) => {
                    turn.remember(&committed.batch.session);
                    return Ok((decision, Some(committed)));
                }
                Err(CommitError::Conflict) => turn.forget(),
                Err(CommitError::IdTaken) => return Err(EngineError::IdTaken),
                Err(CommitError::Store(error)) => return Err(error.into()),
            }
        }
        Err(EngineError::Contended)
    }

    async fn commit(&self, batch: Batch) -> Result<Arc<Committed>, CommitError> {
        let result = self.store.commit(batch).await;
        self.health.wrote(&result);
        if let Err(CommitError::Store(_)) = &result {
            self.metrics.store_failures.inc();
        }
        if let Ok(committed) = &result {
            self.glances.note(&committed.batch);
        }
        result
    }

    /// Ended things are kept this long.
    pub fn retention(&self) -> Millis {
        self.settings.retention
    }

    /// Completes when the engine no longer keeps time, which must end the process.
    pub async fn broken(&self) {
        self.broken.cancelled().await;
    }

    /// What the session has, to be named to somebody who asked for something else.
    async fn live(&self, session: &SessionId, kind: Kind) -> Result<Vec<ItemId>, EngineError> {
        let needs = Needs { items: Select::LiveOf(kind), ..Needs::default() };
        let state = self.store.load(session, needs).await?;
        Ok(state.items.iter().map(|item| item.id().clone()).collect())
    }

    /// Room for pending messages in the reply to come.
    pub fn ride(&self) -> Ride {
        Ride {
            lease: self.fresh_lease(),
            length: self.limits.lease,
            messages_max: RIDING_MESSAGES_MAX,
            chars_max: usize::MAX,
            alone_among: None,
        }
    }

    /// Announces a call that will stand by for this timer. Before the command that begins it, so that nothing is missed.
    pub fn stand_by(&self, session: &SessionId, id: &ItemId) -> Standing {
        // An agent that waits in a call is there.
        self.standbys.register(id, self.presence.hold(session, Hold::StandBy))
    }

    /// A call may stand by for the timer: one here, or at another node, of which nothing is known.
    pub fn may_be_stood_by(&self, id: &ItemId) -> bool {
        self.standbys.is_waited_for(id) || !self.store.is_alone()
    }

    /// A call that stood by is over; how long it slept is written down when there is time for it.
    pub fn slept(&self, id: ItemId, since: Timestamp) {
        let _ = self.sleeps.send(Sleep { id, since, slept: self.now().since(since) });
    }

    /// How many calls stand by now, to be watched.
    pub fn standing_by(&self) -> watch::Receiver<usize> {
        self.standbys.count()
    }

    pub fn wake_rules(&self) -> Arc<Rules> {
        self.wake.borrow().clone()
    }

    /// From now on these are the wake commands there are; what runs goes on.
    pub fn renew_wake_rules(&self, rules: Rules) {
        self.wake.send_if_modified(|now| {
            let same = now.list == rules.list && now.concurrency == rules.concurrency;
            if !same {
                tracing::info!(rules = rules.list.len(), "the wake commands were read anew");
                *now = Arc::new(rules);
            }
            !same
        });
    }

    pub(crate) fn wake_rules_changes(&self) -> watch::Receiver<Arc<Rules>> {
        self.wake.subscribe()
    }

    /// What was seen of the conditions that timers wait for.
    pub fn board(&self) -> &Board {
        &self.board
    }

    pub(crate) fn eyes(&self) -> &Arc<Eyes> {
        &self.eyes
    }

    pub(crate) fn probe_settings(&self) -> &probe::Settings {
        &self.settings.probe
    }

    /// Who holds which session.
    pub fn presence(&self) -> &Arc<Presence> {
        &self.presence
    }

    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    pub fn chance(&self) -> &Arc<dyn Chance> {
        &self.settings.chance
    }

    /// What calls and clients have in memory here now.
    pub fn attended(&self) -> Attended {
        Attended {
            waiting: self.standbys.waiting(),
            held: self.presence.count(),
            turns: self.locks.taken(),
            followers: self.events.receiver_count(),
        }
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub fn fresh_timer(&self) -> ItemId {
        ItemId::new(self.fresh("timer"))
    }

    pub fn fresh_task(&self) -> ItemId {
        ItemId::new(self.fresh("task"))
    }

    /// The secret part of a task's name.
    pub fn fresh_secret(&self) -> TaskId {
        TaskId::secret(self.settings.chance.draw_wide())
    }

    pub fn fresh_session_timer(&self) -> ItemId {
        ItemId::new(self.fresh("st"))
    }

    /// A name for anything else that is new: something said, a turn, a webhook's call.
    pub fn fresh(&self, prefix: &str) -> String {
        id::readable(prefix, self.now(), self.settings.chance.draw() as u32)
    }

    pub fn fresh_lease(&self) -> LeaseId {
        LeaseId::new(self.fresh("lease"))
    }

    /// Stops those of these timers that still live; how many they were.
    pub async fn stop_many(&self, ids: Vec<ItemId>, note: Option<String>) -> Result<usize, EngineError> {
        let stopped = AtomicUsize::new(0);
        let stop = |ids: &[ItemId]| Command::StopMany { ids: ids.to_vec(), note: note.clone() };
        let count = |reply: &Reply, _: &Batch| {
            if let Reply::Stopped(some) = reply {
                stopped.fetch_add(*some, Ordering::Relaxed);
            }
        };
        self.to_each(ids, stop, count).await.done().map_err(|(error, _)| error)?;
        Ok(stopped.into_inner())
    }

    /// Only takes pending messages along.
    pub async fn collect(&self, session: &SessionId, ride: Ride) -> Result<Outcome, EngineError> {
        self.execute(session, Call { ride: Some(ride), ..Call::new(Command::Collect) }).await
    }

    /// The same with everything that is due by now, for a reply that goes out by this channel.
    pub async fn collect_due(&self, session: &SessionId, channel: &'static str) -> Result<Outcome, EngineError> {
        self.execute_for(session, Call { ride: Some(self.ride()), ..Call::new(Command::CollectDue) }, channel).await
    }
}
