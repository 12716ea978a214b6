//! Guards the databases people have: a file of every format we ever released opens with today's code, shows all it
//! held, and can be gone on with. The files are never made anew; `examples/make_golden.rs` shows how they were made.

#![allow(clippy::unwrap_used)]

mod drive;

use drive::{ALL, call, cancel, collect, commit_lease, every_item, fire, iid, loaded, purge_all, resume, run, sid};
use reveille_core::{
    Item, Message, Millis, Needs, Purpose, Reminder, RequestKey, Session, SessionTimer, Task, Thread, Timer, Timestamp,
    ToolCall, command::Select, reminder::Content,
};
use reveille_store::{HistoryFilter, ItemFilter, Order, SessionFilter, SqliteStore, Store};
use std::{fs, path::Path};

/// What time it was when the files were begun; "+10" below is ten seconds later.
const START_MS: i64 = 1_767_323_045_000;

/// A format that people have files of.
#[derive(Clone, Copy)]
struct Format {
    file: &'static str,
    /// All that is in it.
    shows: &'static str,
    /// Its timer that waits for a condition, from the format on that has them.
    awaiting: Option<&'static str>,
    /// The deadlines that the first format had not.
    added: &'static [(i64, &'static str)],
}

const FORMATS: [Format; 2] = [
    Format { file: "v1.db", shows: include_str!("golden/v1.txt"), awaiting: None, added: &[] },
    Format {
        file: "v2.db",
        shows: include_str!("golden/v2.txt"),
        awaiting: Some("timer_awaiting"),
        added: &[(20_307, "timer_awaiting"), (3402, "timer_interval"), (165_355, "timer_at"), (159_955, "timer_cron")],
    },
];

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(START_MS + seconds * 1000)
}

/// Opens a copy: the file itself must never change.
fn opened(name: &str, directory: &Path, server: Option<&str>) -> SqliteStore {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let copy = directory.join(name);
    if !copy.exists() {
        fs::copy(golden, &copy).unwrap();
    }
    SqliteStore::open(&copy, server, "srv_unused").unwrap()
}

#[test]
fn each_format_is_really_in_its_file() {
    for (number, Format { file, .. }) in (1u32..).zip(FORMATS) {
        let bytes = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file)).unwrap();
        assert_eq!(&bytes[..16], b"SQLite format 3\0");
        assert_eq!(bytes[60..64], number.to_be_bytes(), "the format (user_version)");
        assert_eq!(&bytes[68..72], b"RVLE", "the mark (application_id)");
        assert_eq!(bytes[18..20], [2, 2], "in write-ahead mode");
        assert!(bytes.len() < 150_000);
    }
}

#[tokio::test]
async fn everything_of_every_format_is_still_there() {
    for Format { file, shows, .. } in FORMATS {
        let directory = tempfile::tempdir().unwrap();
        let store = opened(file, directory.path(), None);
        assert_eq!(store.server_id(), "srv_golden");
        let shown = described(&store).await;
        if shown != shows {
            let seen = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file).with_extension("txt");
            fs::write(&seen, &shown).unwrap();
            let differing = shown.lines().zip(shows.lines()).find(|(shown, expected)| shown != expected);
            panic!("not what was in {file}: {differing:#?}\nall that was seen is in {}", seen.display());
        }
    }
}

#[tokio::test]
async fn another_server_in_a_file_is_still_apart() {
    for Format { file, .. } in FORMATS {
        let directory = tempfile::tempdir().unwrap();
        let store = opened(file, directory.path(), Some("srv_neighbour"));
        assert_eq!(loaded(&store, "demo", Select::Recent).await, ["timer_running"]);
        assert_eq!(store.deadlines(ALL).await.unwrap(), [(at(60), iid("timer_running"))]);
        assert_eq!(store.tallies().await.unwrap()["timers.created"], 1);
        store.close().await;
    }
}

#[tokio::test]
async fn the_keys_and_deadlines_of_every_format_still_count() {
    for format in FORMATS {
        keys_and_deadlines(format).await;
    }
}

