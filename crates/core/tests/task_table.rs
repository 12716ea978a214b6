//! Guards tasks: stand-bys that outlive their connections. Every way a timer goes on against every kind of task, the
//! lazy end of a task's own time, and that the end is told once.

mod ledger;

use ledger::{Ledger, at, mission, secs, waiting};
use proptest::{collection::vec, prelude::*};
use reveille_core::{
    Command, ItemId, LeaseId, Millis, Purpose, RequestKey, Status, Task, TaskEnd, TaskId, TaskOutcome, Timestamp,
    task::{TASKS_MAX, external, parse},
    timer::Continuation,
};

const TOTAL: u64 = 300;

fn plain() -> Continuation {
    Continuation::default()
}

fn stand_by(seconds: u64) -> Continuation {
    Continuation { timeout: Some(secs(seconds)), ..plain() }
}

// The table.

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Waits to the end of a waiting timer.
    Waiting,
    /// Waits for 60 s of the 300.
    Short,
    Mission,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Nothing,
    Stop,
    Close,
    Cancel,
    Pause,
    TimeUp,
    CancelTask,
    /// The short one's own time passes first.
    LateStop,
    LateCancel,
    LateUp,
}

fn task_of(kind: Kind) -> (Ledger, ItemId) {
    let mut ledger = Ledger::new();
    let (purpose, timeout) = match kind {
        Kind::Waiting => (waiting("等 🕐"), None),
        Kind::Short => (waiting("等 🕐"), Some(secs(60))),
        Kind::Mission => (mission("重启"), Some(secs(60))),
    };
    let id = ledger.create_task(purpose, secs(TOTAL), timeout, "秘密");
    ledger.clock(30);
    (ledger, id)
}

/// How the task ended and when, and `!` if it may tell the timer's end.
fn outcome(kind: Kind, act: Act) -> String {
    let (mut ledger, id) = task_of(kind);
    if let Act::LateStop | Act::LateCancel | Act::LateUp = act {
        ledger.clock(100);
    }
    match act {
        Act::Nothing => {}
        Act::Stop | Act::LateStop => drop(ledger.stop(&id, "").expect("it runs")),
        Act::Close => drop(ledger.close(None).expect("it is open")),
        Act::Cancel | Act::LateCancel => drop(ledger.cancel(&id).expect("it runs")),
        Act::Pause => drop(ledger.pause(&id, secs(50)).expect("it runs")),
        Act::TimeUp | Act::LateUp => {
            ledger.clock(400);
            ledger.fire_all();
        }
        Act::CancelTask => drop(ledger.cancel_task(&id, "秘密").expect("it is open")),
    }
    let (task, lease) = ledger.read_task(&id, "秘密").expect("it is known");
    assert_eq!(ledger.read_task(&id, "秘密").expect("it is known"), (task.clone(), lease.clone()), "the same again");
    match task.end {
        None => "open".into(),
        Some(TaskEnd { at: end, outcome, .. }) => {
            let seconds = (end.as_millis() - at(0).as_millis()) / 1000;
            format!("{} {seconds}{}", outcome.as_str(), if lease.is_some() { "!" } else { "" })
        }
    }
}

#[test]
fn every_kind_of_task_ends_as_the_table_says() {
    use {Act as A, Kind as K};
    let acts = [
        A::Nothing,
        A::Stop,
        A::Close,
        A::Cancel,
        A::Pause,
        A::TimeUp,
        A::CancelTask,
        A::LateStop,
        A::LateCancel,
        A::LateUp,
    ];
    #[rustfmt::skip]
    let table = [
        (K::Waiting, ["open", "stopped 30", "stopped 30", "background 30", "paused 30", "completed 400!", "cancelled 30", "stopped 100", "background 100", "completed 400!"]),
        (K::Short,   ["open", "stopped 30", "stopped 30", "background 30", "paused 30", "timeout 60",     "cancelled 30", "timeout 60",  "timeout 60",     "timeout 60"]),
        (K::Mission, ["open", "stopped 30", "stopped 30", "open",          "open",      "completed 400!", "cancelled 30", "stopped 100", "open",           "completed 400!"]),
    ];
    for (kind, row) in table {
        for (act, expected) in acts.into_iter().zip(row) {
            assert_eq!(outcome(kind, act), expected, "{kind:?}, {act:?}");
        }
    }
}

// Time.

