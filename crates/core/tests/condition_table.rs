//! Timers that wait for a condition: every state in which it may be met, what is written and told, and what is counted.

mod ledger;

use ledger::{Ledger, at, mission, secs, waiting};
use reveille_core::{
    Command, Condition, ItemId, LeaseId, Millis, Sleep, Status, TaskOutcome,
    batch::tally,
    condition::{Expect, Wanted},
    timer::{Continuation, Phase},
};
use serde_json::json;

fn server() -> Condition {
    Condition::Http { url: "http://localhost:3000/".into(), status: Some(200), body_matches: None }
}

fn log() -> Condition {
    Condition::File { path: "/srv/构建.log".into(), expect: Expect::Contains { text: "完成".into() } }
}

const SEEN: &str = "http://localhost:3000/ answered 200";

fn awaiting(ledger: &Ledger, id: &ItemId) -> bool {
    ledger.timers.iter().find(|timer| timer.id == *id).is_some_and(|timer| timer.awaits().is_some())
}

#[test]
fn a_met_condition_ends_the_timer_with_what_was_seen() {
    let mut ledger = Ledger::new();
    let id = ledger.create_until(waiting("等服务器 🚀"), secs(300), server());
    assert!(awaiting(&ledger, &id));
    ledger.clock(42);
    assert!(ledger.meet(&id, at(0), SEEN));
    let timer = ledger.read(&id);
    assert_eq!(timer.phase, Phase::Completed { at: at(42), remaining: secs(258) });
    assert_eq!((timer.elapsed(at(99)), timer.remaining(at(99)), timer.met()), (secs(42), secs(258), Some(SEEN)));
    assert!(timer.due().is_none() && timer.awaits().is_none());
    let message = &ledger.messages[0];
    assert_eq!(
        message.text,
        format!(
            "[Timer Completed] Timer '{id}' has finished.\nReason: 等服务器 🚀\nDuration: 300 seconds\n\
             Elapsed: 42 seconds\nMet: {SEEN}"
        )
    );
    let entry = ledger.history.iter().find(|entry| entry.event == "timer.completed").expect("written down");
    assert_eq!((&entry.data["met"], &entry.data["elapsed_time"]), (&json!(SEEN), &json!(42)));
    let created = ledger.history.iter().find(|entry| entry.event == "timer.created").expect("written down");
    assert_eq!(created.data["until"], json!({"http": "http://localhost:3000/", "status": 200}));
    // Told once, ended once.
    assert!(!ledger.meet(&id, at(0), SEEN));
    ledger.clock(300);
    assert!(ledger.fire(&[id]).is_empty());
    assert_eq!(ledger.messages.len(), 1);
}

#[test]
fn never_met_it_ends_by_its_time_and_says_so() {
    let mut ledger = Ledger::new();
    let id = ledger.create_until(mission("看日志"), secs(60), log());
    ledger.clock(60);
    ledger.fire(std::slice::from_ref(&id));
    let timer = ledger.read(&id);
    assert_eq!((timer.status(), timer.met(), timer.remaining(at(60))), (Status::Completed, None, Millis::ZERO));
    assert!(ledger.messages[0].text.ends_with("\nNot met in this time: /srv/构建.log contains \"完成\""));
    assert_eq!((ledger.tallies[tally::CONDITIONS_UNMET], ledger.tallies.get(tally::CONDITIONS_MET)), (1, None));
}

#[test]
fn seen_too_late_the_time_was_up_first() {
    let mut ledger = Ledger::new();
    let id = ledger.create_until(waiting("晚了"), secs(60), server());
    ledger.clock(61);
    assert!(!ledger.meet(&id, at(0), SEEN), "its deadline had passed");
    assert_eq!(ledger.read(&id).met(), None);
    assert_eq!(ledger.messages.len(), 1);
}

