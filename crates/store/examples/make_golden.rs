//! How the newest of `tests/golden` was made: `cargo run -p reveille-store --example make_golden -- OUT.db`. Ids and times are
//! fixed, so it makes the same content again as long as the format and the rules are the same.
//!
//! A released golden file is never made anew: it stands for the databases people have. A new format gets a new file.

#![allow(clippy::unwrap_used)]

#[path = "../tests/drive/mod.rs"]
mod drive;

use drive::{
    AGENT, call_ended, calls, cancel, cancel_reminder, close, collect, commit_lease, create, fire, iid, iids, message,
    mission, pause, put_off, remind, response, resume, says, spec, stop, wait,
};
use reveille_core::{
    AgentId, Call, CatchUp, Command, Condition, Directive, LeaseId, Limits, Millis, Purpose, Recurrence, RequestKey,
    SessionId, Sleep, TaskId, Thread, Timestamp, When, Zone,
    at::At,
    call::End,
    condition::{Expect, Sighting, Wanted},
    recurrence::Rule,
    reminder::{Ask, Content, Due},
    thread::{Answered, Aside},
    timer::Continuation,
};
use reveille_store::{SqliteStore, Store, StoredAgent};
use rusqlite::Connection;
use std::{collections::HashMap, path::Path};

/// 2026-01-02T03:04:05Z
const START_MS: i64 = 1_767_323_045_000;

#[tokio::main]
async fn main() {
    let out = std::env::args_os().nth(1).expect("usage: make_golden OUT.db");
    make(Path::new(&out)).await;
}

async fn make(out: &Path) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("reveille.db");

    let store = SqliteStore::open(&path, None, "srv_golden").unwrap();
    demo(&store).await;
    threaded(&store).await;
    chat(&store).await;
    closed(&store).await;
    reminders(&store).await;
    sessions(&store).await;
    calendar(&store).await;
    store.close().await;
    let neighbour = SqliteStore::open(&path, Some("srv_neighbour"), "").unwrap();
    run(&neighbour, "demo", wait("timer_running", "another server's", 60), 0).await;
    neighbour.close().await;
    compact(&path, out);
}

async fn run(store: &dyn Store, session: &str, command: Command, seconds: i64) {
    call(store, session, Call::new(command), seconds).await;
}

async fn call(store: &dyn Store, session: &str, call: Call, seconds: i64) {
    drive::call(store, session, call, Timestamp::from_millis(START_MS + seconds * 1000)).await;
}