#[test]
fn its_own_time_ends_to_the_millisecond_and_reading_writes_nothing() {
    let (mut ledger, id) = task_of(Kind::Short);
    let before = ledger.session.clone();
    ledger.now = at(60).minus(Millis::new(1));
    assert!(ledger.read_task(&id, "秘密").expect("it is known").0.is_open());
    ledger.clock(60);
    let (task, _) = ledger.read_task(&id, "秘密").expect("it is known");
    assert_eq!(task.end, Some(TaskEnd { at: at(60), outcome: TaskOutcome::Timeout, lease: None }));
    assert_eq!(ledger.session, before);
    assert_eq!(ledger.timer(&id).status(), Status::Running, "the timer goes on");
}

#[test]
fn a_mission_is_waited_for_through_pause_and_background() {
    let (mut ledger, id) = task_of(Kind::Mission);
    ledger.pause(&id, secs(100)).expect("it runs");
    ledger.cancel(&id).expect("it is live");
    ledger.clock(400);
    ledger.fire_all();
    let (task, lease) = ledger.read_task(&id, "秘密").expect("it is known");
    assert_eq!(task.end.map(|end| (end.at, end.outcome)), Some((at(400), TaskOutcome::Completed)));
    assert!(lease.is_some());
}

#[test]
fn a_shortened_timer_completes_its_tasks_and_a_lengthened_one_lets_them_run_out() {
    for (left, expected) in [(10, TaskOutcome::Completed), (900, TaskOutcome::Timeout)] {
        let (mut ledger, id) = task_of(Kind::Waiting);
        let ask = Continuation { total: Some(secs(left)), ..plain() };
        ledger.proceed(&id, ask).expect("it runs");
        ledger.clock(2000);
        ledger.fire_all();
        let (task, _) = ledger.read_task(&id, "秘密").expect("it is known");
        assert_eq!(task.end.map(|end| end.outcome), Some(expected), "{left}");
    }
}

// Beginning.

#[test]
fn a_task_begins_only_where_somebody_waits() {
    let mut ledger = Ledger::new();
    let id = ledger.create(waiting("x"), secs(TOTAL), None);
    ledger.pause(&id, secs(50)).expect("it runs");
    let timer = ledger.proceed_task(&id, stand_by(20), "一").expect("it is live");
    assert_eq!(timer.tasks, [], "a paused timer answers at once");
    ledger.resume(&id).expect("it is paused");
    let timer = ledger.proceed_task(&id, stand_by(20), "二").expect("it runs");
    assert_eq!(timer.tasks, [Task { id: TaskId::new("二"), since: at(0), until: Some(at(20)), end: None }]);
    let id = ledger.create(mission("m"), secs(TOTAL), None);
    let timer = ledger.proceed_task(&id, plain(), "三").expect("it runs");
    assert_eq!(timer.tasks[0].until, None, "a mission is waited for to the end");
    let timer = ledger.proceed_task(&id, stand_by(20), "四").expect("it runs");
    assert_eq!(timer.tasks[1].until, Some(at(20)), "unless it is asked for less");
}

#[test]
fn a_repeated_creation_is_a_task_of_the_timer_made_before() {
    for purpose in [waiting("x"), mission("x")] {
        let mut ledger = Ledger::new();
        let key = RequestKey { key: "k".into(), fingerprint: "f".into() };
        let create = |ledger: &mut Ledger, task: &str| {
            let (id, task) = (ledger.new_id(), Some(TaskId::new(task)));
            let (purpose, key) = (purpose.clone(), Some(key.clone()));
            let made = Command::Create { id, purpose, total: secs(TOTAL), timeout: None, until: None, key, task };
            ledger.about_timer(made).expect("it can be made").0
        };
        let (first, again) = (create(&mut ledger, "一"), create(&mut ledger, "二"));
        assert_eq!(first.id, again.id);
        assert_eq!(again.tasks.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), ["一", "二"]);
    }
}

#[test]
fn eight_are_remembered_and_the_oldest_ended_goes_first() {
    let mut ledger = Ledger::new();
    let id = ledger.create_task(mission("m"), secs(TOTAL), None, "0");
    for n in 1..TASKS_MAX {
        ledger.proceed_task(&id, plain(), &n.to_string()).expect("there is room");
    }
    let before = ledger.session.clone();
    let refused = ledger.proceed_task(&id, plain(), "more").expect_err("all are open");
    assert_eq!((refused.code(), &ledger.session), ("too_many_tasks", &before));
    ledger.clock(1);
    ledger.cancel_task(&id, "5").expect("it is open");
    ledger.clock(2);
    ledger.cancel_task(&id, "2").expect("it is open");
    ledger.proceed_task(&id, plain(), "8").expect("an ended one makes room");
    let names: Vec<String> = ledger.timer(&id).tasks.iter().map(|task| task.id.to_string()).collect();
    assert_eq!(names, ["0", "1", "2", "3", "4", "6", "7", "8"]);
    assert_eq!(ledger.read_task(&id, "5").expect_err("forgotten").code(), "unknown_task");
    assert_eq!(ledger.cancel_task(&id, "2").expect_err("it has ended").code(), "task_ended");
    let unknown = ItemId::new("timer_none");
    assert_eq!(ledger.read_task(&unknown, "0").expect_err("no such timer").code(), "unknown_timer");
}

