//! Guards timers that follow the calendar and timers that recur: what clocks that are changed mean for cron, what becomes
//! of times that passed unseen, and that no time is ever told twice, whatever the clock does.

mod ledger;

use ledger::{Ledger, at, mission, secs, waiting};
use proptest::prelude::*;
use reveille_core::{
    CatchUp, Condition, ItemId, LeaseId, Limits, Recurrence, Reject, Schedule, Status, Timer, Timestamp, When, Zone,
    at::At,
    batch::tally,
    condition::Wanted,
    cron::Cron,
    recurrence::{CAUGHT_UP_MAX, Rule},
    timer::{Continuation, Phase},
};
use std::collections::HashSet;

fn zone(name: &str) -> Zone {
    Zone::named("zone", name).expect("a zone")
}

fn instant(text: &str) -> Timestamp {
    let at: jiff::Timestamp = text.parse().expect("an instant");
    Timestamp::from_millis(at.as_millisecond())
}

/// The next times after an instant, as clocks there show them.
fn times(cron: &str, place: &str, after: &str, count: usize) -> Vec<String> {
    let (cron, zone) = (Cron::parse(cron).expect("cron fields"), zone(place));
    let next = |at: &Timestamp| cron.next(&zone, *at);
    std::iter::successors(next(&instant(after)), next).take(count).map(|at| zone.show(at)).collect()
}

#[test]
fn the_day_on_which_clocks_skip_an_hour() {
    for (cron, place, after, expected) in [
        // 02:00 → 03:00 on the 29th of March. A time of day that is skipped comes at the change, once.
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-03-28T12:00:00Z",
            ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00", "2026-03-31T02:30:00+02:00"],
        ),
        // One before the hour that is skipped is not doubled by it.
        (
            "30 1 * * *",
            "Europe/Berlin",
            "2026-03-28T12:00:00Z",
            ["2026-03-29T01:30:00+01:00", "2026-03-30T01:30:00+02:00", "2026-03-31T01:30:00+02:00"],
        ),
        // Several that are skipped come as one, which is also the one that was to come then.
        (
            "0,30 2,3 * * *",
            "Europe/Berlin",
            "2026-03-29T00:59:59Z",
            ["2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00", "2026-03-30T02:00:00+02:00"],
        ),
        // What goes by the minute goes on by the minute.
        (
            "*/20 * * * *",
            "Europe/Berlin",
            "2026-03-29T00:39:59Z",
            ["2026-03-29T01:40:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T03:20:00+02:00"],
        ),
        (
            "30 2 * * *",
            "America/New_York",
            "2026-03-07T12:00:00Z",
            ["2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00", "2026-03-10T02:30:00-04:00"],
        ),
        (
            "0 9 * * 1-5",
            "America/New_York",
            "2026-03-06T12:00:00Z",
            ["2026-03-06T09:00:00-05:00", "2026-03-09T09:00:00-04:00", "2026-03-10T09:00:00-04:00"],
        ),
    ] {
        assert_eq!(times(cron, place, after, 3), expected, "{cron} in {place}");
    }
}

#[test]
fn the_day_on_which_clocks_show_an_hour_twice() {
    for (cron, place, after, expected) in [
        // 03:00 → 02:00 on the 25th of October. A time of day comes the first time.
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-10-24T12:00:00Z",
            ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00", "2026-10-27T02:30:00+01:00"],
        ),
        // What goes by the hour comes in both.
        (
            "30 * * * *",
            "Europe/Berlin",
            "2026-10-25T00:00:00Z",
            ["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", "2026-10-25T03:30:00+01:00"],
        ),
        (
            "30 1 * * *",
            "America/New_York",
            "2026-10-31T12:00:00Z",
            ["2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00", "2026-11-03T01:30:00-05:00"],
        ),
        (
            "0 */1 * * *",
            "America/New_York",
            "2026-11-01T04:30:00Z",
            ["2026-11-01T01:00:00-04:00", "2026-11-01T01:00:00-05:00", "2026-11-01T02:00:00-05:00"],
        ),
    ] {
        assert_eq!(times(cron, place, after, 3), expected, "{cron} in {place}");
    }
}

#[test]
fn zones_without_changes_and_rare_dates() {
    let expected = ["2026-11-17T09:00:00+08:00", "2026-11-18T09:00:00+08:00"];
    assert_eq!(times("0 9 * * *", "Asia/Shanghai", "2026-11-16T12:00:00Z", 2), expected);
    let expected = ["2028-02-29T00:00:00+01:00", "2032-02-29T00:00:00+01:00"];
    assert_eq!(times("0 0 29 2 *", "Europe/Berlin", "2026-11-16T12:00:00Z", 2), expected);
}

