//! Durations as models really send them: `300`, `"300"`, `"5m"`, `"1h30m"`, `"1.5h"`, `"PT5M"`. Numbers are seconds.

use crate::{reject::Reject, time::Millis};
use serde_json::Value;

/// Reads one duration argument that lies in `1 ms ..= max`.
pub fn parse(field: &'static str, value: &Value, max: Millis) -> Result<Millis, Reject> {
    let invalid = |why: &str| Reject::InvalidDuration { field, got: shown(value), why: why.to_owned() };
    let seconds = match value {
        Value::Number(number) => number.as_f64().ok_or_else(|| invalid("is not a number of seconds"))?,
        Value::String(text) => seconds_of(text.trim()).map_err(|why| invalid(&why))?,
        _ => return Err(invalid("is neither a number of seconds nor a text such as \"5m\"")),
    };
    if seconds.is_nan() || seconds.is_infinite() {
        return Err(invalid("is not finite"));
    }
    if seconds <= 0.0 {
        return Err(invalid("must be more than zero"));
    }
    let ms = (seconds * 1000.0).round();
    if ms < 1.0 {
        return Err(invalid("is shorter than a millisecond"));
    }
    if ms > max.get() as f64 {
        return Err(Reject::DurationTooLong { field, got: shown(value), max });
    }
    Ok(Millis::new(ms as u64))
}

fn seconds_of(text: &str) -> Result<f64, String> {
    if text.is_empty() {
        return Err("is empty".into());
    }
    if let Ok(seconds) = text.parse::<f64>() {
        return Ok(seconds);
    }
    const SHAPE: &str = "is not a duration; write seconds (300) or a text such as \"5m\" or \"1h30m\"";
    let span: jiff::Span = text.parse().map_err(|_| SHAPE.to_owned())?;
    if span.get_years() != 0 || span.get_months() != 0 {
        return Err("uses months or years, whose length varies; write days or hours".into());
    }
    span.total((jiff::Unit::Second, jiff::SpanRelativeTo::days_are_24_hours())).map_err(|_| SHAPE.to_owned())
}

fn shown(value: &Value) -> String {
    crate::text::shown(&value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const MAX: Millis = Millis::from_secs(366 * 24 * 3600);

    #[test]
    fn what_models_send_is_understood() {
        for (value, ms) in [
            (json!(300), 300_000),
            (json!(0.25), 250),
            (json!("300"), 300_000),
            (json!(" 300.5 "), 300_500),
            (json!("5m"), 300_000),
            (json!("1h30m"), 5_400_000),
            (json!("1.5h"), 5_400_000),
            (json!("90s"), 90_000),
            (json!("500ms"), 500),
            (json!("5 minutes"), 300_000),
            (json!("PT1H30M"), 5_400_000),
            (json!("1d"), 86_400_000),
            (json!("1w"), 604_800_000),
            (json!("1e2"), 100_000),
        ] {
            assert_eq!(parse("total_duration", &value, MAX), Ok(Millis::new(ms)), "{value}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        for (value, code) in [
            (json!(0), "invalid_duration"),
            (json!(-5), "invalid_duration"),
            (json!("-5m"), "invalid_duration"),
            (json!("NaN"), "invalid_duration"),
            (json!("inf"), "invalid_duration"),
            (json!("-Infinity"), "invalid_duration"),
            (json!(0.0001), "invalid_duration"),
            (json!(""), "invalid_duration"),
            (json!("soon"), "invalid_duration"),
            (json!("5 分钟"), "invalid_duration"),
            (json!("1 month"), "invalid_duration"),
            (json!(true), "invalid_duration"),
            (json!([300]), "invalid_duration"),
            (json!({"seconds": 300}), "invalid_duration"),
            (json!(1e300), "duration_too_long"),
            (json!("1e300"), "duration_too_long"),
            (json!("10000 days"), "duration_too_long"),
            (json!(u64::MAX), "duration_too_long"),
        ] {
            assert_eq!(parse("total_duration", &value, MAX).unwrap_err().code(), code, "{value}");
        }
        assert!(parse("x", &json!("很".repeat(5000)), MAX).unwrap_err().to_string().len() < 600);
    }
}
