//! Five-field cron: `0 9 * * 1-5`. A crate reads the fields and finds the next match on a calendar without zones; what
//! clocks that are put forward and back mean for that is decided here, as the classic cron has it:
//!
//! - A time of day (no `*` in minutes and hours) is never left out and never doubled. When clocks skip it, it comes at the
//!   moment they are put forward; when clocks show it twice, it comes the first time.
//! - Everything else follows what clocks show: nothing in an hour that is skipped, twice in one that is doubled.

use crate::{reject::Reject, text::shown, time::Timestamp, zone::Zone};
use croner::parser::{CronParser, Seconds, Year};
use jiff::{
    ToSpan,
    civil::{DateTime, date},
    tz::{AmbiguousOffset, Offset, TimeZone},
};
use serde::{Deserialize, Serialize};

/// Stretches between two changes of the clocks that are searched: sixteen years and more, twice the longest way from one
/// 29th of February to the next.
const STRETCHES_MAX: usize = 64;
/// All combinations of date and weekday that matter come within so many days.
const CYCLE_DAYS: i64 = 12 * 366;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cron {
    text: String,
    fields: croner::Cron,
    /// Hours and minutes are given.
    time_of_day: bool,
}

impl Cron {
    pub fn parse(text: &str) -> Result<Self, Reject> {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let invalid = |why: String| Reject::InvalidEvery { got: shown(&text), why };
        let five = written_out(&text);
        let parts: Vec<&str> = five.split(' ').collect();
        let &[minutes, hours, days, months, weekdays] = parts.as_slice() else {
            let count = if five.starts_with('@') { String::new() } else { format!("; these are {}", parts.len()) };
            return Err(invalid(format!("{SHAPE}{count}")));
        };
        let parse =
            |text: &str| CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build().parse(text);
        // By itself each field says which one is wrong.
        for (place, (name, range)) in FIELDS.iter().enumerate() {
            let mut alone = ["*"; 5];
            alone[place] = parts[place];
            if parse(&alone.join(" ")).is_err() {
                let why = format!("has no such {name}: '{}'; it is {range}. The fields are {ORDER}", parts[place]);
                return Err(invalid(why));
            }
        }
        let fields = parse(five).map_err(|error| invalid(format!("{SHAPE} ({error})")))?;
        let dates = parse(&format!("0 0 {days} {months} {weekdays}")).map_err(|error| invalid(error.to_string()))?;
        if !comes(&dates) {
            return Err(invalid("never comes: there is no such date in any year; change the day or the month".into()));
        }
        let time_of_day = !minutes.starts_with('*') && !hours.starts_with('*');
        Ok(Self { fields, time_of_day, text })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The first time after this instant.
    pub fn next(&self, zone: &Zone, after: Timestamp) -> Option<Timestamp> {
        let rules = zone.rules();
        // Times are whole minutes; a fraction of a second would be taken for the time itself.
        let mut from = jiff::Timestamp::from_second(after.as_millis().div_euclid(1000).checked_add(1)?).ok()?;
        for _ in 0..STRETCHES_MAX {
            let (offset, change) = (rules.to_offset(from), rules.following(from).next());
            let until = change.as_ref().map(|change| change.timestamp());
            if let Some(at) = self.within(rules, offset, from, until) {
                return Some(Timestamp::from_millis(at.as_millisecond()));
            }
            let (change, until) = (change?, until?);
            // Clocks are put forward: what would have come in the time they skip comes now.
            let (before, after) = (offset.to_datetime(until), change.offset().to_datetime(until));
            if self.time_of_day && before < after && self.match_from(before).is_some_and(|hit| hit < after) {
                return Some(Timestamp::from_millis(until.as_millisecond()));
            }
            from = until;
        }
        None
    }

    /// The first match of a stretch in which clocks are not changed.
    fn within(
        &self,
        rules: &TimeZone,
        offset: Offset,
        from: jiff::Timestamp,
        until: Option<jiff::Timestamp>,
    ) -> Option<jiff::Timestamp> {
        let mut local = offset.to_datetime(from);
        loop {
            let hit = self.match_from(local)?;
            let at = offset.to_timestamp(hit).ok()?;
            if until.is_some_and(|until| at >= until) {
                return None;
            }
            let second = |fold| matches!(fold, AmbiguousOffset::Fold { after, .. } if after == offset);
            if !self.time_of_day || !second(rules.to_ambiguous_timestamp(hit).offset()) {
                return Some(at);
            }
            local = hit.checked_add(1.minute()).ok()?;
        }
    }

    /// As if there were no zones.
    fn match_from(&self, local: DateTime) -> Option<DateTime> {
        let local = local.to_zoned(TimeZone::UTC).ok()?;
        self.fields.find_next_occurrence(&local, true).ok().map(|hit| hit.datetime())
    }
}

const SHAPE: &str = "is neither an interval (\"10m\", 3600) nor five cron fields: minute hour day month weekday, as in \
                     \"0 9 * * 1-5\" for nine o'clock on weekdays";
const ORDER: &str = "minute hour day month weekday";
/// Each field, and what may stand there.
const FIELDS: [(&str, &str); 5] = [
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day", "1 to 31"),
    ("month", "1 to 12 or JAN to DEC"),
    ("weekday", "0 to 7 or SUN to SAT, where 0 and 7 are Sunday"),
];

fn written_out(text: &str) -> &str {
    match text.to_ascii_lowercase().as_str() {
        "@hourly" => "0 * * * *",
        "@daily" | "@midnight" => "0 0 * * *",
        "@weekly" => "0 0 * * 0",
        "@monthly" => "0 0 1 * *",
        "@yearly" | "@annually" => "0 0 1 1 *",
        _ => text,
    }
}

/// Whether there is such a day at all; asked day by day, since the search for one that never comes has no near end.
fn comes(dates: &croner::Cron) -> bool {
    let first = date(2024, 1, 1);
    let mut days = (0..CYCLE_DAYS).filter_map(|day| first.checked_add(day.days()).ok());
    days.any(|day| day.to_zoned(TimeZone::UTC).is_ok_and(|day| dates.is_time_matching(&day).unwrap_or(false)))
}

impl TryFrom<String> for Cron {
    type Error = Reject;

    fn try_from(text: String) -> Result<Self, Reject> {
        Self::parse(&text)
    }
}

impl From<Cron> for String {
    fn from(cron: Cron) -> Self {
        cron.text
    }
}
