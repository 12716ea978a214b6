//! Guards what stays of a timer: the words agents read, ids and idempotency keys, the limit, closing a session, the
//! history, the statistics, and the stored rows of old versions.

mod ledger;

use ledger::{Ledger, at, mission, secs, waiting};
use reveille_core::{
    Command, Item, ItemId, Limits, Millis, Purpose, Reject, Reply, RequestKey, Sleep, Status, Timer, Timestamp,
    batch::tally,
    reminder::{Ask, Content, Due},
    session::SessionState,
    timer::{Continuation, Phase},
};
use serde_json::json;

const TOTAL: Millis = Millis::from_secs(300);

fn from_now(seconds: u64) -> Continuation {
    Continuation { total: Some(secs(seconds)), ..Continuation::default() }
}

fn code<T: std::fmt::Debug>(result: Result<T, Reject>) -> &'static str {
    result.expect_err("this is refused").code()
}

// Words.

fn check_message(purpose: Purpose, total: Millis, text: &str) {
    let mut ledger = Ledger::new();
    let id = ledger.create(purpose, total, None);
    ledger.now = ledger.now.plus(total).plus(Millis::new(1234));
    ledger.fire_all();
    let message = &ledger.messages[0];
    assert_eq!(message.text, text.replace("ID", id.as_str()));
    assert_eq!((&message.source, message.created_at), (&id, ledger.now));
    assert_eq!(message.id.strip_prefix("msg_"), id.as_str().strip_prefix("timer_"));
}

#[test]
fn the_message_says_what_has_finished() {
    check_message(
        waiting("Waiting for build to complete"),
        secs(600),
        "[Timer Completed] Timer 'ID' has finished.\nReason: Waiting for build to complete\nDuration: 600 seconds\nElapsed: 600 seconds",
    );
    check_message(
        mission("重启服务器 🔁，然后\n检查日志"),
        secs(1800),
        "[Timer Completed] Timer 'ID' has finished.\nMission: 重启服务器 🔁，然后\n检查日志\nDuration: 1800 seconds\nElapsed: 1800 seconds",
    );
    check_message(
        waiting("快"),
        Millis::new(250),
        "[Timer Completed] Timer 'ID' has finished.\nReason: 快\nDuration: 0.25 seconds\nElapsed: 0.25 seconds",
    );
}

#[test]
fn an_ended_timer_answers_every_wish_with_its_final_state() {
    type Ask = fn(&mut Ledger, &ItemId) -> Option<Reject>;
    let wishes: [(&str, Ask); 5] = [
        ("continue", |ledger, id| ledger.proceed(id, from_now(9)).err()),
        ("cancel", |ledger, id| ledger.cancel(id).err()),
        ("pause", |ledger, id| ledger.pause(id, secs(9)).err()),
        ("resume", |ledger, id| ledger.resume(id).err()),
        ("stop", |ledger, id| ledger.stop(id, "再停一次").err()),
    ];
    let mut ledger = Ledger::new();
    let stopped = ledger.create(waiting("x"), TOTAL, None);
    let completed = ledger.create(waiting("y"), secs(2), None);
    ledger.clock(100);
    ledger.fire_all();
    ledger.stop(&stopped, "服务器已启动 ✅").expect("a running timer can be stopped");
    ledger.clock(1000);
    let before = ledger.session.clone();
    for (wish, ask) in wishes {
        let since = "since 2026-09-21T14:15:00Z, after";
        for (id, state) in [
            (&stopped, format!("stopped (服务器已启动 ✅) {since} 100 of 300")),
            (&completed, format!("completed {since} 2 of 2")),
        ] {
            let refused = ask(&mut ledger, id).expect("it has ended");
            assert_eq!(
                refused.to_string(),
                format!("cannot {wish} timer '{id}': it is {state} seconds. Create a new timer if you still need one")
            );
            assert!(matches!(refused, Reject::TimerEnded { timer, .. } if timer == Box::new(ledger.timer(id).clone())));
        }
    }
    assert_eq!(ledger.session, before, "a refusal writes nothing");
}

