//! Guards what agents are promised about reminders (design, section 5): every state against every wish, the two
//! deadlines to the millisecond, and what a delivery under way may still do. `Ledger` checks behind every step that a
//! reminder and its message never part.

mod ledger;

use ledger::{Ledger, at, secs};
use reveille_core::{
    Call, Command, ItemId, LeaseId, Millis, Reject,
    reminder::{Ask, Change, Due, Phase, Status},
};

/// When the reminder of these tests is due, in seconds after the start; it is told from 940 on and kept until 2200.
const DUE: i64 = 1000;
const TOLD: i64 = DUE - 60;
const KEPT: i64 = DUE + 20 * 60;

fn code<T: std::fmt::Debug>(result: Result<T, Reject>) -> &'static str {
    result.expect_err("this is refused").code()
}

fn replace(id: &ItemId, change: Change) -> Vec<Ask> {
    vec![Ask::Replace { id: id.clone(), change }]
}

fn later(seconds: i64) -> Change {
    Change { due: Some(Due::At(at(seconds))), ..Change::default() }
}

// The table.

#[derive(Clone, Copy, Debug)]
enum Stage {
    Scheduled,
    Due,
    /// Somebody is delivering it.
    Leased,
    Delivered,
    Missed,
    Cancelled,
}

#[derive(Clone, Copy, Debug)]
enum Wish {
    Replace,
    Cancel,
    Clear,
    Told,
    Delivered,
    Released,
    RetentionOver,
    Close,
}

/// A reminder in the given state.
fn reminder_that_is(stage: Stage) -> (Ledger, ItemId) {
    let mut ledger = Ledger::new();
    let id = ledger.remind("检查构建 🏗️", DUE);
    match stage {
        Stage::Scheduled => ledger.clock(500),
        Stage::Due | Stage::Leased | Stage::Delivered => ledger.clock(TOLD),
        Stage::Missed => ledger.clock(KEPT),
        Stage::Cancelled => drop(ledger.cancel_reminder(&id).expect("a scheduled one can be cancelled")),
    }
    ledger.fire_all();
    if let Stage::Leased | Stage::Delivered = stage {
        assert_eq!(ledger.collect("call", secs(9000), 9).len(), 1);
    }
    if let Stage::Delivered = stage {
        assert_eq!(ledger.commit_lease("call", "tool_result"), Ok(1));
    }
    (ledger, id)
}

/// What becomes of the reminder, in the words of the table: `-` is nothing, `! code` is an error; `+` is a message that
/// was made, `~` one that was withdrawn.
fn outcome(stage: Stage, wish: Wish) -> String {
    let (mut ledger, id) = reminder_that_is(stage);
    let (before, version) = (ledger.reminder(&id).clone(), ledger.session.as_ref().map(|session| session.version));
    let (made, withdrawn) = (ledger.count("messages.created"), ledger.count("messages.withdrawn"));
    let refused = match wish {
        Wish::Replace => ledger.schedule(replace(&id, later(5000)), None).err(),
        Wish::Cancel => ledger.cancel_reminder(&id).err(),
        Wish::Clear => (ledger.clear() == 0).then(|| Reject::UnknownSession("nothing to clear".into())),
        Wish::Told | Wish::RetentionOver => {
            ledger.clock(if let Wish::Told = wish { TOLD } else { KEPT });
            ledger.fire_all();
            None
        }
        Wish::Delivered => ledger.commit_lease("call", "tool_result").err(),
        Wish::Released => ledger.release_lease("call").err(),
        Wish::Close => ledger.close(None).err(),
    };
    if let Some(refused) = refused {
        assert_eq!(ledger.reminder(&id), &before, "a refusal changes nothing");
        return format!("! {}", refused.code());
    }
    if ledger.session.as_ref().map(|session| session.version) == version {
        return "-".into();
    }
    let signs =
        [(ledger.count("messages.created") - made, " +"), (ledger.count("messages.withdrawn") - withdrawn, " ~")];
    let signs: String = signs.iter().map(|(count, sign)| sign.repeat(*count as usize)).collect();
    let held = matches!(ledger.reminder(&id).phase, Phase::Due { held_until: Some(_), .. });
    format!("{}{}{signs}", ledger.reminder(&id).status().as_str(), if held { ", held" } else { "" })
}

