//! One timer, as a pure state machine.
//!
//! Time is kept as a deadline while the timer runs and as a remainder while it is paused, so nothing has to be
//! corrected afterwards: frozen time cannot drift. `elapsed` is always derived, hence `elapsed + remaining == total`
//! in every state and at every instant, whatever the clock does.
//!
//! Callers settle a timer ([`Timer::settle`]) before they act on it; `decide` refuses to do otherwise.

use crate::{
    condition::{Wanted, Watch},
    id::{ItemId, LeaseId, TaskId},
    quiet::Quiet,
    recurrence::Strike,
    reject::Reject,
    schedule::Schedule,
    task::{self, Task, TaskOutcome},
    time::{Millis, Timestamp},
};
use serde::{Deserialize, Serialize};

/// The note of a timer whose pause was over by itself, in the original's words.
pub const AUTO_RESUMED: &str = "Auto-resume after pause duration";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timer {
    pub id: ItemId,
    pub purpose: Purpose,
    /// Of a recurring one: from the last time to the next.
    pub total: Millis,
    pub phase: Phase,
    /// What its deadlines follow, if not the total alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Box<Schedule>>,
    /// Its time comes within quiet hours, and is told when they are over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opens_at: Option<Timestamp>,
    /// Why it was last stopped, cancelled, paused or resumed (`stop_reason` to agents).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub created_at: Timestamp,
    /// When an agent last acted on this timer or came back from standing by.
    pub last_check_at: Timestamp,
    /// The call that stands by, if one does. A call lost in a crash leaves one whose `until` simply passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standby: Option<StandBy>,
    /// Stand-bys that outlive their connections, in the order they began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<Task>,
    /// What it waits for besides its time: it ends as soon as that holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Watch>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The agent waits for something and looks again by itself.
    Waiting(String),
    /// The agent ends its turn and is woken to do this.
    Mission(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Phase {
    Running {
        due: Timestamp,
        background: bool,
    },
    /// `remaining` is frozen; `background` is what it goes back to.
    Paused {
        remaining: Millis,
        until: Timestamp,
        background: bool,
    },
    /// `remaining` is what was left when its condition was met; nothing if its time was up.
    Completed {
        at: Timestamp,
        #[serde(default, skip_serializing_if = "Millis::is_zero")]
        remaining: Millis,
    },
    Stopped {
        at: Timestamp,
        remaining: Millis,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandBy {
    pub since: Timestamp,
    pub until: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Running,
    Paused,
    RunningBackground,
    Completed,
    Stopped,
}

impl Status {
    pub const ALL: [Status; 5] =
        [Status::Running, Status::Paused, Status::RunningBackground, Status::Completed, Status::Stopped];

    pub const fn as_str(self) -> &'static str {
        match self {
            Status::Running => "running",
            Status::Paused => "paused",
            Status::RunningBackground => "running_background",
            Status::Completed => "completed",
            Status::Stopped => "stopped",
        }
    }

    pub const fn is_live(self) -> bool {
        matches!(self, Status::Running | Status::Paused | Status::RunningBackground)
    }
}

/// What time itself did to a timer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The pause was over at `at`; counting went on from that very instant, however late this was noticed.
    PauseOver { at: Timestamp, remaining: Millis, status: Status },
    /// At `due`, which was to be told from `opened` on.
    TimeUp { due: Timestamp, opened: Timestamp },
    /// A recurring timer's time has come, or several times; it goes on if there is a next one.
    Struck { due: Timestamp, strike: Strike },
}

/// What it means for a timer that somebody saw its condition hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    /// Nothing: by now it is paused, over, or waits for something else.
    No,
    Ends,
    /// It has ended, which is told when quiet hours are over, at this instant.
    Waits(Timestamp),
}

/// What a continuing `timer` call asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Continuation {
    /// "This much remains from now."
    pub total: Option<Millis>,
    pub timeout: Option<Millis>,
    pub reason: Option<String>,
    pub mission: Option<String>,
    /// Instead of what it waited for before, if anything.
    pub until: Option<Wanted>,
}