// Timers.

fn every(seconds: u64, catch_up: CatchUp, max_fires: Option<u32>) -> When {
    let rule = Rule::Interval(secs(seconds));
    When::Every { first: None, recurrence: Recurrence::new(rule, catch_up, max_fires) }
}

fn cron(text: &str, place: &str, catch_up: CatchUp) -> When {
    let rule = Rule::Cron { cron: Box::new(Cron::parse(text).expect("cron fields")), zone: zone(place) };
    When::Every { first: None, recurrence: Recurrence::new(rule, catch_up, None) }
}

fn recurrence(timer: &Timer) -> &Recurrence {
    timer.schedule.as_deref().and_then(Schedule::recurrence).expect("it recurs")
}

fn due(timer: &Timer) -> Timestamp {
    timer.due().expect("it has a deadline")
}

fn texts(ledger: &Ledger) -> Vec<&str> {
    ledger.messages.iter().map(|message| message.text.as_str()).collect()
}

#[test]
fn each_time_leaves_a_message_and_the_last_one_completes() {
    let mut ledger = Ledger::new();
    let made = ledger.plan(mission("巡检 🚀"), every(600, CatchUp::Latest, Some(2)), None).expect("made");
    assert_eq!((made.total, due(&made), made.status()), (secs(600), at(600), Status::Running));
    ledger.clock(600);
    assert_eq!(ledger.fire_all().len(), 1);
    let timer = ledger.timer(&made.id).clone();
    assert_eq!((timer.status(), due(&timer), timer.fires()), (Status::RunningBackground, at(1200), 1));
    assert_eq!((timer.elapsed(at(700)), timer.remaining(at(700))), (secs(100), secs(500)));
    // Doubled and stale proposals change nothing.
    assert!(ledger.fire_all().is_empty());
    ledger.clock(1200);
    ledger.fire_all();
    let timer = ledger.timer(&made.id).clone();
    assert_eq!((timer.status(), timer.fires(), timer.due()), (Status::Completed, 2, None));
    let id = &made.id;
    assert_eq!(
        texts(&ledger),
        [
            format!(
                "[Timer Fired] Timer '{id}' has fired, time 1 of 2.\nMission: 巡检 🚀\nDue: {}\nNext: {}",
                at(600).to_iso(),
                at(1200).to_iso()
            ),
            format!(
                "[Timer Completed] Timer '{id}' has fired, time 2 of 2.\nMission: 巡检 🚀\nDue: {}\nThis was the last time.",
                at(1200).to_iso()
            ),
        ]
    );
    assert_eq!(ledger.events(id.as_str()), ["timer.created", "timer.fired", "timer.completed"]);
    assert_eq!((ledger.count(tally::TIMERS_FIRED), ledger.count(tally::TIMERS_MISSED)), (2, 0));
    assert_eq!(ledger.count("fired.within_10ms"), 2, "punctual, each time");
    assert_eq!(ledger.stop(id, "zu spät").expect_err("it has ended").code(), "timer_ended");
}

#[test]
fn what_passed_unseen_is_skipped_told_once_or_told_each() {
    for (catch_up, told, missed) in [
        (CatchUp::Skip, [].as_slice(), 5),
        (CatchUp::Latest, &[3000], 4),
        (CatchUp::All, &[600, 1200, 1800, 2400, 3000], 0),
    ] {
        let mut ledger = Ledger::new();
        let id = ledger.plan(mission("盘点"), every(600, catch_up, None), None).expect("made").id;
        ledger.clock(3100);
        ledger.fire_all();
        let timer = ledger.timer(&id);
        assert_eq!(due(timer), at(3600), "{catch_up:?}");
        assert_eq!((recurrence(timer).fires as usize, recurrence(timer).missed), (told.len(), missed), "{catch_up:?}");
        let dues: Vec<String> = told.iter().map(|seconds| format!("Due: {}", at(*seconds).to_iso())).collect();
        let texts = texts(&ledger);
        assert_eq!(texts.len(), dues.len(), "{catch_up:?}");
        for (text, due) in texts.iter().zip(&dues) {
            assert!(text.contains(due.as_str()), "{text}");
        }
        assert_eq!(ledger.count(tally::TIMERS_MISSED), missed as i64);
    }
}