#[test]
fn every_state_answers_every_wish_as_the_table_says() {
    use {Stage as S, Wish as W};
    let wishes = [W::Replace, W::Cancel, W::Clear, W::Told, W::Delivered, W::Released, W::RetentionOver, W::Close];
    let (ended, free, none) = ("! reminder_ended", "! unknown_lease", "! unknown_session");
    #[rustfmt::skip]
    let table = [
        (S::Scheduled, ["scheduled",   "cancelled",   "cancelled",   "due +", free,        free,  "missed",    "cancelled"]),
        (S::Due,       ["scheduled ~", "cancelled ~", "cancelled ~", "-",     free,        free,  "missed ~",  "cancelled ~"]),
        (S::Leased,    ["scheduled ~", "cancelled ~", "cancelled ~", "-",     "delivered", "due", "due, held", "cancelled ~"]),
        (S::Delivered, [ended,         ended,         none,          "-",     free,        free,  "-",         "delivered"]),
        (S::Missed,    [ended,         ended,         none,          "-",     free,        free,  "-",         "missed"]),
        (S::Cancelled, [ended,         ended,         none,          "-",     free,        free,  "-",         "cancelled"]),
    ];
    for (stage, row) in table {
        for (wish, expected) in wishes.into_iter().zip(row) {
            assert_eq!(outcome(stage, wish), expected, "{stage:?}, {wish:?}");
        }
    }
}

// Time.

#[test]
fn it_is_told_from_a_minute_before_and_not_a_millisecond_earlier() {
    let mut ledger = Ledger::new();
    let id = ledger.remind("x", DUE);
    ledger.now = at(TOLD).minus(Millis::new(1));
    assert_eq!(ledger.fire_all(), []);
    assert_eq!(ledger.collect("early", secs(30), 9), []);
    ledger.clock(TOLD);
    assert_eq!(ledger.fire_all().len(), 1);
    assert_eq!(ledger.fire_all(), [], "once");
    assert_eq!(ledger.reminder(&id).phase, Phase::Due { keep_until: at(KEPT), held_until: None });
    assert_eq!(ledger.collect("call", secs(30), 9).len(), 1);
}

#[test]
fn undelivered_twenty_minutes_later_it_is_missed_and_not_a_millisecond_earlier() {
    let (mut ledger, id) = reminder_that_is(Stage::Due);
    ledger.now = at(KEPT).minus(Millis::new(1));
    assert_eq!(ledger.fire_all(), []);
    assert_eq!(ledger.collect("last minute", Millis::new(1), 9).len(), 1, "it can still be told");
    ledger.clock(KEPT);
    assert_eq!(ledger.fire_all().len(), 1);
    assert_eq!(ledger.reminder(&id).phase, Phase::Missed { at: at(KEPT) });
    assert_eq!(ledger.messages, []);
    assert_eq!(
        ledger.events(id.as_str()),
        ["reminder.scheduled", "reminder.due", "reminder.missed"],
        "seen, never silently gone"
    );
}

/// Whatever asks first: nobody is told what is already too late, even where its end was not written yet.
#[test]
fn what_is_too_late_is_not_leased_any_more() {
    let (mut ledger, id) = reminder_that_is(Stage::Due);
    ledger.clock(KEPT);
    assert_eq!(ledger.collect("late", secs(30), 9), []);
    assert_eq!(ledger.list()[0].status(), Status::Missed);
    assert_eq!(ledger.reminder(&id).delivery_count, 0);
}

#[test]
fn nobody_looked_for_days() {
    let mut ledger = Ledger::new();
    let id = ledger.remind("x", DUE);
    ledger.clock(1_000_000);
    assert_eq!(ledger.fire_all().len(), 2);
    assert_eq!(ledger.reminder(&id).phase, Phase::Missed { at: at(1_000_000) });
    assert_eq!(ledger.count("messages.created"), 0, "there was nothing to tell any more");
    assert_eq!(ledger.events(id.as_str()), ["reminder.scheduled", "reminder.missed"]);
}