#[test]
fn an_unknown_id_is_an_error_and_never_a_new_timer() {
    let mut ledger = Ledger::new();
    let known = ledger.create(waiting("x"), TOTAL, None);
    let unknown = ItemId::new("timer_未知");
    for refused in [
        code(ledger.proceed(&unknown, from_now(9))),
        code(ledger.cancel(&unknown)),
        code(ledger.pause(&unknown, secs(9))),
        code(ledger.resume(&unknown)),
        code(ledger.stop(&unknown, "")),
        code(ledger.ask(Command::Read { id: Some(unknown.clone()) })),
        code(ledger.ask(Command::Return(Sleep { id: unknown.clone(), since: at(0), slept: secs(1) }))),
    ] {
        assert_eq!(refused, "unknown_timer");
    }
    assert_eq!(ledger.read_all().len(), 1);
    let live = Reject::UnknownTimer { id: unknown.clone(), live: vec![known.clone(), ItemId::new("timer_b")] };
    assert_eq!(
        live.to_string(),
        format!("there is no timer 'timer_未知' in this session; its live timers are: {known}, timer_b")
    );
    let none = Reject::UnknownTimer { id: unknown, live: vec![] };
    assert!(none.to_string().contains("no live timers"));
}

#[test]
fn the_last_note_is_kept_and_an_act_without_one_clears_it() {
    let mut ledger = Ledger::new();
    let id = ledger.create(waiting("x"), TOTAL, None);
    ledger.clock(7);
    for note in [Some("先修复 bug 🐛".to_owned()), None] {
        for command in [
            Command::Cancel { id: id.clone(), note: note.clone() },
            Command::Pause { id: id.clone(), length: secs(9), note: note.clone() },
            Command::Resume { id: id.clone(), note: note.clone() },
        ] {
            let (timer, _) = ledger.about_timer(command.clone()).expect("these are allowed in this order");
            assert_eq!((timer.note, timer.last_check_at), (note.clone(), at(7)), "{command:?}");
            let noted = ledger.history.last().expect("there is history").data.get("stop_reason").cloned();
            assert_eq!(noted, note.as_ref().map(|note| json!(note)), "{command:?}");
        }
    }
}

// Ids, keys, limits.

#[test]
fn ids_are_short_and_made_outside() {
    let mut ledger = Ledger::new();
    let ids = [(); 3].map(|()| ledger.create(waiting("x"), TOTAL, None));
    assert_eq!(ledger.read_all().iter().map(|timer| timer.id.clone()).collect::<Vec<_>>(), ids);
    assert!(ids.iter().all(|id| id.as_str().len() == "timer_".len() + 10), "{ids:?}");
}

#[test]
fn a_hundred_live_timers_fit_in_a_session_and_each_end_makes_room() {
    let mut ledger = Ledger::new();
    let try_one = |ledger: &mut Ledger| {
        ledger.try_create(mission("第 101 个"), secs(1000), None, None).map(drop).map_err(|refused| refused.to_string())
    };
    let full = Err(
        "this session already has 100 live timers; stop one that is no longer needed with stop_timer, then try again"
            .to_owned(),
    );
    let ids: Vec<ItemId> = (1..=100).map(|n| ledger.create(mission("🕐"), secs(n), None)).collect();
    let before = ledger.session.clone();
    assert_eq!(try_one(&mut ledger), full);
    assert_eq!(ledger.session, before, "a refusal writes nothing");

    ledger.pause(&ids[90], secs(5)).expect("a running timer can be paused");
    ledger.cancel(&ids[91]).expect("a running timer can be cancelled");
    assert_eq!(try_one(&mut ledger), full, "paused and background timers are live");

    ledger.stop(&ids[92], "让出位置").expect("a running timer can be stopped");
    assert_eq!(try_one(&mut ledger), Ok(()), "a stopped one makes room");
    assert_eq!(try_one(&mut ledger), full);

    ledger.clock(2);
    ledger.fire_all();
    assert_eq!([(); 3].map(|()| try_one(&mut ledger)), [Ok(()), Ok(()), full.clone()], "two completed ones make room");

    assert_eq!(ledger.close(None), Ok(100));
    assert_eq!(try_one(&mut ledger), Ok(()));
}