#[test]
fn a_time_that_is_merely_late_is_not_missed() {
    let mut ledger = Ledger::new();
    let id = ledger.plan(mission("准时"), every(600, CatchUp::Skip, None), None).expect("made").id;
    ledger.clock(660);
    ledger.fire_all();
    assert_eq!((ledger.timer(&id).fires(), due(ledger.timer(&id))), (1, at(1200)));
}

#[test]
fn a_year_of_missed_minutes_costs_little_and_tells_the_latest() {
    let mut ledger = Ledger::new();
    let id = ledger.plan(mission("每分钟"), cron("* * * * *", "Europe/Berlin", CatchUp::All), None).expect("made").id;
    ledger.clock(366 * 24 * 3600);
    ledger.fire_all();
    let timer = ledger.timer(&id);
    assert_eq!(timer.fires() as usize, CAUGHT_UP_MAX);
    assert!(due(timer) > ledger.now && due(timer) <= ledger.now.plus(secs(60)), "{timer:?}");
    let last = ledger.messages.last().expect("told");
    assert!(last.text.contains("Next: "), "{}", last.text);
    // The same for an interval, to the millisecond.
    let mut ledger = Ledger::new();
    let id = ledger.plan(mission("每秒"), every(1, CatchUp::All, None), None).expect("made").id;
    ledger.clock(10_000_000);
    ledger.fire_all();
    let timer = ledger.timer(&id);
    assert_eq!((timer.fires() as usize, due(timer)), (CAUGHT_UP_MAX, at(10_000_001)));
    assert_eq!(recurrence(timer).missed, 10_000_000 - CAUGHT_UP_MAX as u64);
}

#[test]
fn the_latest_are_told_however_they_lie() {
    // How many years passed, and in how many days before their end the last ones lie.
    for (fields, years, days) in [
        ("* * * * *", 6, 1),
        ("*/7 * * * *", 6, 1),
        ("0 * * * *", 6, 9),
        ("30 9 * * 1-5", 6, 120),
        ("* * 1 * *", 6, 60),
        ("0-9 0 * * 1", 6, 120),
        ("*/5 0 1 1 *", 120, 120 * 366),
        ("0 0 1 * *", 120, 120 * 366),
    ] {
        let (rule, from) = (Cron::parse(fields).expect("cron fields"), at(0));
        let until = from.plus(secs(years * 366 * 24 * 3600));
        let next = |at: &Timestamp| rule.next(&zone("Europe/Berlin"), *at).filter(|at| *at <= until);
        let begin = until.minus(secs(days * 24 * 3600));
        let all: Vec<Timestamp> = std::iter::successors(next(&begin), next).collect();
        let mut recurrence = match cron(fields, "Europe/Berlin", CatchUp::All) {
            When::Every { recurrence, .. } => recurrence,
            _ => unreachable!("it recurs"),
        };
        let first = rule.next(&zone("Europe/Berlin"), from).expect("a first time");
        let strike = recurrence.strike(first, first, until);
        let told: Vec<Timestamp> = strike.told.iter().map(|(_, at)| *at).collect();
        assert_eq!(told, all[all.len() - CAUGHT_UP_MAX..], "{fields}");
    }
}

#[test]
fn an_inbox_nobody_reads_does_not_grow_for_ever() {
    let mut ledger = Ledger::with(Limits { pending_messages_max: 3, ..Limits::default() });
    let id = ledger.plan(mission("没人看"), every(60, CatchUp::Latest, None), None).expect("made").id;
    for round in 1..=3 {
        ledger.clock(60 * round);
        ledger.fire_all();
    }
    assert_eq!(ledger.messages.len(), 3);
    // Not through the ledger's own checks, which count a message for each time.
    ledger.clock(240);
    let fire = reveille_core::Command::Fire { ids: vec![id], standing: Default::default() };
    let decision = ledger.decide(&reveille_core::Call::new(fire)).expect("firing is never refused");
    let batch = decision.batch.expect("it fires");
    assert!(batch.messages.is_empty() && batch.history.iter().any(|entry| entry.event == "timer.fired"), "{batch:?}");
}