#[test]
fn cancelling_a_task_leaves_the_timer_and_its_message_alone() {
    let (mut ledger, id) = task_of(Kind::Waiting);
    ledger.cancel_task(&id, "秘密").expect("it is open");
    assert_eq!((ledger.timer(&id).status(), ledger.timer(&id).standby), (Status::Running, None));
    ledger.clock(300);
    ledger.fire_all();
    assert!(ledger.messages[0].is_free(ledger.now), "nobody waits, so it is a message for all");
    assert_eq!(ledger.events(id.as_str()), ["timer.created", "timer.task_cancelled", "timer.completed"]);
}

// Telling.

fn completed() -> (Ledger, ItemId, LeaseId) {
    let (mut ledger, id) = task_of(Kind::Waiting);
    ledger.clock(300);
    ledger.fire_all();
    assert_eq!(ledger.collect("hook", secs(30), 9), [], "it is the task's to tell");
    let (_, lease) = ledger.read_task(&id, "秘密").expect("it is known");
    (ledger, id, lease.expect("and the task is given the right to"))
}

#[test]
fn the_end_is_told_by_the_task_and_by_nobody_else() {
    let (mut ledger, id, lease) = completed();
    assert_eq!(ledger.commit_lease(lease.as_str(), "task"), Ok(1));
    assert_eq!(ledger.read_task(&id, "秘密").expect("it is known").1, None, "it was told");
    ledger.clock(9000);
    assert_eq!(ledger.collect("hook", secs(30), 9), []);
}

#[test]
fn a_task_nobody_asks_about_keeps_its_message_from_nobody() {
    let (mut ledger, id) = task_of(Kind::Mission);
    ledger.clock(300);
    ledger.fire_all();
    ledger.clock(329);
    assert_eq!(ledger.collect("hook", secs(60), 9), []);
    ledger.clock(330);
    assert_eq!(ledger.collect("hook", secs(60), 9).len(), 1);
    let (task, lease) = ledger.read_task(&id, "秘密").expect("it is known");
    assert_eq!((task.end.map(|end| end.outcome), lease), (Some(TaskOutcome::Completed), None), "another tells it");
    assert_eq!(ledger.release_lease("hook"), Ok(1));
    let (_, lease) = ledger.read_task(&id, "秘密").expect("it is known");
    assert!(lease.is_some(), "given back, it is the reader's again");
    assert_eq!(ledger.collect("hook", secs(60), 9), []);
}

#[test]
fn reading_takes_the_time_to_tell_anew() {
    let (mut ledger, id, lease) = completed();
    ledger.clock(325);
    assert_eq!(ledger.read_task(&id, "秘密").expect("it is known").1, Some(lease.clone()));
    ledger.clock(350);
    assert_eq!(ledger.collect("hook", secs(30), 9), []);
    assert_eq!(ledger.release_lease(lease.as_str()), Ok(1));
    assert_eq!(ledger.collect("hook", secs(30), 9).len(), 1, "the reply was not written");
}

#[test]
fn a_call_that_stands_by_comes_before_a_task_and_the_latest_task_before_the_others() {
    let (mut ledger, id) = task_of(Kind::Waiting);
    ledger.standing.insert(id.clone(), LeaseId::new("call"));
    ledger.clock(300);
    ledger.fire_all();
    let (task, lease) = ledger.read_task(&id, "秘密").expect("it is known");
    assert_eq!((task.end.map(|end| end.outcome), lease), (Some(TaskOutcome::Completed), None));
    assert_eq!(ledger.commit_lease("call", "standby"), Ok(1));

    let (mut ledger, id) = task_of(Kind::Waiting);
    ledger.proceed_task(&id, plain(), "后来的").expect("it runs");
    ledger.clock(300);
    ledger.fire_all();
    assert_eq!(ledger.read_task(&id, "秘密").expect("it is known").1, None);
    assert!(ledger.read_task(&id, "后来的").expect("it is known").1.is_some());
}