#[test]
fn what_is_just_past_is_due_at_once_and_long_past_is_a_mistake() {
    for (due, expected) in [
        (61, Ok(Status::Scheduled)),
        (1, Ok(Status::Scheduled)),
        (0, Ok(Status::Due)),
        (-1, Ok(Status::Due)),
        (-1199, Ok(Status::Due)),
        (-1200, Err("due_too_old")),
        (-100_000, Err("due_too_old")),
        (366 * 86_400, Ok(Status::Scheduled)),
        (366 * 86_400 + 1, Err("due_too_far")),
    ] {
        let mut ledger = Ledger::new();
        let ask = Ask::New {
            id: ledger.new_task(),
            due: Due::At(at(due)),
            content: reveille_core::reminder::Content { task: "x".into(), tool: None, arguments: None },
        };
        let got = ledger.schedule(vec![ask], None).map(|made| ledger.reminder(&made[0].id).status());
        assert_eq!(got.map_err(|refused| refused.code()), expected, "{due}");
        assert_eq!(ledger.session.is_some(), expected.is_ok());
    }
}

/// Wanted in half a minute, it is told in half a minute: an agent that asks again and again would else never wait at all.
#[test]
fn what_is_wanted_sooner_than_the_window_is_told_at_its_time_and_not_a_millisecond_earlier() {
    for (wanted, told) in [(1, 1), (30, 30), (60, 60), (61, 1), (90, 30)] {
        let mut ledger = Ledger::new();
        let new = ledger.remind("new", wanted);
        let moved = ledger.remind("moved", DUE);
        ledger.schedule(replace(&moved, later(wanted)), None).expect("it can be moved");
        ledger.now = at(told).minus(Millis::new(1));
        assert_eq!(ledger.fire_all(), [], "{wanted}");
        ledger.clock(told);
        assert_eq!(ledger.fire_all().len(), 2, "{wanted}");
        assert_eq!((ledger.reminder(&new).status(), ledger.reminder(&moved).status()), (Status::Due, Status::Due));
    }
}

#[test]
fn wishes_wait_until_time_has_acted() {
    let (mut ledger, id) = reminder_that_is(Stage::Due);
    ledger.clock(KEPT);
    for command in [
        Command::ListReminders,
        Command::ClearReminders,
        Command::CancelReminder { id: id.clone() },
        Command::Schedule { asks: replace(&id, later(9000)), key: None },
        Command::Close { note: None, notify: Vec::new() },
    ] {
        let refused = ledger.decide(&Call::new(command.clone())).expect_err("the deadline has passed");
        assert_eq!(refused, Reject::Overdue(vec![id.clone()]), "{command:?}");
    }
    assert_eq!(code(ledger.cancel_reminder(&id)), "reminder_ended");
}

#[test]
fn a_clock_set_back_takes_nothing_back() {
    let (mut ledger, id) = reminder_that_is(Stage::Due);
    ledger.clock(-5000);
    assert_eq!(ledger.fire_all(), []);
    assert_eq!(ledger.collect("call", secs(30), 9).len(), 1);
    assert_eq!(ledger.commit_lease("call", "inbox"), Ok(1));
    assert_eq!(ledger.reminder(&id).status(), Status::Delivered);
}

// A delivery under way.

#[test]
fn a_delivery_under_way_is_waited_for() {
    let held = || {
        let (mut ledger, id) = reminder_that_is(Stage::Due);
        ledger.clock(KEPT - 10);
        assert_eq!(ledger.collect("call", secs(30), 9).len(), 1);
        ledger.clock(KEPT);
        assert_eq!(ledger.fire_all().len(), 1);
        assert_eq!(ledger.reminder(&id).due(), Some(at(KEPT + 20)), "until the lease ends");
        assert_eq!(ledger.fire_all(), []);
        (ledger, id)
    };
    let (mut ledger, id) = held();
    assert_eq!(ledger.commit_lease("call", "hook"), Ok(1));
    assert_eq!(ledger.reminder(&id).phase, Phase::Delivered { at: at(KEPT) });

    let (mut ledger, id) = held();
    assert_eq!(ledger.release_lease("call"), Ok(1));
    assert_eq!(ledger.reminder(&id).phase, Phase::Missed { at: at(KEPT) }, "given back too late to be told again");
    assert_eq!(ledger.messages, []);

    let (mut ledger, id) = held();
    ledger.clock(KEPT + 20);
    assert_eq!(ledger.fire_all().len(), 1);
    assert_eq!(ledger.reminder(&id).phase, Phase::Missed { at: at(KEPT + 20) });
    assert_eq!(code(ledger.commit_lease("call", "hook")), "unknown_lease");

    // The deliverer is late, but nobody has given the reminder up yet: it was told.
    let (mut ledger, id) = held();
    ledger.clock(KEPT + 500);
    assert_eq!(ledger.commit_lease("call", "hook"), Ok(1));
    assert_eq!(ledger.reminder(&id).status(), Status::Delivered);
}