#[test]
fn pauses_move_intervals_and_never_the_calendar() {
    let mut ledger = Ledger::new();
    let interval = ledger.plan(mission("间隔"), every(600, CatchUp::Latest, None), None).expect("made").id;
    // The clock stands at 2026-09-21T14:13:20Z.
    let daily =
        ledger.plan(mission("每小时"), cron("0 * * * *", "Europe/Berlin", CatchUp::All), None).expect("made").id;
    let (hour, next_hour) = (instant("2026-09-21T15:00:00Z"), instant("2026-09-21T16:00:00Z"));
    assert_eq!(due(ledger.timer(&daily)), hour);
    ledger.clock(100);
    for id in [&interval, &daily] {
        ledger.pause(id, secs(7200)).expect("paused");
    }
    // An hour passes within the pause and is not made up for.
    ledger.clock(100 + 3600);
    for id in [&interval, &daily] {
        ledger.resume(id).expect("resumed");
    }
    assert_eq!(due(ledger.timer(&interval)), at(100 + 3600 + 500));
    assert_eq!((due(ledger.timer(&daily)), ledger.timer(&daily).fires()), (next_hour, 0));
    // The same when the pause ends by itself, unseen.
    ledger.pause(&daily, secs(60)).expect("paused");
    ledger.now = next_hour.plus(secs(10));
    ledger.fire_all();
    assert_eq!(ledger.timer(&daily).fires(), 1);
    ledger.stop(&daily, "够了").expect("stopped");
    ledger.stop(&interval, "够了").expect("stopped");
    let told = ledger.messages.len();
    ledger.clock(1_000_000);
    assert!(ledger.fire_all().is_empty());
    assert_eq!(ledger.messages.len(), told);
}

#[test]
fn a_time_of_the_calendar_is_kept_through_a_pause_and_given_up_for_a_length() {
    let mut ledger = Ledger::new();
    let when = |seconds| When::At(At::Moment { at: at(seconds), zone: None });
    let id = ledger.plan(mission("四点"), when(1000), None).expect("made").id;
    ledger.clock(100);
    ledger.pause(&id, secs(300)).expect("paused");
    ledger.clock(200);
    assert_eq!(due(&ledger.resume(&id).expect("resumed")), at(1000));
    ledger.pause(&id, secs(5000)).expect("paused");
    ledger.clock(2000);
    // Its time passed in the pause: it comes when that is over.
    assert_eq!(due(&ledger.resume(&id).expect("resumed")), at(2000));
    ledger.fire_all();
    assert_eq!(ledger.timer(&id).status(), Status::Completed);
    let id = ledger.plan(mission("四点"), when(3000), None).expect("made").id;
    let ask = Continuation { total: Some(secs(100)), ..Continuation::default() };
    let (timer, _) = ledger.proceed(&id, ask).expect("continued");
    assert_eq!((due(&timer), &timer.schedule), (at(2100), &None));
    let past = ledger.plan(mission("昨天"), when(1000), None).expect_err("it is past");
    assert!(matches!(&past, Reject::InvalidTime { why, .. } if why.contains("is past")), "{past}");
}

#[test]
fn what_follows_a_schedule_waits_for_no_condition() {
    let condition = Condition::Tcp { host: "localhost".into(), port: 80 };
    let until = |total| Continuation {
        total,
        until: Some(Wanted { condition: condition.clone(), node: None }),
        ..Continuation::default()
    };
    let mut ledger = Ledger::new();
    let often = ledger.plan(mission("每小时"), every(3600, CatchUp::Latest, None), None).expect("made").id;
    let once = When::At(At::parse("16:00", Some(zone("UTC"))).expect("a time"));
    let once = ledger.plan(mission("下午四点"), once, None).expect("made").id;
    for (id, total) in [(&often, None), (&often, Some(secs(60))), (&once, None)] {
        let refused = ledger.proceed(id, until(total)).expect_err("refused");
        assert_eq!(refused.code(), "invalid_argument", "{refused}");
        assert!(refused.to_string().contains("`until`") && ledger.timer(id).until.is_none(), "{refused}");
    }
    // Given a length it is about that time no more.
    let (timer, _) = ledger.proceed(&once, until(Some(secs(60)))).expect("taken");
    assert!(timer.schedule.is_none() && timer.awaits().is_some());
}

#[test]
fn a_call_that_stands_by_is_told_and_stands_by_again() {
    let mut ledger = Ledger::new();
    let id = ledger.plan(waiting("等构建"), every(600, CatchUp::All, None), Some(secs(3000))).expect("made").id;
    assert_eq!(ledger.timer(&id).standby.map(|standby| standby.until), Some(at(600)));
    ledger.standing.insert(id.clone(), LeaseId::new("lease_a"));
    ledger.clock(1300);
    ledger.fire_all();
    let timer = ledger.timer(&id).clone();
    assert_eq!((timer.status(), timer.standby), (Status::RunningBackground, None));
    // Of several times at once the call tells the last; the others wait for whoever comes.
    let held: Vec<bool> = ledger.messages.iter().map(|message| message.lease.is_some()).collect();
    assert_eq!(held, [false, true]);
    let ask = Continuation { timeout: Some(secs(60)), ..Continuation::default() };
    let (timer, stand_by) = ledger.proceed(&id, ask).expect("continued");
    assert_eq!((timer.status(), stand_by), (Status::Running, Some(secs(60))));
}

