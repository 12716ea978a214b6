//! One tool call from beginning to end: arguments → command → (standing by) → result.

use super::{
    ClockResult, Deliverable, Known, MessageView, Outcome, TaskView, TimerResult, TimerView, TimersResult, Tool,
    arguments::{Arguments, TimerWish},
    client_kind, deliverable,
};
use crate::engine::{Delivery, Engine, EngineError, Outcome as Done, Released, Standing};
use futures_util::{FutureExt, future::pending};
use reveille_core::{
    Call, Command, Condition, ItemId, Millis, Needs, Purpose, Reject, Reply, RequestKey, SessionId, Sleep, Status,
    TaskId, Timer, Timestamp,
    condition::Wanted,
    timer::{Continuation, Phase},
};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

/// When a call stands by to the very end, the firing releases it; this much later it answers all the same.
const FIRING_GRACE: Millis = Millis::from_secs(2);
/// Messages that could not be taken along because the store failed are asked for again after this time.
const HEAR_RETRY: Millis = Millis::from_secs(1);
pub const IDS_TRIED_MAX: usize = 8;
/// What a model behind the gateway is told if its turn is not held.
const NEXT_REQUEST: &str =
    "Nothing can wake this conversation: the message will wait for its next request. Tell the user so.";
/// Longest idempotency key, in bytes.
const KEY_BYTES_MAX: usize = 200;

/// A call as a door received it.
pub struct ToolCall<'a> {
    pub engine: &'a Arc<Engine>,
    pub session: SessionId,
    pub tool: Tool,
    pub arguments: Value,
    /// The client's own name for this creation.
    pub idempotency_key: Option<String>,
    /// The kind of program that calls, where it says so.
    pub client: Option<String>,
    /// No call stands by longer, whatever it asks for: its client would give up.
    pub standby_max: Option<Millis>,
    /// The caller takes a task for an answer and asks for its end later.
    pub task: bool,
    /// The caller holds the session from now on and cannot wake its agent.
    pub holds: bool,
    /// The caller is a model within its turn, behind the gateway: for what that turn is held.
    pub in_turn: Option<HeldFor>,
    /// Ends every stand-by: the server stops.
    pub stop: &'a CancellationToken,
}

/// How far away something may be for which a turn is held, so that it reaches the model by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldFor {
    Nothing,
    AtMost(Millis),
    Anything,
}

impl HeldFor {
    fn lasts(self, length: Millis) -> bool {
        match self {
            HeldFor::Nothing => false,
            HeldFor::AtMost(max) => length <= max,
            HeldFor::Anything => true,
        }
    }
}

/// A `timer` command that was committed.
struct Begun {
    /// Announced before the command; not for calls that are answered at once.
    standing: Option<Standing>,
    /// The name of the task that was to be begun.
    task: Option<TaskId>,
    /// The call has a time of its own.
    bounded: bool,
    /// Pending messages were taken along already.
    complete: bool,
}

/// Why a call no longer stands by.
enum Woken {
    Released(Released),
    /// There is something to tell; it is taken along, and the stand-by's end is written.
    Message(Box<Done>),
    /// The call's own time is over.
    Over,
    /// The server stops.
    Stopping,
}

/// What to answer, and what has been delivered once the answer is written.
#[derive(Debug)]
pub struct ToolReply {
    pub body: ToolBody,
    pub deliveries: Vec<Arc<Delivery>>,
    /// The call goes on as this task, and `body` says only how it began.
    pub task: Option<TaskView>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum ToolBody {
    Timer(Box<TimerResult>),
    Timers(TimersResult),
    Clock(Box<ClockResult>),
}

impl ToolCall<'_> {
    pub async fn run(self) -> Result<ToolReply, EngineError> {
        let (engine, tool) = (self.engine.clone(), self.tool);
        let result = self.answer().await;
        match &result {
            Ok((_, outcome)) => engine.metrics.tool(tool.name(), outcome),
            Err(EngineError::Reject(reject)) => engine.metrics.tool(tool.name(), reject.code()),
            Err(_) => engine.metrics.tool(tool.name(), "failed"),
        }
        result.map(|(reply, _)| reply)
    }

