//! Guards timers against every order of commands and every clock: random lives of a session, each step checked against
//! the promises that always hold (`Ledger` holds the common ones) and against an independent model (`stopwatch`).

mod ledger;
mod stopwatch;

use ledger::{Ledger, START};
use proptest::{collection::vec, option, prelude::*};
use reveille_core::{
    Command, ItemId, Limits, Millis, Purpose, Reject, RequestKey, Sleep, Status, Timer, Timestamp,
    timer::{Continuation, Phase},
};
use stopwatch::{Answer, Continue, Hand, Shelf};

const LIVE_MAX: usize = 4;
const YEAR_MS: u64 = 366 * 24 * 3600 * 1000;

/// What is asked. Timers are numbered from the newest, so that the live ones are hit; where none is, the id is unknown.
#[derive(Clone, Debug)]
enum Op {
    Create { mission: bool, total: u64, timeout: Option<u64>, key: Option<u8> },
    Continue { which: usize, total: Option<u64>, timeout: Option<u64>, reason: bool, mission: bool },
    Cancel(usize),
    Pause(usize, u64),
    Resume(usize),
    Stop(usize),
    Read(usize),
    Return(usize, u64),
    ProposeAll,
    Close,
}

/// The place of a timer in the order of creation.
fn place(which: usize, timers: usize) -> usize {
    timers.checked_sub(1 + which).unwrap_or(usize::MAX)
}

/// What the clock does before.
#[derive(Clone, Debug)]
enum Wait {
    By(i64),
    /// To the deadline of a timer, or a millisecond beside it.
    NearDue(usize, i64),
}

/// One step of a life; `look` reads everything afterwards, so that time is noticed sometimes at once, sometimes late.
#[derive(Clone, Debug)]
struct Step {
    wait: Wait,
    op: Op,
    look: bool,
}

fn length() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![4 => 1..30u64, 4 => 1..2_000u64, 1 => 1..=YEAR_MS]
}

fn op(length: impl Strategy<Value = u64> + Clone + 'static) -> impl Strategy<Value = Op> {
    let which = || 0..5usize;
    let maybe = option::of(length.clone());
    let fresh = (any::<bool>(), length.clone(), maybe.clone(), option::weighted(0.1, 0..3u8));
    let again = (which(), maybe.clone(), maybe, prop::bool::weighted(0.2), prop::bool::weighted(0.2));
    prop_oneof![
        12 => fresh.prop_map(|(mission, total, timeout, key)| Op::Create { mission, total, timeout, key }),
        // The same request under the same key, as a client repeats it.
        3 => (0..3u8).prop_map(|key| Op::Create { mission: key == 0, total: 20, timeout: Some(7), key: Some(key) }),
        12 => again.prop_map(|(which, total, timeout, reason, mission)| {
            Op::Continue { which, total, timeout, reason, mission }
        }),
        10 => which().prop_map(Op::Cancel),
        14 => (which(), length).prop_map(|(which, length)| Op::Pause(which, length)),
        10 => which().prop_map(Op::Resume),
        3 => which().prop_map(Op::Stop),
        5 => which().prop_map(Op::Read),
        2 => (which(), 0..100_000u64).prop_map(|(which, slept)| Op::Return(which, slept)),
        5 => Just(Op::ProposeAll),
        1 => Just(Op::Close),
    ]
}

fn forward() -> impl Strategy<Value = Wait> {
    prop_oneof![
        8 => Just(Wait::By(0)),
        12 => (1..30i64).prop_map(Wait::By),
        3 => (1..2_000i64).prop_map(Wait::By),
        1 => (1..1_000_000_000_000i64).prop_map(Wait::By),
        6 => (0..6usize, -1..=1i64).prop_map(|(which, beside)| Wait::NearDue(which, beside)),
    ]
}

fn any_way() -> impl Strategy<Value = Wait> {
    prop_oneof![
        3 => forward(),
        1 => (-2_000..0i64).prop_map(Wait::By),
        1 => (-1_000_000_000_000..0i64).prop_map(Wait::By),
    ]
}

fn life(wait: impl Strategy<Value = Wait> + 'static) -> impl Strategy<Value = Vec<Step>> {
    vec((wait, op(length()), any::<bool>()).prop_map(|(wait, op, look)| Step { wait, op, look }), 1..80)
}

