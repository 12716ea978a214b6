//! Guards what agents are promised about timers (design, section 4): the state table cell by cell, and the rules of
//! time, standing by and missions. `Ledger` checks the sums, counts and versions behind every step.

mod ledger;

use ledger::{Ledger, at, mission, secs, waiting};
use reveille_core::{
    Call, Command, Fired, ItemId, Lease, LeaseId, Millis, Purpose, Reject, Sleep, Status, Timer,
    batch::tally,
    timer::{Continuation, Phase},
};
use serde_json::json;
use std::collections::HashMap;

const TOTAL: Millis = Millis::from_secs(300);
const LONG_PAUSE: Millis = Millis::from_secs(1000);

fn plain() -> Continuation {
    Continuation::default()
}

fn stand_by(seconds: u64) -> Continuation {
    Continuation { timeout: Some(secs(seconds)), ..plain() }
}

fn from_now(seconds: u64) -> Continuation {
    Continuation { total: Some(secs(seconds)), ..plain() }
}

fn code<T: std::fmt::Debug>(result: Result<T, Reject>) -> &'static str {
    result.expect_err("this is refused").code()
}

// The table.

#[derive(Clone, Copy, Debug)]
enum Stage {
    Running,
    Background,
    Paused,
    PausedInBackground,
    PausedThenCancelled,
    Completed,
    Stopped,
}

#[derive(Clone, Copy, Debug)]
enum Wish {
    Continue,
    Cancel,
    Pause,
    Resume,
    Stop,
    TimeUp,
    PauseOver,
}

/// A timer of 300 s in the given state, 150 s after it was made (a completed one: at its end).
fn timer_that_is(stage: Stage) -> (Ledger, ItemId) {
    let mut ledger = Ledger::new();
    let id = ledger.create(waiting("等待服务器启动 🚀"), TOTAL, None);
    ledger.clock(50);
    if let Stage::Background | Stage::PausedInBackground = stage {
        ledger.cancel(&id).expect("a running timer can be cancelled");
    }
    ledger.clock(100);
    if let Stage::Paused | Stage::PausedInBackground | Stage::PausedThenCancelled = stage {
        ledger.pause(&id, LONG_PAUSE).expect("a running timer can be paused");
    }
    match stage {
        Stage::Running => drop(ledger.standing.insert(id.clone(), LeaseId::new("the call"))),
        Stage::PausedThenCancelled => drop(ledger.cancel(&id).expect("a paused timer can be cancelled")),
        Stage::Stopped => drop(ledger.stop(&id, "").expect("a running timer can be stopped")),
        Stage::Background | Stage::Paused | Stage::PausedInBackground | Stage::Completed => {}
    }
    ledger.clock(150);
    if let Stage::Completed = stage {
        ledger.clock(300);
        ledger.fire_all();
    }
    (ledger, id)
}

/// What becomes of the timer, in the words of the table: `-` is nothing, `! code` is an error.
fn outcome(stage: Stage, wish: Wish) -> String {
    let (mut ledger, id) = timer_that_is(stage);
    let told = ledger.messages.len();
    let answer = match wish {
        Wish::Continue => ledger.proceed(&id, stand_by(20)),
        Wish::Cancel => ledger.cancel(&id).map(|timer| (timer, None)),
        Wish::Pause => ledger.pause(&id, secs(500)).map(|timer| (timer, None)),
        Wish::Resume => ledger.resume(&id).map(|timer| (timer, None)),
        Wish::Stop => ledger.stop(&id, "").map(|timer| (timer, None)),
        Wish::TimeUp | Wish::PauseOver => {
            match (wish, stage) {
                (Wish::TimeUp, _) => ledger.clock(300),
                (_, Stage::Paused | Stage::PausedInBackground | Stage::PausedThenCancelled) => ledger.clock(1100),
                _ => {}
            }
            if ledger.fire_all().is_empty() {
                return "-".into();
            }
            Ok((ledger.timer(&id).clone(), None))
        }
    };
    let (timer, stands_by) = match answer {
        Ok(answer) => answer,
        Err(refused) => return format!("! {}", refused.code()),
    };
    assert_eq!(&timer, ledger.timer(&id), "what was answered is what was kept");
    let mut text = timer.status().as_str().to_owned();
    if let Some(length) = stands_by {
        assert_eq!(length, secs(20));
        text += ", stand by";
    }
    match &ledger.messages[told..] {
        [] => {}
        [message] if message.lease.is_some() => text += ", told to the call",
        [_] => text += ", message",
        more => panic!("{} messages", more.len()),
    }
    text
}

