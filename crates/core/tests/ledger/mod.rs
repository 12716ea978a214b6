//! One session in memory behind `decide`, as the engine and a store keep it: load, decide, commit; and when deadlines
//! have passed unseen, let time act first. Every batch it takes is checked against what must hold for all of them, so
//! each test that goes through here guards those rules too.

#![allow(dead_code)] // each test binary uses its own part of it

use reveille_core::{
    Batch, Call, Command, Decision, Fired, HistoryEntry, Item, ItemId, ItemWrite, LeaseId, Limits, Message,
    MessageWrite, Millis, Needs, Purpose, Reject, Reply, RequestKey, Session, SessionId, State, Status, Timer,
    Timestamp,
    batch::tally,
    command::{Ride, Select},
    decide,
    id::readable,
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
    pub messages: Vec<Message>,
    pub keys: Vec<(ItemId, RequestKey)>,
    pub history: Vec<HistoryEntry>,
    pub tallies: BTreeMap<&'static str, i64>,
    pub fired: Vec<Fired>,
    /// The calls that stand by, and the lease each would get.
    pub standing: HashMap<ItemId, LeaseId>,
    made: u32,
}

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
        self.about_timer(Command::Create { id, purpose, total, timeout, key })
    }

    pub fn proceed(&mut self, id: &ItemId, ask: Continuation) -> Result<(Timer, Option<Millis>), Reject> {
        self.about_timer(Command::Continue { id: id.clone(), ask })
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
            Ok(Reply::Timers(timers)) => timers,
            other => panic!("reading all timers was answered with {other:?}"),
        }
    }

    pub fn close(&mut self, note: Option<&str>) -> Result<usize, Reject> {
        match self.ask(Command::Close { note: note.map(Into::into) })?.reply {
            Reply::Closed { stopped } => Ok(stopped),
            other => panic!("closing was answered with {other:?}"),
        }
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
        let ids: Vec<ItemId> = self.timers.iter().map(|timer| timer.id.clone()).collect();
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
        self.run(&Call { command, ride: Some(Ride { lease: LeaseId::new(lease), length, messages_max }) })
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
                    assert!(!self.fire(&ids).is_empty(), "said to be overdue, yet nothing fired: {ids:?}");
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
        for Fired { id, due } in fired {
            assert!(*due <= self.now, "{id} fired {} ms early", due.since(self.now).get());
        }
        assert_eq!(fired.is_empty(), decision.batch.is_none(), "a firing is written, and a stale one is not");
        self.fired.extend(fired.iter().cloned());
    }

    // What a store does.

    pub fn load(&self, needs: &Needs) -> State {
        let items: Vec<Item> = self
            .timers
            .iter()
            .filter(|timer| match &needs.items {
                Select::None => false,
                Select::Ids(ids) => ids.contains(&timer.id),
                Select::Live => timer.is_live(),
                Select::Recent => true,
            })
            .cloned()
            .map(Item::Timer)
            .collect();
        let undelivered = self.messages.iter().filter(|message| needs.inbox && message.delivered.is_none());
        let keyed = needs.key.as_ref().and_then(|key| {
            let (id, used) = self.keys.iter().find(|(_, used)| used.key == *key)?;
            Some((Item::Timer(self.timer(id).clone()), used.clone()))
        });
        State { session: self.session.clone(), items, inbox: undelivered.cloned().collect(), keyed }
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
        for entry in &batch.history {
            assert_eq!(entry.at, self.now, "{entry:?}");
            self.history.push(entry.clone());
        }
        for count in &batch.tallies {
            *self.tallies.entry(count.name).or_default() += count.by;
        }
        self.check();
    }

    fn write_item(&mut self, write: &ItemWrite) {
        let Item::Timer(timer) = write.item();
        let found = self.timers.iter_mut().find(|stored| stored.id == timer.id);
        match (write, found) {
            (ItemWrite::Insert { key, .. }, None) => {
                self.timers.push(timer.clone());
                if let Some(key) = key {
                    assert!(self.keys.iter().all(|(_, used)| used.key != key.key), "key {} twice", key.key);
                    self.keys.push((timer.id.clone(), key.clone()));
                }
            }
            (ItemWrite::Update(_), Some(stored)) => {
                assert!(stored.is_live() || stored.phase == timer.phase, "an ended timer came to life: {timer:?}");
                if timer.status() == Status::Completed && stored.is_live() {
                    assert!(stored.due().is_some_and(|due| due <= self.now), "completed before its time: {stored:?}");
                }
                *stored = timer.clone();
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
            (write, found) => panic!("{write:?} does not fit what is stored: {found:?}"),
        }
    }

    /// What holds after every commit, whatever was asked and whatever the clock did.
    fn check(&self) {
        for timer in &self.timers {
            self.check_sum(timer);
            let told = self.messages.iter().filter(|message| message.source == timer.id).count();
            let completed = timer.status() == Status::Completed;
            assert_eq!(told, usize::from(completed), "messages about {} ({})", timer.id, timer.status().as_str());
        }
        for status in Status::ALL {
            let count = self.timers.iter().filter(|timer| timer.status() == status).count() as i64;
            assert_eq!(self.count(tally::timers(status)), count, "tally of {}", status.as_str());
        }
        assert_eq!(self.count(tally::TIMERS_CREATED), self.timers.len() as i64);
        assert_eq!(self.count(tally::MESSAGES_CREATED), self.messages.len() as i64);
        let delivered = self.messages.iter().filter(|message| message.delivered.is_some()).count();
        assert_eq!(self.count(tally::MESSAGES_DELIVERED), delivered as i64);
        assert_eq!(self.count(tally::SESSIONS), 1, "one session, counted once");
        let live = self.timers.iter().filter(|timer| timer.is_live()).count();
        let session = self.session.as_ref().expect("a commit leaves a session");
        assert_eq!(session.live_timers as usize, live, "the session's count of live timers");
        assert!(live <= self.limits.live_timers_max as usize, "more live timers than allowed");
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