#[test]
fn an_inbox_nobody_looks_into_does_not_grow_for_ever() {
    let mut ledger = Ledger::with(Limits { pending_messages_max: 2, ..Limits::default() });
    for _ in 0..2 {
        ledger.create(mission("m"), secs(1), None);
    }
    let running = ledger.create(waiting("r"), secs(100), None);
    ledger.clock(1);
    ledger.fire_all();
    assert_eq!(code(ledger.try_create(mission("m"), secs(1), None, None)), "inbox_full");
    let content = Content { task: "t".into(), tool: None, arguments: None };
    let ask = Ask::New { id: ledger.new_task(), due: Due::In(secs(9)), content };
    assert_eq!(code(ledger.schedule(vec![ask], None)), "inbox_full");
    // What runs goes on and is told in the end; what is read makes room.
    ledger.proceed(&running, from_now(5)).expect("it is no new one");
    assert_eq!(ledger.collect("lease", secs(30), 1).len(), 1);
    ledger.commit_lease("lease", "test").expect("it was leased");
    ledger.create(mission("m"), secs(1), None);
}

fn key(fingerprint: &str) -> Option<RequestKey> {
    Some(RequestKey { key: "请求-1".into(), fingerprint: fingerprint.into() })
}

#[test]
fn the_same_key_gives_the_same_timer() {
    let mut ledger = Ledger::with(Limits { live_timers_max: 1, ..Limits::default() });
    let (made, _) = ledger.try_create(waiting("x"), TOTAL, Some(secs(60)), key("甲")).expect("it can be made");
    ledger.clock(280);
    let (again, stands_by) =
        ledger.try_create(waiting("x"), TOTAL, Some(secs(60)), key("甲")).expect("a repetition, not a second timer");
    assert_eq!((&again.id, again.due(), again.total), (&made.id, made.due(), TOTAL), "the deadline is the old one");
    assert_eq!(stands_by, Some(secs(20)), "the repeated call stands by too, until the end");
    assert_eq!(ledger.read_all().len(), 1);

    ledger.clock(300);
    let version = ledger.session.clone().expect("there is a session").version;
    let (ended, stands_by) =
        ledger.try_create(waiting("x"), TOTAL, Some(secs(60)), key("甲")).expect("still a repetition");
    assert_eq!((&ended.id, ended.status(), stands_by), (&made.id, Status::Completed, None));
    assert_eq!(ledger.session.clone().map(|session| session.version), Some(version + 1), "only its end was written");
    assert_eq!(ledger.count(tally::TIMERS_CREATED), 1);
}

#[test]
fn a_repeated_mission_writes_nothing() {
    let mut ledger = Ledger::new();
    let (made, _) = ledger.try_create(mission("m"), TOTAL, None, key("甲")).expect("it can be made");
    let before = ledger.session.clone();
    let (again, stands_by) = ledger.try_create(mission("m"), TOTAL, None, key("甲")).expect("a repetition");
    assert_eq!((again, stands_by), (made, None));
    assert_eq!(ledger.session, before);
}

#[test]
fn the_same_key_with_other_arguments_is_a_mistake() {
    let mut ledger = Ledger::new();
    ledger.try_create(waiting("x"), TOTAL, None, key("甲")).expect("it can be made");
    let before = ledger.session.clone();
    let refused = ledger.try_create(waiting("y"), TOTAL, None, key("乙")).expect_err("the key is taken");
    assert_eq!(refused, Reject::RequestKeyReused { key: "请求-1".into() });
    assert_eq!((refused.code(), ledger.session.clone()), ("idempotency_key_reused", before));
    let other = Some(RequestKey { key: "请求-2".into(), fingerprint: "乙".into() });
    ledger.try_create(waiting("y"), TOTAL, None, other).expect("another key is another timer");
    assert_eq!(ledger.read_all().len(), 2);
}

// Sessions.