    /// The reply and what it is counted as.
    async fn answer(mut self) -> Result<(ToolReply, &'static str), EngineError> {
        let limits = self.engine.limits().clone();
        let arguments = Arguments::new(std::mem::take(&mut self.arguments), &limits)?;
        let (reply, outcome) = match self.tool {
            Tool::Clock => return Box::pin(self.clock(arguments.clock()?)).await,
            Tool::Timer => self.timer(arguments.timer()?).await?,
            _ => self.about_timer(&arguments).await?,
        };
        Ok((reply, outcome.as_str()))
    }

    async fn about_timer(self, arguments: &Arguments<'_>) -> Result<(ToolReply, Outcome), EngineError> {
        let command = match self.tool {
            Tool::ReadTimer => Command::Read { id: arguments.id()? },
            Tool::StopTimer => Command::Stop { id: arguments.required_id()?, note: arguments.text("reason")? },
            Tool::CancelTimer => Command::Cancel { id: arguments.required_id()?, note: arguments.text("reason")? },
            Tool::ResumeTimer => Command::Resume { id: arguments.required_id()?, note: arguments.text("reason")? },
            Tool::PauseTimer => Command::Pause {
                id: arguments.required_id()?,
                length: arguments.required_duration("pause_duration")?,
                note: arguments.text("reason")?,
            },
            Tool::Timer | Tool::Clock => unreachable!("answered before"),
        };
        let done = self.execute(command, true).await?;
        let outcome = match (self.tool, &done.reply) {
            (Tool::ReadTimer, _) => Outcome::Read,
            (Tool::ResumeTimer, _) => Outcome::Resumed,
            (_, Reply::Timer { timer, .. }) => standing(timer),
            _ => Outcome::Read,
        };
        let mut reply = self.reply(done, outcome, None, false);
        if self.tool == Tool::CancelTimer
            && let ToolBody::Timer(result) = &mut reply.body
            && let (_, Some(warning)) = self.delivery(result.timer.remaining_time.0, None).await
        {
            // What the hint promises, nothing can keep.
            let left = result.timer.remaining_time.0.get().div_ceil(1000);
            let how = if outcome == Outcome::Paused { "is paused and will go on" } else { "runs on" };
            result.hint = format!("The timer {how} in the background, {left} seconds remain: do other work. {warning}");
        }
        Ok((reply, outcome))
    }

    async fn timer(mut self, wish: TimerWish) -> Result<(ToolReply, Outcome), EngineError> {
        match wish {
            TimerWish::Continue { id, ask, until } => {
                let ask = Continuation { until: self.wanted(until, None).await?, ..ask };
                let standing = (!self.task).then(|| self.engine.stand_by(&self.session, &id));
                let bounded = ask.timeout.is_some();
                let task = self.task.then(|| self.engine.fresh_secret());
                let done = self.execute(Command::Continue { id, ask, task: task.clone() }, false).await?;
                self.begun(done, Begun { standing, task, bounded, complete: false }).await
            }
            TimerWish::Create { purpose, total, timeout, until } => {
                let asked = until.as_ref().map(Condition::to_value);
                let key = self.request_key(|| match asked {
                    Some(asked) => json!([purpose, total, timeout, asked]).to_string(),
                    None => json!([purpose, total, timeout]).to_string(),
                })?;
                let until = self.wanted(until, key.as_ref()).await?;
                let create = |id, purpose, key, task| {
                    let until = until.clone();
                    Command::Create { id, purpose, total, timeout, until, key, task }
                };
                self.create(purpose, timeout, key, create).await
            }
            TimerWish::Plan { purpose, when, timeout } => {
                let key = self.request_key(|| json!([purpose, when.to_string(), timeout]).to_string())?;
                let plan =
                    |id, purpose, key, task| Command::Plan { id, purpose, when: when.clone(), timeout, key, task };
                self.create(purpose, timeout, key, plan).await
            }
        }
    }

    async fn create(
        self,
        purpose: Purpose,
        timeout: Option<Millis>,
        key: Option<RequestKey>,
        command: impl Fn(ItemId, Purpose, Option<RequestKey>, Option<TaskId>) -> Command,
    ) -> Result<(ToolReply, Outcome), EngineError> {
        let is_mission = matches!(purpose, Purpose::Mission(_));
        // What travels with the beginning of a task, no model ever sees.
        let at_once = is_mission && !self.task;
        for _ in 0..IDS_TRIED_MAX {
            let id = self.engine.fresh_timer();
            let standing = (!is_mission && !self.task).then(|| self.engine.stand_by(&self.session, &id));
            let task = self.task.then(|| self.engine.fresh_secret());
            match self.execute(command(id, purpose.clone(), key.clone(), task.clone()), at_once).await {
                Err(EngineError::IdTaken) => {}
                Err(error) => return Err(error),
                Ok(done) => {
                    let bounded = timeout.is_some();
                    return self.begun(done, Begun { standing, task, bounded, complete: at_once }).await;
                }
            }
        }
        Err(EngineError::IdTaken)
    }

