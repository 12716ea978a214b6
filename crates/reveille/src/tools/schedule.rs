//! How schedules of timers are shown, and what is said of them to models.

use super::{Outcome, Seconds};
use reveille_core::{Purpose, Schedule, Status, Timer, Timestamp, recurrence::Rule};
use serde::Serialize;
use utoipa::ToSchema;

/// What a timer's deadlines follow, besides its length.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ScheduleView {
    /// The time it was set for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "2026-11-20T16:00:00+01:00")]
    pub at: Option<String>,
    /// The cron fields by which it recurs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "0 9 * * 1-5")]
    pub cron: Option<String>,
    /// The interval by which it recurs, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Seconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "Europe/Berlin")]
    pub zone: Option<String>,
    /// What becomes of times that passed while the server was down: `skip`, `latest` or `all`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catch_up: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_fires: Option<u32>,
    /// How often it has fired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fires: Option<u32>,
    /// Times that passed without being told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<u64>,
    /// The next times, up to five.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<String>,
}

impl ScheduleView {
    /// When it comes, in words.
    pub fn due(&self) -> String {
        match (&self.at, self.next.first(), self.max_fires) {
            (None, Some(next), None) => format!("due at {next} and again each time, until you call stop_timer"),
            (None, Some(next), Some(max)) => format!("due at {next} and again each time, {} in all", times(max)),
            (at, ..) => format!("due at {}", at.as_deref().unwrap_or_default()),
        }
    }

    pub fn of(timer: &Timer) -> Option<Self> {
        let schedule = timer.schedule.as_deref()?;
        let zone = schedule.zone();
        let shown = |at: Timestamp| zone.map_or_else(|| at.to_iso(), |zone| zone.show(at));
        let recurrence = schedule.recurrence();
        let (cron, interval) = match recurrence.map(|recurrence| &recurrence.rule) {
            Some(Rule::Cron { cron, .. }) => (Some(cron.as_str().to_owned()), None),
            Some(Rule::Interval(interval)) => (None, Some(Seconds(*interval))),
            None => (None, None),
        };
        let next = match (timer.next_due(), recurrence) {
            (Some(due), Some(recurrence)) => recurrence.upcoming(due),
            _ => Vec::new(),
        };
        Some(Self {
            at: match schedule {
                Schedule::At { at, .. } => Some(shown(*at)),
                Schedule::Every(_) => None,
            },
            cron,
            interval,
            zone: zone.map(|zone| zone.name().to_owned()),
            catch_up: recurrence.map(|recurrence| recurrence.catch_up.as_str()),
            max_fires: recurrence.and_then(|recurrence| recurrence.max_fires),
            fires: recurrence.map(|recurrence| recurrence.fires),
            missed: recurrence.map(|recurrence| recurrence.missed).filter(|missed| *missed > 0),
            next: next.into_iter().map(shown).collect(),
        })
    }
}

pub(crate) fn times(count: u32) -> String {
    if count == 1 { "once".into() } else { format!("{count} times") }
}

/// What a model may do next, where the schedule makes a difference.
pub fn hint(outcome: Outcome, timer: &Timer) -> Option<String> {
    let schedule = timer.schedule.as_deref()?;
    let (id, due) = (&timer.id, timer.next_due().filter(|_| timer.is_live())?);
    let due = schedule.zone().map_or_else(|| due.to_iso(), |zone| zone.show(due));
    let recurs = schedule.recurrence().is_some();
    let wake = match schedule.recurrence().map(|recurrence| recurrence.max_fires) {
        Some(None) => format!(
            "a message wakes you at {due} and again each time ({schedule}), until you call stop_timer with timer_id '{id}'"
        ),
        Some(Some(max)) => format!(
            "a message wakes you at {due} and again each time ({schedule}), {} in all; stop_timer with timer_id '{id}' \
             ends it before",
            times(max)
        ),
        None => format!("a message wakes you at {due}"),
    };
    match outcome {
        Outcome::Scheduled => Some(format!("End your turn now: {wake}. Do not wait or poll.")),
        Outcome::Fired => Some(match &timer.purpose {
            Purpose::Waiting(reason) => format!(
                "The time has come: look at what you wait for ({reason}). It comes again at {due}: call timer with \
                 timer_id '{id}' to wait on, or stop_timer if it is done."
            ),
            Purpose::Mission(mission) => {
                format!("It is time: carry out your mission now: {mission} It comes again at {due}.")
            }
        }),
        Outcome::Background | Outcome::Resumed | Outcome::Read if recurs && timer.status() != Status::Paused => {
            Some(format!("It comes next at {due} ({schedule}); each time leaves a message. stop_timer ends it."))
        }
        _ => None,
    }
}
