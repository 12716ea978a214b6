//! What must hold for any text at all, of what users and models write. The fuzzer in `fuzz/` searches for texts for which it
//! does not; `seeds.rs` replays what is kept of them, and changes them a little.

#![allow(dead_code, reason = "each fuzz target uses one of them")]

use reveille_core::{
    Limits, Millis, Quiet, Reject, Timestamp, Zone,
    at::At,
    condition,
    directive::{Directive, TIMES_MAX, strip},
    due, duration,
    recurrence::{INTERVAL_MIN, Rule},
};
use serde_json::{Value, json};

const MAX: Millis = Millis::from_secs(366 * 24 * 3600);
/// Where clocks change in spring and autumn, at midnight, and never.
const ZONES: [&str; 3] = ["UTC", "Europe/Berlin", "America/Havana"];
/// Usual ones, and some around which clocks change: 2026-03-29 and 2026-10-25 in Berlin, 2026-03-08 in Havana.
const MOMENTS: [i64; 5] = [0, 1_774_745_999_000, 1_792_886_400_000, 1_772_945_999_999, 1_790_000_000_000];
/// What a refusal may repeat of what was sent.
const REFUSAL_BYTES_MAX: usize = 1500;

/// Nothing that looks like a directive is left, and every order makes sense.
pub fn directive(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let Some(stripped) = strip(&text) else { return };
    assert!(strip(&stripped.text).is_none(), "left: {:?}", stripped.text);
    assert!(stripped.text.len() < text.len());
    assert!(!stripped.directives.is_empty() || stripped.malformed > 0);
    for directive in stripped.directives {
        if let Directive::Arm { text, times } = directive {
            assert!(!text.trim().is_empty() && (1..=TIMES_MAX).contains(&times), "{text:?} {times}");
        }
    }
}

/// A duration is within its bounds, and means the same when written as we write it.
pub fn length(input: &[u8]) {
    for value in values(input) {
        match duration::parse("total_duration", &value, MAX) {
            Ok(length) => {
                assert!(!length.is_zero() && length <= MAX, "{value}");
                let again = duration::parse("total_duration", &json!(length.to_string()), MAX);
                assert_eq!(again, Ok(length), "{value}");
            }
            Err(reject) => {
                assert!(["invalid_duration", "duration_too_long"].contains(&reject.code()), "{value}: {reject}");
                assert!(reject.to_string().len() < REFUSAL_BYTES_MAX, "{reject}");
            }
        }
    }
}

/// An instant means the same when written as we write it.
pub fn instant(input: &[u8]) {
    for value in values(input) {
        match due::parse(&value) {
            Ok(at) => assert_eq!(due::parse(&json!(at.to_iso())), Ok(at), "{value}"),
            Err(reject) => {
                assert_eq!(reject.code(), "invalid_due_at", "{value}");
                assert!(reject.to_string().len() < REFUSAL_BYTES_MAX, "{reject}");
            }
        }
    }
}

/// What recurs comes later each time, and means the same when written as we write it.
pub fn every(input: &[u8]) {
    let limits = Limits::default();
    for (value, zone) in values(input).flat_map(|value| ZONES.map(|zone| (value.clone(), zone))) {
        let zone = Zone::named("zone", zone).expect("a zone");
        match Rule::parse(&value, Some(zone.clone()), &limits) {
            Ok(Rule::Interval(interval)) => {
                assert!((INTERVAL_MIN..=limits.duration_max).contains(&interval), "{value}")
            }
            Ok(rule @ Rule::Cron { .. }) => {
                let Rule::Cron { cron, .. } = &rule else { unreachable!("just seen") };
                assert_eq!(Rule::parse(&json!(cron.as_str()), Some(zone), &limits), Ok(rule.clone()), "{value}");
                for from in MOMENTS.map(Timestamp::from_millis) {
                    let times = std::iter::successors(Some(from), |at| rule.next(*at)).take(4).collect::<Vec<_>>();
                    assert!(times.len() > 1 && times.is_sorted_by(|one, next| one < next), "{value}: {times:?}");
                }
            }
            Err(reject) => refused(&reject, &["invalid_every", "invalid_duration", "duration_too_long"], &value),
        }
    }
}

/// A time to come is to come, within bounds, and a moment of that place; names of zones are known or not.
pub fn time(input: &[u8]) {
    let (text, limits) = (String::from_utf8_lossy(input), Limits::default());
    // The zone may follow.
    let (time, named) = text.split_once(' ').unwrap_or((&text, &text));
    let zones = [Zone::named("zone", named).ok(), Zone::named("zone", ZONES[1]).ok(), None];
    if let Err(reject) = Zone::named("zone", named) {
        refused(&reject, &["unknown_zone"], &json!(named));
    }
    for (text, zone) in [&text, time].into_iter().flat_map(|text| zones.clone().map(|zone| (text, zone))) {
        let at = match At::parse(text, zone) {
            Ok(at) => at,
            Err(reject) => {
                refused(&reject, &["invalid_time", "unknown_zone"], &json!(text));
                continue;
            }
        };
        for now in MOMENTS.map(Timestamp::from_millis) {
            match at.resolve(now, &limits) {
                Ok(then) => assert!(then > now && then <= now.plus(limits.duration_max), "{text}: {at}"),
                Err(reject) => refused(&reject, &["invalid_time"], &json!(text)),
            }
        }
    }
}

/// A condition means the same when written as we write it.
pub fn until(input: &[u8]) {
    for value in values(input) {
        match condition::parse(&value) {
            Ok(None) => {}
            Ok(Some(wanted)) => {
                assert_eq!(condition::parse(&wanted.to_value()), Ok(Some(wanted.clone())), "{value}");
                assert!(!wanted.target().is_empty() && !wanted.to_string().is_empty(), "{value}");
            }
            Err(reject) => refused(&reject, &["invalid_argument"], &value),
        }
    }
}

/// Quiet hours end, mean the same when written as we write them, and whoever waits for their end is in none.
pub fn quiet(input: &[u8]) {
    for value in values(input) {
        match Quiet::parse(value.clone()) {
            Ok(quiet) => {
                assert_eq!(Quiet::parse(json!(quiet)), Ok(quiet.clone()), "{value}");
                for at in MOMENTS.map(Timestamp::from_millis) {
                    let opens = quiet.next_open(at);
                    assert!(opens >= at && quiet.next_open(opens) == opens, "{value} at {at:?}: {opens:?}");
                }
            }
            Err(reject) => refused(&reject, &["invalid_argument", "unknown_zone", "invalid_time"], &value),
        }
    }
}

fn refused(reject: &Reject, codes: &[&str], value: &Value) {
    assert!(codes.contains(&reject.code()), "{value}: {}: {reject}", reject.code());
    assert!(reject.to_string().len() < REFUSAL_BYTES_MAX, "{reject}");
}

/// As a text, and as the JSON that it may be.
fn values(input: &[u8]) -> impl Iterator<Item = Value> {
    let text = Value::String(String::from_utf8_lossy(input).into_owned());
    [Some(text), serde_json::from_slice(input).ok()].into_iter().flatten()
}