    /// A condition as it is to be kept, if it may be waited for.
    async fn wanted(&self, until: Option<Condition>, key: Option<&RequestKey>) -> Result<Option<Wanted>, EngineError> {
        match until {
            // Boxed: most calls have none, and need not carry its size.
            Some(condition) => Ok(Some(Box::pin(self.engine.wanted(condition, &self.session, key)).await?)),
            None => Ok(None),
        }
    }

    /// The command is committed; now stand by, if it says so.
    async fn begun(self, done: Done, begun: Begun) -> Result<(ToolReply, Outcome), EngineError> {
        let Begun { standing, task, bounded, complete } = begun;
        let Reply::Timer { timer, stand_by } = &done.reply else { unreachable!("timers answer with a timer") };
        let (timer, version, pending) = (timer.clone(), done.version, done.pending);
        if let Some(task) = task.and_then(|task| timer.task(&task, self.engine.now()).ok()) {
            let view = TaskView::of(&timer, &task, self.engine.retention(), self.engine.now());
            let outcome = match timer.purpose {
                Purpose::Mission(_) => Outcome::Scheduled,
                Purpose::Waiting(_) => Outcome::Background,
            };
            let mut reply = self.reply(done, outcome, Some(false), false);
            if let (ToolBody::Timer(result), Some(until)) = (&mut reply.body, task.until) {
                let left = until.since(self.engine.now()).get().div_ceil(1000);
                result.hint = format!(
                    "Standing by in the background: you are told when the timer ends, or in {left} seconds at the \
                     latest. Do other work or end your turn."
                );
            }
            return Ok((ToolReply { task: Some(view), ..reply }, outcome));
        }
        let Some(length) = *stand_by else {
            let outcome = match (timer.status(), &timer.purpose) {
                (Status::Running | Status::RunningBackground, Purpose::Mission(_)) => Outcome::Scheduled,
                _ => self::standing(&timer),
            };
            let done = if complete { done } else { Box::pin(self.with_messages(done)).await };
            let mut reply = self.reply(done, outcome, Some(outcome == Outcome::Paused), false);
            if outcome == Outcome::Scheduled {
                self.add_delivery(&mut reply).await;
            }
            return Ok((reply, outcome));
        };
        // A repeated request is answered with the timer made before, whose id is not the one announced. What happened
        // to it before this call was announced for it shows in its state.
        let mut standing = match standing.filter(|standing| standing.id() == &timer.id) {
            Some(standing) => standing,
            None => {
                let standing = self.engine.stand_by(&self.session, &timer.id);
                let read = Command::Read { id: Some(timer.id.clone()) };
                let now = Box::pin(self.execute(read, false)).await?;
                if let Reply::Timer { timer, .. } = &now.reply
                    && timer.status() != Status::Running
                {
                    let outcome = self::standing(timer);
                    let now = Box::pin(self.with_messages(now)).await;
                    return Ok((self.reply(now, outcome, Some(false), false), outcome));
                }
                standing
            }
        };
        standing.begins(version.unwrap_or_default());
        // Boxed: the calls that do not stand by should not carry the size of those that do.
        Box::pin(self.sleep(timer, standing, length, bounded, pending)).await
    }

    /// `pending`: there may be something to tell already.
    async fn sleep(
        self,
        timer: Timer,
        mut standing: Standing,
        length: Millis,
        bounded: bool,
        pending: bool,
    ) -> Result<(ToolReply, Outcome), EngineError> {
        let asleep = Asleep::new(&self, &timer);
        let limit = self.standby_max.unwrap_or(length);
        // Less than was asked for; also when a timer that was to end within the limit is lengthened meanwhile.
        let cut = self.standby_max.is_some() && (!bounded || length > limit);
        let bounded = bounded || self.standby_max.is_some();
        let first_look = pending.then_some(Millis::ZERO);
        let woken = self.wait(&mut standing, &timer, (length.min(limit), bounded), (asleep.since, first_look)).await;
        self.returns(timer, standing, woken, asleep, cut).await
    }

