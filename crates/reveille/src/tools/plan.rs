//! `at`, `every` and what goes with them, as models really send them.

use reveille_core::{CatchUp, Condition, Limits, Recurrence, Reject, When, Zone, at::At, recurrence::Rule};
use serde_json::{Map, Value};

/// The fields that make a timer follow the calendar or recur.
const FIELDS: [&str; 5] = ["at", "every", "zone", "catch_up", "max_fires"];

/// When a new timer is due, if that is not a length.
pub fn when(fields: &Map<String, Value>, limits: &Limits) -> Result<Option<When>, Reject> {
    let zone = text(fields, "zone")?.map(|name| Zone::named("zone", name)).transpose()?;
    let at = text(fields, "at")?.map(|at| At::parse(at, zone.clone())).transpose()?;
    let Some(every) = given(fields, "every") else {
        for (field, needs) in [("catch_up", "every"), ("max_fires", "every"), ("zone", "at` or `every")] {
            if given(fields, field).is_some() && (field != "zone" || at.is_none()) {
                return Err(invalid(field, format!("goes with `{needs}`; send that too, or leave it out")));
            }
        }
        return Ok(at.map(When::At));
    };
    let rule = Rule::parse(every, zone, limits)?;
    if at.is_some() && matches!(rule, Rule::Cron { .. }) {
        let why = "says when an interval begins; cron fields say it themselves. Send one of the two";
        return Err(invalid("at", why.into()));
    }
    let catch_up = text(fields, "catch_up")?.map(CatchUp::parse).transpose()?.unwrap_or_default();
    let recurrence = Recurrence::new(rule, catch_up, max_fires(fields)?);
    Ok(Some(When::Every { first: at, recurrence }))
}

/// A condition has a time of its own, or none: it goes with a length of time.
pub fn without(when: Option<&When>, until: Option<&Condition>) -> Result<(), Reject> {
    match (when, until) {
        (Some(_), Some(_)) => {
            let why = "goes with `total_duration`, not with `at` or `every`; say how long to wait for it at most";
            Err(Reject::InvalidArgument { field: "until".into(), why: why.into() })
        }
        _ => Ok(()),
    }
}

/// A timer that exists keeps its schedule.
pub fn none(fields: &Map<String, Value>) -> Result<(), Reject> {
    match FIELDS.into_iter().find(|field| given(fields, field).is_some()) {
        Some(field) => {
            let why = "is for a new timer; stop this one and create another without `timer_id`";
            Err(invalid(field, why.into()))
        }
        None => Ok(()),
    }
}

fn max_fires(fields: &Map<String, Value>) -> Result<Option<u32>, Reject> {
    let Some(value) = given(fields, "max_fires") else { return Ok(None) };
    let number = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
    let number = number.and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0);
    let why = "must be a whole number of 1 or more; leave it out to go on until the timer is stopped";
    number.map(Some).ok_or_else(|| invalid("max_fires", why.into()))
}

fn text<'a>(fields: &'a Map<String, Value>, field: &str) -> Result<Option<&'a str>, Reject> {
    match given(fields, field) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(invalid(field, "must be a text".into())),
    }
}

/// Models fill what they leave out with `null` or `""`.
pub fn given<'a>(fields: &'a Map<String, Value>, field: &str) -> Option<&'a Value> {
    fields.get(field).filter(|value| !value.is_null() && value.as_str().is_none_or(|text| !text.trim().is_empty()))
}

fn invalid(field: &str, why: String) -> Reject {
    Reject::InvalidArgument { field: field.to_owned(), why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: Value) -> Result<Option<String>, (&'static str, String)> {
        let fields = value.as_object().expect("an object").clone();
        let when = when(&fields, &Limits::default()).map_err(|reject| (reject.code(), reject.to_string()))?;
        Ok(when.map(|when| when.to_string()))
    }

    #[test]
    fn models_arguments_are_understood() {
        for (sent, expected) in [
            (json!({}), None),
            (json!({"at": "", "every": null, "zone": ""}), None),
            (json!({"at": "16:00", "zone": "Europe/Berlin"}), Some("at 16:00:00 in Europe/Berlin")),
            (json!({"every": 600}), Some("every 600 seconds, latest")),
            (json!({"every": "10m", "catch_up": "skip", "max_fires": "3"}), Some("every 600 seconds, skip, 3 times")),
            (
                json!({"every": "0 9 * * 1-5", "zone": "asia/shanghai", "catch_up": "all"}),
                Some("every 0 9 * * 1-5 (Asia/Shanghai), all"),
            ),
            (json!({"every": " @daily ", "zone": "UTC"}), Some("every @daily (UTC), latest")),
            (
                json!({"every": "1d", "at": "2026-11-20T16:00:00+01:00"}),
                Some("every 86400 seconds, latest, from 2026-11-20T15:00:00Z"),
            ),
        ] {
            assert_eq!(read(sent.clone()), Ok(expected.map(str::to_owned)), "{sent}");
        }
    }

    #[test]
    fn mistakes_are_named_with_what_to_do() {
        for (sent, code, word) in [
            (json!({"at": "16:00"}), "invalid_time", "`zone`"),
            (json!({"at": 1600}), "invalid_argument", "text"),
            (json!({"at": "16:00", "zone": "Berlin"}), "unknown_zone", "Europe/Berlin"),
            (json!({"zone": "UTC"}), "invalid_argument", "`every`"),
            (json!({"catch_up": "all"}), "invalid_argument", "`every`"),
            (json!({"at": "16:00", "zone": "UTC", "max_fires": 2}), "invalid_argument", "`every`"),
            (json!({"every": "0 9 * * 1-5"}), "missing_argument", "IANA"),
            (json!({"every": "0 0 30 2 *", "zone": "UTC"}), "invalid_every", "never comes"),
            (json!({"every": "0 0 31 4,6,9,11 *", "zone": "UTC"}), "invalid_every", "never comes"),
            (json!({"every": "61 * * * *", "zone": "UTC"}), "invalid_every", "minute hour day month weekday"),
            (json!({"every": "* * * * * *", "zone": "UTC"}), "invalid_every", "minute hour day month weekday"),
            (json!({"every": "@reboot", "zone": "UTC"}), "invalid_every", "minute hour day month weekday"),
            (json!({"every": "weekdays"}), "invalid_every", "0 9 * * 1-5"),
            (json!({"every": "每天"}), "invalid_every", "0 9 * * 1-5"),
            (json!({"every": 0}), "invalid_duration", "more than zero"),
            (json!({"every": "0s"}), "invalid_duration", "more than zero"),
            (json!({"every": -5}), "invalid_duration", "more than zero"),
            (json!({"every": 0.5}), "invalid_every", "shortest"),
            (json!({"every": "500 days"}), "duration_too_long", "longest"),
            (json!({"every": "10m", "catch_up": "some"}), "invalid_argument", "latest"),
            (json!({"every": "10m", "max_fires": 0}), "invalid_argument", "1 or more"),
            (json!({"every": "10m", "max_fires": 1.5}), "invalid_argument", "1 or more"),
            (json!({"every": "0 9 * * *", "at": "16:00", "zone": "UTC"}), "invalid_argument", "one of the two"),
        ] {
            let (got, text) = read(sent.clone()).expect_err(&sent.to_string());
            assert!(got == code && text.contains(word), "{sent}: {got}: {text}");
        }
    }
}