#[test]
fn in_which_states_it_counts() {
    // Paused and over: nobody looks, and who looked before is not heard.
    let mut ledger = Ledger::new();
    let id = ledger.create_until(waiting("暂停"), secs(300), server());
    ledger.pause(&id, secs(100)).expect("running");
    assert!(!awaiting(&ledger, &id) && !ledger.meet(&id, at(0), SEEN));
    ledger.clock(50);
    ledger.resume(&id).expect("paused");
    assert!(awaiting(&ledger, &id));
    ledger.cancel(&id).expect("running");
    assert!(awaiting(&ledger, &id), "in the background too");
    ledger.clock(60);
    assert!(ledger.meet(&id, at(0), SEEN));
    assert_eq!(ledger.read(&id).elapsed(at(60)), secs(10), "a pause is not waited");

    let stopped = ledger.create_until(waiting("停"), secs(300), server());
    ledger.stop(&stopped, "够了").expect("running");
    assert!(!awaiting(&ledger, &stopped) && !ledger.meet(&stopped, at(60), SEEN));
    let plain = ledger.create(waiting("无条件"), secs(300), None);
    assert!(!awaiting(&ledger, &plain) && !ledger.meet(&plain, at(60), SEEN));
}

#[test]
fn a_timer_may_wait_for_something_else_and_only_that_counts() {
    let mut ledger = Ledger::new();
    let id = ledger.create_until(waiting("先等服务器"), secs(300), server());
    let other = |condition| Continuation {
        until: Some(Wanted { condition, node: Some("机器".into()) }),
        ..Continuation::default()
    };
    // In the same instant: still told apart.
    let (timer, _) = ledger.proceed(&id, other(log())).expect("running");
    let since = timer.awaits().expect("waiting").since;
    assert_ne!(since, at(0));
    assert!(!ledger.meet(&id, at(0), SEEN), "the first condition");
    ledger.clock(30);
    ledger.proceed(&id, Continuation::default()).expect("running");
    assert_eq!(ledger.read(&id).awaits().map(|watch| watch.since), Some(since), "kept by a plain continuation");
    assert!(ledger.meet(&id, since, "完成"));
    let counted = |name| ledger.tallies.get(name).copied().unwrap_or_default();
    assert_eq!((counted(tally::CONDITIONS_MET), counted(tally::CONDITIONS_UNMET)), (1, 1));
}

#[test]
fn the_call_that_stands_by_and_the_open_task_are_told() {
    let mut ledger = Ledger::new();
    let id = ledger.create_until(waiting("站着"), secs(300), server());
    ledger.standing.insert(id.clone(), LeaseId::new("lease_call"));
    ledger.clock(5);
    assert!(ledger.meet(&id, at(0), SEEN));
    assert_eq!(ledger.messages[0].lease.as_ref().map(|lease| lease.id.as_str()), Some("lease_call"));

    let mut ledger = Ledger::new();
    let id = ledger.create_task(waiting("任务"), secs(300), None, "secret");
    let ask = Continuation { until: Some(Wanted { condition: log(), node: None }), ..Continuation::default() };
    let (timer, _) = ledger.proceed(&id, ask).expect("running");
    ledger.clock(9);
    assert!(ledger.meet(&id, timer.awaits().expect("waiting").since, "完成"));
    let (task, lease) = ledger.read_task(&id, "secret").expect("known");
    assert_eq!(task.end.map(|end| end.outcome), Some(TaskOutcome::Completed));
    assert!(lease.is_some(), "the task tells it");
}

#[test]
fn looks_that_a_model_did_not_make_are_counted_once() {
    let mut ledger = Ledger::new();
    let saved = |ledger: &Ledger| ledger.tallies.get(tally::REQUESTS_SAVED).copied().unwrap_or_default();
    let id = ledger.create_until(mission("没人站着"), secs(3600), server());
    ledger.clock(150);
    assert!(ledger.meet(&id, at(0), SEEN));
    assert_eq!(saved(&ledger), 10, "150 seconds, one look every 15");
    assert_eq!(ledger.tallies[tally::WAITED_MS], 150_000);

    // With a call standing by all the time, its sleep is the same wait.
    let id = ledger.create_until(waiting("站着等"), secs(3600), server());
    ledger.clock(210);
    let sleep = Sleep { id: id.clone(), since: at(150), slept: secs(60) };
    ledger.about_timer(Command::Return(sleep)).expect("known");
    assert_eq!(saved(&ledger), 10, "not yet over");
    ledger.clock(300);
    assert!(ledger.meet(&id, at(150), SEEN));
    assert_eq!(saved(&ledger), 20);

    let id = ledger.create_until(mission("停掉"), secs(3600), server());
    ledger.clock(345);
    ledger.stop(&id, "够了").expect("running");
    assert_eq!(saved(&ledger), 23);
}