async fn keys_and_deadlines(format: Format) {
    let directory = tempfile::tempdir().unwrap();
    let store = opened(format.file, directory.path(), None);
    let needs = Needs { key: Some("create-1".into()), ..Needs::default() };
    let (item, key) = store.load(&sid("demo"), needs).await.unwrap().keyed.unwrap();
    assert_eq!(item.id().as_str(), "timer_mission");
    assert_eq!(key, RequestKey { key: "create-1".into(), fingerprint: "print-1".into() });
    let needs = Needs { key: Some("schedule-1".into()), ..Needs::default() };
    let (item, _) = store.load(&sid("clock"), needs).await.unwrap().keyed.unwrap();
    assert_eq!((item.id().as_str(), item.as_reminder().unwrap().answered.len()), ("task_full", 2));
    let deadlines: Vec<(i64, String)> = store
        .deadlines(ALL)
        .await
        .unwrap()
        .into_iter()
        .map(|(due, id)| ((due.as_millis() - START_MS) / 1000, id.to_string()))
        .collect();
    let mut expected = vec![
        (1015, "timer_resumed"),
        (2083, "call_st_waiting.1"),
        (2111, "call_st_close.1"),
        (2192, "call_st_running.1"),
        (2322, "st_done"),
        (2342, "st_failed"),
        (2820, "task_due"),
        (3020, "st_suspended"),
        (3600, "timer_running"),
        (4037, "timer_pause_over"),
        (5403, "timer_mission"),
        (6020, "timer_paused"),
        (7201, "timer_background"),
        (7940, "task_full"),
        (8557, "task_with_it"),
        (8940, "task_put_off"),
        (9013, "timer_paused_background"),
        (20_301, "timer_gone_over"),
        (86_710, "timer_chat"),
        (606_842, "st_running"),
        (606_842, "st_say"),
        (606_842, "st_waiting"),
    ];
    expected.extend(format.added);
    expected.sort_unstable();
    let expected: Vec<(i64, String)> = expected.into_iter().map(|(due, id)| (due, id.to_owned())).collect();
    assert_eq!(deadlines, expected, "{}", format.file);
    let soonest = ItemFilter { order: Order::Soonest, limit: 1, ..ItemFilter::default() };
    assert_eq!(drive::found_ids(&store, soonest).await, ["timer_resumed"]);
    let awaiting = ItemFilter { awaiting: true, ..every_item() };
    assert_eq!(drive::found_ids(&store, awaiting).await, Vec::from_iter(format.awaiting));
}

#[tokio::test]
async fn a_file_of_every_format_can_be_gone_on_with() {
    for format in FORMATS {
        gone_on_with(format).await;
    }
}

async fn gone_on_with(format: Format) {
    let directory = tempfile::tempdir().unwrap();
    let store = opened(format.file, directory.path(), None);
    let before = store.tallies().await.unwrap();
    run(&store, "demo", resume("timer_paused"), at(400)).await;
    run(&store, "demo", cancel("timer_running"), at(401)).await;
    run(&store, "demo", fire(&["timer_resumed"]), at(1015)).await;
    run(&store, "closed", drive::wait("timer_reopened", "again", 60), at(1016)).await;
    let riding = call(&store, "demo", collect("lease_new", 9), at(1020)).await.riding;
    let told: Vec<&str> = riding.iter().map(|message| message.source.as_str()).collect();
    assert_eq!(told, ["timer_leased", "timer_pending", "timer_resumed"], "the old lease has run out");
    run(&store, "demo", commit_lease("lease_new"), at(1021)).await;
    store.close().await;

    let store = opened(format.file, directory.path(), None);
    let state = store.load(&sid("demo"), Needs { items: Select::Live, inbox: true, key: None }).await.unwrap();
    assert_eq!((state.items.len(), state.inbox.len()), (6, 0));
    let paused = state.items.iter().find(|item| item.id().as_str() == "timer_paused").unwrap().as_timer().unwrap();
    assert_eq!(paused.remaining(at(400)), Millis::from_secs(1782));
    let tallies = store.tallies().await.unwrap();
    assert_eq!(tallies["messages.delivered"], before["messages.delivered"] + 3);
    let newest = store.history(HistoryFilter { limit: 1, ..HistoryFilter::default() }).await.unwrap();
    assert_eq!(newest[0].entry.event, "message.delivered");

    purge_all(&store, at(500), ALL).await;
    let live = store.items(every_item()).await.unwrap().len();
    let (tasks, reminders, session_timers) = (1, 4 + 1, 8);
    let (calls, threads, added) = (5, 1, format.added.len());
    assert_eq!(
        live,
        6 + 1 + 1 + 1 + tasks + reminders + session_timers + calls + threads + added,
        "the live ones and those that have just ended"
    );
}