#[test]
fn a_delivery_that_failed_in_time_is_tried_again() {
    let (mut ledger, id) = reminder_that_is(Stage::Leased);
    assert_eq!(ledger.release_lease("call"), Ok(1));
    assert_eq!(ledger.reminder(&id).status(), Status::Due);
    assert_eq!(ledger.collect("another", secs(30), 9).len(), 1);
    assert_eq!(ledger.commit_lease("another", "inbox"), Ok(1));
    assert_eq!(ledger.reminder(&id).status(), Status::Delivered);
}

/// What is told and what changes are one thing: several messages under one lease settle together.
#[test]
fn one_lease_settles_timers_and_reminders_together() {
    let mut ledger = Ledger::new();
    let timer = ledger.create(ledger::mission("任务"), secs(900), None);
    let ids = [900, 950, 990].map(|due| ledger.remind("提醒", due));
    ledger.clock(940);
    ledger.fire_all();
    assert_eq!(ledger.collect("call", secs(30), 9).len(), 4);
    assert_eq!(ledger.commit_lease("call", "tool_result"), Ok(4));
    for id in &ids {
        assert_eq!(ledger.reminder(id).delivered_at(), Some(at(940)));
    }
    assert_eq!(ledger.events(timer.as_str()), ["timer.created", "timer.completed"]);
}

#[test]
fn a_replaced_reminder_tells_the_new_task_at_the_new_time_and_the_old_one_never() {
    let (mut ledger, id) = reminder_that_is(Stage::Leased);
    let change = Change { task: Some("改".into()), tool: Some("exec".into()), ..later(5000) };
    ledger.schedule(replace(&id, change), None).expect("a due one can be replaced");
    assert_eq!(code(ledger.commit_lease("call", "hook")), "unknown_lease", "what was under way tells the old task");
    ledger.clock(5000 - 60);
    ledger.fire_all();
    let told = ledger.collect("again", secs(30), 9);
    assert_eq!(told[0].text, r#"[scheduled task:"改" tool=exec dueAt=2026-09-21T15:36:40Z]"#);
    assert_eq!(*told[0].id, format!("msg_{id}.1"), "another message, with an id of its own");
    assert_eq!(ledger.commit_lease("again", "hook"), Ok(1));
    // What is left out stays.
    let mut ledger = Ledger::new();
    let id = ledger.remind("原来的", DUE);
    ledger.schedule(replace(&id, later(2000)), None).expect("it can be put off");
    assert_eq!((ledger.reminder(&id).content.task.as_str(), ledger.reminder(&id).due_at), ("原来的", at(2000)));
}

#[test]
fn a_message_of_a_reminder_rides_but_not_with_the_call_that_ends_it() {
    let (mut ledger, id) = reminder_that_is(Stage::Due);
    let cancel = Command::CancelReminder { id: id.clone() };
    let decision = ledger.ask_riding(cancel, "call", secs(30), 9).expect("it can be cancelled");
    assert_eq!(decision.riding, []);
    let (mut ledger, _) = reminder_that_is(Stage::Due);
    let decision = ledger.ask_riding(Command::ListReminders, "call", secs(30), 9).expect("listing is allowed");
    assert_eq!(decision.riding.len(), 1);
    assert!(decision.riding[0].is_leased_by(&LeaseId::new("call")));
}