#[test]
fn every_state_answers_every_wish_as_the_table_says() {
    use {Stage as S, Wish as W};
    let wishes = [W::Continue, W::Cancel, W::Pause, W::Resume, W::Stop, W::TimeUp, W::PauseOver];
    let error = "! timer_ended";
    #[rustfmt::skip]
    let table = [
        (S::Running,    ["running, stand by", "running_background", "paused", "! not_paused", "stopped", "completed, told to the call", "-"]),
        (S::Background, ["running, stand by", "running_background", "paused", "! not_paused", "stopped", "completed, message", "-"]),
        (S::Paused,             ["paused", "paused", "paused", "running",            "stopped", "-", "running"]),
        (S::PausedInBackground, ["paused", "paused", "paused", "running_background", "stopped", "-", "running_background"]),
        (S::PausedThenCancelled,["paused", "paused", "paused", "running_background", "stopped", "-", "running_background"]),
        (S::Completed,  [error, error, error, error, error, "-", "-"]),
        (S::Stopped,    [error, error, error, error, error, "-", "-"]),
    ];
    for (stage, row) in table {
        for (wish, expected) in wishes.into_iter().zip(row) {
            assert_eq!(outcome(stage, wish), expected, "{stage:?}, {wish:?}");
        }
    }
}

#[test]
fn a_new_pause_replaces_the_old_one() {
    let (mut ledger, id) = timer_that_is(Stage::Paused);
    let timer = ledger.pause(&id, secs(500)).expect("a paused timer can be paused again");
    assert_eq!(timer.phase, Phase::Paused { remaining: secs(200), until: at(650), background: false });
}

// Time.

#[test]
fn nothing_happens_a_millisecond_early_or_twice() {
    for (stage, due, becomes) in
        [(Stage::Running, at(300), Status::Completed), (Stage::Paused, at(1100), Status::Running)]
    {
        let (mut ledger, id) = timer_that_is(stage);
        let before = ledger.timer(&id).status();
        assert_eq!(ledger.timer(&id).due(), Some(due));
        ledger.now = due.minus(Millis::new(1));
        assert_eq!(ledger.fire_all(), [], "{stage:?}");
        assert_eq!(ledger.read(&id).status(), before, "{stage:?}");
        ledger.now = due;
        assert_eq!(ledger.fire_all(), [Fired { id: id.clone(), due, agent: None }]);
        assert_eq!(ledger.fire_all(), [], "{stage:?}");
        assert_eq!(ledger.read(&id).status(), becomes, "{stage:?}");
    }
}

#[test]
fn a_wrong_proposal_changes_nothing() {
    let (mut ledger, running) = timer_that_is(Stage::Running);
    let stopped = ledger.create(waiting("x"), secs(1), None);
    ledger.stop(&stopped, "").expect("a running timer can be stopped");
    let before = ledger.session.clone();
    ledger.clock(200);
    assert_eq!(ledger.fire(&[running, stopped, ItemId::new("timer_nonesuch")]), []);
    assert_eq!(ledger.session, before);
}

