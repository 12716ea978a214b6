//! One session in memory behind `decide`, as the engine and a store keep it: load, decide, commit; and when deadlines
//! have passed unseen, let time act first. Every batch it takes is checked against what must hold for all of them, so
//! each test that goes through here guards those rules too.

#![allow(dead_code)] // each test binary uses its own part of it

use reveille_core::{
    AgentId, Batch, Call, Command, Condition, Decision, Fired, HistoryEntry, Item, ItemId, ItemWrite, LeaseId, Limits,
    Message, MessageKind, MessageWrite, Millis, Needs, Purpose, Reject, Reminder, Reply, RequestKey, Schedule,
    Scheduled, Session, SessionId, SessionTimer, State, Status, Task, TaskId, Timer, Timestamp, ToolCall, Utterance,
    When,
    batch::tally,
    call::{self, Report},
    command::{Ride, Select},
    condition::{Sighting, Wanted},
    decide,
    id::readable,
    reminder::{self, Ask, Content, Due},
    session::SessionState,
    session_timer::{self, Spec},
    task,
    timer::Continuation,
};
use std::collections::{BTreeMap, HashMap};

/// Where time begins in these tests, in milliseconds.
pub const START: i64 = 1_790_000_000_000;

pub struct Ledger {
    pub id: SessionId,
    pub limits: Limits,
    pub now: Timestamp,
    pub session: Option<Session>,
    /// In the order they were made, as are the messages.
    pub timers: Vec<Timer>,
    pub reminders: Vec<Reminder>,
    pub session_timers: Vec<SessionTimer>,
    pub calls: Vec<ToolCall>,
    pub said: Vec<Utterance>,
    pub messages: Vec<Message>,
    pub keys: Vec<(ItemId, RequestKey)>,
    pub history: Vec<HistoryEntry>,
    pub tallies: BTreeMap<String, i64>,
    pub fired: Vec<Fired>,
    /// The calls that stand by, and the lease each would get.
    pub standing: HashMap<ItemId, LeaseId>,
    made: u32,
}

pub const AGENT: &str = "acme:客服";

pub fn secs(seconds: u64) -> Millis {
    Millis::from_secs(seconds)
}

pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(START + seconds * 1000)
}

pub fn waiting(reason: &str) -> Purpose {
    Purpose::Waiting(reason.into())
}

pub fn mission(mission: &str) -> Purpose {
    Purpose::Mission(mission.into())
}

/// Writes one item; what ended is not touched again.
fn put<T: Clone + std::fmt::Debug>(
    kept: &mut Vec<T>,
    write: &ItemWrite,
    item: &T,
    same: impl Fn(&T) -> bool,
    ended: impl Fn(&T) -> bool,
) {
    let found = kept.iter_mut().find(|stored| same(stored));
    match (write, found) {
        (ItemWrite::Insert { .. }, None) => kept.push(item.clone()),
        (ItemWrite::Update(_), Some(stored)) => {
            assert!(!ended(stored), "what has ended was touched: {stored:?}");
            *stored = item.clone();
        }
        (write, found) => panic!("{write:?} does not fit what is stored: {found:?}"),
    }
}

impl Ledger {
    pub fn new() -> Self {
        Self::with(Limits::default())
    }

    pub fn with(limits: Limits) -> Self {
        Self {
            id: SessionId::new("租户:会话🙂"),
            limits,
            now: at(0),
            session: None,
            timers: Vec::new(),
            reminders: Vec::new(),
            session_timers: Vec::new(),
            calls: Vec::new(),
            said: Vec::new(),
            messages: Vec::new(),
            keys: Vec::new(),
            history: Vec::new(),
            tallies: BTreeMap::new(),
            fired: Vec::new(),
            standing: HashMap::new(),
            made: 0,
        }
    }

    /// The clock is `seconds` after the start.
    pub fn clock(&mut self, seconds: i64) {
        self.now = at(seconds);
    }

    pub fn new_id(&mut self) -> ItemId {
        self.made += 1;
        ItemId::new(readable("timer", self.now, self.made))
    }

    pub fn new_task(&mut self) -> ItemId {
        self.made += 1;
        ItemId::new(readable("task", self.now, self.made))
    }

    // What agents and channels ask for.

    pub fn create(&mut self, purpose: Purpose, total: Millis, timeout: Option<Millis>) -> ItemId {
        self.try_create(purpose, total, timeout, None).expect("a timer can be made").0.id
    }

