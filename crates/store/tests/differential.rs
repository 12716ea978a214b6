//! Guards that SQLite and PostgreSQL are the memory store made durable: the same random commands, stale batches, purges and jumps of
//! the clock leave both showing the same, in the same order. `PROPTEST_CASES=5000` looks further than the default.

#![allow(clippy::unwrap_used)]

mod drive;

use drive::{ALL, START_MS, every_item, iid, picture, purge_all, scratch, sid, until};
use proptest::{prelude::*, sample::Index};
use reveille_core::{
    Batch, Call, Command, ItemId, Kind, LeaseId, Limits, Millis, Needs, Purpose, Reject, RequestKey, Sleep, Timestamp,
    call::End,
    command::{Ride, Select},
    decide,
    reminder::{Ask, Change, Content, Due},
    session_timer::Action,
    timer::Continuation,
};
use reveille_store::{
    CommitError, Feed, HistoryFilter, ItemFilter, MemoryStore, Order, PostgresOptions, PostgresStore, SessionFilter,
    SqliteStore, Store,
};
use scratch_postgres::Cluster;
use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

const STATUSES: [&str; 9] =
    ["running", "completed", "stopped", "scheduled", "due", "missed", "pending", "disabled", "waiting"];
const EVENTS: [&str; 4] = ["timer.created", "timer.completed", "message.delivered", "wake.started"];
const SESSIONS: u8 = 3;
const SLOTS: u8 = 10;
const STEPS_MAX: usize = 80;
const CASES: u32 = 64;

#[derive(Clone, Debug)]
enum Step {
    Ask {
        session: u8,
        wish: Wish,
        ride: bool,
    },
    /// Decided now, to be committed by a later `Release`: by then mostly stale.
    Hold {
        session: u8,
        wish: Wish,
    },
    Release {
        which: Index,
    },
    /// A batch that pretends to be decided on another version.
    Forge {
        session: u8,
        wish: Wish,
        expected: Option<u8>,
    },
    Clock {
        ms: i64,
    },
    Purge {
        age_secs: i64,
        limit: usize,
    },
    Look(Look),
}

#[derive(Clone, Debug)]
enum Wish {
    Create { slot: u8, mission: bool, text: String, secs: u64, key: Option<(u8, u8)> },
    Continue { slot: u8, total_ms: Option<u64>, timeout: Option<u64>, reason: Option<String> },
    Plan { slot: u8, rule: u8, max: Option<u32> },
    SetQuiet { hours: Option<u8> },
    Cancel { slot: u8, note: Option<String> },
    Pause { slot: u8, secs: u64 },
    Resume { slot: u8 },
    Stop { slot: u8, note: Option<String> },
    Return { slot: u8, slept_ms: u64 },
    Schedule { slot: u8, task: String, due_secs: i64, replaces: Option<u8>, key: Option<(u8, u8)> },
    CancelReminder { slot: u8 },
    ClearReminders,
    ListReminders,
    Message { slot: u8, secs: u64, max: u32, kind: u8, text: String },
    Response { text: String },
    CallEnded { how: u8 },
    Fire { standing: bool },
    Collect,
    CommitLease { lease: u8 },
    ReleaseLease { lease: u8 },
    Close,
    Read,
}

#[derive(Clone, Debug)]
enum Look {
    Items {
        session: Option<u8>,
        slot: Option<u8>,
        statuses: Vec<Index>,
        soonest: bool,
        after: Option<Index>,
        limit: usize,
    },
    Sessions {
        after: Option<Index>,
        limit: usize,
    },
    History {
        session: Option<u8>,
        slot: Option<u8>,
        event: Option<Index>,
        after: Option<i64>,
        before: Option<i64>,
        limit: usize,
    },
    Deadlines {
        limit: usize,
    },
    LoadItems {
        slots: Vec<u8>,
    },
    Load {
        session: u8,
        slots: Vec<u8>,
        key: u8,
    },
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just("等待🙂".to_owned()), "[a-z\"'\\\\ ]{0,8}", any::<String>()]
}

