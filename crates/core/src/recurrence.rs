//! Again and again: by an interval or by the calendar. What comes next, and what to do about times that passed while
//! nobody looked. Which timer it belongs to and what is told of it is not known here.

use crate::{
    cron::Cron,
    duration,
    limits::Limits,
    reject::Reject,
    time::{Millis, Timestamp},
    zone::Zone,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Nothing comes more often: every time leaves a message.
pub const INTERVAL_MIN: Millis = Millis::from_secs(1);
/// Up to so late a time is late; after that it was missed, and [`CatchUp`] says what becomes of it. As long as the
/// driver's own look at all deadlines, so that a busy moment never costs one.
pub const LATE_MAX: Millis = Millis::from_secs(60);
/// Of times missed at once, at most so many are told, the latest ones: more is noise to whoever comes back.
pub const CAUGHT_UP_MAX: usize = 50;
/// Missed times of a calendar that are counted one by one; of more, it is only known that there were as many.
const COUNTED_MAX: usize = 1000;
/// Times to come that are shown.
pub const SHOWN_NEXT: usize = 5;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recurrence {
    pub rule: Rule,
    #[serde(default)]
    pub catch_up: CatchUp,
    /// `None`: until it is stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_fires: Option<u32>,
    /// So far.
    #[serde(default)]
    pub fires: u32,
    /// The last time that passed; none up to it comes again, even if the clock was set back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Timestamp>,
    /// Times that were not told; of very many, at least so many.
    #[serde(default)]
    pub missed: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// From each time to the next, whatever clocks show.
    Interval(Millis),
    Cron {
        cron: Box<Cron>,
        zone: Zone,
    },
}

/// What becomes of times that passed while the server was down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatchUp {
    Skip,
    /// The last of them is told.
    #[default]
    Latest,
    /// Each is told, see [`CAUGHT_UP_MAX`].
    All,
}

/// What passed at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strike {
    /// The times to be told, oldest first, each with its number.
    pub told: Vec<(u32, Timestamp)>,
    /// Not told, though nothing but the server's absence was in the way.
    pub missed: u64,
    /// From then on they were to be told: quiet hours may have had them wait.
    pub opened: Timestamp,
    /// The last time that passed, told or not: the next is counted from it.
    pub last: Timestamp,
    /// `None`: that was the last one.
    pub next: Option<Timestamp>,
}

/// Times that passed, by count, and the latest of them, oldest first.
struct Passed {
    count: u64,
    latest: Vec<Timestamp>,
}

impl CatchUp {
    pub const ALL: [CatchUp; 3] = [CatchUp::Skip, CatchUp::Latest, CatchUp::All];

    pub const fn as_str(self) -> &'static str {
        match self {
            CatchUp::Skip => "skip",
            CatchUp::Latest => "latest",
            CatchUp::All => "all",
        }
    }

    pub fn parse(text: &str) -> Result<Self, Reject> {
        CatchUp::ALL.into_iter().find(|one| one.as_str() == text.trim()).ok_or_else(|| Reject::InvalidArgument {
            field: "catch_up".into(),
            why:
                "must be \"skip\", \"latest\" or \"all\": what to do about times that passed while the server was down"
                    .into(),
        })
    }
}

impl Rule {
    /// `every`: an interval, or cron fields with a zone.
    pub fn parse(every: &Value, zone: Option<Zone>, limits: &Limits) -> Result<Self, Reject> {
        let text = every.as_str().map(str::trim).unwrap_or_default();
        if text.starts_with('@') || text.contains('*') || text.split_whitespace().count() >= 5 {
            let cron = Cron::parse(text)?;
            let hint = "cron fields mean the clock of a place; send an IANA name such as Europe/Berlin, or UTC";
            return Ok(Rule::Cron {
                cron: Box::new(cron),
                zone: zone.ok_or(Reject::MissingArgument { field: "zone", hint })?,
            });
        }
        let interval = duration::parse("every", every, limits.duration_max).map_err(|reject| match reject {
            Reject::InvalidDuration { got, why, .. }
                if text.contains(char::is_whitespace)
                    || !text.is_empty() && !text.starts_with(|c: char| c.is_ascii_digit()) =>
            {
                Reject::InvalidEvery { got, why: format!("{why}, or five cron fields with `zone`: \"0 9 * * 1-5\"") }
            }
            reject => reject,
        })?;
        if interval < INTERVAL_MIN {
            let why = format!("is too often; the shortest interval is {INTERVAL_MIN} second");
            return Err(Reject::InvalidEvery { got: every.to_string(), why });
        }
        Ok(Rule::Interval(interval))
    }

    /// The first time after `from`, which is itself one of the interval's, or when it began.
    pub fn next(&self, from: Timestamp) -> Option<Timestamp> {
        match self {
            Rule::Interval(interval) => Some(from.plus(*interval)),
            Rule::Cron { cron, zone } => cron.next(zone, from),
        }
    }

    pub fn zone(&self) -> Option<&Zone> {
        match self {
            Rule::Interval(_) => None,
            Rule::Cron { zone, .. } => Some(zone),
        }
    }

