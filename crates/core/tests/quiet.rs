//! Guards quiet hours: whatever falls due within them waits for their end, is told once then, and nobody who waits is kept
//! waiting. The clock begins at 2026-09-21T14:13:20Z, a Monday; quiet is from 22:00 to 08:00 UTC.

mod ledger;

use ledger::{Ledger, START, mission, secs, waiting};
use proptest::prelude::*;
use reveille_core::{
    AgentId, CatchUp, Command, Condition, ItemId, LeaseId, Limits, Millis, Quiet, Recurrence, Status, Timestamp, When,
    Zone,
    batch::tally,
    recurrence::Rule,
    reminder,
    session::SessionState,
    session_timer::{Action, Reset, Spec},
    timer::Continuation,
};
use serde_json::json;
use std::sync::Arc;

fn nights() -> Quiet {
    Quiet::parse(json!({"zone": "UTC", "from": "22:00", "to": "08:00"})).expect("quiet hours")
}

fn clock(day: i64, hour: i64, minute: i64) -> Timestamp {
    // The first midnight is that of the day on which the clock begins.
    let midnight = START - (14 * 3600 + 13 * 60 + 20) * 1000;
    Timestamp::from_millis(midnight + ((day * 24 + hour) * 60 + minute) * 60_000)
}

fn quiet_ledger() -> Ledger {
    Ledger::with(Limits { quiet: Some(Arc::new(nights())), ..Limits::default() })
}

#[test]
fn a_message_due_at_night_waits_for_the_morning() {
    let mut ledger = quiet_ledger();
    let (due, morning) = (clock(1, 2, 10), clock(1, 8, 0));
    let id = ledger.create(mission("夜里的事 🌙"), due.since(ledger.now), None);
    assert_eq!((ledger.timer(&id).due(), ledger.timer(&id).opens_at), (Some(morning), Some(morning)));
    ledger.now = due;
    assert!(ledger.fire_all().is_empty());
    let timer = ledger.timer(&id);
    assert_eq!((timer.status(), timer.remaining(due)), (Status::Running, Millis::ZERO));
    ledger.now = morning;
    let fired = ledger.fire_all();
    assert_eq!(fired.iter().map(|fired| fired.due).collect::<Vec<_>>(), [morning]);
    assert_eq!(ledger.timer(&id).status(), Status::Completed);
    let last = ledger.history.last().expect("written");
    assert_eq!(
        (last.data["due"].as_i64(), last.data["opened"].as_i64()),
        (Some(due.as_millis()), Some(morning.as_millis()))
    );
    assert_eq!(last.data["lateness_ms"], 0);
}

#[test]
fn what_is_due_by_day_does_not_wait() {
    let mut ledger = quiet_ledger();
    let id = ledger.create(mission("白天"), secs(60), None);
    ledger.clock(60);
    assert_eq!(ledger.fire_all().len(), 1);
    assert_eq!(ledger.timer(&id).status(), Status::Completed);
}

#[test]
fn who_stands_by_is_awake() {
    let mut ledger = quiet_ledger();
    ledger.now = clock(0, 23, 0);
    let id = ledger.create(waiting("等构建"), secs(300), None);
    assert_eq!(ledger.timer(&id).opens_at, None);
    ledger.standing.insert(id.clone(), LeaseId::new("lease_a"));
    ledger.now = clock(0, 23, 5);
    assert_eq!(ledger.fire_all().len(), 1);
    assert_eq!(ledger.timer(&id).status(), Status::Completed);
    // A call that was lost with its process waits no more: its timer does.
    let id = ledger.create(waiting("等构建"), secs(300), None);
    ledger.standing.clear();
    ledger.now = clock(0, 23, 10);
    assert!(ledger.fire_all().is_empty());
    assert_eq!(ledger.timer(&id).due(), Some(clock(1, 8, 0)));
    assert_eq!(ledger.events(id.as_str()).last(), Some(&"timer.waits"));
    // Also for a mission, up to the call's own end.
    let id = ledger.create(mission("夜班"), secs(300), None);
    assert_eq!(ledger.timer(&id).opens_at, Some(clock(1, 8, 0)));
    for (timeout, opens) in [(300, None), (60, Some(clock(1, 8, 0)))] {
        let ask = Continuation { timeout: Some(secs(timeout)), ..Continuation::default() };
        ledger.proceed(&id, ask).expect("live");
        assert_eq!(ledger.timer(&id).opens_at, opens, "{timeout} s");
    }
    ledger.stop(&id, "够了").expect("live");
    // One that went away in time, too.
    let id = ledger.create(waiting("等构建"), secs(300), None);
    ledger.cancel(&id).expect("cancelled");
    assert_eq!(ledger.timer(&id).opens_at, Some(clock(1, 8, 0)));
}

