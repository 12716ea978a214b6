//! Guards session timers against any order of everything: users and agents that talk, turns that are never answered,
//! drivers that are prompt or late, sessions that are closed and begun again, attempts that fail, are lost or reported
//! late. A naive model that counts ticks one by one says when each must fire.

mod ledger;

use ledger::{Ledger, START};
use proptest::{collection::vec, prelude::*};
use reveille_core::{
    ItemId, Limits, Millis, Timestamp,
    call::{self, End, Report},
    session_timer::{Action, Reset, Spec, Status},
};
use serde_json::Map;

const TURN: i64 = 12;
const FORGET: i64 = 40;

#[derive(Clone, Debug)]
enum Op {
    Message,
    /// The agent goes on by itself.
    GoOn,
    /// The turn lives.
    Renew,
    Response,
    Close,
    /// So many ticks, at each of which the driver looks.
    Prompt(i64),
    /// So many ticks at which nobody looks.
    Asleep(i64),
    /// The oldest call under way ends like this.
    Ends(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => Just(Op::Message),
        2 => Just(Op::GoOn),
        2 => Just(Op::Renew),
        4 => Just(Op::Response),
        1 => Just(Op::Close),
        8 => (1..15i64).prop_map(Op::Prompt),
        1 => (1..60i64).prop_map(Op::Asleep),
        3 => (0..4u8).prop_map(Op::Ends),
    ]
}

fn specs() -> impl Strategy<Value = Vec<(u64, u32, bool, u8)>> {
    vec((1..20u64, 0..4u32, any::<bool>(), 0..8u8), 1..4)
}

fn limits() -> Limits {
    Limits {
        turn: Millis::new(TURN as u64),
        idle_session: Millis::new(FORGET as u64),
        call_lease: Millis::new(10),
        ..Limits::default()
    }
}

fn spec(n: usize, (delay, max_triggers, on_message, kind): (u64, u32, bool, u8)) -> Spec {
    let action = match kind {
        0 => Action::Close,
        1..=4 => Action::Say { text: format!("第{n}次") },
        kind => Action::Call { tool: format!("t{n}"), arguments: Map::new(), silent: kind == 5, closes: kind == 7 },
    };
    Spec {
        timer_id: n.to_string(),
        delay: Millis::new(delay),
        max_triggers,
        reset: if on_message { Reset::OnMessage } else { Reset::Session },
        action,
        notify: Vec::new(),
    }
}

/// One timer as a child would keep it: a stopwatch of silence and a list of strokes.
#[derive(Clone, Debug)]
struct Naive {
    spec: Spec,
    silent: Option<i64>,
    /// Since anybody said anything.
    unheard: i64,
    working: Option<i64>,
    waiting: Option<i64>,
    strokes: u32,
    fired: u32,
    over: bool,
}

impl Naive {
    fn new(spec: Spec) -> Self {
        Self { spec, silent: None, unheard: 0, working: Some(0), waiting: None, strokes: 0, fired: 0, over: false }
    }

    fn message(&mut self) {
        if self.over {
            return;
        }
        if self.spec.reset == Reset::OnMessage {
            self.strokes = 0;
        }
        (self.silent, self.working, self.waiting) = (None, Some(0), None);
    }

    fn go_on(&mut self) {
        if self.silent.is_some() {
            (self.silent, self.working) = (None, Some(0));
        }
    }

    fn response(&mut self) {
        if self.working.is_some() || self.silent.is_some() {
            (self.working, self.silent, self.unheard) = (None, Some(0), 0);
        }
    }

    /// Whether it fires at this tick.
    fn tick(&mut self) -> bool {
        if let Some(ticks) = &mut self.working {
            *ticks += 1;
            if *ticks == TURN {
                (self.working, self.silent, self.unheard) = (None, Some(0), 0);
            }
            return false;
        }
        if let Some(ticks) = &mut self.waiting {
            *ticks += 1;
            self.over |= *ticks == FORGET;
            return false;
        }
        let Some(ticks) = &mut self.silent else { return false };
        *ticks += 1;
        self.unheard += 1;
        if *ticks < self.spec.delay.get() as i64 {
            return false;
        }
        *ticks = 0;
        self.fired += 1;
        self.strokes += 1;
        let over = match self.spec.max_triggers {
            0 => self.unheard >= FORGET,
            max => self.strokes >= max,
        };
        if over {
            self.silent = None;
            match self.spec.reset {
                Reset::OnMessage => self.waiting = Some(0),
                Reset::Session => self.over = true,
            }
        }
        true
    }

    fn close(&mut self) {
        (self.silent, self.working, self.waiting, self.over) = (None, None, None, true);
    }
}

struct Play {
    ledger: Ledger,
    specs: Vec<Spec>,
    naive: Vec<Naive>,
    /// Nobody looked for a while: what the naive model says no longer holds.
    slept: bool,
}

