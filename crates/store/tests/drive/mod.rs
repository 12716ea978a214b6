//! Drives a store as the engine does, load → decide → commit, and takes a picture of everything a store shows.

#![allow(dead_code)] // each test binary uses its own part of it

use reveille_core::{
    AgentId, Batch, Call, CatchUp, Command, Condition, Decision, Item, ItemId, LeaseId, Limits, Message, Millis, Needs,
    Purpose, Quiet, Recurrence, Reject, RequestKey, Session, SessionId, Timestamp, Utterance, When, Zone,
    call::{End, Report},
    command::{Ride, Select, State},
    condition::Wanted,
    decide,
    recurrence::Rule,
    reminder::{Ask, Change, Content, Due},
    session_timer::{Action, Reset, Spec},
    utterance::Role,
};
use reveille_store::{
    CommitError, Committed, Found, HistoryFilter, HourTally, ItemFilter, Order, Recorded, SessionFilter, Store,
    StoreError, StoredAgent,
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// Where time begins in these tests.
pub const START_MS: i64 = 1_790_000_000_000;
/// "All of it", for lists that are short here.
pub const ALL: usize = 100_000;
/// A store that calls every batch stale must fail a test, not hang it.
const TRIES_MAX: usize = 1000;

pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(START_MS + seconds * 1000)
}

pub fn sid(name: &str) -> SessionId {
    SessionId::new(name)
}

pub fn iid(id: &str) -> ItemId {
    ItemId::new(id)
}

pub fn iids(ids: &[&str]) -> Vec<ItemId> {
    ids.iter().map(|id| iid(id)).collect()
}

/// A directory in memory where there is such a thing: these tests ask what is written, not how fast a disk is.
pub fn scratch() -> tempfile::TempDir {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    in_memory.or_else(|_| tempfile::tempdir()).expect("a temporary directory can be made")
}

// Commands, short.

pub fn wait(id: &str, reason: &str, seconds: u64) -> Command {
    create(id, Purpose::Waiting(reason.into()), seconds, None)
}

pub fn mission(id: &str, mission: &str, seconds: u64) -> Command {
    create(id, Purpose::Mission(mission.into()), seconds, None)
}

pub fn create(id: &str, purpose: Purpose, seconds: u64, key: Option<RequestKey>) -> Command {
    Command::Create {
        id: iid(id),
        purpose,
        total: Millis::from_secs(seconds),
        timeout: None,
        until: None,
        key,
        task: None,
    }
}

/// A mission that follows the calendar.
pub fn plan(id: &str, when: When) -> Command {
    let purpose = Purpose::Mission(format!("早报 {id}"));
    Command::Plan { id: iid(id), purpose, when: Box::new(when), timeout: None, key: None, task: None }
}

/// By an interval or a cron time of Shanghai; every time that was missed is told.
pub fn every(rule: &str, max_fires: Option<u32>) -> When {
    let zone = Zone::named("zone", "Asia/Shanghai").expect("a zone");
    let rule = Rule::parse(&rule.into(), Some(zone), &Limits::default()).expect("a rule");
    When::Every { first: None, recurrence: Recurrence::new(rule, CatchUp::All, max_fires) }
}

/// Every day, in Shanghai.
pub fn quiet(from: &str, to: &str) -> Quiet {
    let window = serde_json::json!([{"zone": "Asia/Shanghai", "from": from, "to": to}]);
    serde_json::from_value(window).expect("quiet hours")
}

pub fn keyed(id: &str, key: &str, fingerprint: &str, seconds: u64) -> Command {
    let key = RequestKey { key: key.into(), fingerprint: fingerprint.into() };
    create(id, Purpose::Waiting("keyed".into()), seconds, Some(key))
}

/// A reminder due at this instant.
pub fn remind(id: &str, task: &str, due: Timestamp) -> Command {
    let content = Content { task: task.into(), tool: None, arguments: None };
    Command::Schedule { asks: vec![Ask::New { id: iid(id), due: Due::At(due), content }], key: None }
}

pub fn put_off(id: &str, due: Timestamp) -> Command {
    let change = Change { due: Some(Due::At(due)), ..Change::default() };
    Command::Schedule { asks: vec![Ask::Replace { id: iid(id), change }], key: None }
}

pub fn cancel_reminder(id: &str) -> Command {
    Command::CancelReminder { id: iid(id) }
}

/// A user's message that begins the session with these timers, or suspends those it has.
pub fn message(timers: Vec<(ItemId, Spec)>, said: &str, now: Timestamp) -> Command {
    let said = vec![Utterance::new("said_user", Role::User, said, now)];
    Command::Message { agent: AgentId::new(AGENT), timers: Some(timers), turn: None, said, quiet: None }
}