/// Timers in every state, messages in every state.
async fn demo(store: &dyn Store) {
    let waiting = |text: &str| Purpose::Waiting(text.into());
    let running = Command::Create {
        id: iid("timer_running"),
        purpose: waiting("等待构建完成 🙂"),
        total: Millis::from_secs(3600),
        timeout: Some(Millis::from_secs(500)),
        until: None,
        key: None,
        task: Some(TaskId::new("0123456789abcdefghjkmnpqrs")),
    };
    run(store, "demo", running, 0).await;
    for (id, seconds) in [("timer_delivered", 100), ("timer_leased", 200), ("timer_pending", 300)] {
        run(store, "demo", mission(id, &format!("检查 {id}"), seconds), 0).await;
    }
    run(store, "demo", wait("timer_background", "deploy\nstage \"two\"", 7200), 1).await;
    run(store, "demo", mission("timer_paused", "重启服务器", 1800), 2).await;
    let key = RequestKey { key: "create-1".into(), fingerprint: "print-1".into() };
    run(store, "demo", create("timer_mission", Purpose::Mission("write the report".into()), 5400, Some(key)), 3).await;
    run(store, "demo", wait("timer_stopped", "no longer needed", 900), 4).await;
    run(store, "demo", wait("timer_resumed", "resumed early", 1000), 5).await;
    run(store, "demo", wait("timer_extended", "extended", 60), 6).await;
    run(store, "demo", mission("timer_pause_over", "its pause ended by itself", 4000), 7).await;
    run(store, "demo", wait("timer_paused_background", "cancelled, then paused", 4100), 8).await;

    run(store, "demo", Command::Cancel { id: iid("timer_background"), note: Some("先做别的".into()) }, 10).await;
    run(store, "demo", cancel("timer_paused_background"), 11).await;
    run(store, "demo", pause("timer_pause_over", 30), 12).await;
    run(store, "demo", pause("timer_paused_background", 9000), 13).await;
    run(store, "demo", pause("timer_resumed", 600), 15).await;
    let paused =
        Command::Pause { id: iid("timer_paused"), length: Millis::from_secs(6000), note: Some("午休".into()) };
    run(store, "demo", paused, 20).await;
    run(store, "demo", resume("timer_resumed"), 25).await;
    run(store, "demo", Command::Stop { id: iid("timer_stopped"), note: Some("done by hand".into()) }, 30).await;
    let ask = Continuation {
        total: Some(Millis::new(2500)),
        timeout: None,
        reason: Some("再等等".into()),
        mission: None,
        until: None,
    };
    run(store, "demo", Command::Continue { id: iid("timer_extended"), ask, task: None }, 40).await;
    run(store, "demo", cancel("timer_extended"), 41).await;
    let since = Timestamp::from_millis(START_MS + 4500);
    run(store, "demo", Command::Return(Sleep { id: iid("timer_mission"), since, slept: Millis::new(37_500) }), 42)
        .await;
    run(store, "demo", fire(&["timer_extended"]), 43).await;
    run(store, "demo", fire(&["timer_pause_over"]), 43).await;
    call(store, "demo", collect("lease_first", 5), 44).await;
    run(store, "demo", Command::ReleaseLease { lease: LeaseId::new("lease_first") }, 45).await;

    run(store, "demo", fire(&["timer_delivered"]), 101).await;
    call(store, "demo", collect("lease_second", 5), 102).await;
    run(store, "demo", commit_lease("lease_second"), 103).await;
    let standing = HashMap::from([(iid("timer_leased"), LeaseId::new("lease_standing"))]);
    run(store, "demo", Command::Fire { ids: iids(&["timer_leased"]), standing }, 200).await;
    run(store, "demo", fire(&["timer_pending"]), 300).await;
    let task = |id: &str| Some(TaskId::new(id));
    let create = |id: &str, total, timeout, task| Command::Create {
        id: iid(id),
        purpose: Purpose::Waiting("stood by for as a task".into()),
        total: Millis::from_secs(total),
        timeout,
        until: None,
        key: None,
        task,
    };
    let short = Some(Millis::from_secs(2));
    run(store, "tasks", create("timer_gone_told", 5, None, task("secret_told")), 301).await;
    run(store, "tasks", create("timer_gone_over", 20_000, short, task("secret_over")), 301).await;
    run(store, "tasks", fire(&["timer_gone_told"]), 306).await;
    run(store, "tasks", cancel("timer_gone_over"), 307).await;
    let until = |id: &str| Command::Create {
        id: iid(id),
        purpose: Purpose::Waiting("等日志 📜".into()),
        total: Millis::from_secs(20_000),
        timeout: None,
        until: Some(Wanted {
            condition: Condition::File { path: "/srv/构建.log".into(), expect: Expect::Changed { from: None } },
            node: Some("host/0123".into()),
        }),
        key: None,
        task: None,
    };
    run(store, "conditions", until("timer_awaiting"), 307).await;
    run(store, "conditions", until("timer_met"), 307).await;
    let since = Timestamp::from_millis(START_MS + 307_000);
    let sighting = Sighting { id: iid("timer_met"), since, seen: "/srv/构建.log has changed".into() };
    run(store, "conditions", Command::Meet { sightings: vec![sighting], standing: HashMap::new() }, 308).await;
}

