//! What a timer's deadlines follow: a time of the calendar, or a recurrence. A timer without one has a length only.

use crate::{
    at::At,
    limits::Limits,
    recurrence::Recurrence,
    reject::Reject,
    time::{Millis, Timestamp},
    zone::Zone,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// When a timer is due, as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    At(At),
    /// `first`: an interval may begin at a time of its own.
    Every {
        first: Option<At>,
        recurrence: Recurrence,
    },
}

/// What a timer's deadlines follow, where that is not the length it was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    At {
        at: Timestamp,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        zone: Option<Zone>,
    },
    Every(Recurrence),
}

impl When {
    /// The schedule and its first time.
    pub fn resolve(&self, now: Timestamp, limits: &Limits) -> Result<(Schedule, Timestamp), Reject> {
        match self {
            When::At(at) => {
                let due = at.resolve(now, limits)?;
                Ok((Schedule::At { at: due, zone: at.zone().cloned() }, due))
            }
            When::Every { first, recurrence } => {
                let due = match first {
                    Some(at) => Some(at.resolve(now, limits)?),
                    None => recurrence.rule.next(now),
                };
                let far = |due: Option<Timestamp>| Reject::InvalidEvery {
                    got: recurrence.rule.to_string(),
                    why: match due {
                        Some(due) => format!("first comes at {}, which is too far away", due.to_iso()),
                        None => "never comes; change the day or the month".into(),
                    },
                };
                let due = due.filter(|due| *due <= now.plus(limits.duration_max)).ok_or_else(|| far(due))?;
                Ok((Schedule::Every(recurrence.clone()), due))
            }
        }
    }
}

impl Schedule {
    pub fn recurrence(&self) -> Option<&Recurrence> {
        match self {
            Schedule::Every(recurrence) => Some(recurrence),
            Schedule::At { .. } => None,
        }
    }

    pub fn zone(&self) -> Option<&Zone> {
        match self {
            Schedule::At { zone, .. } => zone.as_ref(),
            Schedule::Every(recurrence) => recurrence.rule.zone(),
        }
    }

    /// The deadline of a timer that counts again from `from` on, with so much left then.
    pub fn due_again(&self, from: Timestamp, remaining: Millis) -> Timestamp {
        match self {
            Schedule::At { at, .. } => (*at).max(from),
            Schedule::Every(recurrence) => recurrence.due_again(from, remaining),
        }
    }
}

/// `at 2026-11-20T16:00:00+01:00`, `every 600 seconds`, `every 0 9 * * 1-5 (Europe/Berlin)`.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Schedule::At { at, zone: Some(zone) } => write!(f, "at {}", zone.show(*at)),
            Schedule::At { at, zone: None } => write!(f, "at {}", at.to_iso()),
            Schedule::Every(recurrence) => write!(f, "every {}", recurrence.rule),
        }
    }
}

/// As it was asked for; the same wish is always the same text.
impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            When::At(at) => write!(f, "at {at}"),
            When::Every { first, recurrence } => {
                write!(f, "every {}, {}", recurrence.rule, recurrence.catch_up.as_str())?;
                recurrence.max_fires.map_or(Ok(()), |max| write!(f, ", {max} times"))?;
                first.as_ref().map_or(Ok(()), |at| write!(f, ", from {at}"))
            }
        }
    }
}
