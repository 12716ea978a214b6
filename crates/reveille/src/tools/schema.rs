//! What a model is told about the tools. Short, and the same bytes every time: schemas are part of every prompt.

use super::Tool;
use serde::Deserialize;
use serde_json::{Value, json};

/// Whose shape of a tool list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    Openai,
    Anthropic,
    #[default]
    Mcp,
}

impl Tool {
    pub const fn description(self) -> &'static str {
        match self {
            Tool::Timer => {
                "Sleep without spending requests. With `reason`: stand by up to timeout_duration, then look for \
                 yourself; the timer runs on until total_duration is over. With `mission`: returns at once; end your \
                 turn now, a message wakes you when it is time to do the mission. With `timer_id`: continue that timer. \
                 With `until`: what you wait for is watched for you."
            }
            Tool::ReadTimer => "Read one timer, or all of this session: status, elapsed and remaining time.",
            Tool::StopTimer => "End a timer for good. Use it when what you waited for is done.",
            Tool::CancelTimer => {
                "Stop waiting but let the timer run on in the background; a message tells you when it ends. Use it to \
                 do other work meanwhile."
            }
            Tool::PauseTimer => "Freeze a timer for pause_duration; it resumes by itself.",
            Tool::ResumeTimer => "Resume a paused timer early.",
            Tool::Clock => {
                "Reminders for yourself at a time of day. schedule: each task is told to you when it is due, in the next \
                 request or tool result of this session; end your turn, do not wait. Every result has `now`."
            }
        }
    }

    /// JSON Schema of the arguments.
    pub fn input_schema(self) -> Value {
        let id = json!({"type": "string"});
        let why = json!({"type": "string", "description": "why"});
        let duration = |text: &str| json!({"type": ["number", "string"], "description": text});
        let (properties, required): (Value, &[&str]) = match self {
            Tool::Timer => (
                json!({
                    "total_duration": duration("seconds or \"5m\"; with timer_id: what shall remain from now"),
                    "timeout_duration": duration("how long this call stands by"),
                    "reason": {"type": "string", "description": "what you wait for"},
                    "mission": {"type": "string", "description": "what to do when woken"},
                    "timer_id": {"type": "string", "description": "continue this timer"},
                    "at": {"type": "string", "description": "instead of total_duration: ISO 8601, or \"16:00\" with zone"},
                    "every": duration("again and again: \"10m\", or cron \"0 9 * * 1-5\" with zone"),
                    "zone": {"type": "string", "description": "IANA: Europe/Berlin"},
                    "catch_up": {"type": "string", "enum": ["skip", "latest", "all"], "description": "of every: what passed while the server was down"},
                    "max_fires": {"type": "integer", "description": "of every"},
                    "until": until(),
                }),
                &[],
            ),
            Tool::ReadTimer => (json!({"timer_id": id}), &[]),
            Tool::StopTimer | Tool::CancelTimer | Tool::ResumeTimer => {
                (json!({"timer_id": id, "reason": why}), &["timer_id"])
            }
            Tool::PauseTimer => (
                json!({"timer_id": id, "pause_duration": duration("seconds or \"5m\""), "reason": why}),
                &["timer_id", "pause_duration"],
            ),
            Tool::Clock => (
                json!({
                    "action": {"type": "string", "enum": ["schedule", "list", "cancel", "clear"]},
                    "items": {"type": "array", "description": "schedule", "items": {
                        "type": "object",
                        "properties": {
                            "task": {"type": "string", "description": "what to do then"},
                            "dueAt": {"type": "string", "description": "ISO 8601 with offset: 2026-01-21T20:30:00-08:00"},
                            // One type: some vendors refuse a list of them. Numbers are taken all the same.
                            "in": {"type": "string", "description": "instead of dueAt: \"10m\", \"90s\""},
                            "tool": {"type": "string", "description": "tool you mean to call"},
                            "arguments": {"type": "object"},
                            "taskId": {"type": "string", "description": "replace this task; what is left out stays"},
                        },
                    }},
                    "taskId": {"type": "string", "description": "cancel"},
                }),
                &["action"],
            ),
        };
        json!({"type": "object", "properties": properties, "required": required})
    }
}

/// One of five kinds, flat: models get that right more often than alternatives.
fn until() -> Value {
    let text = |text: &str| json!({"type": "string", "description": text});
    json!({
        "type": "object",
        "description": "end as soon as this holds; checked for you at no cost, so do not poll. One of http, tcp, file, \
                        process, command",
        "properties": {
            "http": text("URL that answers"),
            "status": {"type": "integer", "description": "http: this status; else any below 400"},
            "body_matches": text("http: regex"),
            "tcp": text("host:port that takes connections"),
            "file": text("absolute path"),
            "exists": {"type": "boolean", "description": "file; the default"},
            "changed": {"type": "boolean", "description": "file"},
            "contains": text("file: this text"),
            "process": {"type": "integer", "description": "pid that ends"},
            "command": {"type": "array", "items": {"type": "string"}, "description": "exits 0; if the server allows it"},
        },
    })
}

/// All tools in one vendor's shape.
pub fn catalogue(format: Format) -> Value {
    let tools: Vec<Value> = Tool::ALL
        .into_iter()
        .map(|tool| {
            let (name, description, schema) = (tool.name(), tool.description(), tool.input_schema());
            match format {
                Format::Openai => json!({
                    "type": "function",
                    "function": {"name": name, "description": description, "parameters": schema},
                }),
                Format::Anthropic => json!({"name": name, "description": description, "input_schema": schema}),
                Format::Mcp => json!({"name": name, "description": description, "inputSchema": schema}),
            }
        })
        .collect();
    json!({"tools": tools})
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, path::Path};

    /// Schemas are paid for in every prompt of every agent.
    const CATALOGUE_BYTES_MAX: usize = 6000;

    #[test]
    fn the_catalogue_is_small() {
        let size = catalogue(Format::Mcp).to_string().len();
        assert!(size < CATALOGUE_BYTES_MAX, "{size} bytes");
    }

    /// Every changed byte makes every agent's cached prompt worthless once; it should be on purpose. `UPDATE=1` writes.
    #[test]
    fn the_catalogue_is_the_same_bytes_as_ever() {
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../api/tools.json");
        let text = format!("{}\n", catalogue(Format::Mcp));
        assert_eq!(text, format!("{}\n", catalogue(Format::Mcp)));
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&kept, &text).expect("the file can be written");
        }
        assert_eq!(fs::read_to_string(&kept).expect("the file is checked in"), text, "UPDATE=1 writes api/tools.json");
    }
}