const SEEN: &str = "/srv/出.log exists";

fn server() -> Condition {
    Condition::Tcp { host: "localhost".into(), port: 5432 }
}

/// Met at 23:30, an hour and a half into the night; with the ledger at that moment.
fn met_at_night(ledger: &mut Ledger, of: impl FnOnce(&mut Ledger) -> ItemId) -> ItemId {
    ledger.now = clock(0, 22, 30);
    let id = of(ledger);
    let since = ledger.timer(&id).awaits().expect("waiting").since;
    ledger.now = clock(0, 23, 30);
    assert!(ledger.meet(&id, since, SEEN));
    id
}

#[test]
fn a_condition_met_at_night_is_told_in_the_morning() {
    let (met, morning) = (clock(0, 23, 30), clock(1, 8, 0));
    let mut ledger = quiet_ledger();
    let id = met_at_night(&mut ledger, |ledger| ledger.create_until(mission("部署 🚢"), secs(5 * 3600), server()));
    let timer = ledger.timer(&id);
    assert_eq!((timer.status(), timer.met(), timer.due()), (Status::Running, Some(SEEN), Some(morning)));
    assert!(timer.awaits().is_none(), "nobody looks any more");
    assert_eq!((timer.elapsed(met), timer.remaining(met), timer.total), (secs(3600), Millis::ZERO, secs(3600)));
    assert!(ledger.messages.is_empty());
    let waits = ledger.history.last().expect("written");
    assert_eq!((waits.event.as_ref(), &waits.data["met"]), ("timer.waits", &json!(SEEN)));
    // Seen once more, or its own time over: nothing changes.
    assert!(!ledger.meet(&id, clock(0, 22, 30), SEEN));
    ledger.now = clock(1, 4, 0);
    assert!(ledger.fire_all().is_empty() && ledger.messages.is_empty());
    ledger.now = morning;
    assert_eq!(ledger.fire_all().len(), 1);
    assert_eq!((ledger.timer(&id).status(), ledger.timer(&id).met()), (Status::Completed, Some(SEEN)));
    let told = &ledger.messages[0].text;
    assert!(
        told.ends_with(
            "Elapsed: 3600 seconds\nMet: /srv/出.log exists\nDue: 2026-09-21T23:30:00Z (quiet hours then, told now)"
        ),
        "{told}"
    );
    let entry = ledger.history.last().expect("written");
    assert_eq!((&entry.data["met"], entry.data["opened"].as_i64()), (&json!(SEEN), Some(morning.as_millis())));
    assert_eq!((ledger.tallies[tally::CONDITIONS_MET], ledger.tallies[tally::WAITED_MS]), (1, 3_600_000));
}

#[test]
fn in_every_state_a_condition_met_at_night_waits_unless_somebody_does() {
    let until = |ledger: &mut Ledger, purpose| ledger.create_until(purpose, secs(5 * 3600), server());
    // In the background nobody waits.
    let mut ledger = quiet_ledger();
    let id = met_at_night(&mut ledger, |ledger| {
        let id = until(ledger, waiting("后台"));
        ledger.cancel(&id).expect("running");
        id
    });
    assert_eq!(ledger.timer(&id).due(), Some(clock(1, 8, 0)));

    // A call stands by, here or at another node: told at once.
    for here in [true, false] {
        let mut ledger = quiet_ledger();
        let id = met_at_night(&mut ledger, |ledger| {
            let id = until(ledger, waiting("站着等"));
            if here {
                ledger.standing.insert(id.clone(), LeaseId::new("lease_call"));
            }
            id
        });
        assert_eq!(ledger.timer(&id).status(), Status::Completed, "here: {here}");
        assert_eq!((ledger.timer(&id).total, ledger.messages.len()), (secs(5 * 3600), 1));
    }

    // By day nothing waits.
    let mut ledger = quiet_ledger();
    let id = until(&mut ledger, mission("白天"));
    let since = ledger.now;
    ledger.clock(60);
    assert!(ledger.meet(&id, since, SEEN));
    assert_eq!(ledger.timer(&id).status(), Status::Completed);
}

