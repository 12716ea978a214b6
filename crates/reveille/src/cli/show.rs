//! How things look in a terminal.

use super::until;
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

/// A table of timers, as they come from the API at this instant.
pub fn timers(timers: &[Value], now: i64) {
    let mut table = table(["ID", "STATUS", "LEFT", "TOTAL", "SESSION", "FOR"]);
    for timer in timers {
        table.add_row([
            plain(&timer["timer_id"]),
            plain(&timer["status"]),
            left(timer, now),
            seconds(&timer["total_duration"]),
            plain(&timer["session"]),
            joined([words(timer), waits(timer)]),
        ]);
    }
    line(&table.to_string());
}

/// What a timer is for and what it waits for, on one line.
pub fn words(timer: &Value) -> String {
    let until = until::words(timer).map(|words| clean(&words)).unwrap_or_default();
    joined([purpose(timer), schedule(timer), until])
}

/// Those that say something.
pub fn joined<const N: usize>(parts: [String; N]) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
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

/// `every 0 9 * * 1-5 (Europe/Berlin), 3 of 10 times`.
pub fn schedule(timer: &Value) -> String {
    let schedule = &timer["schedule"];
    let zone = schedule["zone"].as_str().map(|zone| format!(" ({zone})")).unwrap_or_default();
    let fired = match (schedule["fires"].as_u64(), schedule["max_fires"].as_u64()) {
        (Some(fires), Some(max)) => format!(", {fires} of {max} times so far"),
        (Some(1), None) => ", once so far".to_owned(),
        (Some(fires), None) => format!(", {fires} times so far"),
        (None, _) => String::new(),
    };
    if let Some(at) = schedule["at"].as_str() {
        return format!("at {at}{zone}");
    }
    match (schedule["cron"].as_str(), schedule["interval"].as_f64()) {
        (Some(cron), _) => format!("every {}{zone}{fired}", clean(cron)),
        (None, Some(interval)) => format!("every {}{fired}", length(interval)),
        (None, None) => String::new(),
    }
}

/// What its end has to wait for.
fn waits(timer: &Value) -> String {
    let until = timer["waits_until"].as_i64().map(|ms| reveille_core::Timestamp::from_millis(ms).to_iso());
    until.map(|until| quiet(&until)).unwrap_or_default()
}

/// Quiet hours are in the way until then.
pub fn quiet(until: &str) -> String {
    format!("waits for {until} (quiet hours)")
}

/// Until it comes, which quiet hours may delay.
fn left(timer: &Value, now: i64) -> String {
    match timer["waits_until"].as_i64().filter(|_| timer["status"] != "paused") {
        Some(opens) => length(((opens - now) as f64 / 1000.0).max(0.0).ceil()),
        None => seconds(&timer["remaining_time"]),
    }
}

/// The next times, one line each.
fn next(timer: &Value) -> String {
    let times = timer["schedule"]["next"].as_array().into_iter().flatten().filter_map(Value::as_str);
    times.collect::<Vec<_>>().join("\n         ")
}

/// One timer, field by field.
pub fn timer(timer: &Value) {
    let rows = [
        ("timer", plain(&timer["timer_id"])),
        ("session", plain(&timer["session"])),
        ("status", status(timer)),
        ("for", purpose(timer)),
        ("left", format!("{} of {}", seconds(&timer["remaining_time"]), seconds(&timer["total_duration"]))),
        ("when", schedule(timer)),
        ("next", next(timer)),
        ("until", until::words(timer).map(|words| clean(words.trim_start_matches("until "))).unwrap_or_default()),
        (if timer["met"] == true { "met" } else { "seen" }, plain(&timer["seen"])),
        ("waits", waits(timer).trim_start_matches("waits ").to_owned()),
        ("why", plain(&timer["stop_reason"])),
    ];
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        line(&format!("{name:<8} {value}"));
    }
}

/// With whether what was waited for came, where the time was over first.
fn status(timer: &Value) -> String {
    let not_met = timer["status"] == "completed" && timer["met"] == false;
    format!("{}{}", plain(&timer["status"]), if not_met { ", condition not met" } else { "" })
}

fn plain(value: &Value) -> String {
    value.as_str().map(clean).unwrap_or_default()
}

/// Text from agents on one line, without anything a terminal would obey.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// As one word of a shell.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
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
    fn words_of_a_shell_stay_one() {
        for (word, quoted_word) in
            [("my-app:1", "my-app:1"), ("会话 1", "'会话 1'"), ("it's", r"'it'\''s'"), ("", "''")]
        {
            assert_eq!(quoted(word), quoted_word);
        }
    }

    #[test]
    fn terminals_are_not_fooled() {
        assert_eq!(clean("a\u{1b}[31m\nb"), "a [31m b");
    }
}