impl Timer {
    /// A new timer, and how long the creating call stands by (a mission: not at all).
    pub fn create(
        id: ItemId,
        purpose: Purpose,
        total: Millis,
        timeout: Option<Millis>,
        until: Option<Wanted>,
        now: Timestamp,
    ) -> (Timer, Option<Millis>) {
        let stand_by = match purpose {
            Purpose::Waiting(_) => Some(timeout.unwrap_or(total).min(total)),
            Purpose::Mission(_) => None,
        };
        let timer = Timer {
            id,
            purpose,
            total,
            phase: Phase::Running { due: now.plus(total), background: false },
            schedule: None,
            opens_at: None,
            note: None,
            created_at: now,
            last_check_at: now,
            standby: stand_by.map(|length| StandBy { since: now, until: now.plus(length) }),
            tasks: Vec::new(),
            until: until.map(|wanted| Watch::begin(wanted, None, Millis::ZERO, now)),
        };
        (timer, stand_by)
    }

    /// A new timer that follows a schedule, whose first time is `due`.
    pub fn planned(
        id: ItemId,
        purpose: Purpose,
        (schedule, due): (Schedule, Timestamp),
        timeout: Option<Millis>,
        now: Timestamp,
    ) -> (Timer, Option<Millis>) {
        let (timer, stand_by) = Timer::create(id, purpose, due.since(now), timeout, None, now);
        (Timer { schedule: Some(Box::new(schedule)), ..timer }, stand_by)
    }

    pub fn status(&self) -> Status {
        match self.phase {
            Phase::Running { background: false, .. } => Status::Running,
            Phase::Running { background: true, .. } => Status::RunningBackground,
            Phase::Paused { .. } => Status::Paused,
            Phase::Completed { .. } => Status::Completed,
            Phase::Stopped { .. } => Status::Stopped,
        }
    }

    pub fn is_live(&self) -> bool {
        self.status().is_live()
    }

    /// What is left; never more than the total, even when the clock was set back.
    pub fn remaining(&self, now: Timestamp) -> Millis {
        match self.phase {
            Phase::Running { due, .. } => due.since(now).min(self.total),
            Phase::Paused { remaining, .. } | Phase::Stopped { remaining, .. } | Phase::Completed { remaining, .. } => {
                remaining
            }
        }
    }

    pub fn elapsed(&self, now: Timestamp) -> Millis {
        self.total.minus(self.remaining(now))
    }