    pub fn try_create(
        &mut self,
        purpose: Purpose,
        total: Millis,
        timeout: Option<Millis>,
        key: Option<RequestKey>,
    ) -> Result<(Timer, Option<Millis>), Reject> {
        let id = self.new_id();
        self.about_timer(Command::Create { id, purpose, total, timeout, until: None, key, task: None })
    }

    pub fn create_until(&mut self, purpose: Purpose, total: Millis, condition: Condition) -> ItemId {
        let id = self.new_id();
        let until = Some(Wanted { condition, node: None });
        let made =
            self.about_timer(Command::Create { id, purpose, total, timeout: None, until, key: None, task: None });
        made.expect("a timer can be made").0.id
    }

    /// Somebody saw that the condition of a timer holds, which it has since `since`. Whether that ended it.
    pub fn meet(&mut self, id: &ItemId, since: Timestamp, seen: &str) -> bool {
        let sightings = vec![Sighting { id: id.clone(), since, seen: seen.into() }];
        match self.ask(Command::Meet { sightings, standing: self.standing.clone() }).expect("never refused").reply {
            Reply::Met(met) => met == [id.clone()],
            other => panic!("a met condition was answered with {other:?}"),
        }
    }

    /// A timer that follows the calendar or recurs.
    pub fn plan(&mut self, purpose: Purpose, when: When, timeout: Option<Millis>) -> Result<Timer, Reject> {
        let (id, when) = (self.new_id(), Box::new(when));
        Ok(self.about_timer(Command::Plan { id, purpose, when, timeout, key: None, task: None })?.0)
    }

    pub fn proceed(&mut self, id: &ItemId, ask: Continuation) -> Result<(Timer, Option<Millis>), Reject> {
        self.about_timer(Command::Continue { id: id.clone(), ask, task: None })
    }

    pub fn cancel(&mut self, id: &ItemId) -> Result<Timer, Reject> {
        Ok(self.about_timer(Command::Cancel { id: id.clone(), note: None })?.0)
    }

    pub fn pause(&mut self, id: &ItemId, length: Millis) -> Result<Timer, Reject> {
        Ok(self.about_timer(Command::Pause { id: id.clone(), length, note: None })?.0)
    }

    pub fn resume(&mut self, id: &ItemId) -> Result<Timer, Reject> {
        Ok(self.about_timer(Command::Resume { id: id.clone(), note: None })?.0)
    }

    pub fn stop(&mut self, id: &ItemId, note: &str) -> Result<Timer, Reject> {
        Ok(self.about_timer(Command::Stop { id: id.clone(), note: Some(note.into()) })?.0)
    }

    pub fn read(&mut self, id: &ItemId) -> Timer {
        self.about_timer(Command::Read { id: Some(id.clone()) }).expect("a known timer is readable").0
    }

    pub fn read_all(&mut self) -> Vec<Timer> {
        match self.ask(Command::Read { id: None }).map(|decision| decision.reply) {
            Ok(Reply::Timers { timers, .. }) => timers,
            other => panic!("reading all timers was answered with {other:?}"),
        }
    }

    pub fn close(&mut self, note: Option<&str>) -> Result<usize, Reject> {
        match self.ask(Command::Close { note: note.map(Into::into), notify: Vec::new() })?.reply {
            Reply::Closed(closed) => Ok(closed.stopped),
            other => panic!("closing was answered with {other:?}"),
        }
    }

    // What happens in an agent's session.

    /// The user says something; `specs` are the agent's timers as they are configured now.
    pub fn message(&mut self, specs: &[Spec], turn: Option<&str>) -> Result<Vec<SessionTimer>, Reject> {
        let timers = specs.iter().map(|spec| {
            self.made += 1;
            (ItemId::new(readable("st", self.now, self.made)), spec.clone())
        });
        let (timers, turn) = (Some(timers.collect()), turn.map(Into::into));
        let command = Command::Message { agent: AgentId::new(AGENT), timers, turn, said: Vec::new(), quiet: None };
        self.about_turn(command)
    }

    pub fn response(&mut self, turn: Option<&str>) -> Result<Vec<SessionTimer>, Reject> {
        let turn = turn.map(Into::into);
        self.about_turn(Command::Response { agent: None, turn, said: Vec::new(), made: Vec::new(), notify: Vec::new() })
    }