/// What the gateway keeps of a conversation.
async fn threaded(store: &dyn Store) {
    let thread = Thread::id_of(&SessionId::parse("gateway").expect("a name"));
    let arm = Directive::Arm { text: "继续 🙂".into(), times: 3 };
    run(store, "gateway", Command::Direct { thread: thread.clone(), by: "print".into(), directives: vec![arm] }, 308)
        .await;
    run(store, "gateway", Command::TakeStopMessage { thread: thread.clone() }, 308).await;
    let answered = Answered {
        call: "call_clock".into(),
        tool: "clock".into(),
        arguments: r#"{"action":"list"}"#.into(),
        result: "{}".into(),
        failed: false,
    };
    let aside = Aside { anchor: "call_client".into(), answered: vec![answered] };
    run(store, "gateway", Command::SetAside { thread, aside }, 309).await;
    let (shown, upstream) = ("resp_1".into(), "resp_2".into());
    let answer = Thread::id_of_answer("resp_1");
    run(store, "gateway", Command::NameAnswer { answer, shown, upstream, owed: vec![] }, 309).await;
}

/// A session that has nothing but a name worth keeping.
async fn chat(store: &dyn Store) {
    let (client, cwd) = (Some("claude-code".into()), Some("/home/用户/work".into()));
    let wait = Call { client, cwd, ..Call::new(wait("timer_chat", "等用户回来", 86_400)) };
    call(store, "租户:用户:聊天🙂", wait, 310).await;
}

/// Closed with a live timer and an untold message.
async fn closed(store: &dyn Store) {
    run(store, "closed", wait("timer_told_nobody", "x", 10), 320).await;
    run(store, "closed", fire(&["timer_told_nobody"]), 331).await;
    run(store, "closed", wait("timer_cut_off", "y", 600), 332).await;
    run(store, "closed", stop("timer_cut_off"), 333).await;
    run(store, "closed", wait("timer_closed_with_it", "z", 600), 334).await;
    run(store, "closed", close(), 335).await;
}

/// Reminders in every state; one that was replaced, one with everything, two made under one key.
async fn reminders(store: &dyn Store) {
    let at = |seconds: i64| Timestamp::from_millis(START_MS + seconds * 1000);
    let clock = "clock";
    for (id, due) in [("task_delivered", 400), ("task_missed", 410), ("task_cancelled", 420), ("task_put_off", 430)] {
        run(store, clock, remind(id, &format!("检查 {id}"), at(due)), 300).await;
    }
    run(store, clock, fire(&["task_delivered"]), 341).await;
    call(store, clock, collect("lease_clock", 1), 342).await;
    run(store, clock, commit_lease("lease_clock"), 343).await;
    run(store, clock, fire(&["task_missed", "task_cancelled", "task_put_off"]), 380).await;
    run(store, clock, cancel_reminder("task_cancelled"), 381).await;
    run(store, clock, put_off("task_put_off", at(9000)), 382).await;
    run(store, clock, fire(&["task_missed"]), 1610).await;
    run(store, clock, remind("task_due", "due\n\"now\" 🔔", at(1620)), 1615).await;
    call(store, clock, collect("lease_reminder", 1), 1616).await;
    let arguments = serde_json::json!({"command": "make check", "轮": [1, 2.5, null]});
    let content = Content {
        task: "运行测试 🧪".into(),
        tool: Some("exec_command".into()),
        arguments: arguments.as_object().cloned(),
    };
    let plain = Content { task: "and then this".into(), tool: None, arguments: None };
    let asks = vec![
        Ask::New { id: iid("task_full"), due: Due::At(at(8000)), content },
        Ask::New { id: iid("task_with_it"), due: Due::In(Millis::from_secs(7000)), content: plain },
    ];
    let key = Some(RequestKey { key: "schedule-1".into(), fingerprint: "print-2".into() });
    run(store, clock, Command::Schedule { asks, key }, 1617).await;
}

