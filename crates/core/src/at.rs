//! A time to come, as models send it: `2026-11-20T16:00:00+01:00`, `2026-11-20T16:00` with a zone, or `16:00` with a zone,
//! which is the next time that clocks there show it.
//!
//! A time that clocks skip is read as it would have been without the skip; of one they show twice, the first is meant.

use crate::{limits::Limits, reject::Reject, text::shown, time::Timestamp, zone::Zone};
use jiff::{
    ToSpan,
    civil::{DateTime, Time},
};
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    Moment { at: Timestamp, zone: Option<Zone> },
    Local { at: DateTime, zone: Zone },
    TimeOfDay { at: Time, zone: Zone },
}

impl At {
    pub fn parse(text: &str, zone: Option<Zone>) -> Result<Self, Reject> {
        let text = text.trim();
        let invalid = |why: &str| Reject::InvalidTime { field: "at", got: shown(text), why: why.into() };
        if let Ok(zoned) = text.parse::<jiff::Zoned>() {
            let named = zoned.time_zone().iana_name().map(|name| Zone::named("at", name)).transpose()?;
            let at = Timestamp::from_millis(zoned.timestamp().as_millisecond());
            return Ok(At::Moment { at, zone: zone.or(named) });
        }
        if let Ok(at) = text.parse::<jiff::Timestamp>() {
            return Ok(At::Moment { at: Timestamp::from_millis(at.as_millisecond()), zone });
        }
        const ZONE: &str =
            "has no offset and could be anywhere; send `zone` with it, an IANA name such as Europe/Berlin";
        if let Some(at) = time_of_day(text) {
            return Ok(At::TimeOfDay { at, zone: zone.ok_or_else(|| invalid(ZONE))? });
        }
        match text.parse::<DateTime>() {
            Ok(at) if text.contains(':') => Ok(At::Local { at, zone: zone.ok_or_else(|| invalid(ZONE))? }),
            Ok(_) => Err(invalid("has no time of day; write it like 2026-11-20T16:00, with `zone`")),
            Err(_) => Err(invalid(
                "is not a time there is; write 2026-11-20T16:00:00+01:00, or 16:00 or 2026-11-20T16:00 with `zone`",
            )),
        }
    }

    /// The instant meant, which has to be to come and not too far away.
    pub fn resolve(&self, now: Timestamp, limits: &Limits) -> Result<Timestamp, Reject> {
        let at = match self {
            At::Moment { at, .. } => Some(*at),
            At::Local { at, zone } => instant(*at, zone),
            At::TimeOfDay { at, zone } => next_time_of_day(*at, zone, now),
        };
        let refused = |why: String| Reject::InvalidTime { field: "at", got: self.to_string(), why };
        let at = at.ok_or_else(|| refused("is out of range; send a time within a year from now".into()))?;
        let shown_now = self.zone().map_or_else(|| now.to_iso(), |zone| zone.show(now));
        if at <= now {
            return Err(refused(format!("is past: it is {shown_now} now. Send a time to come")));
        }
        if at > now.plus(limits.duration_max) {
            let max = limits.duration_max;
            return Err(refused(format!(
                "is too far away: it is {shown_now} now, and {max} seconds ahead is the most"
            )));
        }
        Ok(at)
    }

    pub fn zone(&self) -> Option<&Zone> {
        match self {
            At::Moment { zone, .. } => zone.as_ref(),
            At::Local { zone, .. } | At::TimeOfDay { zone, .. } => Some(zone),
        }
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Moment { at, zone: Some(zone) } => f.write_str(&zone.show(*at)),
            At::Moment { at, zone: None } => f.write_str(&at.to_iso()),
            At::Local { at, zone } => write!(f, "{at} in {}", zone.name()),
            At::TimeOfDay { at, zone } => write!(f, "{at} in {}", zone.name()),
        }
    }
}

/// `16:00`, `16:00:30`, `T16:00`; `4pm` is left to people.
pub fn time_of_day(text: &str) -> Option<Time> {
    let digits = text.strip_prefix(['T', 't']).unwrap_or(text);
    let shape = digits.len() >= 4 && digits.contains(':') && digits.chars().all(|c| c.is_ascii_digit() || c == ':');
    // jiff reads two digits of hours only.
    let padded = if digits.find(':') == Some(1) { format!("0{digits}") } else { digits.to_owned() };
    shape.then(|| padded.parse().ok()).flatten()
}