#[test]
fn only_what_is_proposed_fires() {
    let mut ledger = Ledger::new();
    let ids = [1, 2, 3].map(|n| ledger.create(mission("同时到期"), secs(n), None));
    ledger.clock(3);
    assert_eq!(ledger.fire(&ids[..1]).len(), 1);
    let fired = ledger.fire(&ids);
    assert_eq!(fired.iter().map(|fired| fired.due).collect::<Vec<_>>(), [at(2), at(3)]);
    assert_eq!(ledger.messages.len(), 3);
}

/// An agent never reads a timer past its deadline that still says `running`.
#[test]
fn time_acts_before_any_wish_is_granted() {
    let (mut ledger, id) = timer_that_is(Stage::Running);
    ledger.clock(300);
    let wishes = [
        Command::Continue { id: id.clone(), ask: from_now(60), task: None },
        Command::Cancel { id: id.clone(), note: None },
        Command::Pause { id: id.clone(), length: secs(1), note: None },
        Command::Resume { id: id.clone(), note: None },
        Command::Stop { id: id.clone(), note: None },
        Command::StopMany { ids: vec![id.clone()], note: None },
        Command::Slept(vec![Sleep { id: id.clone(), since: at(0), slept: secs(1) }]),
        Command::Read { id: Some(id.clone()) },
        Command::Read { id: None },
        Command::Return(Sleep { id: id.clone(), since: at(0), slept: secs(1) }),
        Command::Close { note: None, notify: Vec::new() },
    ];
    for command in wishes {
        let refused = ledger.decide(&Call::new(command.clone())).expect_err("the deadline has passed");
        assert_eq!(refused, Reject::Overdue(vec![id.clone()]), "{command:?}");
    }
    assert_eq!(code(ledger.proceed(&id, from_now(60))), "timer_ended");
    assert_eq!(ledger.read(&id).status(), Status::Completed);
}

fn check_sums(ledger: &mut Ledger, id: &ItemId, clock: i64, status: Status, elapsed: u64, remaining: u64) {
    ledger.clock(clock);
    let timer = ledger.read(id);
    assert_eq!((timer.status(), timer.elapsed(ledger.now)), (status, secs(elapsed)), "elapsed at {clock} s");
    assert_eq!(timer.remaining(ledger.now), secs(remaining), "remaining at {clock} s");
    assert_eq!(timer.total, secs(elapsed + remaining), "total at {clock} s");
}

#[test]
fn time_is_frozen_while_paused_and_goes_on_after_an_early_resume() {
    let (mut ledger, id) = timer_that_is(Stage::Paused);
    check_sums(&mut ledger, &id, 100, Status::Paused, 100, 200);
    check_sums(&mut ledger, &id, 900, Status::Paused, 100, 200);
    ledger.resume(&id).expect("a paused timer can be resumed");
    check_sums(&mut ledger, &id, 900, Status::Running, 100, 200);
    check_sums(&mut ledger, &id, 1000, Status::Running, 200, 100);
    check_sums(&mut ledger, &id, 1099, Status::Running, 299, 1);
    check_sums(&mut ledger, &id, 1100, Status::Completed, 300, 0);
}

#[test]
fn a_pause_that_runs_out_moves_the_deadline_by_its_length() {
    let (mut ledger, id) = timer_that_is(Stage::PausedInBackground);
    check_sums(&mut ledger, &id, 1099, Status::Paused, 100, 200);
    check_sums(&mut ledger, &id, 1100, Status::RunningBackground, 100, 200);
    check_sums(&mut ledger, &id, 1299, Status::RunningBackground, 299, 1);
    check_sums(&mut ledger, &id, 1300, Status::Completed, 300, 0);
}

#[test]
fn a_pause_whose_end_is_noticed_late_still_ended_on_time() {
    let (mut ledger, id) = timer_that_is(Stage::Paused);
    check_sums(&mut ledger, &id, 1250, Status::Running, 250, 50);
    assert_eq!(ledger.fired, [Fired { id: id.clone(), due: at(1100), agent: None }]);
    assert_eq!(ledger.timer(&id).due(), Some(at(1300)));
}