/// Sessions of an agent: one that is talked in, one that its timer closed; calls in every state; an agent.
async fn sessions(store: &dyn Store) {
    let at = |seconds: i64| Timestamp::from_millis(START_MS + seconds * 1000);
    let agent = StoredAgent { body: "{\"model\":\"模型\"}".into(), changed_at: at(1700) };
    store.set_agent(&AgentId::new(AGENT), Some(agent)).await.unwrap();
    let timers = vec![
        spec("st_say", 300, 1, says("您好，请问还有什么可以帮您的吗？")),
        spec("st_done", 310, 2, calls("read_customer", false)),
        spec("st_failed", 320, 0, calls("handoff_to", false)),
        spec("st_running", 330, 1, calls("save", false)),
        spec("st_waiting", 340, 1, calls("retry", false)),
    ];
    run(store, "talk", message(timers, "在吗 🙂", at(1700)), 1700).await;
    run(store, "talk", response("在的", at(1702)), 1702).await;
    run(store, "talk", fire(&["st_say", "st_done", "st_failed", "st_running", "st_waiting"]), 2042).await;
    let open = ["call_st_done.1", "call_st_failed.1", "call_st_running.1", "call_st_waiting.1"];
    run(store, "talk", fire(&open), 2042).await;
    run(store, "talk", call_ended("call_st_done.1", 1, End::Done { result: "{\"姓名\":\"李雷\"}".into() }), 2043).await;
    run(store, "talk", call_ended("call_st_failed.1", 1, End::Refused { error: "404".into() }), 2043).await;
    let retry_after = Some(Millis::from_secs(40));
    run(store, "talk", call_ended("call_st_waiting.1", 1, End::Failed { error: "忙".into(), retry_after }), 2043).await;
    let closing = vec![spec("st_close", 60, 1, calls("close_conversation", true)), spec("st_cut", 90, 3, says("?"))];
    run(store, "over", message(closing, "bye", at(2050)), 2050).await;
    run(store, "over", response("bye", at(2051)), 2051).await;
    run(store, "over", fire(&["st_close"]), 2111).await;
    run(store, "suspended", message(vec![spec("st_suspended", 60, 1, says("?"))], "?", at(2120)), 2120).await;
}

/// Timers that follow the calendar, in a session with quiet hours of its own; one has fired.
async fn calendar(store: &dyn Store) {
    let zone = || Some(Zone::named("zone", "Asia/Shanghai").expect("a zone"));
    let plan = |id: &str, when: When| Command::Plan {
        id: iid(id),
        purpose: Purpose::Mission(format!("早报 {id}")),
        when: Box::new(when),
        timeout: None,
        key: None,
        task: None,
    };
    let every = |rule: serde_json::Value, max_fires| {
        let rule = Rule::parse(&rule, zone(), &Limits::default()).expect("a rule");
        When::Every { first: None, recurrence: Recurrence::new(rule, CatchUp::All, max_fires) }
    };
    let quiet = serde_json::json!([{"zone": "Asia/Shanghai", "days": ["sat"], "from": "22:00", "to": "07:30"}]);
    let quiet = serde_json::from_value(quiet).expect("quiet hours");
    run(store, "calendar", Command::SetQuiet { quiet: Some(quiet) }, 2200).await;
    run(store, "calendar", plan("timer_cron", every("0 23 * * sat".into(), Some(3))), 2201).await;
    run(store, "calendar", plan("timer_interval", every("10m".into(), None)), 2202).await;
    run(store, "calendar", plan("timer_at", When::At(At::parse("2026-01-04T09:00", zone()).expect("a time"))), 2203)
        .await;
    run(store, "calendar", fire(&["timer_interval"]), 2802).await;
}

/// One file without a log, as small as it goes, and in write-ahead mode as all of ours.
fn compact(path: &Path, out: &Path) {
    let source = Connection::open(path).unwrap();
    source.execute("VACUUM INTO ?1", [out.to_str().expect("a path in UTF-8")]).unwrap();
    let made = Connection::open(out).unwrap();
    made.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
    made.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
}

/// The rules change, and what is done here must still be possible.
#[cfg(test)]
#[tokio::test]
async fn it_can_still_be_made() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("golden.db");
    make(&out).await;
    let made = Connection::open(&out).unwrap();
    let sessions: i64 = made.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0)).unwrap();
    assert!(sessions >= 9, "{sessions}");
}
