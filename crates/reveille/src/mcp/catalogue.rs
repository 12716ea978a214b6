//! The tools as MCP lists them: the catalogue's names, descriptions and arguments, and what their results look like. Made
//! once; the same bytes every time.

use crate::tools::Tool;
use rmcp::model::{JsonObject, Tool as Listed, ToolAnnotations};
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};

static LISTED: LazyLock<Vec<Listed>> = LazyLock::new(|| Tool::ALL.into_iter().map(listed).collect());

pub fn tools() -> &'static [Listed] {
    &LISTED
}

fn listed(tool: Tool) -> Listed {
    let mut input = object(tool.input_schema());
    if let Some(Value::Object(properties)) = input.get_mut("properties") {
        let session = json!({"type": "string", "description": "only if a result told you to pass it"});
        properties.insert("session".into(), session);
    }
    let hints = ToolAnnotations::new()
        .read_only(tool.name() == "read_timer")
        .destructive(tool.name() == "stop_timer")
        .open_world(false);
    Listed::new(tool.name(), tool.description(), Arc::new(input))
        .with_raw_output_schema(Arc::new(object(output_schema(tool))))
        .with_annotations(hints)
}

/// Nothing is required in it: clients hold refusals (`code`, `detail`) against the same schema.
fn output_schema(tool: Tool) -> Value {
    let text = json!({"type": "string"});
    let mut properties = json!({
        "hint": {"type": "string", "description": "what to do next"},
        "messages": {"type": "array", "items": {"type": "object", "properties": {"text": text, "timer_id": text}}},
        "session": text,
        "code": {"type": "string", "description": "why the call was refused"},
        "detail": text,
    });
    if tool.name().ends_with("timer") {
        let (seconds, instant) = (json!({"type": "number"}), json!({"type": "integer"}));
        let of_timers = object(json!({
            "timer_id": text,
            "timer_type": {"type": "string", "enum": ["waiting", "mission"]},
            "status": {
                "type": "string", "enum": ["running", "paused", "running_background", "completed", "stopped"],
            },
            "total_duration": seconds,
            "elapsed_time": seconds,
            "remaining_time": seconds,
            "reason": text,
            "mission": text,
            "stop_reason": text,
            "created_at": instant,
            "last_check_at": instant,
            "pause_until": instant,
            "ends_at": instant,
            "outcome": text,
            "timeout": {"type": "boolean"},
        }));
        object_mut(&mut properties).extend(of_timers);
    }
    if tool == Tool::Clock {
        let task = json!({"type": "object", "properties": {
            "taskId": text, "dueAt": text, "task": text, "status": text, "deliveredAt": text,
        }});
        let of_clocks = object(json!({
            "ok": {"type": "boolean"},
            "now": {"type": "string", "description": "ISO 8601 with offset"},
            "scheduled": {"type": "array", "items": task},
            "items": {"type": "array", "items": task},
            "removed": text,
            "removedCount": {"type": "integer"},
        }));
        object_mut(&mut properties).extend(of_clocks);
    }
    if matches!(tool, Tool::Timer | Tool::Clock) {
        let channels = json!({"type": "array", "items": text});
        let delivery = json!({"type": "object", "properties": {"channels": channels, "wakes": {"type": "boolean"}}});
        object_mut(&mut properties).insert("delivery".into(), delivery);
    }
    if tool.name() == "read_timer" {
        object_mut(&mut properties).insert("timers".into(), json!({"type": "array", "items": {"type": "object"}}));
    }
    json!({"type": "object", "properties": properties})
}

fn object_mut(value: &mut Value) -> &mut JsonObject {
    value.as_object_mut().expect("schemas are objects")
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        _ => unreachable!("schemas are objects"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What models pay for: names, descriptions and arguments of all tools.
    const BYTES_MAX: usize = 6000;

    #[test]
    fn the_tools_are_listed_in_order_and_are_small() {
        let names: Vec<_> = tools().iter().map(|tool| tool.name.to_string()).collect();
        assert_eq!(names, Tool::ALL.map(|tool| tool.name().to_owned()));
        let paid = tools().iter().map(|tool| json!([tool.name, tool.description, tool.input_schema]).to_string().len());
        let size: usize = paid.sum();
        assert!(size < BYTES_MAX, "{size} bytes");
    }
}