    async fn wait(
        &self,
        standing: &mut Standing,
        timer: &Timer,
        (mut length, bounded): (Millis, bool),
        (since, first_look): (Timestamp, Option<Millis>),
    ) -> Woken {
        let clock = self.engine.clock();
        let looking = |after: Option<Millis>| after.map_or_else(|| pending().boxed(), |after| clock.sleep(after));
        let mut look = looking(first_look);
        loop {
            let to_the_end = matches!(timer.phase, Phase::Running { due, .. } if due <= self.engine.now().plus(length));
            let mut over = clock.sleep(if to_the_end { length.plus(FIRING_GRACE) } else { length });
            loop {
                tokio::select! {
                    biased;
                    news = standing.news() => if let Some(released) = news {
                        return Woken::Released(released);
                    },
                    () = &mut over => break,
                    () = self.stop.cancelled() => return Woken::Stopping,
                    () = &mut look => {}
                }
                match self.hear(&timer.id, since).await {
                    Ok(done) => return Woken::Message(Box::new(done)),
                    Err(again) => look = looking(again),
                }
            }
            if bounded {
                return Woken::Over;
            }
            // Without a time of its own the call stands by to the end, also of a timer that was lengthened meanwhile.
            match self.lengthened(timer).await {
                Some(left) => length = left,
                None => return Woken::Over,
            }
        }
    }

    /// The end of the stand-by with what there is to tell; else in how long to ask again though nobody says so.
    async fn hear(&self, id: &ItemId, since: Timestamp) -> Result<Done, Option<Millis>> {
        let sleep = Sleep { id: id.clone(), since, slept: self.engine.now().since(since) };
        match Box::pin(self.execute(Command::Hear(sleep), true)).await {
            Ok(Done { reply: Reply::Unheard { free_at }, .. }) => Err(free_at.map(|at| at.since(self.engine.now()))),
            Ok(done) => Ok(done),
            Err(error) => {
                tracing::warn!(%error, session = %self.session, "messages for a call that stands by cannot be taken; trying again");
                Err(Some(HEAR_RETRY))
            }
        }
    }

    /// What is left of a timer that should have ended.
    async fn lengthened(&self, timer: &Timer) -> Option<Millis> {
        let read = Command::Read { id: Some(timer.id.clone()) };
        match self.execute(read, false).await.ok()?.reply {
            Reply::Timer { timer, .. } if timer.status() == Status::Running => {
                let left = timer.due().map(|due| due.since(self.engine.now()));
                left.filter(|left| !left.is_zero())
            }
            _ => None,
        }
    }

    async fn returns(
        self,
        timer: Timer,
        mut standing: Standing,
        woken: Woken,
        asleep: Asleep,
        cut: bool,
    ) -> Result<(ToolReply, Outcome), EngineError> {
        let (since, fires) = (asleep.since, timer.fires());
        // On a machine that stood still, the right to tell may be over before it is written.
        let heard = matches!(&woken, Woken::Message(done) if !done.riding.is_empty());
        let stopping = matches!(woken, Woken::Stopping);
        let (done, released) = match woken {
            // All there is to say is known: the agent is woken at once, and its sleep is written down afterwards.
            Woken::Released(released) if !released.more => {
                let mut timer = released.timer.as_ref().clone();
                timer.returned(since, self.engine.now());
                drop(asleep);
                (alone(timer), Some(released))
            }
            woken => {
                let (done, released) = match woken {
                    Woken::Message(done) => (*done, None),
                    Woken::Released(released) => (self.awake(&timer, since).await, Some(released)),
                    Woken::Over | Woken::Stopping => (self.awake(&timer, since).await, None),
                };
                asleep.wakes();
                let Reply::Timer { timer, .. } = &done.reply else { unreachable!("Return answers with a timer") };
                let released = match released {
                    // It ended in the moment this call stopped waiting. The firing leased the message to this call,
                    // and the word of it is on its way.
                    None if timer.status() == Status::Completed || timer.fires() > fires => {
                        tokio::time::timeout(FIRING_GRACE.to_std(), standing.released()).await.ok()
                    }
                    released => released,
                };
                (done, released)
            }
        };
        let Reply::Timer { timer, .. } = &done.reply else { unreachable!("Return answers with a timer") };
        let outcome = match &released {
            Some(released) => self::standing_since(&released.timer, fires),
            None if timer.status() == Status::Running && heard => Outcome::Message,
            None if timer.status() == Status::Running => Outcome::Timeout,
            None => self::standing_since(timer, fires),
        };
        let timeout = matches!(outcome, Outcome::Timeout | Outcome::Message);
        let mut reply = self.reply(done, outcome, Some(timeout), cut);
        reply.deliveries.extend(released.and_then(|released| released.delivery));
        if let (ToolBody::Timer(result), Outcome::Timeout, true) = (&mut reply.body, outcome, stopping) {
            let (id, left) = (&result.timer.timer_id, result.timer.remaining_time.0.get().div_ceil(1000));
            result.hint = format!(
                "The server is stopping, not the timer: {left} seconds remain and go on. Call timer with timer_id '{id}' \
                 to stand by again once the server answers."
            );
        }
        Ok((reply, outcome))
    }