    /// The agent goes on by itself.
    pub fn go_on(&mut self, turn: &str) -> Result<Vec<SessionTimer>, Reject> {
        self.about_turn(Command::GoOn { agent: AgentId::new(AGENT), turn: turn.into() })
    }

    /// The turn lives.
    pub fn renew(&mut self, turn: Option<&str>) -> Result<Vec<SessionTimer>, Reject> {
        self.about_turn(Command::Renew { turn: turn.map(Into::into) })
    }

    fn about_turn(&mut self, command: Command) -> Result<Vec<SessionTimer>, Reject> {
        match self.ask(command)?.reply {
            Reply::Turn { timers, .. } => Ok(timers),
            other => panic!("a turn was answered with {other:?}"),
        }
    }

    pub fn call_ended(&mut self, id: &ItemId, attempt: u32, report: Report) -> Result<ToolCall, Reject> {
        match self.ask(Command::CallEnded { id: id.clone(), attempt, report })?.reply {
            Reply::Call(call) => Ok(call),
            other => panic!("the end of a call was answered with {other:?}"),
        }
    }

    /// The last made of this name.
    pub fn session_timer(&self, name: &str) -> &SessionTimer {
        self.session_timers.iter().rev().find(|timer| timer.spec.timer_id == name).expect("the timer is stored")
    }

    // What clients that go away ask for.

    pub fn create_task(&mut self, purpose: Purpose, total: Millis, timeout: Option<Millis>, task: &str) -> ItemId {
        let id = self.new_id();
        let task = Some(TaskId::new(task));
        let made = self.about_timer(Command::Create { id, purpose, total, timeout, until: None, key: None, task });
        made.expect("a timer can be made").0.id
    }

    pub fn proceed_task(&mut self, id: &ItemId, ask: Continuation, task: &str) -> Result<Timer, Reject> {
        let task = Some(TaskId::new(task));
        Ok(self.about_timer(Command::Continue { id: id.clone(), ask, task })?.0)
    }

    /// The task, and the lease that reading it gave.
    pub fn read_task(&mut self, timer: &ItemId, task: &str) -> Result<(Task, Option<LeaseId>), Reject> {
        self.about_task(Command::ReadTask { timer: timer.clone(), task: TaskId::new(task) })
    }

    pub fn cancel_task(&mut self, timer: &ItemId, task: &str) -> Result<Task, Reject> {
        Ok(self.about_task(Command::CancelTask { timer: timer.clone(), task: TaskId::new(task) })?.0)
    }

    fn about_task(&mut self, command: Command) -> Result<(Task, Option<LeaseId>), Reject> {
        match self.ask(command)?.reply {
            Reply::Task { task, lease, .. } => Ok((task, lease)),
            other => panic!("a question about a task was answered with {other:?}"),
        }
    }

    // What agents ask of the clock.

    /// A reminder of `task`, due `seconds` after the start.
    pub fn remind(&mut self, task: &str, seconds: i64) -> ItemId {
        let content = Content { task: task.into(), tool: None, arguments: None };
        let ask = Ask::New { id: self.new_task(), due: Due::At(at(seconds)), content };
        self.schedule(vec![ask], None).expect("a reminder can be made")[0].id.clone()
    }

    pub fn schedule(&mut self, asks: Vec<Ask>, key: Option<RequestKey>) -> Result<Vec<Scheduled>, Reject> {
        match self.ask(Command::Schedule { asks, key })?.reply {
            Reply::Scheduled(scheduled) => Ok(scheduled),
            other => panic!("scheduling was answered with {other:?}"),
        }
    }

    pub fn cancel_reminder(&mut self, id: &ItemId) -> Result<Reminder, Reject> {
        match self.ask(Command::CancelReminder { id: id.clone() })?.reply {
            Reply::Reminder(reminder) => Ok(reminder),
            other => panic!("cancelling was answered with {other:?}"),
        }
    }

    pub fn clear(&mut self) -> usize {
        match self.ask(Command::ClearReminders).map(|decision| decision.reply) {
            Ok(Reply::Cleared(count)) => count,
            other => panic!("clearing was answered with {other:?}"),
        }
    }

    pub fn list(&mut self) -> Vec<Reminder> {
        match self.ask(Command::ListReminders).map(|decision| decision.reply) {
            Ok(Reply::Reminders(reminders)) => reminders,
            other => panic!("listing was answered with {other:?}"),
        }
    }