#[test]
fn a_timer_that_ended_while_nobody_looked_first_came_out_of_its_pause() {
    let (mut ledger, id) = timer_that_is(Stage::Paused);
    ledger.clock(1_000_000);
    let fired = ledger.fire_all();
    let due = |seconds| Fired { id: id.clone(), due: at(seconds), agent: None };
    assert_eq!(fired, [due(1100), due(1300)]);
    assert_eq!(ledger.read(&id).phase, Phase::Completed { at: at(1_000_000), remaining: Millis::ZERO });
    assert_eq!(ledger.events(id.as_str()), ["timer.created", "timer.paused", "timer.resumed", "timer.completed"]);
    let data = &ledger.history.last().expect("there is history").data;
    assert_eq!(data["due"], json!(at(1300).as_millis()));
    assert_eq!(data["lateness_ms"], json!(998_700_000));
}

#[test]
fn pauses_add_up() {
    let mut ledger = Ledger::new();
    let id = ledger.create(waiting("构建"), secs(100), None);
    for round in 0..4 {
        ledger.clock(round * 50 + 10);
        ledger.pause(&id, secs(30)).expect("a running timer can be paused");
        ledger.clock(round * 50 + 50);
    }
    // Each round of 50 s ran for 20 s and stood still for 30 s.
    check_sums(&mut ledger, &id, 200, Status::Running, 80, 20);
    check_sums(&mut ledger, &id, 219, Status::Running, 99, 1);
    check_sums(&mut ledger, &id, 220, Status::Completed, 100, 0);
}

#[test]
fn a_stopped_timer_keeps_the_time_it_ran() {
    let (mut ledger, id) = timer_that_is(Stage::Stopped);
    check_sums(&mut ledger, &id, 5000, Status::Stopped, 100, 200);
    let (mut ledger, id) = timer_that_is(Stage::Paused);
    ledger.stop(&id, "").expect("a paused timer can be stopped");
    check_sums(&mut ledger, &id, 5000, Status::Stopped, 100, 200);
}

#[test]
fn a_clock_set_back_never_shows_more_than_the_total() {
    let (mut ledger, id) = timer_that_is(Stage::Running);
    ledger.clock(-5000);
    let timer = ledger.read(&id);
    assert_eq!((timer.elapsed(ledger.now), timer.remaining(ledger.now)), (Millis::ZERO, TOTAL));
}

#[test]
fn total_given_again_means_from_now() {
    for (left, total) in [(600, 750), (10, 160)] {
        let (mut ledger, id) = timer_that_is(Stage::Running);
        let (timer, stands_by) = ledger.proceed(&id, from_now(left)).expect("a running timer can be continued");
        assert_eq!(stands_by, Some(secs(left)), "without a timeout the call waits for the end");
        assert_eq!(timer.total, secs(total));
        check_sums(&mut ledger, &id, 150, Status::Running, 150, left);
        let end = 150 + left as i64;
        check_sums(&mut ledger, &id, end - 1, Status::Running, total - 1, 1);
        check_sums(&mut ledger, &id, end, Status::Completed, total, 0);
        let text = &ledger.messages[0].text;
        assert!(text.ends_with(&format!("Duration: {total} seconds\nElapsed: {total} seconds")), "{text}");
    }
}

#[test]
fn total_given_again_to_a_paused_timer_waits_for_the_end_of_the_pause() {
    let (mut ledger, id) = timer_that_is(Stage::Paused);
    let (timer, stands_by) = ledger.proceed(&id, from_now(50)).expect("a paused timer can be continued");
    assert_eq!((timer.total, stands_by), (secs(150), None));
    check_sums(&mut ledger, &id, 1099, Status::Paused, 100, 50);
    check_sums(&mut ledger, &id, 1149, Status::Running, 149, 1);
    check_sums(&mut ledger, &id, 1150, Status::Completed, 150, 0);
}

// Standing by.