#[test]
fn closing_a_session_stops_its_timers_and_a_new_timer_opens_it_again() {
    let mut ledger = Ledger::new();
    let running = ledger.create(waiting("a"), TOTAL, None);
    let paused = ledger.create(waiting("b"), TOTAL, None);
    let background = ledger.create(mission("c"), TOTAL, None);
    let ended = ledger.create(waiting("d"), secs(1), None);
    ledger.clock(100);
    ledger.pause(&paused, secs(1000)).expect("a running timer can be paused");
    ledger.cancel(&background).expect("a running timer can be cancelled");
    assert_eq!(ledger.close(Some("用户离开 👋")), Ok(3), "the one that ended is not stopped");
    for id in [&running, &paused, &background] {
        let timer = ledger.read(id);
        assert_eq!(timer.phase, Phase::Stopped { at: at(100), remaining: secs(200) });
        assert_eq!(timer.note.as_deref(), Some("session closed: 用户离开 👋"));
    }
    assert_eq!(ledger.read(&ended).status(), Status::Completed);
    assert_eq!(ledger.session.as_ref().map(|session| session.state), Some(SessionState::Closed));

    let before = ledger.session.clone();
    assert_eq!(ledger.close(None), Ok(0), "closing again is no error");
    assert_eq!(ledger.session, before, "and writes nothing");

    ledger.create(waiting("e"), TOTAL, None);
    assert_eq!(ledger.session.as_ref().map(|session| session.state), Some(SessionState::Open));
    let name = ledger.id.clone();
    assert_eq!(ledger.events(name.as_str()), ["session.opened", "session.closed", "session.opened"]);
}

#[test]
fn a_session_nobody_made_is_unknown_and_stays_unmade() {
    let mut ledger = Ledger::new();
    assert_eq!(code(ledger.close(None)), "unknown_session");
    assert_eq!(ledger.read_all(), []);
    assert_eq!(ledger.fire(&[ItemId::new("timer_x")]), []);
    assert_eq!(ledger.collect("lease", secs(30), 9), []);
    assert_eq!(ledger.session, None);
}

// Many at once.

#[test]
fn stopping_many_stops_those_that_live() {
    let mut ledger = Ledger::new();
    let running = ledger.create(waiting("构建 🛠"), TOTAL, None);
    let paused = ledger.create(waiting("b"), TOTAL, None);
    let ended = ledger.create(waiting("c"), TOTAL, None);
    let spared = ledger.create(mission("d"), TOTAL, None);
    ledger.pause(&paused, secs(30)).expect("a running timer can be paused");
    ledger.stop(&ended, "before").expect("a running timer can be stopped");
    let ids = vec![running.clone(), paused.clone(), ended.clone(), ItemId::new("timer_unknown")];
    let stop = Command::StopMany { ids: ids.clone(), note: Some("all".into()) };
    assert_eq!(ledger.ask(stop.clone()).map(|decision| decision.reply), Ok(Reply::Stopped(2)));
    for (id, note) in [(&running, "all"), (&paused, "all"), (&ended, "before")] {
        let timer = ledger.read(id);
        assert_eq!((timer.status(), timer.note.as_deref()), (Status::Stopped, Some(note)));
    }
    assert_eq!(ledger.read(&spared).status(), Status::Running);
    assert_eq!(ledger.session.as_ref().map(|session| session.live_timers), Some(1));
    let nothing_left = ledger.ask(stop).expect("stopping what has ended is no mistake");
    assert_eq!((nothing_left.reply, nothing_left.batch), (Reply::Stopped(0), None));
}

#[test]
fn sleeps_are_counted_after_the_answer_too() {
    let mut ledger = Ledger::new();
    let [a, b] = ["a", "b"].map(|reason| ledger.create(waiting(reason), TOTAL, Some(secs(60))));
    ledger.clock(50);
    let sleep = |id: &ItemId, slept| Sleep { id: id.clone(), since: at(0), slept: secs(slept) };
    let gone = ItemId::new("timer_gone");
    let slept = Command::Slept(vec![sleep(&a, 50), sleep(&gone, 50), sleep(&b, 20)]);
    ledger.ask(slept).expect("what is gone is passed over");
    for id in [&a, &b] {
        let timer = ledger.read(id);
        assert_eq!((timer.standby, timer.last_check_at), (None, at(50)));
        assert_eq!(ledger.events(id.as_str()), ["timer.created", "timer.checked"]);
    }
    assert_eq!(ledger.tallies.get(tally::STANDBYS), Some(&2));
    assert_eq!(ledger.tallies.get(tally::SLEPT_MS), Some(&70_000));
}