// Everything a store shows, as text.

async fn described(store: &dyn Store) -> String {
    let mut text = format!("server {}\n", store.server_id());
    for (_, session) in
        store.sessions(SessionFilter { after: None, limit: ALL, ..SessionFilter::default() }).await.unwrap()
    {
        text += &format!("\n{}\n", describe_session(&session));
        let needs = Needs { items: Select::Recent, inbox: true, key: None };
        let state = store.load(&session.id, needs).await.unwrap();
        for item in &state.items {
            text += &format!("  {}\n", describe_item(item));
        }
        for said in store.conversation(&session.id, ALL).await.unwrap() {
            text += &format!("  said {}\n", serde_json::json!(said));
        }
        for message in &state.inbox {
            text += &format!("  {}\n", describe_message(message));
        }
    }
    for (id, agent) in store.agents().await.unwrap() {
        text += &format!("\nagent {} changed {} {}\n", quoted(id.as_str()), offset(agent.changed_at), agent.body);
    }
    text += "\nhistory\n";
    let filter = HistoryFilter { after: Some(0), limit: ALL, ..HistoryFilter::default() };
    for recorded in store.history(filter).await.unwrap() {
        let (seq, session, entry) = (recorded.seq, quoted(recorded.session.as_str()), &recorded.entry);
        let (kind, subject) = (entry.kind.as_str(), quoted(&entry.subject));
        text += &format!("  {seq} {} {session} {kind} {subject} {} {}\n", offset(entry.at), entry.event, entry.data);
    }
    text += "\ntallies\n";
    for (name, value) in store.tallies().await.unwrap() {
        text += &format!("  {name} {value}\n");
    }
    text
}

fn describe_session(session: &Session) -> String {
    let (name, state) = (quoted(session.id.as_str()), session.state.as_str());
    let (created, active) = (offset(session.created_at), offset(session.active_at));
    let (version, pending) = (session.version, session.pending_messages);
    let live = format!("{}+{}", session.live_timers, session.live_reminders);
    let client = session.client.as_deref().map(|client| format!(" client {}", quoted(client))).unwrap_or_default();
    let agent = session.agent.as_ref().map(|agent| format!(" agent {}", quoted(agent.as_str()))).unwrap_or_default();
    let quiet =
        session.quiet.in_force().map(|quiet| format!(" quiet {}", serde_json::json!(quiet))).unwrap_or_default();
    let cwd = session.cwd.as_deref().map(|cwd| format!(" cwd {}", quoted(cwd))).unwrap_or_default();
    format!(
        "session {name} version {version} {state} created {created} active {active} live {live} pending {pending}{client}{cwd}{agent}{quiet}"
    )
}

fn describe_item(item: &Item) -> String {
    match item {
        Item::Timer(timer) => describe_timer(item, timer),
        Item::Reminder(reminder) => describe_reminder(item, reminder),
        Item::SessionTimer(timer) => describe_session_timer(item, timer),
        Item::Call(call) => describe_call(item, call),
        Item::Thread(thread) => describe_thread(item, thread),
    }
}

fn describe_thread(item: &Item, thread: &Thread) -> String {
    let (kind, id, status) = (item.kind().as_str(), &thread.id, item.status());
    let (created, updated) = (offset(thread.created_at), offset(thread.updated_at));
    let (stop, asides, alias) = (&thread.stop_message, &thread.asides, &thread.alias);
    let stop = serde_json::json!([stop, thread.directed_by, asides, alias]);
    format!("{kind} {id} {status} created {created} updated {updated} {stop}")
}

fn describe_session_timer(item: &Item, timer: &SessionTimer) -> String {
    let (kind, id, status, agent) = (item.kind().as_str(), &timer.id, item.status(), quoted(timer.agent.as_str()));
    let times = format!(
        "created {} due {} ended {} last {}",
        offset(timer.created_at),
        timer.due().map_or("-".into(), offset),
        timer.ended_at().map_or("-".into(), offset),
        timer.last_triggered_at.map_or("-".into(), offset),
    );
    let (count, used, spec) = (timer.trigger_count, timer.used, serde_json::json!(timer.spec));
    let suspended = timer.is_suspended();
    format!("{kind} {id} {status} of {agent} {times} count {count} used {used} suspended {suspended} spec {spec}")
}