    pub fn reminder(&self, id: &ItemId) -> &Reminder {
        self.reminders.iter().find(|reminder| reminder.id == *id).expect("the reminder is stored")
    }

    /// Proposes these deadlines, rightly or wrongly.
    pub fn fire(&mut self, ids: &[ItemId]) -> Vec<Fired> {
        let command = Command::Fire { ids: ids.to_vec(), standing: self.standing.clone() };
        match self.ask(command).expect("firing is never refused").reply {
            Reply::Fired(fired) => fired,
            other => panic!("firing was answered with {other:?}"),
        }
    }

    pub fn fire_all(&mut self) -> Vec<Fired> {
        let ids: Vec<ItemId> = self.items().map(|item| item.id().clone()).collect();
        self.fire(&ids)
    }

    /// Leases up to `max` messages by a call that does nothing else.
    pub fn collect(&mut self, lease: &str, length: Millis, max: usize) -> Vec<Message> {
        self.ask_riding(Command::Collect, lease, length, max).expect("collecting is never refused").riding
    }

    pub fn ask_riding(
        &mut self,
        command: Command,
        lease: &str,
        length: Millis,
        messages_max: usize,
    ) -> Result<Decision, Reject> {
        let ride = Ride { lease: LeaseId::new(lease), length, messages_max, chars_max: usize::MAX, alone_among: None };
        self.run(&Call { ride: Some(ride), ..Call::new(command) })
    }

    pub fn commit_lease(&mut self, lease: &str, channel: &str) -> Result<usize, Reject> {
        self.settle_lease(Command::CommitLease { lease: LeaseId::new(lease), channel: channel.into() })
    }

    pub fn release_lease(&mut self, lease: &str) -> Result<usize, Reject> {
        self.settle_lease(Command::ReleaseLease { lease: LeaseId::new(lease) })
    }

    fn settle_lease(&mut self, command: Command) -> Result<usize, Reject> {
        match self.ask(command)?.reply {
            Reply::Settled(count) => Ok(count),
            other => panic!("settling a lease was answered with {other:?}"),
        }
    }

    pub fn about_timer(&mut self, command: Command) -> Result<(Timer, Option<Millis>), Reject> {
        match self.ask(command)?.reply {
            Reply::Timer { timer, stand_by } => Ok((timer, stand_by)),
            other => panic!("a question about a timer was answered with {other:?}"),
        }
    }

    pub fn ask(&mut self, command: Command) -> Result<Decision, Reject> {
        self.run(&Call::new(command))
    }

    // What the engine does.

    pub fn run(&mut self, call: &Call) -> Result<Decision, Reject> {
        for _ in 0..2 {
            match self.decide(call) {
                Err(Reject::Overdue(ids)) => {
                    assert!(!ids.is_empty(), "overdue without saying what");
                    let fired = self.fire(&ids);
                    assert!(!fired.is_empty() || self.is_quiet(), "said to be overdue, yet nothing fired: {ids:?}");
                }
                Err(refused) => return Err(refused),
                Ok(decision) => {
                    if let Some(batch) = &decision.batch {
                        self.commit(batch);
                    }
                    self.heed(&decision);
                    return Ok(decision);
                }
            }
        }
        panic!("time acted and the call is still too early: {call:?}");
    }

    /// Only decides, on what a store would load for this call.
    pub fn decide(&self, call: &Call) -> Result<Decision, Reject> {
        let state = self.load(&call.needs());
        let decision = decide(&self.id, &state, call, self.now, &self.limits);
        let again = decide(&self.id, &state, call, self.now, &self.limits);
        assert_eq!(decision, again, "the same question was answered in two ways");
        decision
    }

    /// What fired was due, and nothing fires unseen.
    fn heed(&mut self, decision: &Decision) {
        let Reply::Fired(fired) = &decision.reply else { return };
        for Fired { id, due, .. } in fired {
            assert!(*due <= self.now, "{id} fired {} ms early", due.since(self.now).get());
        }
        let written = decision.batch.is_some();
        assert!(fired.is_empty() != written || self.is_quiet(), "a firing is written, and a stale one is not");
        self.fired.extend(fired.iter().cloned());
    }

    /// What is due may have to wait.
    fn is_quiet(&self) -> bool {
        self.limits.quiet.is_some() || self.session.as_ref().is_some_and(|session| !session.quiet.is_none())
    }

    // What a store does.