pub fn response(said: &str, now: Timestamp) -> Command {
    let said = vec![Utterance::new("said_agent", Role::Assistant, said, now)];
    Command::Response { agent: None, turn: None, said, made: Vec::new(), notify: Vec::new() }
}

pub const AGENT: &str = "acme:客服";

/// The configuration of a session timer.
pub fn spec(id: &str, seconds: u64, max_triggers: u32, action: Action) -> (ItemId, Spec) {
    let (timer_id, delay) = (id.to_owned(), Millis::from_secs(seconds));
    (iid(id), Spec { timer_id, delay, max_triggers, reset: Reset::OnMessage, action, notify: Vec::new() })
}

pub fn says(text: &str) -> Action {
    Action::Say { text: text.into() }
}

pub fn calls(tool: &str, closes: bool) -> Action {
    let arguments = serde_json::json!({"类型": "unassigned", "n": [1, null]}).as_object().cloned().unwrap();
    Action::Call { tool: tool.into(), arguments, silent: false, closes }
}

pub fn call_ended(id: &str, attempt: u32, end: End) -> Command {
    Command::CallEnded { id: iid(id), attempt, report: Report { status: Some(200), took: Millis::new(7), end } }
}

pub fn stop(id: &str) -> Command {
    Command::Stop { id: iid(id), note: None }
}

pub fn cancel(id: &str) -> Command {
    Command::Cancel { id: iid(id), note: None }
}

pub fn pause(id: &str, seconds: u64) -> Command {
    Command::Pause { id: iid(id), length: Millis::from_secs(seconds), note: None }
}

pub fn resume(id: &str) -> Command {
    Command::Resume { id: iid(id), note: None }
}

pub fn fire(ids: &[&str]) -> Command {
    Command::Fire { ids: iids(ids), standing: HashMap::new() }
}

pub fn commit_lease(lease: &str) -> Command {
    Command::CommitLease { lease: LeaseId::new(lease), channel: "inbox".into() }
}

pub fn close() -> Command {
    Command::Close { note: None, notify: Vec::new() }
}

/// Leases up to `messages_max` messages for half a minute and does nothing else.
pub fn collect(lease: &str, messages_max: usize) -> Call {
    let ride = Ride {
        lease: LeaseId::new(lease),
        length: Millis::from_secs(30),
        messages_max,
        chars_max: usize::MAX,
        alone_among: None,
    };
    Call { ride: Some(ride), ..Call::new(Command::Collect) }
}

// What the engine does.

/// Loads and decides; writes nothing.
pub async fn decided(store: &dyn Store, session: &str, call: &Call, now: Timestamp) -> Result<Decision, Reject> {
    let session = sid(session);
    let state = store.load(&session, call.needs()).await.expect("a session can be loaded");
    decide(&session, &state, call, now, &Limits::default())
}

/// The batch this command would write now, for tests that commit it later, twice or not as it is.
pub async fn batch(store: &dyn Store, session: &str, command: Command, now: Timestamp) -> Batch {
    let decision = decided(store, session, &Call::new(command), now).await.expect("the command is acceptable");
    decision.batch.expect("the command writes something")
}

pub async fn run(store: &dyn Store, session: &str, command: Command, now: Timestamp) -> Decision {
    call(store, session, Call::new(command), now).await
}

/// One call that must succeed. Deadlines that have passed unseen act first, as in the engine.
pub async fn call(store: &dyn Store, session: &str, call: Call, now: Timestamp) -> Decision {
    match try_call(store, session, &call, now).await {
        Ok(decision) => decision,
        Err(error) => panic!("{call:?} in {session}: {error:?}"),
    }
}

#[derive(Debug)]
pub enum Refused {
    Decided(Reject),
    Commit(CommitError),
}

pub async fn try_call(store: &dyn Store, session: &str, call: &Call, now: Timestamp) -> Result<Decision, Refused> {
    for _ in 0..TRIES_MAX {
        let decision = match decided(store, session, call, now).await {
            Ok(decision) => decision,
            Err(Reject::Overdue(ids)) => {
                let overdue = Call::new(Command::Fire { ids, standing: HashMap::new() });
                Box::pin(try_call(store, session, &overdue, now)).await?;
                continue;
            }
            Err(reject) => return Err(Refused::Decided(reject)),
        };
        let Some(batch) = decision.batch.clone() else { return Ok(decision) };
        match store.commit(batch).await {
            Ok(_) => return Ok(decision),
            Err(CommitError::Conflict) => continue,
            Err(error) => return Err(Refused::Commit(error)),
        }
    }
    panic!("{call:?} in {session}: still refused as stale after {TRIES_MAX} tries");
}