impl Play {
    fn take(&mut self, op: &Op) {
        match op {
            Op::Message => self.message(),
            Op::GoOn => {
                let _ = self.ledger.go_on("held");
                self.naive.iter_mut().for_each(Naive::go_on);
            }
            Op::Renew => {
                let _ = self.ledger.renew(None);
                self.naive.iter_mut().for_each(|naive| naive.working = naive.working.map(|_| 0));
            }
            Op::Response => {
                let open = self.ledger.session.is_some();
                assert_eq!(self.ledger.response(None).is_ok(), open);
                self.naive.iter_mut().for_each(Naive::response);
            }
            Op::Close => {
                let _ = self.ledger.close(None);
                self.naive.iter_mut().for_each(Naive::close);
            }
            Op::Prompt(ticks) => (0..*ticks).for_each(|_| self.tick()),
            Op::Asleep(ticks) => {
                self.ledger.now = Timestamp::from_millis(self.ledger.now.as_millis() + ticks);
                self.slept = true;
                let before = self.counts();
                self.ledger.fire_all();
                for (before, after) in before.into_iter().zip(self.counts()) {
                    assert!(after <= before + 1, "what was missed was made up for");
                }
            }
            Op::Ends(how) => self.ends(*how),
        }
        self.agree();
    }

    fn message(&mut self) {
        let begins = self.naive.iter().all(|naive| naive.over) && self.ledger.session.as_ref().is_none_or(is_closed);
        let known = self.ledger.session_timers.len();
        self.ledger.message(&self.specs, None).expect("a message is never refused");
        assert_eq!(self.ledger.session_timers.len() > known, begins || known == 0);
        match begins {
            true => self.naive.extend(self.specs.iter().cloned().map(Naive::new)),
            false => self.naive.iter_mut().for_each(Naive::message),
        }
    }

    fn tick(&mut self) {
        self.ledger.now = Timestamp::from_millis(self.ledger.now.as_millis() + 1);
        // Those that end the session come last, and only the first of them.
        let (last, first): (Vec<_>, Vec<_>) = self.naive.iter_mut().partition(|naive| naive.spec.action.closes());
        for naive in first {
            naive.tick();
        }
        let mut closed = false;
        for naive in last {
            closed = closed || naive.tick();
        }
        if closed {
            self.naive.iter_mut().for_each(Naive::close);
        }
        self.ledger.fire_all();
    }

    fn ends(&mut self, how: u8) {
        let running = self.ledger.calls.iter().find(|call| call.status() == call::Status::Running);
        let Some((id, attempt)) = running.map(|call| (call.id.clone(), call.attempts)) else { return };
        let end = match how {
            0 => End::Done { result: "好".into() },
            1 => End::Failed { error: "no".into(), retry_after: None },
            2 => End::Refused { error: "never".into() },
            _ => End::Postponed { after: None },
        };
        let report = Report { status: None, took: Millis::ZERO, end };
        self.ledger.call_ended(&id, attempt + 1, report.clone()).expect("a report on another attempt changes nothing");
        self.ledger.call_ended(&id, attempt, report).expect("a report is heard");
    }

    fn counts(&self) -> Vec<u32> {
        self.ledger.session_timers.iter().map(|timer| timer.trigger_count).collect()
    }

    fn agree(&mut self) {
        if self.slept {
            // Begin to compare again with what is there now.
            self.slept = false;
            self.naive = self.ledger.session_timers.iter().map(|timer| resumed(timer, self.ledger.now)).collect();
            return;
        }
        for (naive, timer) in self.naive.iter().zip(&self.ledger.session_timers) {
            assert_eq!(
                timer.trigger_count,
                naive.fired,
                "{naive:?} {timer:?} at {}",
                self.ledger.now.as_millis() - START
            );
            assert_eq!(timer.is_suspended(), naive.working.is_some(), "{naive:?} {timer:?}");
            assert_eq!(timer.is_live(), !naive.over, "{naive:?} {timer:?}");
            assert_eq!(
                timer.status() == Status::Triggered,
                naive.silent.is_some() && timer.status() == Status::Triggered
            );
        }
        // Derived names: no firing ever makes two calls.
        let mut ids: Vec<&ItemId> = self.ledger.calls.iter().map(|call| &call.id).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), self.ledger.calls.len());
    }
}

fn is_closed(session: &reveille_core::Session) -> bool {
    session.state == reveille_core::session::SessionState::Closed
}

/// The naive model of a timer in the middle of its life.
fn resumed(timer: &reveille_core::SessionTimer, now: Timestamp) -> Naive {
    use reveille_core::session_timer::Phase;
    let left = |until: Timestamp| until.as_millis() - now.as_millis();
    let mut naive = Naive::new(timer.spec.clone());
    (naive.fired, naive.strokes, naive.working) = (timer.trigger_count, timer.used, None);
    naive.unheard = timer.silent_since.map_or(0, |since| now.since(since).get() as i64);
    match timer.phase {
        Phase::Armed { due, .. } => naive.silent = Some(timer.spec.delay.get() as i64 - left(due)),
        Phase::Suspended { until, .. } => naive.working = Some(TURN - left(until)),
        Phase::Disabled { forget_at: Some(at), .. } => naive.waiting = Some(FORGET - left(at)),
        Phase::Disabled { .. } | Phase::Cancelled { .. } => naive.over = true,
    }
    naive
}

proptest! {
    #[test]
    fn whatever_happens_they_fire_when_they_must(specs in specs(), ops in vec(op(), 1..60)) {
        let specs: Vec<Spec> = specs.into_iter().enumerate().map(|(n, one)| spec(n, one)).collect();
        let mut play = Play { ledger: Ledger::with(limits()), specs, naive: Vec::new(), slept: false };
        for op in &ops {
            play.take(op);
        }
    }
}