#[test]
fn what_comes_late_is_counted_by_how_late_it_came() {
    use reveille_core::Millis;
    for (late, name) in [
        (0, "fired.within_10ms"),
        (10, "fired.within_10ms"),
        (11, "fired.within_100ms"),
        (100, "fired.within_100ms"),
        (1_000, "fired.within_1s"),
        (60_000, "fired.within_1m"),
        (60_001, "fired.later"),
        (u64::MAX, "fired.later"),
    ] {
        assert_eq!(tally::lateness(Millis::new(late)), name, "{late}");
    }
    let mut ledger = Ledger::new();
    let ids = [10, 15, 100].map(|total| ledger.create(mission("看 ☕"), secs(total), None));
    ledger.clock(15);
    ledger.fire(&ids);
    ledger.fire(&ids);
    let count = |name: &str| ledger.tallies.get(name).copied();
    assert_eq!((count("fired.within_10ms"), count("fired.within_1m"), count("fired.later")), (Some(1), Some(1), None));
}

/// A call that stands by returns with whatever there is to tell, and writes nothing while there is not.
#[test]
fn a_call_hears_what_is_free_to_be_told() {
    let mut ledger = Ledger::new();
    let id = ledger.create(waiting("部署"), TOTAL, None);
    let other = ledger.create(mission("喝水"), secs(10), None);
    let sleep = |slept| Command::Hear(Sleep { id: id.clone(), since: at(0), slept: secs(slept) });
    let asked = ledger.ask(sleep(5)).expect("asking is no mistake");
    assert_eq!((asked.reply, asked.batch), (Reply::Unheard { free_at: None }, None));
    ledger.clock(10);
    ledger.fire(&[other]);
    assert_eq!(ledger.collect("lease_other", secs(30), 9).len(), 1);
    let asked = ledger.ask(sleep(10)).expect("asking is no mistake");
    assert_eq!((asked.reply, asked.batch), (Reply::Unheard { free_at: Some(at(40)) }, None), "another's to tell");
    ledger.clock(40);
    let told = ledger.ask_riding(sleep(40), "lease_own", secs(30), 9).expect("there is something to tell");
    assert_eq!(told.riding.len(), 1);
    assert!(matches!(told.reply, Reply::Timer { stand_by: None, .. }));
    assert_eq!(ledger.timer(&id).standby, None);
    assert_eq!(ledger.events(id.as_str()), ["timer.created", "timer.checked"]);
}

// History and statistics.

#[test]
fn the_history_tells_a_timers_whole_life() {
    let mut ledger = Ledger::new();
    let id = ledger.create(waiting("部署"), TOTAL, Some(secs(10)));
    ledger.clock(10);
    ledger
        .about_timer(Command::Return(Sleep { id: id.clone(), since: at(0), slept: secs(10) }))
        .expect("a call can come back");
    ledger.cancel(&id).expect("a running timer can be cancelled");
    ledger.proceed(&id, from_now(90)).expect("a background timer can be continued");
    ledger.pause(&id, secs(30)).expect("a running timer can be paused");
    ledger.clock(20);
    ledger.resume(&id).expect("a paused timer can be resumed");
    ledger.pause(&id, secs(30)).expect("a running timer can be paused");
    ledger.clock(60);
    ledger.fire_all();
    assert_eq!(ledger.timer(&id).note.as_deref(), Some("Auto-resume after pause duration"));
    ledger.clock(140);
    ledger.fire_all();
    assert_eq!(
        ledger.events(id.as_str()),
        [
            "timer.created",
            "timer.checked",
            "timer.background",
            "timer.continued",
            "timer.paused",
            "timer.resumed",
            "timer.paused",
            "timer.resumed",
            "timer.completed"
        ]
    );
    let data = |event: &str| {
        let entry = ledger.history.iter().find(|entry| entry.event == event);
        entry.map(|entry| entry.data.clone()).expect("it is in the history")
    };
    assert_eq!(data("timer.created"), json!({"reason": "部署", "total_duration": 300}));
    assert_eq!(data("timer.checked"), json!({"slept": 10, "status": "running"}));
    assert_eq!(data("timer.background"), json!({"remaining_time": 290, "status": "running_background"}));
    assert_eq!(
        data("timer.continued"),
        json!({"total_duration": 100, "remaining_time": 90, "timeout_duration": 90, "status": "running"})
    );
    assert_eq!(data("timer.paused"), json!({"remaining_time": 90, "status": "paused"}));
    let completed = data("timer.completed");
    assert_eq!(
        (&completed["status"], &completed["message"]["text"]),
        (&json!("completed"), &json!(ledger.messages[0].text))
    );
}