    /// The next instant at which time itself changes this timer.
    pub fn due(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Running { due, .. } => Some(self.opens_at.map_or(due, |opens| opens.max(due))),
            Phase::Paused { until, .. } => Some(until),
            Phase::Completed { .. } | Phase::Stopped { .. } => None,
        }
    }

    /// When its time comes next, if nobody does anything until then.
    pub fn next_due(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Running { due, .. } => Some(due),
            Phase::Paused { until, remaining, .. } => Some(match self.schedule.as_deref() {
                Some(schedule) => schedule.due_again(until, remaining),
                None => until.plus(remaining),
            }),
            Phase::Completed { .. } | Phase::Stopped { .. } => None,
        }
    }

    pub fn ended_at(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Completed { at, .. } | Phase::Stopped { at, .. } => Some(at),
            Phase::Running { .. } | Phase::Paused { .. } => None,
        }
    }

    /// Has it wait if its time comes within quiet hours. Not while somebody waits for it: who waits is awake.
    pub fn hold(&mut self, quiet: Option<&Quiet>, stood_by: bool, now: Timestamp) {
        self.opens_at = match self.phase {
            Phase::Running { due, .. } if !stood_by => Quiet::opening(quiet, due, self.opens_at, now),
            _ => None,
        };
    }

    /// Somebody waits for its end: a call, or a task.
    pub fn is_stood_by(&self) -> bool {
        let Phase::Running { due, .. } = self.phase else { return false };
        let waits = |until: Option<Timestamp>| until.is_none_or(|until| until >= due);
        let called = self.standby.is_some_and(|standby| waits(Some(standby.until)));
        // The task of a mission waits for nothing but to be woken.
        called || matches!(self.purpose, Purpose::Waiting(_)) && self.has_task_until(waits)
    }

    fn has_task_until(&self, waits: impl Fn(Option<Timestamp>) -> bool) -> bool {
        self.tasks.iter().any(|task| task.is_open() && waits(task.until))
    }

    /// Lets time act, up to `now`. Nothing happens before a deadline, and nothing happens twice.
    pub fn settle(&mut self, now: Timestamp) -> Vec<Settled> {
        self.settle_within(None, now)
    }

    /// The same, where quiet hours have it wait; with whether somebody waits for it.
    pub fn settle_within(&mut self, quiet: Option<(Option<&Quiet>, bool)>, now: Timestamp) -> Vec<Settled> {
        let mut done = Vec::new();
        if let Phase::Paused { remaining, until, background } = self.phase
            && until <= now
        {
            self.runs_again(until, remaining, background);
            self.note = Some(AUTO_RESUMED.to_owned());
            done.push(Settled::PauseOver { at: until, remaining, status: self.status() });
        }
        if let Some((quiet, stood_by)) = quiet {
            self.hold(quiet, stood_by, now);
        }
        if let Phase::Running { due, background } = self.phase
            && let Some(opened) = self.due().filter(|opened| *opened <= now)
        {
            done.push(match self.strike(due, opened, now) {
                Some(strike) => {
                    let background = background || !strike.told.is_empty();
                    self.after(&strike, background, now);
                    Settled::Struck { due, strike }
                }
                None => {
                    self.phase = Phase::Completed { at: now, remaining: Millis::ZERO };
                    self.released_at(opened, now);
                    Settled::TimeUp { due, opened }
                }
            });
            self.opens_at = None;
        }
        done
    }

    fn strike(&mut self, due: Timestamp, opened: Timestamp, now: Timestamp) -> Option<Strike> {
        match self.schedule.as_deref_mut() {
            Some(Schedule::Every(recurrence)) => Some(recurrence.strike(due, opened, now)),
            Some(Schedule::At { .. }) | None => None,
        }
    }

    /// Armed for the next time. Whoever waited has been told, and nobody waits any more.
    fn after(&mut self, strike: &Strike, background: bool, now: Timestamp) {
        match strike.next {
            Some(next) => {
                self.total = next.since(strike.last);
                self.phase = Phase::Running { due: next, background };
            }
            None => self.phase = Phase::Completed { at: now, remaining: Millis::ZERO },
        }
        if let Some((_, told)) = strike.told.last() {
            self.released_at(strike.opened.max(*told), now);
        }
    }

    /// Those who wait have what they waited for.
    fn released_at(&mut self, due: Timestamp, now: Timestamp) {
        self.standby = None;
        task::complete(&mut self.tasks, due, now);
    }

    /// Counting goes on from this instant, with so much left. Where the calendar says otherwise, the total follows.
    fn runs_again(&mut self, from: Timestamp, remaining: Millis, background: bool) {
        let again = |schedule: &Schedule| schedule.due_again(from, remaining);
        let due = self.schedule.as_deref().map_or_else(|| from.plus(remaining), again);
        self.total = self.total.minus(remaining).plus(due.since(from));
        self.phase = Phase::Running { due, background };
    }

    /// How often a recurring timer has fired.
    pub fn fires(&self) -> u32 {
        self.schedule.as_deref().and_then(Schedule::recurrence).map_or(0, |recurrence| recurrence.fires)
    }

    /// It runs, and ends as soon as its condition holds.
    pub fn awaits(&self) -> Option<&Watch> {
        self.until.as_ref().filter(|watch| watch.seen.is_none() && matches!(self.phase, Phase::Running { .. }))
    }

    /// What was seen when its condition was met.
    pub fn met(&self) -> Option<&str> {
        self.until.as_ref()?.seen.as_deref()
    }

    /// The condition that it waits for since then holds: its time is up. `awaited`: a call stands by for it.
    pub fn meet(
        &mut self,
        since: Timestamp,
        seen: String,
        quiet: Option<&Quiet>,
        awaited: bool,
        now: Timestamp,
    ) -> Met {
        let Phase::Running { background, .. } = self.phase else { return Met::No };
        if self.awaits().is_none_or(|watch| watch.since != since) {
            return Met::No;
        }
        self.until = self.until.take().map(|watch| Watch { seen: Some(seen), ..watch });
        let (total, remaining) = (self.total, self.remaining(now));
        (self.total, self.phase, self.opens_at) =
            (total.minus(remaining), Phase::Running { due: now, background }, None);
        let stood_by = awaited || self.is_stood_by();
        self.hold(quiet, stood_by, now);
        if let Some(opens) = self.opens_at {
            return Met::Waits(opens);
        }
        (self.total, self.phase) = (total, Phase::Completed { at: now, remaining });
        self.released_at(now, now);
        Met::Ends
    }

    /// `timer` with an id. Answers how long this call stands by, if it does.
    pub fn continue_with(&mut self, ask: Continuation, now: Timestamp) -> Result<Option<Millis>, Reject> {
        self.must_be_live("continue")?;
        // A length instead of a time of the calendar leaves a timer like any other.
        let planned = |schedule: &Schedule| ask.total.is_none() || schedule.recurrence().is_some();
        if ask.until.is_some() && self.schedule.as_deref().is_some_and(planned) {
            let why = format!(
                "cannot be waited for by timer '{}', which comes by the calendar or again and again; set another one with \
                 `total_duration` and `until`",
                self.id
            );
            return Err(Reject::InvalidArgument { field: "until".into(), why });
        }
        task::settle(&mut self.tasks, now);
        match (&mut self.purpose, ask.reason, &ask.mission) {
            (_, Some(_), Some(_)) => return Err(Reject::ReasonAndMission),
            (Purpose::Mission(_), Some(_), None) => return Err(Reject::MissionTakesNoReason { id: self.id.clone() }),
            (Purpose::Waiting(_), None, Some(_)) => return Err(Reject::WaitingTakesNoMission { id: self.id.clone() }),
            (Purpose::Waiting(text), Some(reason), None) => *text = reason,
            (Purpose::Mission(text), None, Some(mission)) => text.clone_from(mission),
            (_, None, None) => {}
        }
        if let Some(left) = ask.total {
            self.total = self.elapsed(now).plus(left);
            // It is no more about that time; what recurs goes on from the new one.
            self.schedule = self.schedule.take().filter(|schedule| schedule.recurrence().is_some());
            match &mut self.phase {
                Phase::Running { due, .. } => *due = now.plus(left),
                Phase::Paused { remaining, .. } => *remaining = left,
                Phase::Completed { .. } | Phase::Stopped { .. } => unreachable!("checked to be live"),
            }
        }
        if let Some(wanted) = ask.until {
            self.until = Some(Watch::begin(wanted, self.until.as_ref(), self.elapsed(now), now));
        }
        self.last_check_at = now;
        let remaining = self.remaining(now);
        let Phase::Running { background, .. } = &mut self.phase else {
            return Ok(None); // paused: there is nothing to stand by for yet
        };
        let stand_by = match self.purpose {
            Purpose::Waiting(_) => Some(ask.timeout.unwrap_or(remaining)),
            // A mission told again is scheduled again; a bare stand-by on one is a wish to wait for it after all.
            Purpose::Mission(_) if ask.mission.is_some() => None,
            Purpose::Mission(_) => ask.timeout,
        }
        .map(|length| length.min(remaining));
        if let Some(length) = stand_by {
            *background = false;
            self.standby = Some(StandBy { since: now, until: now.plus(length) });
        }
        Ok(stand_by)
    }

    /// The agent stops waiting; the timer goes on in the background.
    pub fn cancel(&mut self, note: Option<String>, now: Timestamp) -> Result<(), Reject> {
        self.must_be_live("cancel")?;
        match &mut self.phase {
            Phase::Running { background, .. } | Phase::Paused { background, .. } => *background = true,
            Phase::Completed { .. } | Phase::Stopped { .. } => unreachable!("checked to be live"),
        }
        self.released(TaskOutcome::Background, now);
        self.acted(note, now);
        Ok(())
    }

    pub fn pause(&mut self, length: Millis, note: Option<String>, now: Timestamp) -> Result<(), Reject> {
        self.must_be_live("pause")?;
        let background =
            matches!(self.phase, Phase::Running { background: true, .. } | Phase::Paused { background: true, .. });
        self.phase = Phase::Paused { remaining: self.remaining(now), until: now.plus(length), background };
        self.released(TaskOutcome::Paused, now);
        self.acted(note, now);
        Ok(())
    }

    pub fn resume(&mut self, note: Option<String>, now: Timestamp) -> Result<(), Reject> {
        self.must_be_live("resume")?;
        let Phase::Paused { remaining, background, .. } = self.phase else {
            return Err(Reject::NotPaused { id: self.id.clone(), status: self.status() });
        };
        task::settle(&mut self.tasks, now);
        self.runs_again(now, remaining, background);
        self.acted(note, now);
        Ok(())
    }

    pub fn stop(&mut self, note: Option<String>, now: Timestamp) -> Result<(), Reject> {
        self.must_be_live("stop")?;
        self.phase = Phase::Stopped { at: now, remaining: self.remaining(now) };
        task::end(&mut self.tasks, TaskOutcome::Stopped, now);
        self.acted(note, now);
        Ok(())
    }

    /// The call that stood by since then came back. Another one may have begun meanwhile.
    pub fn returned(&mut self, since: Timestamp, now: Timestamp) {
        task::settle(&mut self.tasks, now);
        self.last_check_at = now;
        self.standby = self.standby.filter(|standby| standby.since != since);
    }

    /// A task begins with the call that stands by for `stand_by`. Whether one has: a call that answers at once needs none.
    pub fn begin_task(&mut self, id: TaskId, stand_by: Option<Millis>, now: Timestamp) -> Result<bool, Reject> {
        let mission = matches!(self.purpose, Purpose::Mission(_));
        if !self.is_live() || (stand_by.is_none() && !mission) {
            return Ok(false);
        }
        if !task::make_room(&mut self.tasks, now) {
            return Err(Reject::TooManyTasks { id: self.id.clone(), max: task::TASKS_MAX });
        }
        let until = stand_by.map(|length| now.plus(length));
        self.tasks.push(Task { id, since: now, until, end: None });
        Ok(true)
    }

    /// Ends a task and its stand-by; the timer goes on.
    pub fn cancel_task(&mut self, id: &TaskId, now: Timestamp) -> Result<(), Reject> {
        let task = self.task(id, now)?;
        if let Some(end) = task.end {
            return Err(Reject::TaskEnded { at: end.at, outcome: end.outcome });
        }
        task::cancel(&mut self.tasks, id, now);
        self.returned(task.since, now);
        Ok(())
    }

    /// A task as it is at `now`.
    pub fn task(&self, id: &TaskId, now: Timestamp) -> Result<Task, Reject> {
        let task = self.tasks.iter().find(|task| task.id == *id).cloned();
        task.map(|task| task.settled(now)).ok_or_else(|| Reject::UnknownTask { timer: self.id.clone() })
    }

    /// The timer has just completed, or fired: the lease under which a task tells it, if one was open until now. The
    /// latest one, since the clients of earlier ones may be gone.
    pub fn lease_to_task(&mut self, now: Timestamp) -> Option<LeaseId> {
        let completed = |task: &&mut Task| {
            task.end.as_ref().is_some_and(|end| end.outcome == TaskOutcome::Completed && end.at == now)
        };
        let task = self.tasks.iter_mut().rev().find(completed)?;
        let lease = task.lease();
        if let Some(end) = &mut task.end {
            end.lease = Some(lease.clone());
        }
        Some(lease)
    }

    /// Whether its end is leased to a task of its own under this lease.
    pub fn tells_by_task(&self, lease: &LeaseId) -> bool {
        self.tasks.iter().filter_map(|task| task.end.as_ref()).any(|end| end.lease.as_ref() == Some(lease))
    }

    /// Those who wait are sent away. A mission's task waits on: it is woken by the end alone.
    fn released(&mut self, outcome: TaskOutcome, now: Timestamp) {
        match self.purpose {
            Purpose::Waiting(_) => task::end(&mut self.tasks, outcome, now),
            Purpose::Mission(_) => task::settle(&mut self.tasks, now),
        }
    }

    fn acted(&mut self, note: Option<String>, now: Timestamp) {
        self.note = note;
        self.standby = None;
        self.last_check_at = now;
    }

    fn must_be_live(&self, wish: &'static str) -> Result<(), Reject> {
        if self.is_live() {
            return Ok(());
        }
        Err(Reject::TimerEnded { wish, timer: Box::new(self.clone()) })
    }
}
