//! Due times as models send them: ISO 8601 with an offset. Without one nobody knows which instant is meant.

use crate::{reject::Reject, text::shown, time::Timestamp};
use serde_json::Value;

/// Reads `dueAt`.
pub fn parse(value: &Value) -> Result<Timestamp, Reject> {
    instant(value).map_err(|why| {
        let why = format!("{why}, or send `in` (\"10m\") instead");
        Reject::InvalidDueAt { got: shown(&value.to_string()), why }
    })
}

/// Any other instant with an offset; `field` is what it was given as.
pub fn named(field: &'static str, value: &Value) -> Result<Timestamp, Reject> {
    instant(value).map_err(|why| Reject::InvalidTime { field, got: shown(&value.to_string()), why })
}

fn instant(value: &Value) -> Result<Timestamp, String> {
    const SHAPE: &str = "is not an ISO 8601 time with an offset; write it like 2026-01-21T20:30:00-08:00";
    let text = value.as_str().ok_or(SHAPE)?.trim();
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Ok(Timestamp::from_millis(at.as_millisecond()));
    }
    Err(match text.parse::<jiff::civil::DateTime>() {
        Ok(local) => format!(
            "has no offset, so it could mean any time zone; write {local}Z for UTC or {local}+08:00 with the offset of \
             the place"
        ),
        Err(_) => SHAPE.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_offset_is_needed_and_understood() {
        for (text, ms) in [
            ("2026-01-21T20:30:00-08:00", 1_769_056_200_000),
            ("2026-01-22T04:30:00Z", 1_769_056_200_000),
            (" 2026-01-22 04:30:00z ", 1_769_056_200_000),
            ("2026-01-22T04:30:00.25+00:00", 1_769_056_200_250),
            ("2026-01-22T12:30+08:00", 1_769_056_200_000),
            ("2026-01-21T20:30:00-08:00[America/Los_Angeles]", 1_769_056_200_000),
        ] {
            assert_eq!(parse(&json!(text)), Ok(Timestamp::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (value, word) in [
            (json!("2026-01-21T20:30:00"), "no offset"),
            (json!("2026-01-21 20:30"), "no offset"),
            (json!("2026-01-21"), "no offset"),
            (json!("20:30"), "ISO 8601"),
            (json!("tomorrow"), "ISO 8601"),
            (json!("明天八点"), "ISO 8601"),
            (json!("2026-02-30T00:00:00Z"), "ISO 8601"),
            (json!(1_769_056_200), "ISO 8601"),
            (json!(true), "ISO 8601"),
            (json!(["2026-01-22T04:30:00Z"]), "ISO 8601"),
            (json!("很".repeat(5000)), "ISO 8601"),
        ] {
            let refused = parse(&value).expect_err("not a due time");
            assert_eq!(refused.code(), "invalid_due_at");
            let text = refused.to_string();
            assert!(text.contains(word) && text.contains("`in`") && text.len() < 600, "{text}");
            let other = named("to", &value).expect_err("not an instant").to_string();
            assert!(other.starts_with("`to`: ") && other.contains(word) && !other.contains("`in`"), "{other}");
        }
    }
}
