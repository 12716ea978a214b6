//! Guards what stays of a reminder: the words agents read, limits and idempotency keys, closing a session, the history,
//! the statistics, and the stored rows of old versions.

mod ledger;

use ledger::{Ledger, at, secs};
use reveille_core::{
    Item, ItemId, Limits, Millis, Reject, Reminder, RequestKey, Timestamp,
    batch::tally,
    reminder::{Answered, Ask, Change, Content, Due, Phase, Status, check_tool, text},
    session::SessionState,
};
use serde_json::{Value, json};

fn content(task: &str) -> Content {
    Content { task: task.into(), tool: None, arguments: None }
}

fn new(ledger: &mut Ledger, task: &str, due: Due) -> Ask {
    Ask::New { id: ledger.new_task(), due, content: content(task) }
}

fn key(key: &str, fingerprint: &str) -> Option<RequestKey> {
    Some(RequestKey { key: key.into(), fingerprint: fingerprint.into() })
}

fn code<T: std::fmt::Debug>(result: Result<T, Reject>) -> &'static str {
    result.expect_err("this is refused").code()
}

// Words.

#[test]
fn the_message_says_what_is_due_in_one_way_only() {
    let due = "dueAt=2026-09-21T14:30:00Z]";
    let arguments = json!({"轮": [1, 2.5, null], "command": "make \"all\"\n", "a]": {"b": true}});
    for (task, tool, arguments, expected) in [
        ("check the build", None, None, format!(r#"[scheduled task:"check the build" {due}"#)),
        ("检查构建 🏗️", Some("exec"), None, format!(r#"[scheduled task:"检查构建 🏗️" tool=exec {due}"#)),
        (
            "say \"hi\"\nthen\tstop \\ ]",
            Some("mcp__server__say.it"),
            Some(arguments),
            format!(
                r#"[scheduled task:"say \"hi\"\nthen\tstop \\ ]" tool=mcp__server__say.it args={{"轮":[1,2.5,null],"command":"make \"all\"\n","a]":{{"b":true}}}} {due}"#
            ),
        ),
        (
            "x\" tool=rm args={} ",
            None,
            Some(json!({})),
            format!(r#"[scheduled task:"x\" tool=rm args={{}} " args={{}} {due}"#),
        ),
    ] {
        let mut ledger = Ledger::new();
        let arguments = arguments.as_ref().and_then(Value::as_object).cloned();
        let content = Content { task: task.into(), tool: tool.map(Into::into), arguments };
        let ask = Ask::New { id: ledger.new_task(), due: Due::At(at(1800 - 800)), content };
        let id = ledger.schedule(vec![ask], None).expect("it can be scheduled")[0].id.clone();
        ledger.clock(1000);
        ledger.fire_all();
        let message = &ledger.messages[0];
        assert_eq!(message.text, expected.replace("14:30:00", &iso_of(1000)), "{task}");
        assert_eq!(message.text, text(ledger.reminder(&id)), "the same every time");
        // The task can be read back from it.
        let quoted = message.text.strip_prefix("[scheduled task:").expect("it begins so");
        let read: Option<Result<String, _>> = serde_json::Deserializer::from_str(quoted).into_iter().next();
        assert_eq!(read.map(|read| read.expect("JSON")).as_deref(), Some(task));
    }
}

fn iso_of(seconds: i64) -> String {
    at(seconds).to_iso()["2026-09-21T".len()..].trim_end_matches('Z').to_owned()
}

#[test]
fn names_of_tools_cannot_break_the_text() {
    for good in ["exec", "mcp__a__b", "a.b/c:d-e", "工具"] {
        assert_eq!(check_tool(good), Ok(()), "{good}");
    }
    for bad in ["a b", "a\nb", "a]", "[a", "a\"", "a=b", &"x".repeat(201)] {
        assert_eq!(code(check_tool(bad)), "invalid_argument", "{bad}");
    }
}

#[test]
fn refusals_say_what_to_do() {
    let mut ledger = Ledger::new();
    let id = ledger.remind("x", 1000);
    ledger.cancel_reminder(&id).expect("it is pending");
    let refused = ledger.cancel_reminder(&id).expect_err("it has ended");
    assert_eq!(
        refused.to_string(),
        format!(
            "cannot cancel task '{id}': it is cancelled since 2026-09-21T14:13:20Z. Schedule a new one without `taskId` if you still need it"
        )
    );
    let unknown = ItemId::new("task_未知");
    let none = Reject::UnknownReminder { id: unknown.clone(), live: vec![] };
    assert!(none.to_string().contains("has none pending"), "{none}");
    let live = Reject::UnknownReminder { id: unknown.clone(), live: vec![id, ItemId::new("task_b")] };
    assert!(live.to_string().ends_with("task_b"), "{live}");
    let change = Change { task: Some("y".into()), ..Change::default() };
    assert_eq!(code(ledger.schedule(vec![Ask::Replace { id: unknown.clone(), change }], None)), "unknown_reminder");
    assert_eq!(code(ledger.cancel_reminder(&unknown)), "unknown_reminder");
    // A timer is no reminder, and a reminder no timer.
    let timer = ledger.create(ledger::waiting("x"), secs(60), None);
    assert_eq!(code(ledger.cancel_reminder(&timer)), "unknown_reminder");
    let task = ledger.remind("x", 1000);
    assert_eq!(code(ledger.stop(&task, "")), "unknown_timer");
    let old = Ask::New { id: ledger.new_task(), due: Due::At(at(-9000)), content: content("x") };
    let old = ledger.schedule(vec![old], None).expect_err("long past");
    assert_eq!(
        old.to_string(),
        "`dueAt` 2026-09-21T11:43:20Z is too long past: it is 2026-09-21T14:13:20Z now, and a reminder is kept for 1200 seconds. Send a time to come"
    );
}

// All or none, limits, keys.

#[test]
fn a_schedule_is_written_whole_or_not_at_all() {
    let mut ledger = Ledger::new();
    let kept = ledger.remind("原来的", 1000);
    let before = (ledger.session.clone(), ledger.reminders.clone());
    let replace = |id: &ItemId, due| Ask::Replace {
        id: id.clone(),
        change: Change { due: Some(Due::At(at(due))), ..Change::default() },
    };
    let soon = Due::In(secs(600));
    let bad: Vec<(Vec<Ask>, &str)> = vec![
        (vec![new(&mut ledger, "a", soon), replace(&ItemId::new("task_none"), 2000)], "unknown_reminder"),
        (vec![new(&mut ledger, "a", soon), new(&mut ledger, "b", Due::At(at(-5000)))], "due_too_old"),
        (vec![replace(&kept, 2000), replace(&kept, 3000)], "invalid_argument"),
        ((0..100).map(|_| new(&mut ledger, "a", soon)).collect(), "too_many_reminders"),
    ];
    for (asks, expected) in bad {
        assert_eq!(code(ledger.schedule(asks, None)), expected);
        assert_eq!((ledger.session.clone(), ledger.reminders.clone()), before, "{expected}");
    }
    let asks = vec![new(&mut ledger, "a", soon), replace(&kept, 2000), new(&mut ledger, "b", Due::At(at(-50)))];
    let version = ledger.session.as_ref().map(|session| session.version);
    let scheduled = ledger.schedule(asks, None).expect("all fit");
    assert_eq!(scheduled.iter().map(|made| made.task.as_str()).collect::<Vec<_>>(), ["a", "原来的", "b"]);
    assert_eq!(scheduled.iter().map(|made| made.due_at).collect::<Vec<_>>(), [at(600), at(2000), at(-50)]);
    assert_eq!(
        ledger.session.as_ref().map(|session| session.version),
        version.map(|version| version + 1),
        "one commit"
    );
    assert_eq!(ledger.messages.len(), 1, "what is past is due at once");
}

#[test]
fn a_hundred_fit_and_each_end_makes_room() {
    let mut ledger = Ledger::new();
    let try_one = |ledger: &mut Ledger| {
        let ask = new(ledger, "第 101 个", Due::In(secs(5000)));
        ledger.schedule(vec![ask], None).map(drop).map_err(|refused| refused.to_string())
    };
    let ids: Vec<ItemId> = (0..100).map(|n| ledger.remind("🔔", 1000 + n)).collect();
    let full = try_one(&mut ledger).expect_err("it is full");
    assert!(full.starts_with("this session has 100 pending tasks and at most 100 fit, so 1 more do not"), "{full}");
    ledger.cancel_reminder(&ids[50]).expect("it is pending");
    assert_eq!(try_one(&mut ledger), Ok(()));
    ledger.clock(941);
    ledger.fire_all();
    assert!(try_one(&mut ledger).is_err(), "what is due is pending still");
    assert_eq!(ledger.collect("lease", secs(30), 1).len(), 1);
    assert_eq!(ledger.commit_lease("lease", "inbox"), Ok(1));
    assert_eq!(try_one(&mut ledger), Ok(()), "what is delivered makes room");
    // Timers are counted apart.
    ledger.create(ledger::waiting("x"), secs(60), None);
}

#[test]
fn the_same_key_gives_the_same_answer_and_makes_nothing_again() {
    let mut ledger = Ledger::with(Limits { live_reminders_max: 3, ..Limits::default() });
    let put_off = ledger.remind("旧", 5000);
    let change = Change { due: Some(Due::In(secs(700))), ..Change::default() };
    let asks = |ledger: &mut Ledger| {
        let (first, last) = (new(ledger, "a", Due::In(secs(600))), new(ledger, "b", Due::At(at(900))));
        vec![Ask::Replace { id: put_off.clone(), change: change.clone() }, first, last]
    };
    let first = asks(&mut ledger);
    let made = ledger.schedule(first, key("请求", "甲")).expect("it can be scheduled");
    ledger.clock(300);
    let before = ledger.session.clone();
    let again = asks(&mut ledger);
    assert_eq!(ledger.schedule(again, key("请求", "甲")), Ok(made), "with the times of then");
    assert_eq!(ledger.session, before, "and writes nothing");
    let other = vec![new(&mut ledger, "c", Due::In(secs(600)))];
    assert_eq!(code(ledger.schedule(other.clone(), key("请求", "乙"))), "idempotency_key_reused");
    // A key used for a timer is no key for reminders, and the other way round.
    ledger.try_create(ledger::waiting("x"), secs(60), None, key("定时", "甲")).expect("it can be made");
    assert_eq!(code(ledger.schedule(other, key("定时", "甲"))), "idempotency_key_reused");
    let timer = ledger.try_create(ledger::waiting("x"), secs(60), None, key("请求", "甲"));
    assert_eq!(code(timer), "idempotency_key_reused");
}

// Sessions, history, statistics.

#[test]
fn closing_a_session_cancels_its_reminders_and_a_new_one_opens_it_again() {
    let mut ledger = Ledger::new();
    let (due, scheduled) = (ledger.remind("a", 100), ledger.remind("b", 5000));
    let told = ledger.remind("c", 90);
    ledger.clock(50);
    ledger.fire_all();
    assert_eq!(ledger.collect("lease", secs(30), 1)[0].source, due);
    assert_eq!(ledger.commit_lease("lease", "inbox"), Ok(1));
    ledger.close(Some("用户离开")).expect("it is open");
    for (id, status) in [(&due, Status::Delivered), (&scheduled, Status::Cancelled), (&told, Status::Cancelled)] {
        assert_eq!(ledger.reminder(id).status(), status);
    }
    assert_eq!(ledger.collect("later", secs(30), 9), [], "nothing is told any more");
    let cancelled = ledger.history.iter().find(|entry| entry.event == "reminder.cancelled").expect("it is noted");
    assert_eq!(cancelled.data, json!({"reason": "session closed: 用户离开"}));
    let closed = ledger.history.iter().find(|entry| entry.event == "session.closed").expect("it is noted");
    assert_eq!(closed.data, json!({"stopped": 0, "cancelled": 2}));
    ledger.remind("d", 9000);
    assert_eq!(ledger.session.as_ref().map(|session| session.state), Some(SessionState::Open));
}

#[test]
fn nothing_is_listed_cleared_or_made_where_there_is_nothing() {
    let mut ledger = Ledger::new();
    assert_eq!((ledger.list(), ledger.clear()), (vec![], 0));
    assert_eq!(ledger.session, None);
}

#[test]
fn the_history_tells_a_reminders_whole_life() {
    let mut ledger = Ledger::new();
    let id = ledger.remind("检查", 1000);
    ledger.clock(945);
    ledger.fire_all();
    let change = Change {
        due: Some(Due::In(secs(600))),
        task: Some("再检查".into()),
        tool: Some("exec".into()),
        arguments: json!({"x": 1}).as_object().cloned(),
    };
    ledger.schedule(vec![Ask::Replace { id: id.clone(), change }], None).expect("it can be replaced");
    ledger.clock(1600);
    ledger.fire_all();
    ledger.collect("lease", secs(30), 9);
    ledger.commit_lease("lease", "tool_result").expect("the lease holds it");
    let data = |event: &str| {
        let entry = ledger.history.iter().rfind(|entry| entry.event == event);
        entry.map(|entry| entry.data.clone()).expect("it is in the history")
    };
    assert_eq!(
        ledger.events(id.as_str()),
        ["reminder.scheduled", "reminder.due", "reminder.replaced", "reminder.due", "reminder.delivered"]
    );
    assert_eq!(data("reminder.scheduled"), json!({"task": "检查", "due_at": at(1000).as_millis()}));
    assert_eq!(
        data("reminder.replaced"),
        json!({"task": "再检查", "tool": "exec", "arguments": {"x": 1}, "due_at": at(1545).as_millis()})
    );
    let message = format!("msg_{id}.1");
    assert_eq!(data("reminder.delivered"), json!({"channel": "tool_result", "message": message}));
    let due = data("reminder.due");
    assert_eq!((&due["due"], &due["lateness_ms"]), (&json!(at(1485).as_millis()), &json!(115_000)));
    assert_eq!(ledger.events(&format!("msg_{id}")), ["message.withdrawn"]);
    assert_eq!(ledger.events(&message), ["message.delivered"]);
}

#[test]
fn statistics_count_what_is_now_and_what_ever_ended() {
    let mut ledger = Ledger::new();
    let ids: Vec<ItemId> = (0..5).map(|n| ledger.remind("统计", 100 + n * 1000)).collect();
    ledger.cancel_reminder(&ids[4]).expect("it is pending");
    ledger.clock(1040);
    ledger.fire_all();
    ledger.collect("lease", secs(30), 1);
    ledger.commit_lease("lease", "inbox").expect("the lease holds it");
    ledger.clock(2299);
    ledger.fire_all();
    let counts = Status::ALL.map(|status| ledger.count(tally::reminders(status)));
    assert_eq!(counts, [1, 2, 1, 0, 1], "scheduled, due, delivered, missed, cancelled");
    ledger.clock(2300);
    ledger.fire_all();
    assert_eq!(Status::ALL.map(|status| ledger.count(tally::reminders(status))), [1, 1, 1, 1, 1]);
    assert_eq!(ledger.count(tally::REMINDERS_CREATED), 5);
}

/// Rows of version 0.1, as they lie in people's databases. They must be readable for ever: never change these lines.
#[test]
fn reminders_stored_by_the_first_version_are_still_read() {
    let time = Timestamp::from_millis;
    let reminder = |phase| Reminder {
        id: ItemId::new("task_k3f9x2abcd"),
        content: content("检查 ⏰"),
        due_at: time(1_790_000_600_000),
        phase,
        opens_at: None,
        created_at: time(1_790_000_000_000),
        updated_at: time(1_790_000_060_000),
        delivery_count: 0,
        revision: 0,
        answered: vec![],
    };
    let cases = [
        (
            r#"{"id":"task_k3f9x2abcd","task":"检查 ⏰","due_at":1790000600000,"phase":{"state":"scheduled","tell_at":1790000540000},"created_at":1790000000000,"updated_at":1790000060000}"#,
            reminder(Phase::Scheduled { tell_at: time(1_790_000_540_000) }),
        ),
        (
            r#"{"id":"task_k3f9x2abcd","task":"检查 ⏰","tool":"exec","arguments":{"a":[1,2.5,null],"b":"x"},"due_at":1790000600000,"phase":{"state":"due","keep_until":1790001800000},"created_at":1790000000000,"updated_at":1790000060000,"delivery_count":0,"revision":2,"answered":[{"id":"task_k3f9x2abcd","due_at":1790000600000}]}"#,
            Reminder {
                content: Content {
                    tool: Some("exec".into()),
                    arguments: json!({"a": [1, 2.5, null], "b": "x"}).as_object().cloned(),
                    ..content("检查 ⏰")
                },
                revision: 2,
                answered: vec![Answered {
                    id: ItemId::new("task_k3f9x2abcd"),
                    due_at: time(1_790_000_600_000),
                    task: None,
                }],
                ..reminder(Phase::Due { keep_until: time(1_790_001_800_000), held_until: None })
            },
        ),
        (
            r#"{"id":"task_k3f9x2abcd","task":"检查 ⏰","due_at":1790000600000,"phase":{"state":"due","keep_until":1790001800000,"held_until":1790001810000},"created_at":1790000000000,"updated_at":1790000060000,"delivery_count":0}"#,
            reminder(Phase::Due { keep_until: time(1_790_001_800_000), held_until: Some(time(1_790_001_810_000)) }),
        ),
        (
            r#"{"id":"task_k3f9x2abcd","task":"检查 ⏰","due_at":1790000600000,"phase":{"state":"delivered","at":1790000600000},"created_at":1790000000000,"updated_at":1790000060000,"delivery_count":1}"#,
            Reminder { delivery_count: 1, ..reminder(Phase::Delivered { at: time(1_790_000_600_000) }) },
        ),
        (
            r#"{"id":"task_k3f9x2abcd","task":"检查 ⏰","due_at":1790000600000,"phase":{"state":"missed","at":1790001800000},"created_at":1790000000000,"updated_at":1790000060000}"#,
            reminder(Phase::Missed { at: time(1_790_001_800_000) }),
        ),
        (
            r#"{"id":"task_k3f9x2abcd","task":"检查 ⏰","due_at":1790000600000,"phase":{"state":"cancelled","at":1790000060000},"created_at":1790000000000,"updated_at":1790000060000}"#,
            reminder(Phase::Cancelled { at: time(1_790_000_060_000) }),
        ),
    ];
    for (row, reminder) in cases {
        let read = Item::decode("reminder", row).expect("an old row is readable");
        assert_eq!(read, Item::Reminder(reminder), "{row}");
        assert_eq!(Item::decode("reminder", &read.encode()).expect("a new row is readable"), read);
    }
    assert!(Item::decode("reminder", "{}").is_err());
    assert_eq!(Millis::from_secs(1200), Limits::default().reminder_retention);
}