    /// From `due` on, which has passed.
    fn passed(&self, due: Timestamp, now: Timestamp) -> Passed {
        match self {
            Rule::Interval(interval) => {
                let more = now.since(due).get() / interval.get().max(1);
                let first = more.saturating_sub(CAUGHT_UP_MAX as u64 - 1);
                let nth = |n: u64| due.plus(Millis::new(interval.get().saturating_mul(n)));
                Passed { count: more + 1, latest: (first..=more).map(nth).collect() }
            }
            Rule::Cron { cron, zone } => {
                let next = |at: &Timestamp| cron.next(zone, *at).filter(|at| *at <= now);
                let mut latest: Vec<Timestamp> = std::iter::successors(Some(due), next).take(COUNTED_MAX).collect();
                let mut count = latest.len() as u64;
                if latest.len() == COUNTED_MAX
                    && let Some(end) = latest.last().copied().filter(|end| next(end).is_some())
                {
                    let lately = since_lately(cron, zone, end, now);
                    count += lately.len() as u64;
                    latest.extend(lately);
                }
                Passed { count, latest: latest.split_off(latest.len().saturating_sub(CAUGHT_UP_MAX)) }
            }
        }
    }
}

/// The last times up to `now`, at least as many as are told at once, found without going through all that lie between.
fn since_lately(cron: &Cron, zone: &Zone, after: Timestamp, now: Timestamp) -> Vec<Timestamp> {
    const HOUR: u64 = 3600;
    const DAY: u64 = 24 * HOUR;
    let next = |at: &Timestamp| cron.next(zone, *at).filter(|at| *at <= now);
    let since = |from: Timestamp| std::iter::successors(next(&from), next).collect::<Vec<_>>();
    for seconds in [HOUR, 4 * HOUR, 2 * DAY, 9 * DAY, 62 * DAY, 400 * DAY, 3000 * DAY] {
        let from = now.minus(Millis::from_secs(seconds)).max(after);
        let lately = since(from);
        if from == after || lately.len() >= CAUGHT_UP_MAX {
            return lately;
        }
    }
    // So rare that all of them are few.
    since(after)
}

impl Recurrence {
    pub fn new(rule: Rule, catch_up: CatchUp, max_fires: Option<u32>) -> Self {
        Self { rule, catch_up, max_fires, fires: 0, last: None, missed: 0 }
    }

    /// `due` has passed, and was to be told from `opened` on. Nothing of it passes twice: the next time is after `now`.
    pub fn strike(&mut self, due: Timestamp, opened: Timestamp, now: Timestamp) -> Strike {
        let Passed { count, latest } = self.rule.passed(due, now);
        let last = latest.last().copied().unwrap_or(due);
        let on_time = now.since(last.max(opened)) <= LATE_MAX;
        let wanted = match self.catch_up {
            CatchUp::Skip if !on_time => 0,
            CatchUp::Skip | CatchUp::Latest => 1,
            CatchUp::All => latest.len(),
        };
        let left = self.max_fires.map_or(usize::MAX, |max| max.saturating_sub(self.fires) as usize);
        let told: Vec<Timestamp> = latest[latest.len() - wanted..].iter().copied().take(left).collect();
        let told: Vec<(u32, Timestamp)> =
            told.into_iter().zip(1..).map(|(at, more)| (self.fires.saturating_add(more), at)).collect();
        self.fires = self.fires.saturating_add(told.len() as u32);
        self.last = Some(last);
        // What falls into quiet hours is told by one, or by as many as are asked for; none of it was missed.
        let in_quiet = match opened > due {
            true => self.rule.passed(due, opened.minus(Millis::new(1))).count,
            false => 0,
        };
        let told_by_day = told.iter().filter(|(_, at)| *at >= opened.max(due)).count() as u64;
        let missed = count.saturating_sub(in_quiet).saturating_sub(told_by_day);
        self.missed = self.missed.saturating_add(missed);
        let next = self.rule.next(last).filter(|_| !self.is_over());
        Strike { told, missed, opened, last, next }
    }

    /// The deadline of one that counts again from `from` on, with so much left then. The calendar does not wait for
    /// anybody's pause; intervals do.
    pub fn due_again(&self, from: Timestamp, remaining: Millis) -> Timestamp {
        let last = self.last.filter(|last| *last >= from);
        let counted = from.plus(remaining);
        match &self.rule {
            Rule::Cron { cron, zone } => cron.next(zone, last.unwrap_or(from)).unwrap_or(counted),
            Rule::Interval(interval) => last.map_or(counted, |last| counted.max(last.plus(*interval))),
        }
    }

    pub fn is_over(&self) -> bool {
        self.max_fires.is_some_and(|max| self.fires >= max)
    }

    /// The times to come, from the next one on.
    pub fn upcoming(&self, next: Timestamp) -> Vec<Timestamp> {
        let left = self.max_fires.map_or(usize::MAX, |max| max.saturating_sub(self.fires) as usize);
        std::iter::successors(Some(next), |at| self.rule.next(*at)).take(left.min(SHOWN_NEXT)).collect()
    }
}

/// `600 seconds`, or the cron fields.
impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Rule::Interval(interval) => write!(f, "{interval} seconds"),
            Rule::Cron { cron, zone } => write!(f, "{} ({})", cron.as_str(), zone.name()),
        }
    }
}