    pub fn load(&self, needs: &Needs) -> State {
        let settled = |id: &ItemId, lease: &LeaseId| {
            self.messages.iter().any(|message| message.source == *id && message.settles_source(lease))
        };
        let ends = |ids: &[ItemId]| self.items().any(|item| ids.contains(item.id()) && item.ends_session());
        let items: Vec<Item> = self
            .items()
            .filter(|item| match &needs.items {
                Select::None => false,
                Select::Ids(ids) => ids.contains(item.id()),
                Select::Fired(ids) => ids.contains(item.id()) || (ends(ids) && item.ended_at().is_none()),
                Select::Live => item.ended_at().is_none(),
                Select::LiveOf(kind) => item.ended_at().is_none() && item.kind() == *kind,
                Select::Recent => true,
                Select::RecentOf(kind) => item.kind() == *kind,
                Select::SettledBy(lease) => settled(item.id(), lease),
            })
            .collect();
        let undelivered = self.messages.iter().filter(|message| needs.inbox && message.delivered.is_none());
        let keyed = needs.key.as_ref().and_then(|key| {
            let (id, used) = self.keys.iter().find(|(_, used)| used.key == *key)?;
            Some((self.items().find(|item| item.id() == id)?, used.clone()))
        });
        State { session: self.session.clone(), items, inbox: undelivered.cloned().collect(), keyed }
    }

