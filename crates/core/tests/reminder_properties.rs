//! Guards reminders against any order of everything: agents that schedule, replace and cancel, channels that lease,
//! commit, release and crash, a driver that comes late, and a clock that jumps. A naive model says what must be.

mod ledger;

use ledger::{Ledger, START, at};
use proptest::{collection::vec, prelude::*};
use reveille_core::{
    ItemId, Limits, Millis, Timestamp,
    reminder::{Ask, Change, Content, Due, Status},
};
use std::collections::HashMap;

/// Small, so that everything happens to everything.
const WINDOW: i64 = 6;
const KEPT: i64 = 20;

#[derive(Clone, Debug)]
enum Op {
    Schedule {
        due: i64,
    },
    Replace {
        which: usize,
        due: i64,
    },
    Cancel(usize),
    Clear,
    Close,
    Fire,
    Lease {
        max: usize,
        length: u64,
    },
    Commit(usize),
    Release(usize),
    /// Any way, any distance.
    Clock(i64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => (-25..40i64).prop_map(|due| Op::Schedule { due }),
        2 => (0..9usize, -25..40i64).prop_map(|(which, due)| Op::Replace { which, due }),
        1 => (0..9usize).prop_map(Op::Cancel),
        1 => Just(Op::Clear),
        1 => Just(Op::Close),
        6 => Just(Op::Fire),
        5 => (1..3usize, 1..30u64).prop_map(|(max, length)| Op::Lease { max, length }),
        4 => (0..9usize).prop_map(Op::Commit),
        2 => (0..9usize).prop_map(Op::Release),
        6 => (1..12i64).prop_map(Op::Clock),
        1 => (-60..200i64).prop_map(Op::Clock),
    ]
}

/// What an agent may count on, kept by an observer who sees only replies.
#[derive(Default)]
struct Observer {
    leases: usize,
    /// Which task (with its due time) each lease holds.
    held: HashMap<usize, Vec<(ItemId, Timestamp)>>,
    /// Told: the task as it was due then. Never twice.
    told: Vec<(ItemId, Timestamp)>,
}

fn limits() -> Limits {
    Limits {
        due_window: Millis::new(WINDOW as u64),
        reminder_retention: Millis::new(KEPT as u64),
        live_reminders_max: 6,
        ..Limits::default()
    }
}

fn play(ledger: &mut Ledger, observer: &mut Observer, op: &Op) {
    let due_in = |ledger: &Ledger, ms: i64| Due::At(Timestamp::from_millis(ledger.now.as_millis() + ms));
    let some = |ledger: &Ledger, which: usize| {
        let count = ledger.reminders.len();
        (count > 0).then(|| ledger.reminders[which % count].id.clone())
    };
    match *op {
        Op::Schedule { due } => {
            let content = Content { task: "到点了".into(), tool: None, arguments: None };
            let ask = Ask::New { id: ledger.new_task(), due: due_in(ledger, due), content };
            let live = ledger.reminders.iter().filter(|reminder| reminder.is_live()).count();
            let answer = ledger.schedule(vec![ask], None);
            // Deadlines that had passed may have made room meanwhile.
            match answer.map_err(|refused| refused.code()) {
                Ok(_) => assert!(due + KEPT > 0),
                Err("due_too_old") => assert!(due + KEPT <= 0),
                Err(code) => assert_eq!((code, live >= 6), ("too_many_reminders", true)),
            }
        }
        Op::Replace { which, due } => {
            let Some(id) = some(ledger, which) else { return };
            let change = Change { due: Some(due_in(ledger, due)), ..Change::default() };
            let _ = ledger.schedule(vec![Ask::Replace { id, change }], None);
        }
        Op::Cancel(which) => {
            if let Some(id) = some(ledger, which) {
                let _ = ledger.cancel_reminder(&id);
            }
        }
        Op::Clear => drop(ledger.clear()),
        Op::Close => drop(ledger.close(None)),
        Op::Fire => drop(ledger.fire_all()),
        Op::Lease { max, length } => {
            observer.leases += 1;
            let taken = ledger.collect(&observer.leases.to_string(), Millis::new(length), max);
            let held = taken.iter().map(|message| (message.source.clone(), ledger.reminder(&message.source).due_at));
            let held: Vec<(ItemId, Timestamp)> = held.collect();
            for (id, due_at) in &held {
                assert!(ledger.now < due_at.plus(ledger.limits.reminder_retention), "{id} is told too late");
                assert!(!observer.told.contains(&(id.clone(), *due_at)) || ledger.reminder(id).delivery_count == 0);
            }
            observer.held.insert(observer.leases, held);
        }
        Op::Commit(lease) => {
            let before: Vec<ItemId> = delivered(ledger);
            if ledger.commit_lease(&lease.to_string(), "频道").is_ok() {
                let now: Vec<ItemId> = delivered(ledger);
                let fresh: Vec<&ItemId> = now.iter().filter(|id| !before.contains(id)).collect();
                for id in fresh {
                    let due_at = ledger.reminder(id).due_at;
                    let held = observer.held.get(&lease).expect("a lease that was given");
                    assert!(held.iter().any(|(of, _)| of == id), "{id} was not this lease's to tell");
                    observer.told.push((id.clone(), due_at));
                }
            }
        }
        Op::Release(lease) => drop(ledger.release_lease(&lease.to_string())),
        Op::Clock(ms) => ledger.now = Timestamp::from_millis(ledger.now.as_millis() + ms),
    }
}