    /// Writes the sleep down and takes pending messages along.
    async fn awake(&self, timer: &Timer, since: Timestamp) -> Done {
        let slept = self.engine.now().since(since);
        match self.execute(Command::Return(Sleep { id: timer.id.clone(), since, slept }), true).await {
            Ok(done) => done,
            // The agent gets its answer even when nothing can be written; only the statistics lose.
            Err(error) => {
                tracing::warn!(%error, "the end of a stand-by could not be recorded");
                let mut timer = timer.clone();
                timer.settle(self.engine.now());
                alone(timer)
            }
        }
    }

    pub(super) async fn execute(&self, command: Command, with_messages: bool) -> Result<Done, EngineError> {
        let ride = with_messages.then(|| self.engine.ride());
        let client = self.client_kind();
        let cwd = self.engine.presence().cwd_seen(&self.session);
        self.engine.execute(&self.session, Call { ride, client, cwd, ..Call::new(command) }).await
    }

    /// Pending messages for a reply whose command could not take them along.
    async fn with_messages(&self, done: Done) -> Done {
        match self.engine.collect(&self.session, self.engine.ride()).await {
            Ok(collected) => Done { riding: collected.riding, delivery: collected.delivery, ..done },
            Err(_) => done,
        }
    }

    fn reply(&self, done: Done, outcome: Outcome, timeout: Option<bool>, cut: bool) -> ToolReply {
        let now = self.engine.now();
        let messages: Vec<MessageView> = done.riding.iter().map(MessageView::delivered).collect();
        let body = match &done.reply {
            Reply::Timer { timer, .. } => {
                let hint = if cut && outcome == Outcome::Timeout {
                    Outcome::cut_short(timer, now)
                } else {
                    outcome.hint(timer, now)
                };
                let timer = TimerView::of(timer, now).known_here(timer, self.engine);
                ToolBody::Timer(Box::new(TimerResult { timer, timeout, outcome, messages, delivery: None, hint }))
            }
            Reply::Timers { timers, quiet } => {
                let view = |timer: &Timer| TimerView::of(timer, now).known_here(timer, self.engine);
                ToolBody::Timers(TimersResult { quiet: quiet.clone(), ..TimersResult::of(timers, messages, view) })
            }
            _ => unreachable!("tools ask about timers"),
        };
        ToolReply { body, deliveries: done.delivery.into_iter().collect(), task: None }
    }

    /// Accepted means deliverable, or the answer says that it is not.
    async fn add_delivery(&self, reply: &mut ToolReply) {
        let ToolBody::Timer(result) = &mut reply.body else { return };
        let after = result.timer.remaining_time.0;
        // Turns are held for reminders alone.
        let (delivery, warning) = self.delivery(after, None).await;
        if let Some(warning) = warning {
            let left = result.timer.remaining_time.0.get().div_ceil(1000);
            let due = match (&result.timer.schedule, super::until::words(&result.timer)) {
                (Some(schedule), _) => schedule.due(),
                (None, Some(condition)) => {
                    format!("due as soon as the condition is met ({condition}), in {left} seconds at the latest")
                }
                (None, None) => format!("due in {left} seconds"),
            };
            let opens = result.timer.waits_until.map(|ms| Timestamp::from_millis(ms).to_iso());
            let due = opens.map_or(due.clone(), |opens| format!("{due}, waits for {opens} (quiet hours)"));
            let id = &result.timer.timer_id;
            result.hint = format!(
                "The mission is kept and {due}. {warning} If it must be done on time, do not end your turn: call timer \
                 with timer_id '{id}' and a timeout_duration to stand by."
            );
        }
        result.delivery = Some(delivery);
    }