fn ledger() -> Ledger {
    Ledger::with(Limits { live_timers_max: LIVE_MAX as u32, ..Limits::default() })
}

fn wait(ledger: &mut Ledger, wait: &Wait) {
    let now = ledger.now.as_millis();
    let to = match *wait {
        Wait::By(ms) => now + ms,
        Wait::NearDue(which, beside) => match ledger.timers.get(place(which, ledger.timers.len())).and_then(Timer::due)
        {
            Some(due) => now.max(due.as_millis() + beside),
            None => now,
        },
    };
    ledger.now = Timestamp::from_millis(to);
}

fn play(ledger: &mut Ledger, op: &Op) -> Answer {
    let id = |which: usize| match ledger.timers.get(place(which, ledger.timers.len())) {
        Some(timer) => timer.id.clone(),
        None => ItemId::new("timer_unknown0"),
    };
    let text = |said: bool| said.then(|| "换一个说法 ✍️".to_owned());
    let note = None;
    let command = match *op {
        Op::Create { mission, total, timeout, key } => {
            let purpose =
                if mission { Purpose::Mission("重启 🔁".into()) } else { Purpose::Waiting("等待".into()) };
            let key = key.map(|key| {
                let fingerprint = arguments(mission, total, timeout);
                RequestKey { key: format!("key-{key}"), fingerprint }
            });
            let id = ledger.new_id();
            Command::Create {
                id,
                purpose,
                total: Millis::new(total),
                timeout: timeout.map(Millis::new),
                until: None,
                key,
                task: None,
            }
        }
        Op::Continue { which, total, timeout, reason, mission } => Command::Continue {
            id: id(which),
            ask: Continuation {
                total: total.map(Millis::new),
                timeout: timeout.map(Millis::new),
                reason: text(reason),
                mission: text(mission),
                until: None,
            },
            task: None,
        },
        Op::Cancel(which) => Command::Cancel { id: id(which), note },
        Op::Pause(which, length) => Command::Pause { id: id(which), length: Millis::new(length), note },
        Op::Resume(which) => Command::Resume { id: id(which), note },
        Op::Stop(which) => Command::Stop { id: id(which), note },
        Op::Read(which) => Command::Read { id: Some(id(which)) },
        Op::Return(which, slept) => {
            Command::Return(Sleep { id: id(which), since: Timestamp::from_millis(0), slept: Millis::new(slept) })
        }
        Op::ProposeAll => {
            ledger.fire_all();
            return Ok(None);
        }
        Op::Close => return ledger.close(None).map(|_| None).map_err(|refused| refused.code()),
    };
    let (timer, stand_by) = ledger.about_timer(command).map_err(|refused: Reject| refused.code())?;
    assert_eq!(&timer, ledger.timer(&timer.id), "what was answered is what is kept");
    Ok(stand_by.map(Millis::get))
}

fn arguments(mission: bool, total: u64, timeout: Option<u64>) -> String {
    format!("{mission} {total} {timeout:?}")
}

/// The same wish, asked of the model.
fn play_model(shelf: &mut Shelf, op: &Op, now: i64) -> Answer {
    let timers = shelf.watches.len();
    let place = |which| place(which, timers);
    match *op {
        Op::Create { mission, total, timeout, key } => {
            shelf.create(mission, total, timeout, key.map(|key| (key, arguments(mission, total, timeout))), now)
        }
        Op::Continue { which, total, timeout, reason, mission } => {
            shelf.proceed(place(which), &Continue { total, timeout, reason, mission })
        }
        Op::Cancel(which) => shelf.cancel(place(which)),
        Op::Pause(which, length) => shelf.pause(place(which), length, now),
        Op::Resume(which) => shelf.resume(place(which)),
        Op::Stop(which) => shelf.stop(place(which)),
        Op::Read(which) | Op::Return(which, _) => shelf.look(place(which)),
        Op::ProposeAll => Ok(None),
        Op::Close => shelf.close(),
    }
}