#[test]
fn a_wait_stands_by_for_its_timeout_and_never_past_its_end() {
    for (timeout, stands_by) in [(None, 300), (Some(60), 60), (Some(300), 300), (Some(9000), 300)] {
        let mut ledger = Ledger::new();
        let (timer, length) =
            ledger.try_create(waiting("等待"), TOTAL, timeout.map(secs), None).expect("a timer can be made");
        assert_eq!(length, Some(secs(stands_by)), "{timeout:?}");
        let standby = timer.standby.expect("a call stands by");
        assert_eq!((standby.since, standby.until), (at(0), at(stands_by as i64)));
        ledger.clock(200);
        let ask = Continuation { timeout: timeout.map(secs), ..plain() };
        let (_, length) = ledger.proceed(&timer.id, ask).expect("a running timer can be continued");
        assert_eq!(length, Some(secs(stands_by.min(100))), "{timeout:?} again");
    }
}

#[test]
fn a_paused_timer_is_not_stood_by_for() {
    let (mut ledger, id) = timer_that_is(Stage::Paused);
    let (timer, stands_by) = ledger.proceed(&id, stand_by(60)).expect("a paused timer can be continued");
    assert_eq!((stands_by, timer.standby), (None, None));
    assert_eq!(timer.phase, Phase::Paused { remaining: secs(200), until: at(1100), background: false });
}

#[test]
fn standing_by_ends_with_a_cancel_a_pause_a_stop_and_the_end() {
    type Act = fn(&mut Ledger, &ItemId);
    let acts: [Act; 4] = [
        |ledger, id| drop(ledger.cancel(id)),
        |ledger, id| drop(ledger.pause(id, secs(9))),
        |ledger, id| drop(ledger.stop(id, "够了")),
        |ledger, _| {
            ledger.clock(300);
            ledger.fire_all();
        },
    ];
    for (n, act) in acts.into_iter().enumerate() {
        let (mut ledger, id) = timer_that_is(Stage::Running);
        assert!(ledger.timer(&id).standby.is_some());
        act(&mut ledger, &id);
        assert_eq!(ledger.timer(&id).standby, None, "act {n}");
    }
}

#[test]
fn coming_back_from_standing_by_counts_what_was_saved_and_changes_nothing_else() {
    let (mut ledger, id) = timer_that_is(Stage::Running);
    let before = ledger.timer(&id).clone();
    let (timer, stands_by) = ledger
        .about_timer(Command::Return(Sleep { id: id.clone(), since: began(&before), slept: Millis::new(59_999) }))
        .expect("a call can come back");
    assert_eq!(stands_by, None);
    assert_eq!(timer, Timer { standby: None, last_check_at: at(150), ..before });
    let counted = [tally::STANDBYS, tally::SLEPT_MS, tally::REQUESTS_SAVED].map(|name| ledger.count(name));
    assert_eq!(counted, [1, 59_999, 3], "one request is saved per full 15 s");
    assert_eq!(ledger.events(id.as_str()).last(), Some(&"timer.checked"));
}

#[test]
fn a_call_that_comes_back_leaves_the_stand_by_of_a_later_one() {
    let (mut ledger, id) = timer_that_is(Stage::Running);
    let first = began(ledger.timer(&id));
    ledger.clock(160);
    ledger.proceed(&id, Continuation::default()).expect("a running timer can be continued");
    ledger
        .about_timer(Command::Return(Sleep { id: id.clone(), since: first, slept: secs(10) }))
        .expect("a call can come back");
    assert!(ledger.timer(&id).standby.is_some());
}

fn began(timer: &Timer) -> reveille_core::Timestamp {
    timer.standby.expect("a call stands by").since
}

#[test]
fn a_call_can_come_back_to_a_timer_that_ended() {
    for stage in [Stage::Completed, Stage::Stopped] {
        let (mut ledger, id) = timer_that_is(stage);
        let status = ledger.timer(&id).status();
        let (timer, _) = ledger
            .about_timer(Command::Return(Sleep { id, since: at(0), slept: secs(150) }))
            .expect("a call can always come back");
        assert_eq!(timer.status(), status);
    }
}