fn wish() -> impl Strategy<Value = Wish> {
    let slot = || 0..SLOTS;
    let key = proptest::option::weighted(0.3, (0..3u8, 0..2u8));
    let key2 = key.clone();
    prop_oneof![
        6 => (slot(), any::<bool>(), text(), 1..120u64, key)
            .prop_map(|(slot, mission, text, secs, key)| Wish::Create { slot, mission, text, secs, key }),
        2 => (slot(), proptest::option::of(1..90_000u64), proptest::option::of(1..60u64), proptest::option::of(text()))
            .prop_map(|(slot, total_ms, timeout, reason)| Wish::Continue { slot, total_ms, timeout, reason }),
        3 => (slot(), 0..3u8, proptest::option::of(1..4u32))
            .prop_map(|(slot, rule, max)| Wish::Plan { slot, rule, max }),
        2 => proptest::option::weighted(0.7, 0..23u8).prop_map(|hours| Wish::SetQuiet { hours }),
        2 => (slot(), proptest::option::of(text())).prop_map(|(slot, note)| Wish::Cancel { slot, note }),
        2 => (slot(), 1..60u64).prop_map(|(slot, secs)| Wish::Pause { slot, secs }),
        1 => slot().prop_map(|slot| Wish::Resume { slot }),
        2 => (slot(), proptest::option::of(text())).prop_map(|(slot, note)| Wish::Stop { slot, note }),
        1 => (slot(), 0..100_000u64).prop_map(|(slot, slept_ms)| Wish::Return { slot, slept_ms }),
        6 => (slot(), text(), -1300..1500i64, proptest::option::weighted(0.4, slot()), key2)
            .prop_map(|(slot, task, due_secs, replaces, key)| Wish::Schedule { slot, task, due_secs, replaces, key }),
        2 => slot().prop_map(|slot| Wish::CancelReminder { slot }),
        1 => Just(Wish::ClearReminders),
        1 => Just(Wish::ListReminders),
        4 => (slot(), 1..90u64, 0..3u32, 0..5u8, text())
            .prop_map(|(slot, secs, max, kind, text)| Wish::Message { slot, secs, max, kind, text }),
        4 => text().prop_map(|text| Wish::Response { text }),
        3 => (0..4u8).prop_map(|how| Wish::CallEnded { how }),
        4 => any::<bool>().prop_map(|standing| Wish::Fire { standing }),
        3 => Just(Wish::Collect),
        3 => (0..3u8).prop_map(|lease| Wish::CommitLease { lease }),
        1 => (0..3u8).prop_map(|lease| Wish::ReleaseLease { lease }),
        1 => Just(Wish::Close),
        1 => Just(Wish::Read),
    ]
}

