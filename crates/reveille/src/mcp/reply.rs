//! Results in the two forms a client may show its model: structured, and as text whose first line says what is the case
//! and what to do next.

use super::{Refusal, identity::Told};
use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde_json::Value;
use std::fmt::Write;

pub fn complete(mut body: Value, told: &Told, meta: Option<MetaObject>) -> CallToolResult {
    let mut text = text(&body, told);
    if let (Some(session), Value::Object(body)) = (told.to_tell(), &mut body) {
        body.insert("session".into(), session.as_str().into());
    }
    for message in list(&body, "messages") {
        let _ = write!(text, "\n\n{}", field(message, "text"));
    }
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(body);
    result.meta = meta;
    result
}

/// One line: what is the case, and what to do next.
pub fn text(body: &Value, told: &Told) -> String {
    let mut text = line(body);
    if told.must_be_passed_on() {
        let _ = write!(text, " Pass session '{}' in all further calls.", told.session);
    }
    text
}

pub fn refused(refusal: Refusal, meta: Option<MetaObject>) -> CallToolResult {
    let mut result = CallToolResult::error(vec![ContentBlock::text(refusal.detail().to_owned())]);
    result.structured_content = Some(Value::Object(refusal.0));
    result.meta = meta;
    result
}

/// `Timer timer_x: timeout, 240 of 300 seconds remain. …`
fn line(body: &Value) -> String {
    let hint = field(body, "hint");
    if body.get("timers").is_some() {
        let all: Vec<String> = list(body, "timers").iter().map(|timer| stand(timer, "status")).collect();
        return [vec![hint.to_owned()], all].concat().join(" ");
    }
    if body.get("timer_id").is_some() {
        return format!("{} {hint}", stand(body, "outcome"));
    }
    if body.get("now").is_some() {
        let tasks = list(body, "scheduled").iter().chain(list(body, "items")).map(task).collect::<String>();
        return format!("Now is {}. {hint}{tasks}", field(body, "now"));
    }
    if hint.is_empty() { body.to_string() } else { hint.to_owned() }
}

/// One reminder, as a line of its own.
fn task(task: &Value) -> String {
    let status = match field(task, "status") {
        "" => String::new(),
        status => format!(" ({status})"),
    };
    format!("\n- {}{status}, due {}: {}", field(task, "taskId"), field(task, "dueAt"), field(task, "task"))
}

/// How one timer stands, in the word of this field.
fn stand(timer: &Value, word: &str) -> String {
    let seconds = |name| timer[name].as_f64().unwrap_or_default();
    let (left, total) = (seconds("remaining_time"), seconds("total_duration"));
    format!("Timer {}: {}, {left} of {total} seconds remain.", field(timer, "timer_id"), field(timer, word))
}

fn field<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map(Vec::as_slice).unwrap_or_default()
}