/// Only the timer that a call stands by for is told to that call.
#[test]
fn a_completion_goes_to_the_call_that_stands_by_for_it() {
    let mut ledger = Ledger::new();
    let [mine, other] = ["我的", "别人的"].map(|reason| ledger.create(waiting(reason), secs(10), None));
    ledger.standing = HashMap::from([(mine.clone(), LeaseId::new("call"))]);
    ledger.clock(10);
    ledger.fire_all();
    let leased: Vec<_> =
        ledger.messages.iter().map(|message| (message.source.clone(), message.lease.clone())).collect();
    let lease = Lease { id: LeaseId::new("call"), until: at(40) };
    assert_eq!(leased, [(mine, Some(lease)), (other, None)]);
}

// Missions, and what may be mixed.

#[test]
fn a_mission_returns_at_once_and_its_end_leaves_a_message() {
    let mut ledger = Ledger::new();
    let (timer, stands_by) =
        ledger.try_create(mission("30 分钟后重启服务器"), secs(1800), Some(secs(60)), None).expect("it can be made");
    assert_eq!((stands_by, timer.standby, timer.status()), (None, None, Status::Running));
    ledger.clock(1800);
    ledger.fire_all();
    assert_eq!(ledger.messages.len(), 1);
    assert!(ledger.messages[0].is_free(ledger.now));
}

#[test]
fn a_mission_is_stood_by_for_only_when_asked() {
    let mut ledger = Ledger::new();
    let id = ledger.create(mission("开会"), TOTAL, None);
    ledger.cancel(&id).expect("a mission can be put in the background");
    let again = Continuation { mission: Some("改为 3 点开会".into()), timeout: Some(secs(60)), ..plain() };
    for (ask, stands_by) in [(plain(), None), (from_now(300), None), (again, None), (stand_by(60), Some(secs(60)))] {
        let (timer, length) = ledger.proceed(&id, ask.clone()).expect("a mission can be continued");
        assert_eq!(length, stands_by, "{ask:?}");
        assert_eq!(timer.status() == Status::Running, stands_by.is_some(), "{ask:?}");
    }
    assert_eq!(ledger.read(&id).purpose, mission("改为 3 点开会"));
}

#[test]
fn reason_and_mission_do_not_mix() {
    let with = |reason: Option<&str>, mission: Option<&str>| Continuation {
        reason: reason.map(Into::into),
        mission: mission.map(Into::into),
        ..plain()
    };
    let (old, new) = ("旧", "新 ✨");
    let (wait, task) = (waiting(old), mission(old));
    let cases: [(&Purpose, Continuation, Result<Purpose, &str>); 8] = [
        (&wait, with(None, None), Ok(waiting(old))),
        (&wait, with(Some(new), None), Ok(waiting(new))),
        (&wait, with(None, Some(new)), Err("waiting_takes_no_mission")),
        (&wait, with(Some(new), Some(new)), Err("reason_and_mission")),
        (&task, with(None, None), Ok(mission(old))),
        (&task, with(None, Some(new)), Ok(mission(new))),
        (&task, with(Some(new), None), Err("mission_takes_no_reason")),
        (&task, with(Some(new), Some(new)), Err("reason_and_mission")),
    ];
    for (purpose, ask, expected) in cases {
        let mut ledger = Ledger::new();
        let id = ledger.create(purpose.clone(), TOTAL, None);
        let before = (ledger.session.clone(), ledger.timer(&id).clone());
        let got = ledger.proceed(&id, ask.clone()).map(|(timer, _)| timer.purpose).map_err(|refused| refused.code());
        assert_eq!(got, expected, "{purpose:?} {ask:?}");
        if expected.is_err() {
            assert_eq!((ledger.session.clone(), ledger.timer(&id).clone()), before, "a refusal writes nothing");
        }
    }
}