#[test]
fn names_lead_to_their_timer_and_cannot_be_guessed() {
    let (timer, task) = (ItemId::new("timer_0011000011"), TaskId::secret(u128::MAX));
    assert_eq!(task.as_str(), "7zzzzzzzzzzzzzzzzzzzzzzzzz");
    assert_eq!(TaskId::secret(1).as_str(), "00000000000000000000000001");
    let name = external(&timer, &task);
    assert_eq!(parse(&name), Some((timer, task)));
    for wrong in ["", ".", "timer_x", "timer_x.", ".secret"] {
        assert_eq!(parse(wrong), None, "{wrong}");
    }
    // Nothing that people see names the secret.
    let (mut ledger, id, _) = completed();
    ledger.commit_lease(&format!("lease_{}", "秘密"), "task").expect("the lease holds it");
    assert!(ledger.history.iter().all(|entry| !format!("{entry:?}").contains("秘密")), "{id}");
}

// Any order of everything.

#[derive(Clone, Debug)]
enum Op {
    Begin { timeout: Option<u64> },
    Read(usize),
    CancelTask(usize),
    Commit(usize),
    Cancel,
    Pause(u64),
    Resume,
    Stop,
    Lengthen(u64),
    Fire,
    Collect,
    Clock(i64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => proptest::option::of(1..60u64).prop_map(|timeout| Op::Begin { timeout }),
        5 => (0..12usize).prop_map(Op::Read),
        1 => (0..12usize).prop_map(Op::CancelTask),
        2 => (0..12usize).prop_map(Op::Commit),
        1 => Just(Op::Cancel),
        1 => (1..40u64).prop_map(Op::Pause),
        1 => Just(Op::Resume),
        1 => Just(Op::Stop),
        1 => (1..200u64).prop_map(Op::Lengthen),
        3 => Just(Op::Fire),
        2 => Just(Op::Collect),
        6 => (1..30i64).prop_map(Op::Clock),
        1 => (-50..300i64).prop_map(Op::Clock),
    ]
}

fn name(n: usize) -> String {
    format!("task{n}")
}

proptest! {
    /// `Ledger` checks behind every step that no ended task changes, that none stays open past its timer and that none
    /// ends after its own time. Here: what a reader sees never changes once it has ended, and the end is told once.
    #[test]
    fn a_task_ends_once_and_the_end_is_told_once(missions in any::<bool>(), ops in vec(op(), 1..60)) {
        let mut ledger = Ledger::new();
        let purpose = if missions { Purpose::Mission("m".into()) } else { Purpose::Waiting("w".into()) };
        let id = ledger.create_task(purpose, secs(100), None, &name(0));
        let (mut begun, mut seen, mut forward) = (1, Vec::<Task>::new(), true);
        for op in ops {
            match op {
                Op::Begin { timeout } => {
                    let ask = Continuation { timeout: timeout.map(secs), ..plain() };
                    if ledger.proceed_task(&id, ask, &name(begun)).is_ok() {
                        begun += 1;
                    }
                }
                Op::Read(n) => {
                    let Ok((task, lease)) = ledger.read_task(&id, &name(n)) else { continue };
                    if let Some(lease) = lease {
                        prop_assert_eq!(ledger.timer(&id).status(), Status::Completed);
                        let holder = ledger.messages[0].lease.as_ref().map(|held| held.id.clone());
                        prop_assert_eq!(holder, Some(lease));
                    }
                    let before = seen.iter().find(|seen| seen.id == task.id);
                    // Only a clock set back can show a task open again whose time was never written down as over.
                    prop_assert!(before.is_none_or(|before| *before == task || !forward), "{:?} {:?}", before, task);
                    if !task.is_open() && before.is_none() {
                        seen.push(task);
                    }
                }
                Op::CancelTask(n) => drop(ledger.cancel_task(&id, &name(n))),
                Op::Commit(n) => drop(ledger.commit_lease(&format!("lease_{}", name(n)), "task")),
                Op::Cancel => drop(ledger.cancel(&id)),
                Op::Pause(length) => drop(ledger.pause(&id, secs(length))),
                Op::Resume => drop(ledger.resume(&id)),
                Op::Stop => drop(ledger.stop(&id, "")),
                Op::Lengthen(left) => {
                    let ask = Continuation { total: Some(secs(left)), ..plain() };
                    drop(ledger.proceed(&id, ask));
                }
                Op::Fire => drop(ledger.fire_all()),
                Op::Collect => drop(ledger.collect("hook", secs(20), 9)),
                Op::Clock(seconds) => {
                    forward &= seconds > 0;
                    ledger.now = Timestamp::from_millis(ledger.now.as_millis() + seconds * 1000);
                }
            }
        }
        prop_assert!(ledger.messages.len() <= 1);
        if let Some(message) = ledger.messages.first() {
            let told = ledger.events(&message.id).len();
            prop_assert_eq!(told, usize::from(message.delivered.is_some()));
        }
    }
}
