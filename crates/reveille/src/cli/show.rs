//! How things look in a terminal.

use comfy_table::{ContentArrangement, Table, presets::NOTHING};
use serde_json::Value;
use std::io::Write;

/// `1h 02m 03s`, `4m 05s`, `12s`, `0.25s`.
pub fn length(seconds: f64) -> String {
    if seconds < 1.0 && seconds > 0.0 {
        return format!("{}s", (seconds * 1000.0).round() / 1000.0);
    }
    let whole = seconds.round() as u64;
    let (days, hours, minutes, seconds) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60, whole % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {seconds:02}s"),
        (0, _, _) => format!("{hours}h {minutes:02}m {seconds:02}s"),
        _ => format!("{days}d {hours:02}h {minutes:02}m"),
    }
}

pub fn seconds(value: &Value) -> String {
    value.as_f64().map_or_else(|| "?".into(), length)
}

/// A table of timers, as they come from the API.
pub fn timers(timers: &[Value]) {
    let mut table = table(["ID", "STATUS", "LEFT", "TOTAL", "SESSION", "FOR"]);
    for timer in timers {
        table.add_row([
            plain(&timer["timer_id"]),
            plain(&timer["status"]),
            seconds(&timer["remaining_time"]),
            seconds(&timer["total_duration"]),
            plain(&timer["session"]),
            purpose(timer),
        ]);
    }
    line(&table.to_string());
}

pub fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_header(header);
    table
}

pub fn purpose(timer: &Value) -> String {
    match (timer["reason"].as_str(), timer["mission"].as_str()) {
        (Some(reason), _) => clean(reason),
        (None, Some(mission)) => format!("→ {}", clean(mission)),
        (None, None) => String::new(),
    }
}

/// One timer, field by field.
pub fn timer(timer: &Value) {
    let rows = [
        ("timer", plain(&timer["timer_id"])),
        ("session", plain(&timer["session"])),
        ("status", plain(&timer["status"])),
        ("for", purpose(timer)),
        ("left", format!("{} of {}", seconds(&timer["remaining_time"]), seconds(&timer["total_duration"]))),
        ("why", plain(&timer["stop_reason"])),
    ];
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        line(&format!("{name:<8} {value}"));
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map(clean).unwrap_or_default()
}

/// Text from agents on one line, without anything a terminal would obey.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Writes a line; a reader that went away (`| head`) is no error.
pub fn line(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_easy_to_read() {
        for (seconds, text) in [
            (0.0, "0s"),
            (0.25, "0.25s"),
            (12.0, "12s"),
            (245.0, "4m 05s"),
            (3723.0, "1h 02m 03s"),
            (90_000.0, "1d 01h 00m"),
        ] {
            assert_eq!(length(seconds), text);
        }
    }

    #[test]
    fn terminals_are_not_fooled() {
        assert_eq!(clean("a\u{1b}[31m\nb"), "a [31m b");
    }
}