#[test]
fn what_was_met_at_night_follows_every_command() {
    let at_night = || {
        let mut ledger = quiet_ledger();
        let id = met_at_night(&mut ledger, |ledger| ledger.create_until(mission("夜里"), secs(5 * 3600), server()));
        (ledger, id)
    };
    // Who comes to wait for it is awake.
    let (mut ledger, id) = at_night();
    ledger.proceed(&id, Continuation { timeout: Some(secs(60)), ..Continuation::default() }).expect("live");
    ledger.standing.insert(id.clone(), LeaseId::new("lease_call"));
    ledger.fire_all();
    assert_eq!((ledger.timer(&id).status(), ledger.timer(&id).met()), (Status::Completed, Some(SEEN)));
    // Quiet hours that end now tell it now.
    let (mut ledger, id) = at_night();
    let short = Quiet::parse(json!({"zone": "UTC", "from": "10:00", "to": "11:00"})).expect("quiet hours");
    ledger.ask(Command::SetQuiet { quiet: Some(short) }).expect("set");
    assert_eq!(ledger.fire_all().len(), 1);
    assert_eq!(ledger.timer(&id).status(), Status::Completed);
    // Paused over the morning it comes when the pause is over; stopped it does not come at all.
    let (mut ledger, id) = at_night();
    ledger.pause(&id, secs(12 * 3600)).expect("live");
    ledger.now = clock(1, 9, 0);
    assert!(ledger.fire_all().is_empty());
    ledger.now = clock(1, 11, 30);
    ledger.fire_all();
    assert_eq!((ledger.timer(&id).status(), ledger.messages.len()), (Status::Completed, 1));
    let (mut ledger, id) = at_night();
    ledger.stop(&id, "够了").expect("live");
    ledger.now = clock(1, 8, 0);
    assert!(ledger.fire_all().is_empty() && ledger.messages.is_empty());
}

#[test]
fn what_was_due_before_but_is_late_waits_too() {
    let mut ledger = quiet_ledger();
    ledger.now = clock(0, 21, 50);
    let id = ledger.create(mission("停机"), secs(300), None);
    ledger.now = clock(0, 22, 30);
    assert!(ledger.fire_all().is_empty());
    assert_eq!(ledger.timer(&id).due(), Some(clock(1, 8, 0)));
}

#[test]
fn a_recurring_timer_is_told_once_in_the_morning() {
    for (catch_up, told) in [(CatchUp::Skip, 1), (CatchUp::Latest, 1), (CatchUp::All, 10)] {
        let mut ledger = quiet_ledger();
        ledger.now = clock(0, 21, 30);
        let recurrence = Recurrence::new(Rule::Interval(secs(3600)), catch_up, None);
        let when = When::Every { first: None, recurrence };
        let id = ledger.plan(mission("每小时"), when, None).expect("made").id;
        assert_eq!(ledger.timer(&id).opens_at, Some(clock(1, 8, 0)));
        ledger.now = clock(1, 8, 0);
        ledger.fire_all();
        assert_eq!((ledger.messages.len(), ledger.timer(&id).due()), (told, Some(clock(1, 8, 30))), "{catch_up:?}");
        // Nothing was missed and nothing is late: it was night.
        let last = &ledger.messages.last().expect("told").text;
        assert!(last.contains("Due: 2026-09-22T07:30:00Z (quiet hours then, told now)\n"), "{last}");
        assert_eq!((ledger.count(tally::TIMERS_MISSED), ledger.count(tally::TIMERS_FIRED)), (0, told as i64));
        assert_eq!(ledger.fired.last().map(|fired| fired.due), Some(clock(1, 8, 0)));
        let entry = ledger.history.iter().rfind(|entry| entry.event.as_ref() == "timer.fired").expect("written");
        assert_eq!(
            (&entry.data["lateness_ms"], &entry.data["opened"]),
            (&json!(0), &json!(clock(1, 8, 0).as_millis()))
        );
    }
}

#[test]
fn of_a_recurring_timer_only_what_passed_by_day_is_missed() {
    // Down from the evening to noon: what came after the night, until then.
    for (catch_up, told, missed) in [(CatchUp::Skip, 0, 5), (CatchUp::Latest, 1, 4), (CatchUp::All, 15, 0)] {
        for rule in [
            Rule::Interval(secs(3600)),
            Rule::parse(&json!("30 * * * *"), Some(Zone::named("zone", "UTC").expect("a zone")), &Limits::default())
                .expect("cron fields"),
        ] {
            let mut ledger = quiet_ledger();
            ledger.now = clock(0, 21, 30);
            let when = When::Every { first: None, recurrence: Recurrence::new(rule, catch_up, None) };
            ledger.plan(mission("每小时"), when, None).expect("made");
            ledger.now = clock(1, 12, 45);
            ledger.fire_all();
            assert_eq!((ledger.messages.len(), ledger.count(tally::TIMERS_MISSED)), (told, missed), "{catch_up:?}");
        }
    }
}

#[test]
fn reminders_wait_and_are_kept_from_then_on() {
    let mut ledger = quiet_ledger();
    let due = clock(1, 3, 0);
    let id = ledger.remind("三点", (due.as_millis() - START) / 1000);
    assert_eq!(ledger.reminder(&id).due(), Some(clock(1, 8, 0)));
    ledger.now = clock(1, 4, 0);
    assert!(ledger.fire_all().is_empty());
    ledger.now = clock(1, 8, 0);
    ledger.fire_all();
    let kept = clock(1, 8, 0).plus(ledger.limits.reminder_retention);
    assert_eq!((ledger.reminder(&id).status(), ledger.reminder(&id).keep_until()), (reminder::Status::Due, Some(kept)));
}