/// Whatever else happened to a timer that was paused: only the time after its pause has counted.
fn check_frozen(before: &[Timer], ledger: &Ledger, op: &Op) {
    for (nth, timer) in before.iter().enumerate() {
        let after = &ledger.timers[nth];
        let Phase::Paused { remaining, until, .. } = timer.phase else { continue };
        let given_again =
            matches!(op, Op::Continue { which, total: Some(_), .. } if place(*which, before.len()) == nth);
        if given_again || after.phase == timer.phase {
            continue;
        }
        let left = remaining.minus(ledger.now.since(until));
        assert_eq!(after.remaining(ledger.now), left, "was {timer:?}, is {after:?} after {op:?}");
        assert_eq!(after.status() == Status::Completed, left.is_zero(), "was {timer:?}, is {after:?} after {op:?}");
    }
}

/// Lets everything end that still lives, and checks that it ends once.
fn check_end(ledger: &mut Ledger) {
    let live = ledger.timers.iter().filter(|timer| timer.is_live()).count();
    let (told, fired) = (ledger.messages.len(), ledger.fired.len());
    ledger.now = Timestamp::from_millis(i64::MAX);
    ledger.fire_all();
    assert_eq!(ledger.messages.len(), told + live, "each live timer ends with one message");
    assert!(ledger.fired.len() >= fired + live);
    assert!(ledger.timers.iter().all(|timer| !timer.is_live()), "time ends every timer");
    assert_eq!(ledger.fire_all(), [], "and only once");
}

proptest! {
    #[test]
    fn the_promises_hold_whatever_is_asked_and_whatever_the_clock_does(life in life(any_way())) {
        let mut ledger = ledger();
        for Step { wait: clock, op, look } in &life {
            wait(&mut ledger, clock);
            let (session, before, fired) = (ledger.session.clone(), ledger.timers.clone(), ledger.fired.len());
            let answer = play(&mut ledger, op);
            if answer.is_err() && ledger.fired.len() == fired {
                prop_assert_eq!((&ledger.session, &ledger.timers), (&session, &before), "a refusal writes nothing");
            }
            if *look {
                ledger.read_all();
                let late = ledger.timers.iter().find(|timer| timer.due().is_some_and(|due| due <= ledger.now));
                prop_assert_eq!(late, None, "read, yet time has not acted");
            }
            check_frozen(&before, &ledger, op);
        }
        check_end(&mut ledger);
    }

    #[test]
    fn an_independent_model_agrees_at_every_step(life in life(forward())) {
        let mut ledger = ledger();
        let mut shelf = Shelf::new(LIVE_MAX);
        for (n, Step { wait: clock, op, .. }) in life.iter().enumerate() {
            wait(&mut ledger, clock);
            let now = ledger.now;
            shelf.live_until(now.as_millis());
            if let Op::Create { .. } = op {
                // What has ended makes room once it was noticed; the driver notices at once.
                ledger.fire_all();
            }
            prop_assert_eq!(play(&mut ledger, op), play_model(&mut shelf, op, now.as_millis()), "step {}: {:?}", n, op);
            let kept: Vec<_> = ledger
                .read_all()
                .iter()
                .map(|timer| {
                    let (elapsed, remaining) = (timer.elapsed(now), timer.remaining(now));
                    (timer.status().as_str(), timer.total.get(), elapsed.get(), remaining.get(), timer.due())
                })
                .collect();
            let modelled: Vec<_> = shelf
                .watches
                .iter()
                .map(|watch| {
                    let left = if watch.hand == Hand::Done { 0 } else { watch.total - watch.ran };
                    let due = match watch.hand {
                        Hand::Going { .. } => Some(now.plus(Millis::new(left))),
                        Hand::Resting { until, .. } => Some(Timestamp::from_millis(until)),
                        Hand::Done | Hand::Halted => None,
                    };
                    (watch.status(), watch.total, watch.ran, left, due)
                })
                .collect();
            prop_assert_eq!(kept, modelled, "step {}: {:?}", n, op);
        }
        let done = shelf.watches.iter().filter(|watch| watch.hand == Hand::Done).count();
        prop_assert_eq!(ledger.messages.len(), done);
    }

    /// A clock that is wrong by millions of years gives wrong times, never a crash or a broken sum.
    #[test]
    fn no_clock_and_no_length_breaks_anything(
        steps in vec((prop_oneof![any::<i64>(), Just(i64::MAX), Just(i64::MIN), Just(START)], op(any::<u64>())), 1..20)
    ) {
        let mut ledger = ledger();
        for (now, op) in &steps {
            ledger.now = Timestamp::from_millis(*now);
            play(&mut ledger, op).ok();
        }
        check_end(&mut ledger);
    }
}