fn look() -> impl Strategy<Value = Look> {
    let session = || proptest::option::of(0..SESSIONS + 1);
    let slot = || proptest::option::weighted(0.2, 0..SLOTS);
    let limit = || prop_oneof![0..5usize, Just(ALL), Just(usize::MAX)];
    let number = || proptest::option::of(-2..60i64);
    let statuses = || proptest::collection::vec(any::<Index>(), 0..3);
    let cursor = || proptest::option::weighted(0.4, any::<Index>());
    prop_oneof![
        (session(), slot(), statuses(), any::<bool>(), cursor(), limit()).prop_map(
            |(session, slot, statuses, soonest, after, limit)| {
                Look::Items { session, slot, statuses, soonest, after, limit }
            }
        ),
        (cursor(), limit()).prop_map(|(after, limit)| Look::Sessions { after, limit }),
        (session(), slot(), cursor(), number(), number(), limit()).prop_map(
            |(session, slot, event, after, before, limit)| {
                Look::History { session, slot, event, after, before, limit }
            }
        ),
        limit().prop_map(|limit| Look::Deadlines { limit }),
        proptest::collection::vec(0..SLOTS, 0..6).prop_map(|slots| Look::LoadItems { slots }),
        (0..SESSIONS + 1, proptest::collection::vec(0..SLOTS, 0..6), 0..3u8)
            .prop_map(|(session, slots, key)| Look::Load { session, slots, key }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let session = || 0..SESSIONS;
    prop_oneof![
        12 => (session(), wish(), any::<bool>()).prop_map(|(session, wish, ride)| Step::Ask { session, wish, ride }),
        1 => (session(), wish()).prop_map(|(session, wish)| Step::Hold { session, wish }),
        1 => any::<Index>().prop_map(|which| Step::Release { which }),
        1 => (session(), wish(), proptest::option::of(0..20u8))
            .prop_map(|(session, wish, expected)| Step::Forge { session, wish, expected }),
        4 => prop_oneof![9 => 0..60_000i64, 1 => -30_000..0i64].prop_map(|ms| Step::Clock { ms }),
        1 => (-30..200i64, prop_oneof![1..4usize, Just(ALL)])
            .prop_map(|(age_secs, limit)| Step::Purge { age_secs, limit }),
        4 => look().prop_map(Step::Look),
    ]
}

fn session_name(session: u8) -> String {
    format!("会话{session}")
}

fn key_name(key: u8) -> String {
    format!("key_{key}")
}

fn lease_id(lease: u8) -> LeaseId {
    LeaseId::new(format!("lease_{lease}"))
}

struct Pair {
    memory: MemoryStore,
    durable: Arc<dyn Store>,
    memory_feed: Feed,
    durable_feed: Feed,
    now_ms: i64,
    /// The history may no longer be in the order of time, on which small purges rely.
    went_back: bool,
    leases: u8,
    held: Vec<Batch>,
    /// Which id each slot has now. Ids are never used again, not even those of purged items.
    generation: [u32; SLOTS as usize],
}

impl Pair {
    fn new(durable: Arc<dyn Store>) -> Self {
        let memory = MemoryStore::new("srv");
        let (memory_feed, durable_feed) = (memory.feed(), durable.feed());
        Self {
            memory,
            durable,
            memory_feed,
            durable_feed,
            now_ms: START_MS,
            went_back: false,
            leases: 0,
            held: Vec::new(),
            generation: [0; SLOTS as usize],
        }
    }

    fn id(&self, slot: u8) -> ItemId {
        iid(&format!("timer_{slot}_{}", self.generation[usize::from(slot)]))
    }

    /// The reminder of a slot, beside its timer.
    fn task(&self, slot: u8) -> ItemId {
        iid(&format!("task_{slot}_{}", self.generation[usize::from(slot)]))
    }

    fn session_timer(&self, slot: u8) -> ItemId {
        iid(&format!("st_{slot}_{}", self.generation[usize::from(slot)]))
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.now_ms)
    }

    async fn take(&mut self, step: &Step) {
        match step {
            Step::Ask { session, wish, ride } => {
                let call = self.call(*session, wish, *ride).await;
                if let Some(batch) = self.decide(*session, &call).await {
                    self.commit(batch).await;
                }
            }
            Step::Hold { session, wish } => {
                let call = self.call(*session, wish, false).await;
                let batch = self.decide(*session, &call).await;
                self.held.extend(batch);
            }
            Step::Release { which } => {
                if !self.held.is_empty() {
                    let batch = self.held.swap_remove(which.index(self.held.len()));
                    self.went_back |= batch.session.active_at < self.now();
                    self.commit(batch).await;
                }
            }
            Step::Forge { session, wish, expected } => {
                let call = self.call(*session, wish, false).await;
                if let Some(batch) = self.decide(*session, &call).await {
                    let expected = expected.map(u64::from);
                    if batch.expected != expected {
                        let answer = self.commit(Batch { expected, ..batch }).await;
                        assert_eq!(answer, Answer::Conflict);
                    }
                }
            }
            Step::Clock { ms } => {
                self.now_ms += ms;
                self.went_back |= *ms < 0;
            }
            Step::Purge { age_secs, limit } => self.purge(*age_secs, *limit).await,
            Step::Look(look) => self.look(look).await,
        }
    }

    async fn call(&mut self, session: u8, wish: &Wish, ride: bool) -> Call {
        let command = match wish.clone() {
            Wish::Create { slot, mission, text, secs, key } => Command::Create {
                id: self.id(slot),
                purpose: if mission { Purpose::Mission(text) } else { Purpose::Waiting(text) },
                total: Millis::from_secs(secs),
                timeout: None,
                until: secs.is_multiple_of(2).then(|| until("db:5432")),
                key: key.map(|(key, print)| RequestKey { key: key_name(key), fingerprint: print.to_string() }),
                task: None,
            },
            Wish::Continue { slot, total_ms, timeout, reason } => {
                let (total, timeout) = (total_ms.map(Millis::new), timeout.map(Millis::from_secs));
                Command::Continue {
                    id: self.id(slot),
                    ask: Continuation { total, timeout, reason, mission: None, until: None },
                    task: None,
                }
            }
            Wish::Plan { slot, rule, max } => {
                let rule = ["30s", "2m", "*/5 * * * *"][usize::from(rule)];
                drive::plan(self.id(slot).as_str(), drive::every(rule, max))
            }
            Wish::SetQuiet { hours } => {
                let quiet = hours.map(|hour| drive::quiet(&format!("{hour:02}:00"), &format!("{:02}:30", hour + 1)));
                Command::SetQuiet { quiet }
            }
            Wish::Cancel { slot, note } => Command::Cancel { id: self.id(slot), note },
            Wish::Pause { slot, secs } => {
                Command::Pause { id: self.id(slot), length: Millis::from_secs(secs), note: None }
            }
            Wish::Resume { slot } => Command::Resume { id: self.id(slot), note: None },
            Wish::Stop { slot, note } => Command::Stop { id: self.id(slot), note },
            Wish::Return { slot, slept_ms } => {
                let since = Timestamp::from_millis(self.now_ms - slept_ms as i64);
                Command::Return(Sleep { id: self.id(slot), since, slept: Millis::new(slept_ms) })
            }
            Wish::Schedule { slot, task, due_secs, replaces, key } => {
                let due = Due::At(Timestamp::from_millis(self.now_ms + due_secs * 1000));
                let content = Content { task: task.clone(), tool: Some("exec".into()), arguments: None };
                let mut asks = vec![Ask::New { id: self.task(slot), due, content }];
                let change = Change { due: Some(due), task: Some(task), ..Change::default() };
                asks.extend(replaces.map(|slot| Ask::Replace { id: self.task(slot), change }));
                let key = key.map(|(key, print)| RequestKey { key: key_name(key), fingerprint: format!("c{print}") });
                Command::Schedule { asks, key }
            }
            Wish::CancelReminder { slot } => Command::CancelReminder { id: self.task(slot) },
            Wish::Message { slot, secs, max, kind, text } => {
                let action = match kind {
                    0 => Action::Close,
                    1 | 2 => Action::Say { text: text.clone() },
                    kind => drive::calls("tool", kind == 4),
                };
                let id = self.session_timer(slot);
                drive::message(vec![drive::spec(id.as_str(), secs, max, action)], &text, self.now())
            }
            Wish::Response { text } => drive::response(&text, self.now()),
            Wish::CallEnded { how } => {
                let live = ItemFilter { kind: Some(Kind::Call), statuses: vec!["running".into()], ..every_item() };
                let running = self.memory.items(live).await.unwrap();
                let own = running.iter().find(|found| found.session.as_str() == session_name(session));
                let call = own.and_then(|found| found.item.as_call());
                let end = match how {
                    0 => End::Done { result: "好".into() },
                    1 => End::Failed { error: "不".into(), retry_after: None },
                    2 => End::Refused { error: "never".into() },
                    _ => End::Postponed { after: None },
                };
                let (id, attempt) = call.map_or((iid("call_none"), 1), |call| (call.id.clone(), call.attempts));
                drive::call_ended(id.as_str(), attempt, end)
            }
            Wish::ClearReminders => Command::ClearReminders,
            Wish::ListReminders => Command::ListReminders,
            Wish::Fire { standing } => {
                let ids: Vec<_> = self.deadlines(ALL).await.into_iter().map(|(_, id)| id).collect();
                let standing: HashMap<_, _> =
                    ids.iter().filter(|_| standing).map(|id| (id.clone(), lease_id(0))).collect();
                Command::Fire { ids, standing }
            }
            Wish::Collect | Wish::Read if ride => Command::Collect,
            Wish::Collect | Wish::Read => Command::Read { id: None },
            Wish::CommitLease { lease } => {
                Command::CommitLease { lease: lease_id(lease), channel: format!("通道{session}") }
            }
            Wish::ReleaseLease { lease } => Command::ReleaseLease { lease: lease_id(lease) },
            Wish::Close => Command::Close { note: None, notify: Vec::new() },
        };
        self.leases = (self.leases + 1) % 3;
        let ride = ride.then(|| Ride {
            lease: lease_id(self.leases),
            length: Millis::from_secs(30),
            messages_max: 2,
            chars_max: 400,
            alone_among: None,
        });
        let cwd = session.is_multiple_of(3).then(|| format!("/projects/{session}"));
        let client = session.is_multiple_of(2).then(|| format!("client-{session}"));
        Call { ride, client, cwd, ..Call::new(command) }
    }

    /// Both load the same; what is decided on it is then the same too. Time acts first where it has to.
    async fn decide(&mut self, session: u8, call: &Call) -> Option<Batch> {
        let id = sid(&session_name(session));
        loop {
            let state = self.memory.load(&id, call.needs()).await.unwrap();
            assert_eq!(self.durable.load(&id, call.needs()).await.unwrap(), state, "loaded for {call:?}");
            match decide(&id, &state, call, self.now(), &Limits::default()) {
                Ok(decision) => return decision.batch,
                Err(Reject::Overdue(ids)) => {
                    let overdue = Call::new(Command::Fire { ids, standing: HashMap::new() });
                    let batch = Box::pin(self.decide(session, &overdue)).await;
                    self.commit(batch.unwrap()).await;
                }
                Err(_) => return None,
            }
        }
    }

    async fn commit(&mut self, batch: Batch) -> Answer {
        let memory = Answer::of(self.memory.commit(batch.clone()).await);
        assert_eq!(Answer::of(self.durable.commit(batch.clone()).await), memory, "{batch:?}");
        memory
    }

    /// How much goes at once may differ, and what first; not what stays in the end.
    async fn purge(&mut self, age_secs: i64, limit: usize) {
        let before = Timestamp::from_millis(self.now_ms - age_secs * 1000);
        let limit = if self.went_back { ALL } else { limit };
        let removed = purge_all(&self.memory, before, limit).await;
        assert_eq!(purge_all(&*self.durable, before, limit).await, removed, "rows purged");
        // Versions begin again with a session that is made again, so a decision must not outlive its session.
        self.held.clear();
        for slot in 0..SLOTS {
            let ids = vec![self.id(slot), self.task(slot)];
            if self.memory.load_items(ids).await.unwrap().is_empty() {
                self.generation[usize::from(slot)] += 1;
            }
        }
        self.compare().await;
    }

    async fn deadlines(&self, limit: usize) -> Vec<(Timestamp, ItemId)> {
        let memory = self.memory.deadlines(limit).await.unwrap();
        assert_eq!(self.durable.deadlines(limit).await.unwrap(), memory);
        memory
    }

    async fn look(&self, look: &Look) {
        match look {
            Look::Deadlines { limit } => drop(self.deadlines(*limit).await),
            Look::LoadItems { slots } => {
                let ids: Vec<_> = slots.iter().flat_map(|slot| [self.id(*slot), self.task(*slot)]).collect();
                let memory = self.memory.load_items(ids.clone()).await.unwrap();
                assert_eq!(self.durable.load_items(ids).await.unwrap(), memory, "{look:?}");
            }
            Look::Load { session, slots, key } => {
                let items = match slots.first() {
                    Some(0) => Select::LiveOf(Kind::Reminder),
                    Some(1) => Select::RecentOf(Kind::Reminder),
                    Some(2) => Select::RecentOf(Kind::Timer),
                    Some(3) => Select::SettledBy(lease_id(*key)),
                    _ => Select::Ids(slots.iter().flat_map(|slot| [self.id(*slot), self.task(*slot)]).collect()),
                };
                let needs = Needs { items, inbox: true, key: Some(key_name(*key)) };
                let session = sid(&session_name(*session));
                let memory = self.memory.load(&session, needs.clone()).await.unwrap();
                assert_eq!(self.durable.load(&session, needs).await.unwrap(), memory, "{look:?}");
            }
            _ => {
                let memory = self.listed(&self.memory, look).await;
                assert_eq!(self.listed(&*self.durable, look).await, memory, "{look:?}");
            }
        }
    }

    /// A list as its order and content. Cursors are row numbers, which differ; so they are chosen by position.
    async fn listed(&self, store: &dyn Store, look: &Look) -> Vec<String> {
        let cursor = |numbers: Vec<i64>, index: &Option<Index>| {
            index.as_ref().filter(|_| !numbers.is_empty()).map(|index| numbers[index.index(numbers.len())])
        };
        match look {
            Look::Items { session, slot, statuses, soonest, after, limit } => {
                let numbers = store.items(every_item()).await.unwrap().iter().map(|found| found.seq).collect();
                let filter = ItemFilter {
                    id: slot.map(|slot| self.id(slot).to_string()),
                    kind: [None, Some(Kind::Timer), Some(Kind::Reminder)][*limit % 3],
                    session: session.map(|session| sid(&session_name(session))),
                    statuses: statuses.iter().map(|index| (*index.get(&STATUSES)).to_owned()).collect(),
                    order: if *soonest { Order::Soonest } else { Order::Newest },
                    after: cursor(numbers, after).filter(|_| !soonest),
                    awaiting: slot.is_none() && limit.is_multiple_of(2),
                    limit: *limit,
                };
                let found = store.items(filter).await.unwrap();
                found.iter().map(|found| format!("{} {:?}", found.session, found.item)).collect()
            }
            Look::Sessions { after, limit } => {
                let all = store
                    .sessions(SessionFilter { after: None, limit: ALL, ..SessionFilter::default() })
                    .await
                    .unwrap();
                let after = cursor(all.iter().map(|(number, _)| *number).collect(), after);
                let found =
                    store.sessions(SessionFilter { after, limit: *limit, ..SessionFilter::default() }).await.unwrap();
                found.iter().map(|(_, session)| format!("{session:?}")).collect()
            }
            Look::History { session, slot, event, after, before, limit } => {
                let filter = HistoryFilter {
                    session: session.map(|session| sid(&session_name(session))),
                    subject: slot.map(|slot| self.id(slot).to_string()),
                    event: event.as_ref().map(|event| EVENTS[event.index(EVENTS.len())].to_owned()),
                    after: *after,
                    before: *before,
                    limit: *limit,
                };
                store.history(filter).await.unwrap().iter().map(|recorded| format!("{recorded:?}")).collect()
            }
            Look::Deadlines { .. } | Look::LoadItems { .. } | Look::Load { .. } => unreachable!("not lists"),
        }
    }

    async fn compare(&mut self) {
        assert_eq!(picture(&*self.durable).await, picture(&self.memory).await);
        loop {
            let (memory, durable) = (self.memory_feed.try_recv().ok(), self.durable_feed.try_recv().ok());
            assert_eq!(durable, memory, "the feeds");
            if memory.is_none() {
                break;
            }
        }
    }
}

#[derive(Debug, PartialEq)]
enum Answer {
    Written { first_seq: i64 },
    Conflict,
    IdTaken,
}

impl Answer {
    fn of(result: Result<std::sync::Arc<reveille_store::Committed>, CommitError>) -> Self {
        match result {
            Ok(committed) => Answer::Written { first_seq: committed.first_seq },
            Err(CommitError::Conflict) => Answer::Conflict,
            Err(CommitError::IdTaken) => Answer::IdTaken,
            Err(CommitError::Store(error)) => panic!("{error}"),
        }
    }
}

fn config() -> ProptestConfig {
    let default = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_some() { default } else { ProptestConfig { cases: CASES, ..default } }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn memory_and_sqlite_show_the_same(steps in proptest::collection::vec(step(), 1..STEPS_MAX)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let directory = scratch();
            let sqlite = SqliteStore::open(&directory.path().join("reveille.db"), None, "srv").unwrap();
            all(Pair::new(Arc::new(sqlite)), &steps).await;
        });
    }

    /// All servers in one database: none sees anything of another.
    #[test]
    fn memory_and_postgres_show_the_same(steps in proptest::collection::vec(step(), 1..STEPS_MAX)) {
        static CASES: AtomicUsize = AtomicUsize::new(0);
        static DATABASE: OnceLock<String> = OnceLock::new();
        let options = PostgresOptions::new(DATABASE.get_or_init(|| Cluster::shared().database()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let name = format!("srv_{}", CASES.fetch_add(1, Ordering::Relaxed));
            let postgres = PostgresStore::open(&options, Some(&name), "unused").await.unwrap();
            all(Pair::new(Arc::new(postgres)), &steps).await;
        });
    }
}

async fn all(mut pair: Pair, steps: &[Step]) {
    for step in steps {
        pair.take(step).await;
    }
    pair.compare().await;
    pair.durable.close().await;
}