#[test]
fn session_timers_wait() {
    let mut ledger = quiet_ledger();
    ledger.now = clock(0, 21, 58);
    let spec = Spec {
        timer_id: "remind".into(),
        delay: secs(300),
        max_triggers: 1,
        reset: Reset::Session,
        action: Action::Say { text: "还在吗？".into() },
        notify: Vec::new(),
    };
    ledger.message(&[spec], None).expect("begun");
    let armed = ledger.response(None).expect("armed");
    assert_eq!(armed[0].next_trigger_at(), Some(clock(1, 8, 0)));
    ledger.now = clock(0, 22, 3);
    assert!(ledger.fire_all().is_empty());
    assert!(ledger.said.is_empty());
    ledger.now = clock(1, 8, 0);
    ledger.fire_all();
    assert_eq!(ledger.said.len(), 1);
}

#[test]
fn changed_quiet_hours_move_what_is_to_come() {
    let mut ledger = Ledger::new();
    let due = clock(1, 2, 10);
    let timer = ledger.create(mission("夜里"), due.since(ledger.now), None);
    let reminder = ledger.remind("夜里", (due.as_millis() - START) / 1000);
    ledger.ask(Command::SetQuiet { quiet: Some(nights()) }).expect("set");
    assert_eq!(ledger.timer(&timer).due(), Some(clock(1, 8, 0)));
    assert_eq!(ledger.reminder(&reminder).due(), Some(clock(1, 8, 0)));
    ledger.ask(Command::SetQuiet { quiet: None }).expect("set");
    assert_eq!(ledger.timer(&timer).due(), Some(due));
    assert_eq!(ledger.reminder(&reminder).due(), Some(due.minus(ledger.limits.due_window)));
    assert_eq!(ledger.session.as_ref().and_then(|session| session.quiet.own.clone()), None);
}

proptest! {
    /// Whatever is due whenever: nothing is told at night, nothing is lost, nothing is told twice.
    #[test]
    fn nothing_is_told_at_night(lengths in proptest::collection::vec(1_u64..200_000, 1..12), step in 60_u64..7000) {
        let mut ledger = quiet_ledger();
        for length in &lengths {
            ledger.create(mission("随机"), secs(*length), None);
        }
        for round in 1..=(300_000 / step) {
            ledger.clock((round * step) as i64);
            ledger.fire_all();
        }
        prop_assert_eq!(ledger.messages.len(), lengths.len());
        for message in &ledger.messages {
            prop_assert_eq!(nights().next_open(message.created_at), message.created_at);
        }
    }
}

#[test]
fn setting_them_opens_no_session_and_goes_over_the_agents() {
    let set = |quiet: Option<Quiet>| Command::SetQuiet { quiet };
    let mut ledger = Ledger::new();
    let refused = ledger.ask(set(None)).expect_err("nobody knows it");
    assert!(refused.code() == "unknown_session" && ledger.session.is_none(), "{refused}");
    // Set before its agent comes, they stay.
    ledger.ask(set(Some(nights()))).expect("set");
    let noon = Quiet::parse(json!({"zone": "UTC", "from": "12:00", "to": "13:00"})).expect("quiet hours");
    let begins = |quiet: &Quiet| Command::Message {
        agent: AgentId::new(ledger::AGENT),
        timers: Some(Vec::new()),
        turn: None,
        said: Vec::new(),
        quiet: Some(quiet.clone()),
    };
    ledger.ask(begins(&noon)).expect("begun");
    let in_force = |ledger: &Ledger| ledger.session.as_ref().and_then(|session| session.quiet.in_force().cloned());
    assert_eq!(in_force(&ledger), Some(nights()));
    ledger.ask(set(None)).expect("removed");
    assert_eq!(in_force(&ledger), Some(noon), "its agent's");
    // A closed session stays closed, and its agent's.
    ledger.close(None).expect("closed");
    ledger.ask(set(Some(nights()))).expect("set");
    let session = ledger.session.as_ref().expect("known");
    assert_eq!(
        (session.state, session.agent.as_ref().map(AgentId::as_str)),
        (SessionState::Closed, Some(ledger::AGENT))
    );
    assert_eq!(ledger.events(session.id.as_str()).iter().filter(|event| **event == "session.opened").count(), 1);
    // What is copied of an agent is of this life alone.
    let evening = Quiet::parse(json!({"zone": "UTC", "from": "18:00", "to": "19:00"})).expect("quiet hours");
    ledger.ask(set(None)).expect("removed");
    ledger.ask(begins(&evening)).expect("begun again");
    assert_eq!(in_force(&ledger), Some(evening));
}