#[test]
fn statistics_count_what_is_now_and_what_ever_ended() {
    let mut ledger = Ledger::new();
    let ids: Vec<ItemId> = (1..=6).map(|n| ledger.create(waiting("统计"), secs(n * 10), None)).collect();
    ledger.cancel(&ids[2]).expect("a running timer can be cancelled");
    ledger.pause(&ids[3], secs(1000)).expect("a running timer can be paused");
    ledger.stop(&ids[4], "").expect("a running timer can be stopped");
    ledger.clock(20);
    ledger.fire_all();
    let counts = Status::ALL.map(|status| ledger.count(tally::timers(status)));
    assert_eq!(counts, [1, 1, 1, 2, 1], "running, paused, background, completed, stopped");
    let created = [tally::TIMERS_CREATED, tally::MESSAGES_CREATED, tally::SESSIONS].map(|name| ledger.count(name));
    assert_eq!(created, [6, 2, 1]);
}

/// Rows of version 0.1, as they lie in people's databases. They must be readable for ever: never change these lines.
#[test]
fn timers_stored_by_the_first_version_are_still_read() {
    let timer = |purpose: Purpose, phase: Phase| Timer {
        id: ItemId::new("timer_k3f9x2ab"),
        purpose,
        total: secs(300),
        phase,
        schedule: None,
        opens_at: None,
        note: None,
        created_at: Timestamp::from_millis(1_790_000_000_000),
        last_check_at: Timestamp::from_millis(1_790_000_060_000),
        standby: None,
        tasks: vec![],
        until: None,
    };
    let (due, until) = (Timestamp::from_millis(1_790_000_300_000), Timestamp::from_millis(1_790_000_100_000));
    let cases = [
        (
            r#"{"id":"timer_k3f9x2ab","purpose":{"waiting":"等待 ⏳"},"total":300000,"phase":{"state":"running","due":1790000300000,"background":true},"created_at":1790000000000,"last_check_at":1790000060000}"#,
            timer(waiting("等待 ⏳"), Phase::Running { due, background: true }),
        ),
        (
            r#"{"id":"timer_k3f9x2ab","purpose":{"mission":"重启"},"total":300000,"phase":{"state":"paused","remaining":240000,"until":1790000100000,"background":false},"created_at":1790000000000,"last_check_at":1790000060000}"#,
            timer(mission("重启"), Phase::Paused { remaining: secs(240), until, background: false }),
        ),
        (
            r#"{"id":"timer_k3f9x2ab","purpose":{"mission":"重启"},"total":300000,"phase":{"state":"completed","at":1790000300000},"created_at":1790000000000,"last_check_at":1790000060000}"#,
            timer(mission("重启"), Phase::Completed { at: due, remaining: Millis::ZERO }),
        ),
        (
            r#"{"id":"timer_k3f9x2ab","purpose":{"waiting":"x"},"total":300000,"phase":{"state":"stopped","at":1790000100000,"remaining":200000},"note":"够了","created_at":1790000000000,"last_check_at":1790000060000}"#,
            Timer {
                note: Some("够了".into()),
                ..timer(waiting("x"), Phase::Stopped { at: until, remaining: secs(200) })
            },
        ),
    ];
    for (row, timer) in cases {
        let read = Item::decode("timer", row).expect("an old row is readable");
        assert_eq!(read, Item::Timer(timer), "{row}");
        assert_eq!(Item::decode("timer", &read.encode()).expect("a new row is readable"), read);
    }
    assert!(Item::decode("timer", "{}").is_err());
    assert!(Item::decode("闹钟", "{}").is_err());
}