fn describe_call(item: &Item, call: &ToolCall) -> String {
    let (kind, id, status, agent) = (item.kind().as_str(), &call.id, item.status(), quoted(call.agent.as_str()));
    let (due, ended) = (call.due().map_or("-".into(), offset), call.ended_at().map_or("-".into(), offset));
    let (attempts, what, last) = (call.attempts, serde_json::json!(call.what), serde_json::json!(call.last));
    format!("{kind} {id} {status} of {agent} due {due} ended {ended} attempts {attempts} {what} last {last}")
}

fn describe_reminder(item: &Item, reminder: &Reminder) -> String {
    let Content { task, tool, arguments } = &reminder.content;
    let (kind, id, status, task) = (item.kind().as_str(), &reminder.id, item.status(), quoted(task));
    let what = format!("{task} tool {tool:?} arguments {}", serde_json::json!(arguments));
    let times = format!(
        "at {} due {} ended {} delivered {} times {}",
        offset(reminder.due_at),
        reminder.due().map_or("-".into(), offset),
        reminder.ended_at().map_or("-".into(), offset),
        reminder.delivered_at().map_or("-".into(), offset),
        reminder.delivery_count,
    );
    let (created, updated) = (offset(reminder.created_at), offset(reminder.updated_at));
    let answered: Vec<String> =
        reminder.answered.iter().map(|made| format!("{} {}", made.id, offset(made.due_at))).collect();
    let revision = reminder.revision;
    format!("{kind} {id} {status} {what} {times} created {created} updated {updated} revision {revision} {answered:?}")
}

fn describe_timer(item: &Item, timer: &Timer) -> String {
    let purpose = match &timer.purpose {
        Purpose::Waiting(reason) => format!("waiting {}", quoted(reason)),
        Purpose::Mission(mission) => format!("mission {}", quoted(mission)),
    };
    let when = at(400);
    let times = format!(
        "total {} elapsed {} remaining {} due {} ended {}",
        timer.total,
        timer.elapsed(when),
        timer.remaining(when),
        timer.due().map_or("-".into(), offset),
        timer.ended_at().map_or("-".into(), offset),
    );
    let standby = match timer.standby {
        Some(standby) => format!("{}..{}", offset(standby.since), offset(standby.until)),
        None => "-".into(),
    };
    let note = timer.note.as_deref().map_or("-".into(), quoted);
    let (created, checked) = (offset(timer.created_at), offset(timer.last_check_at));
    let (kind, id, status) = (item.kind().as_str(), &timer.id, item.status());
    let tasks: Vec<String> = timer.tasks.iter().map(describe_task).collect();
    let planned = match (&timer.schedule, timer.opens_at) {
        (None, None) => String::new(),
        (schedule, opens) => {
            format!(" planned {} opens {}", serde_json::json!(schedule), opens.map_or("-".into(), offset))
        }
    };
    let until = timer.until.as_ref().map(|watch| format!(" until {}", serde_json::json!(watch))).unwrap_or_default();
    format!(
        "{kind} {id} {status} {purpose} {times} note {note} created {created} checked {checked} standby {standby} tasks {tasks:?}{planned}{until}"
    )
}

fn describe_task(task: &Task) -> String {
    let until = task.until.map_or("-".into(), offset);
    let end = match &task.end {
        Some(end) => format!("{} {} lease {:?}", end.outcome.as_str(), offset(end.at), end.lease),
        None => "open".into(),
    };
    format!("{} since {} until {until} {end}", task.id, offset(task.since))
}

fn describe_message(message: &Message) -> String {
    let lease = match &message.lease {
        Some(lease) => format!("{} until {}", lease.id, offset(lease.until)),
        None => "-".into(),
    };
    let (id, kind, source) = (&message.id, message.kind.as_str(), &message.source);
    let (created, text) = (offset(message.created_at), quoted(&message.text));
    let expires = message.expires_at.map_or("-".into(), offset);
    format!("message {id} {kind} of {source} created {created} expires {expires} lease {lease} text {text}")
}

fn offset(time: Timestamp) -> String {
    let ms = time.as_millis() - START_MS;
    if ms % 1000 == 0 { format!("+{}", ms / 1000) } else { format!("+{ms}ms") }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