/// When clocks there show this; see above for when they do not, or do twice.
pub fn instant(local: DateTime, zone: &Zone) -> Option<Timestamp> {
    let at = zone.rules().to_ambiguous_timestamp(local).compatible().ok()?;
    Some(Timestamp::from_millis(at.as_millisecond()))
}

fn next_time_of_day(time: Time, zone: &Zone, now: Timestamp) -> Option<Timestamp> {
    let today = jiff::Timestamp::from_millisecond(now.as_millis()).ok()?;
    let today = zone.rules().to_datetime(today).date();
    let days = [Some(today), today.checked_add(1.day()).ok(), today.checked_add(2.days()).ok()];
    days.into_iter().flatten().filter_map(|day| instant(day.to_datetime(time), zone)).find(|at| *at > now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(text: &str, zone: Option<&str>, now: &str) -> Result<String, String> {
        let zone = zone.map(|zone| Zone::named("zone", zone).expect("a zone"));
        let now: jiff::Timestamp = now.parse().expect("an instant");
        let now = Timestamp::from_millis(now.as_millisecond());
        let at = At::parse(text, zone).and_then(|at| at.resolve(now, &Limits::default()));
        at.map(Timestamp::to_iso).map_err(|reject| reject.to_string())
    }

    #[test]
    fn what_models_send_is_understood() {
        let berlin = Some("Europe/Berlin");
        for (text, zone, expected) in [
            ("2026-11-20T16:00:00+01:00", None, "2026-11-20T15:00:00Z"),
            ("2026-11-20T16:00:00+01:00", Some("Asia/Shanghai"), "2026-11-20T15:00:00Z"),
            ("2026-11-20T16:00:00+01:00[Europe/Berlin]", None, "2026-11-20T15:00:00Z"),
            ("2026-11-20T16:00", berlin, "2026-11-20T15:00:00Z"),
            ("2026-11-20 16:00:30", berlin, "2026-11-20T15:00:30Z"),
            // It is 13:00 there now.
            ("16:00", berlin, "2026-11-16T15:00:00Z"),
            ("9:05", berlin, "2026-11-17T08:05:00Z"),
            ("13:00", berlin, "2026-11-17T12:00:00Z"),
            ("T23:59:59", Some("America/New_York"), "2026-11-17T04:59:59Z"),
        ] {
            assert_eq!(resolve(text, zone, "2026-11-16T12:00:00Z"), Ok(expected.into()), "{text}");
        }
    }

    #[test]
    fn clocks_that_are_changed_leave_nothing_out() {
        for (text, zone, now, expected) in [
            // 02:30 is skipped in Berlin on the 29th of March.
            ("02:30", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:30:00Z"),
            // 01:30 comes twice in New York on the 1st of November.
            ("2026-11-01T01:30", "America/New_York", "2026-10-31T12:00:00Z", "2026-11-01T05:30:00Z"),
        ] {
            assert_eq!(resolve(text, Some(zone), now), Ok(expected.into()), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let berlin = Some("Europe/Berlin");
        for (text, zone, word) in [
            ("16:00", None, "send `zone`"),
            ("2026-11-20T16:00", None, "send `zone`"),
            ("2026-11-20", berlin, "no time of day"),
            ("2026-02-30T00:00:00Z", None, "not a time there is"),
            ("2027-02-29T16:00", berlin, "not a time there is"),
            ("25:00", berlin, "not a time there is"),
            ("tomorrow at nine", berlin, "not a time there is"),
            ("明天九点", berlin, "not a time there is"),
            ("2026-11-16T11:59:59Z", None, "is past: it is 2026-11-16T12:00:00Z now"),
            ("2026-11-16T12:00:00Z", None, "is past"),
            ("2026-11-16T09:00", berlin, "it is 2026-11-16T13:00:00+01:00 now"),
            ("2030-01-01T00:00:00Z", None, "too far away"),
        ] {
            let refused = resolve(text, zone, "2026-11-16T12:00:00Z").expect_err(text);
            assert!(refused.contains(word) && refused.len() < 400, "{text}: {refused}");
        }
    }
}