/// Purges until there is nothing more to remove; how many rows went.
pub async fn purge_all(store: &dyn Store, before: Timestamp, limit: usize) -> usize {
    let mut sum = 0;
    loop {
        match store.purge(before, limit).await.expect("purging works") {
            0 => return sum,
            removed => sum += removed,
        }
    }
}

// What a store shows.

/// Everything, with internal row numbers left out: only their order is promised.
#[derive(Debug, PartialEq)]
pub struct Picture {
    pub sessions: Vec<Session>,
    /// Of each session: all it loads, and the live part.
    pub states: Vec<(State, Vec<Item>)>,
    pub items: Vec<(SessionId, Item)>,
    pub soonest: Vec<(SessionId, Item)>,
    pub awaiting: Vec<(SessionId, Item)>,
    pub deadlines: Vec<(Timestamp, ItemId)>,
    pub conversations: Vec<Vec<Utterance>>,
    pub agents: Vec<(AgentId, StoredAgent)>,
    pub history: Vec<Recorded>,
    pub tallies: BTreeMap<String, i64>,
    pub hours: Vec<HourTally>,
}

pub async fn picture(store: &dyn Store) -> Picture {
    try_picture(store).await.expect("everything can be read")
}

pub async fn try_picture(store: &dyn Store) -> Result<Picture, StoreError> {
    let sessions: Vec<Session> = store
        .sessions(SessionFilter { limit: ALL, ..SessionFilter::default() })
        .await?
        .into_iter()
        .map(second)
        .collect();
    let (mut states, mut conversations) = (Vec::new(), Vec::new());
    for session in &sessions {
        let all = store.load(&session.id, Needs { items: Select::Recent, inbox: true, key: None }).await?;
        let live = store.load(&session.id, Needs { items: Select::Live, ..Needs::default() }).await?;
        states.push((all, live.items));
        conversations.push(store.conversation(&session.id, ALL).await?);
    }
    let soonest = ItemFilter { order: Order::Soonest, ..every_item() };
    Ok(Picture {
        sessions,
        states,
        items: unnumbered(store.items(every_item()).await?),
        soonest: unnumbered(store.items(soonest).await?),
        awaiting: unnumbered(store.items(ItemFilter { awaiting: true, ..every_item() }).await?),
        deadlines: store.deadlines(ALL).await?,
        conversations,
        agents: store.agents().await?,
        history: store.history(HistoryFilter { after: Some(0), limit: ALL, ..HistoryFilter::default() }).await?,
        tallies: store.tallies().await?,
        hours: store.hours(Timestamp::from_millis(0)).await?,
    })
}

fn second<A, B>((_, second): (A, B)) -> B {
    second
}

fn unnumbered(found: Vec<Found>) -> Vec<(SessionId, Item)> {
    found.into_iter().map(|found| (found.session, found.item)).collect()
}

/// A condition that nobody looks at here.
pub fn until(address: &str) -> Wanted {
    let (host, port) = address.split_once(':').expect("host:port");
    let condition = Condition::Tcp { host: host.into(), port: port.parse().expect("a port") };
    Wanted { condition, node: Some("节点".into()) }
}

pub fn every_item() -> ItemFilter {
    ItemFilter { limit: ALL, ..ItemFilter::default() }
}

pub async fn found_ids(store: &dyn Store, filter: ItemFilter) -> Vec<String> {
    let found = store.items(filter).await.expect("items can be listed");
    found.iter().map(|found| found.item.id().to_string()).collect()
}

pub async fn loaded(store: &dyn Store, session: &str, items: Select) -> Vec<String> {
    let state = store.load(&sid(session), Needs { items, ..Needs::default() }).await.expect("a session can be loaded");
    state.items.iter().map(|item| item.id().to_string()).collect()
}

pub async fn inbox(store: &dyn Store, session: &str) -> Vec<Message> {
    let needs = Needs { inbox: true, ..Needs::default() };
    store.load(&sid(session), needs).await.expect("a session can be loaded").inbox
}

/// The whole history, oldest first.
pub async fn history(store: &dyn Store) -> Vec<Recorded> {
    let filter = HistoryFilter { after: Some(0), limit: ALL, ..HistoryFilter::default() };
    store.history(filter).await.expect("the history can be read")
}

/// Commits side by side, all in flight at once; their answers in the order of the batches.
pub async fn commit_together(store: &Arc<dyn Store>, batches: Vec<Batch>) -> Vec<Result<Arc<Committed>, CommitError>> {
    let tasks: Vec<_> = batches
        .into_iter()
        .map(|batch| {
            let store = store.clone();
            tokio::spawn(async move { store.commit(batch).await })
        })
        .collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.expect("a commit does not panic"));
    }
    answers
}