    /// By which ways a message of this session comes that is due after this time, and what to say if none of them wakes
    /// its agent. `held`: a turn may be held for it, for so long.
    pub(super) async fn delivery(&self, after: Millis, held: Option<Millis>) -> (Deliverable, Option<String>) {
        let client = self.client_kind();
        let rules = self.engine.wake_rules();
        let mut wake_rule = rules.serving(&self.session, client.as_deref());
        if wake_rule.is_none() && client.is_none() && !rules.list.is_empty() {
            let kept = self.engine.store().load(&self.session, Needs::default()).await.ok();
            let kept = kept.and_then(|state| state.session).and_then(|session| session.client);
            wake_rule = rules.serving(&self.session, kept.as_deref());
        }
        let mut reach = self.engine.presence().reach(&self.session, after, self.engine.now());
        reach.silent_client |= self.holds;
        reach.waking_client |= self.in_turn.zip(held).is_some_and(|(turn, length)| turn.lasts(length));
        let wake_rule = wake_rule.map(|rule| rules.list[rule].0.clone());
        let delivery = deliverable(&Known { task: self.task, reach, wake_rule });
        let warning = match self.in_turn.filter(|_| !delivery.wakes && !delivery.wakes_later) {
            Some(_) => Some(NEXT_REQUEST.to_owned()),
            None => delivery.warning(client.as_deref()),
        };
        (delivery, warning)
    }

    fn client_kind(&self) -> Option<String> {
        client_kind(self.client.as_deref()).or_else(|| self.engine.presence().client_seen(&self.session))
    }

    pub(super) fn request_key(
        &mut self,
        fingerprint: impl FnOnce() -> String,
    ) -> Result<Option<RequestKey>, EngineError> {
        let key = self.idempotency_key.take();
        Ok(key.map(|key| request_key(key, fingerprint())).transpose()?)
    }
}

/// The client's own name for a creation, with what tells it from another of the same name.
pub fn request_key(key: String, fingerprint: String) -> Result<RequestKey, Reject> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        let why = format!("must have 1 to {KEY_BYTES_MAX} bytes");
        return Err(Reject::InvalidArgument { field: "Idempotency-Key".into(), why });
    }
    Ok(RequestKey { key, fingerprint })
}

/// An answer with nothing but the timer.
fn alone(timer: Timer) -> Done {
    Done {
        reply: Reply::Timer { timer, stand_by: None },
        version: None,
        pending: false,
        riding: Vec::new(),
        delivery: None,
    }
}

/// What the state alone says about how things stand.
fn standing(timer: &Timer) -> Outcome {
    match timer.status() {
        Status::Running => Outcome::Read,
        Status::RunningBackground => Outcome::Background,
        Status::Paused => Outcome::Paused,
        Status::Completed => Outcome::ended(timer),
        Status::Stopped => Outcome::Stopped,
    }
}

/// The same for a call that began when the timer had fired so often.
fn standing_since(timer: &Timer, fires: u32) -> Outcome {
    if timer.is_live() && timer.fires() > fires { Outcome::Fired } else { standing(timer) }
}

/// Counts the sleep of a call, also of one whose client leaves in the middle of it.
struct Asleep {
    engine: Arc<Engine>,
    id: ItemId,
    since: Timestamp,
    awake: bool,
}

impl Asleep {
    fn new(call: &ToolCall<'_>, timer: &Timer) -> Self {
        let engine = call.engine.clone();
        engine.metrics.standing_by.inc();
        // The stand-by's own beginning, by which it is known.
        let since = timer.standby.map_or_else(|| engine.now(), |standby| standby.since);
        Self { id: timer.id.clone(), since, awake: false, engine }
    }

    /// Its end is written down.
    fn wakes(mut self) {
        self.awake = true;
    }
}

impl Drop for Asleep {
    fn drop(&mut self) {
        self.engine.metrics.standing_by.dec();
        if !self.awake {
            self.engine.slept(self.id.clone(), self.since);
        }
    }
}