#[test]
fn a_task_tells_the_time_it_waited_for_and_no_later_one() {
    let mut ledger = Ledger::new();
    let id = ledger.plan(mission("任务"), every(600, CatchUp::Latest, None), None).expect("made").id;
    ledger
        .proceed_task(&id, Continuation { timeout: Some(secs(900)), ..Continuation::default() }, "secret")
        .expect("begun");
    ledger.clock(600);
    ledger.fire_all();
    ledger.clock(1200);
    ledger.fire_all();
    let leases: Vec<bool> = ledger.messages.iter().map(|message| message.lease.is_some()).collect();
    assert_eq!(leases, [true, false]);
    let (_, lease) = ledger.read_task(&id, "secret").expect("known");
    assert_eq!(ledger.commit_lease(lease.expect("it may tell it").as_str(), "task"), Ok(1));
    let delivered: Vec<bool> = ledger.messages.iter().map(|message| message.delivered.is_some()).collect();
    assert_eq!(delivered, [true, false]);
}

#[test]
fn an_interval_may_begin_at_a_time_of_its_own() {
    let mut ledger = Ledger::new();
    let first = Some(At::Moment { at: at(50), zone: None });
    let recurrence = Recurrence::new(Rule::Interval(secs(600)), CatchUp::Latest, None);
    let id = ledger.plan(mission("从"), When::Every { first, recurrence }, None).expect("made").id;
    assert_eq!(due(ledger.timer(&id)), at(50));
    ledger.clock(50);
    ledger.fire_all();
    assert_eq!((due(ledger.timer(&id)), ledger.timer(&id).total), (at(650), secs(600)));
}

#[test]
fn what_is_stored_is_read_again() {
    let mut ledger = Ledger::new();
    for when in [cron("0 9 * * 1-5", "Europe/Berlin", CatchUp::All), every(60, CatchUp::Skip, Some(3))] {
        let timer = ledger.plan(mission("存"), when, None).expect("made");
        let item = reveille_core::Item::Timer(timer);
        assert_eq!(reveille_core::Item::decode("timer", &item.encode()).expect("readable"), item);
    }
}

proptest! {
    /// The clock goes where it likes and everybody proposes all the time: each time is told at most once, in order, never
    /// before it is due, and the next one always lies ahead.
    #[test]
    fn no_time_is_told_twice_whatever_the_clock_does(
        steps in proptest::collection::vec((-4000_i64..9000, 0_u8..8), 1..60),
        seconds in 1_u64..2000,
        policy in 0_usize..3,
        calendar: bool,
    ) {
        let catch_up = CatchUp::ALL[policy];
        let when = if calendar { cron("*/7 * * * *", "America/New_York", catch_up) } else { every(seconds, catch_up, None) };
        let mut ledger = Ledger::with(Limits { pending_messages_max: u32::MAX, ..Limits::default() });
        let id: ItemId = ledger.plan(mission("时钟乱跳"), when, None).expect("made").id;
        let mut latest = 0;
        for (by, wish) in steps {
            ledger.now = Timestamp::from_millis((ledger.now.as_millis() + by * 1000).max(at(0).as_millis()));
            match wish {
                0 => drop(ledger.pause(&id, secs(500))),
                1 => drop(ledger.resume(&id)),
                _ => drop(ledger.fire_all()),
            }
            latest = latest.max(ledger.now.as_millis());
            let timer = ledger.timer(&id);
            if let Phase::Running { due, .. } = timer.phase {
                prop_assert!(timer.remaining(ledger.now) <= timer.total);
                prop_assert!(due > ledger.now || wish < 2);
            }
        }
        let dues: Vec<&str> = ledger.messages.iter().filter_map(|message| message.text.split("Due: ").nth(1)).collect();
        let different: HashSet<&&str> = dues.iter().collect();
        prop_assert_eq!(different.len(), dues.len());
        prop_assert_eq!(ledger.timer(&id).fires() as usize, ledger.messages.len());
        let numbers: Vec<String> = ledger.messages.iter().map(|message| message.id.to_string()).collect();
        prop_assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), numbers.len());
        prop_assert!(ledger.messages.iter().all(|message| message.created_at.as_millis() <= latest));
    }
}