fn delivered(ledger: &Ledger) -> Vec<ItemId> {
    let delivered = ledger.reminders.iter().filter(|reminder| reminder.status() == Status::Delivered);
    delivered.map(|reminder| reminder.id.clone()).collect()
}

proptest! {
    /// `Ledger` checks after every commit that nothing is due or given up early, that a reminder and its message are one
    /// and that the counts agree. In the end every reminder has one fate, and the history tells it.
    #[test]
    fn each_reminder_has_one_fate_and_is_told_at_most_once(ops in vec(op(), 1..80)) {
        let mut ledger = Ledger::with(limits());
        let mut observer = Observer::default();
        for op in &ops {
            play(&mut ledger, &mut observer, op);
        }
        // Nobody comes any more: whatever is pending is missed in the end, however leases stood.
        ledger.now = ledger.now.plus(Millis::from_secs(3600)).max(at(3600));
        while !ledger.fire_all().is_empty() {}
        for reminder in &ledger.reminders {
            prop_assert!(!reminder.is_live(), "{reminder:?}");
            let events = ledger.events(reminder.id.as_str());
            let ends = ["reminder.delivered", "reminder.missed", "reminder.cancelled"];
            let ended: Vec<&str> = events.into_iter().filter(|event| ends.contains(event)).collect();
            prop_assert_eq!(ended.join(", "), format!("reminder.{}", reminder.status().as_str()));
            let told = observer.told.iter().filter(|(id, _)| *id == reminder.id).count();
            prop_assert_eq!(told, usize::from(reminder.status() == Status::Delivered));
        }
        prop_assert!(ledger.messages.iter().all(|message| message.delivered.is_some()));
    }

    /// With a driver that is never late and nobody to deliver to: told and missed to the millisecond.
    #[test]
    fn alone_it_is_told_and_missed_on_time(due in 0..500i64, step in 1..7i64) {
        let mut ledger = Ledger::with(limits());
        let due_at = Timestamp::from_millis(START + due);
        let content = Content { task: "x".into(), tool: None, arguments: None };
        let ask = Ask::New { id: ledger.new_task(), due: Due::At(due_at), content };
        let id = ledger.schedule(vec![ask], None).expect("it is to come")[0].id.clone();
        // What is wanted sooner than the window is told at its time.
        let early = if due > WINDOW { WINDOW } else { 0 };
        for ms in (0..600).step_by(step as usize) {
            ledger.now = Timestamp::from_millis(START + ms);
            ledger.fire_all();
            let expected = match ms - due {
                before if before < -early => Status::Scheduled,
                late if late >= KEPT => Status::Missed,
                _ => Status::Due,
            };
            prop_assert_eq!(ledger.reminder(&id).status(), expected, "{} ms after it is due", ms - due);
        }
    }
}
