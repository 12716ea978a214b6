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

/// The fields that are acted on, no more: clients put schemas into prompts, and results may hold what is not named here.
/// Nothing is required: clients hold refusals (`code`, `detail`) against the same schema.
fn output_schema(tool: Tool) -> Value {
    let mut fields = vec![("string", &["hint", "code"][..]), ("array", &["messages"])];
    fields.extend(match tool {
        Tool::Clock => [("string", &["now"][..]), ("array", &["scheduled", "items"])],
        _ => [("string", &["timer_id", "status", "outcome"][..]), ("number", &["remaining_time"])],
    });
    match tool {
        Tool::Timer => fields.extend([("boolean", &["met"][..]), ("string", &["seen"])]),
        Tool::ReadTimer => fields.push(("array", &["timers"])),
        _ => {}
    }
    let typed = |(kind, names): (&str, &'static [&'static str])| {
        let kind = json!({"type": kind});
        names.iter().map(move |name| ((*name).to_owned(), kind.clone()))
    };
    let properties: JsonObject = fields.into_iter().flat_map(typed).collect();
    json!({"type": "object", "properties": properties})
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

    /// What models pay for in every prompt: names, descriptions and arguments of all tools. The whole list is measured as
    /// clients get it (`tests/mcp_scenarios.rs`).
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