    fn items(&self) -> impl Iterator<Item = Item> + '_ {
        let reminders = self.reminders.iter().cloned().map(Item::Reminder);
        let session_timers = self.session_timers.iter().cloned().map(Item::SessionTimer);
        let calls = self.calls.iter().cloned().map(Item::Call);
        self.timers.iter().cloned().map(Item::Timer).chain(reminders).chain(session_timers).chain(calls)
    }

    pub fn timer(&self, id: &ItemId) -> &Timer {
        self.timers.iter().find(|timer| timer.id == *id).expect("the timer is stored")
    }

    pub fn count(&self, name: &str) -> i64 {
        self.tallies.get(name).copied().unwrap_or(0)
    }

    /// The names of a subject's history entries, oldest first.
    pub fn events(&self, subject: &str) -> Vec<&str> {
        self.history.iter().filter(|entry| &*entry.subject == subject).map(|entry| entry.event.as_ref()).collect()
    }

    fn commit(&mut self, batch: &Batch) {
        let version = self.session.as_ref().map(|session| session.version);
        assert_eq!(batch.expected, version, "decided on a version that is not the stored one");
        assert_eq!(batch.session.version, version.unwrap_or(0) + 1, "each batch raises the version by one");
        assert_eq!((batch.session_id(), batch.session.active_at), (&self.id, self.now));
        self.session = Some(batch.session.clone());
        for write in &batch.items {
            self.write_item(write);
        }
        for write in &batch.messages {
            self.write_message(write);
        }
        self.said.extend(batch.said.iter().cloned());
        for entry in &batch.history {
            assert_eq!(entry.at, self.now, "{entry:?}");
            self.history.push(entry.clone());
        }
        for count in &batch.tallies {
            *self.tallies.entry(count.name.to_string()).or_default() += count.by;
        }
        self.check();
    }

    fn write_item(&mut self, write: &ItemWrite) {
        if let ItemWrite::Insert { item, key: Some(key) } = write {
            assert!(self.keys.iter().all(|(_, used)| used.key != key.key), "key {} twice", key.key);
            self.keys.push((item.id().clone(), key.clone()));
        }
        match write.item() {
            Item::Timer(timer) => self.write_timer(write, timer),
            Item::Reminder(reminder) => self.write_reminder(write, reminder),
            Item::Thread(_) => {}
            Item::SessionTimer(timer) => {
                let ended = |stored: &SessionTimer| stored.ended_at().is_some();
                put(&mut self.session_timers, write, timer, |stored| stored.id == timer.id, ended);
            }
            // One that failed may be made again.
            Item::Call(call) => put(
                &mut self.calls,
                write,
                call,
                |stored| stored.id == call.id,
                |stored| matches!(stored.status(), call::Status::Done | call::Status::Cancelled),
            ),
        }
    }

    fn write_timer(&mut self, write: &ItemWrite, timer: &Timer) {
        let found = self.timers.iter_mut().find(|stored| stored.id == timer.id);
        match (write, found) {
            (ItemWrite::Insert { .. }, None) => self.timers.push(timer.clone()),
            (ItemWrite::Update(_), Some(stored)) => {
                assert!(stored.is_live() || stored.phase == timer.phase, "an ended timer came to life: {timer:?}");
                for task in stored.tasks.iter().filter(|task| !task.is_open()) {
                    let kept = timer.tasks.iter().find(|kept| kept.id == task.id);
                    assert!(kept.is_none_or(|kept| kept == task), "an ended task was touched: {task:?}");
                }
                if timer.status() == Status::Completed && stored.is_live() && timer.met().is_none() {
                    assert!(stored.due().is_some_and(|due| due <= self.now), "completed before its time: {stored:?}");
                }
                *stored = timer.clone();
            }
            (write, found) => panic!("{write:?} does not fit what is stored: {found:?}"),
        }
    }

    fn write_reminder(&mut self, write: &ItemWrite, reminder: &Reminder) {
        if reminder.status() == reminder::Status::Due {
            assert!(reminder.due_at.minus(self.limits.due_window) <= self.now, "due before its time: {reminder:?}");
        }
        if reminder.status() == reminder::Status::Missed {
            let kept = reminder.due_at.plus(self.limits.reminder_retention);
            assert!(kept <= self.now, "given up before its time: {reminder:?}");
        }
        let found = self.reminders.iter_mut().find(|stored| stored.id == reminder.id);
        match (write, found) {
            (ItemWrite::Insert { .. }, None) => self.reminders.push(reminder.clone()),
            (ItemWrite::Update(_), Some(stored)) => {
                assert!(stored.is_live(), "an ended reminder was touched: {stored:?}");
                *stored = reminder.clone();
            }
            (write, found) => panic!("{write:?} does not fit what is stored: {found:?}"),
        }
    }

    fn write_message(&mut self, write: &MessageWrite) {
        let message = write.message();
        let found = self.messages.iter_mut().find(|stored| stored.id == message.id);
        match (write, found) {
            (MessageWrite::Insert(_), None) => self.messages.push(message.clone()),
            (MessageWrite::Update(_), Some(stored)) => {
                assert!(stored.delivered.is_none(), "{} was delivered and is touched again", stored.id);
                *stored = message.clone();
            }
            (MessageWrite::Withdraw(_), Some(stored)) => {
                assert!(stored.delivered.is_none(), "{} was delivered and is withdrawn", stored.id);
                self.messages.retain(|kept| kept.id != message.id);
            }
            (write, found) => panic!("{write:?} does not fit what is stored: {found:?}"),
        }
    }

    /// What holds after every commit, whatever was asked and whatever the clock did.
    fn check(&self) {
        for timer in &self.timers {
            self.check_sum(timer);
            assert!(timer.tasks.len() <= task::TASKS_MAX, "{timer:?}");
            assert!(timer.is_live() || timer.tasks.iter().all(|task| !task.is_open()), "open at the end: {timer:?}");
            for task in &timer.tasks {
                let end = task.end.as_ref();
                assert!(
                    end.is_none_or(|end| task.until.is_none_or(|until| {
                        end.at <= until || end.outcome == reveille_core::TaskOutcome::Completed
                    })),
                    "it ended after its time: {task:?}"
                );
            }
            let told = self.messages.iter().filter(|message| message.source == timer.id).count();
            let recurrence = timer.schedule.as_deref().and_then(Schedule::recurrence);
            let ended = usize::from(timer.status() == Status::Completed);
            let times = recurrence.map_or(ended, |recurrence| recurrence.fires as usize);
            assert_eq!(told, times, "messages about {} ({})", timer.id, timer.status().as_str());
        }
        for status in Status::ALL {
            let count = self.timers.iter().filter(|timer| timer.status() == status).count() as i64;
            assert_eq!(self.count(tally::timers(status)), count, "tally of {}", status.as_str());
        }
        self.check_reminders();
        self.check_session_timers();
        assert_eq!(self.count(tally::TIMERS_CREATED), self.timers.len() as i64);
        let withdrawn = self.count(tally::MESSAGES_WITHDRAWN);
        assert_eq!(self.count(tally::MESSAGES_CREATED), self.messages.len() as i64 + withdrawn);
        let delivered = self.messages.iter().filter(|message| message.delivered.is_some()).count();
        assert_eq!(self.count(tally::MESSAGES_DELIVERED), delivered as i64);
        assert_eq!(self.count(tally::SESSIONS), 1, "one session, counted once");
        let live = self.timers.iter().filter(|timer| timer.is_live()).count();
        let session = self.session.as_ref().expect("a commit leaves a session");
        assert_eq!(session.live_timers as usize, live, "the session's count of live timers");
        assert!(live <= self.limits.live_timers_max as usize, "more live timers than allowed");
        let pending = self.messages.iter().filter(|message| message.delivered.is_none()).count();
        assert_eq!(session.pending_messages as usize, pending, "the session's count of undelivered messages");
    }

    /// What was fired was written, once; counters are true, for all and for the agent.
    fn check_session_timers(&self) {
        use session_timer::Action;
        let mut fired = 0;
        for timer in &self.session_timers {
            let of = |id: &str, prefix: &str| id.starts_with(&format!("{prefix}_{}.", timer.id));
            let said = self.said.iter().filter(|said| of(&said.id, "said")).count();
            let calls = self.calls.iter().filter(|call| of(call.id.as_str(), "call")).count();
            let count = timer.trigger_count as usize;
            let expected = match timer.spec.action {
                Action::Say { .. } => (count, 0),
                Action::Call { .. } => (0, count),
                Action::Close => (0, 0),
            };
            assert_eq!((said, calls), expected, "{timer:?}");
            let max = timer.spec.max_triggers;
            assert!(max == 0 || timer.used <= max, "fired too often: {timer:?}");
            fired += count as i64;
        }
        let agent = AgentId::new(AGENT);
        let counted = |name: &str, count: i64| {
            assert_eq!((self.count(name), self.count(&tally::of_agent(name, &agent))), (count, count), "{name}");
        };
        for status in session_timer::Status::ALL {
            let count = self.session_timers.iter().filter(|timer| timer.status() == status).count();
            counted(tally::session_timers(status), count as i64);
        }
        for status in call::Status::ALL {
            let count = self.calls.iter().filter(|call| call.status() == status).count();
            counted(tally::calls(status), count as i64);
        }
        counted(tally::SESSION_TIMERS_CREATED, self.session_timers.len() as i64);
        counted(tally::SESSION_TIMERS_FIRED, fired);
        counted(tally::CALLS_CREATED, self.calls.len() as i64);
        if self.session.as_ref().is_some_and(|session| session.state == SessionState::Closed) {
            assert!(self.session_timers.iter().all(|timer| !timer.is_live()), "alive in a closed session");
        }
    }

    /// A reminder and its message never part.
    fn check_reminders(&self) {
        use reminder::Status;
        for reminder in &self.reminders {
            let told = |message: &&Message| message.source == reminder.id;
            let (delivered, pending): (Vec<&Message>, Vec<&Message>) =
                self.messages.iter().filter(told).partition(|message| message.delivered.is_some());
            let status = reminder.status();
            assert_eq!(pending.len(), usize::from(status == Status::Due), "{reminder:?}: {pending:?}");
            assert_eq!(delivered.len(), usize::from(status == Status::Delivered), "{reminder:?}: {delivered:?}");
            assert_eq!(reminder.delivery_count as usize, delivered.len());
            assert_eq!(reminder.delivered_at(), delivered.first().and_then(|told| Some(told.delivered.as_ref()?.at)));
            for message in pending {
                assert_eq!((message.kind, message.expires_at), (MessageKind::ReminderDue, reminder.keep_until()));
            }
        }
        for status in Status::ALL {
            let count = self.reminders.iter().filter(|reminder| reminder.status() == status).count() as i64;
            assert_eq!(self.count(tally::reminders(status)), count, "tally of {}", status.as_str());
        }
        assert_eq!(self.count(tally::REMINDERS_CREATED), self.reminders.len() as i64);
        let live = self.reminders.iter().filter(|reminder| reminder.is_live()).count();
        assert_eq!(self.session.as_ref().map(|session| session.live_reminders as usize), Some(live));
        assert!(live <= self.limits.live_reminders_max as usize, "more live reminders than allowed");
    }

    /// `elapsed + remaining == total`, now and at any other instant.
    pub fn check_sum(&self, timer: &Timer) {
        let instants = [i64::MIN, 0, START, i64::MAX].map(Timestamp::from_millis);
        for instant in instants.into_iter().chain([self.now, timer.created_at, timer.last_check_at]) {
            let (elapsed, remaining) = (timer.elapsed(instant), timer.remaining(instant));
            assert_eq!(elapsed.plus(remaining), timer.total, "{timer:?} at {instant:?}");
        }
    }
}
