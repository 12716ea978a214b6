//! Calls that were answered here, in the form in which the protocols show those of a vendor's own tools: for clients that want
//! to see them. Chat has no such form. What clients send back of them is taken out again, since no upstream knows of it.

use super::{heard::Heard, weave::Served};
use crate::{
    conversation::{Entry, list},
    draft::Draft,
    protocol::{Protocol, ToolCall},
    stage::ToolResult,
};
use memchr::memmem;
use serde_json::{Value, json, value::RawValue};
use std::ops::Range;

/// In the id of everything that is shown.
const MARK: &str = "_reveille_";
/// Whose tools they are.
const SERVER: &str = "reveille";

/// A round's calls with their answers.
fn pairs<'a>(heard: &'a Heard, results: &'a [ToolResult]) -> impl Iterator<Item = (&'a ToolCall, &'a ToolResult)> {
    results.iter().filter_map(|result| Some((heard.calls.iter().find(|call| call.id == result.call)?, result)))
}

/// What is shown of a round's calls in a whole answer, if anything.
pub(crate) fn of(heard: &Heard, results: &[ToolResult], protocol: Protocol, served: &Served) -> Vec<Value> {
    let pairs = pairs(heard, results).filter(|_| served.shown);
    match protocol {
        Protocol::Chat => Vec::new(),
        Protocol::Responses => pairs.map(|(call, result)| item(call, result)).collect(),
        Protocol::Messages => pairs.flat_map(|(call, result)| blocks(call, result)).collect(),
    }
}

/// Messages: the call and its answer, two blocks.
fn blocks(call: &ToolCall, result: &ToolResult) -> [Value; 2] {
    let id = format!("srvtoolu{MARK}{}", call.id);
    let input: Value = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
    let content = json!({"type": format!("{}_result", call.name), "text": result.text, "is_error": result.failed});
    [
        json!({"type": "server_tool_use", "id": id, "name": call.name, "input": input}),
        json!({"type": format!("{}_tool_result", call.name), "tool_use_id": id, "content": content}),
    ]
}

/// Responses: one item.
fn item(call: &ToolCall, result: &ToolResult) -> Value {
    let (output, error) = if result.failed { (None, Some(&result.text)) } else { (Some(&result.text), None) };
    json!({
        "type": "mcp_call", "id": format!("mcp{MARK}{}", call.id), "server_label": SERVER, "name": call.name,
        "arguments": call.arguments, "output": output, "error": error,
        "status": if result.failed { "failed" } else { "completed" },
    })
}

impl Draft {
    /// Takes out what was shown of calls that were answered here.
    pub(crate) fn take_out_shown(&mut self) {
        if !self.mentions(MARK.as_bytes()) {
            return;
        }
        let mut gone = Vec::new();
        match self.protocol {
            Protocol::Chat => {}
            Protocol::Responses => gone.extend(self.without_shown(&self.entries())),
            Protocol::Messages => {
                let lists = self.entries().into_iter().filter_map(|entry| list(Entry::read(entry)?.content?));
                gone.extend(lists.flat_map(|blocks| self.without_shown(&blocks)));
            }
        }
        gone.into_iter().for_each(|(range, json)| self.replace(range, json));
    }

    /// What has to be put in place of which part, so that nothing shown is left in a list.
    fn without_shown(&self, elements: &[&RawValue]) -> Vec<(Range<usize>, &'static str)> {
        let places: Vec<Range<usize>> = elements.iter().map(|element| self.place(element)).collect();
        let shown: Vec<bool> = elements.iter().map(|element| is_shown(element)).collect();
        let Some(first_kept) = shown.iter().position(|shown| !shown) else {
            // No model takes an empty message of its own.
            let whole = places.first().zip(places.last()).map(|(first, last)| first.start..last.end);
            return whole
                .map(|whole| (whole, r#"{"type":"text","text":"(A call to the server's clock.)"}"#))
                .into_iter()
                .collect();
        };
        let gone = (0..places.len()).filter(|place| shown[*place]).map(|place| match place < first_kept {
            true => places[place].start..places[place + 1].start,
            false => places[place - 1].end..places[place].end,
        });
        gone.map(|range| (range, "")).collect()
    }
}

fn is_shown(element: &RawValue) -> bool {
    #[derive(serde::Deserialize)]
    struct Shown {
        id: Option<String>,
        tool_use_id: Option<String>,
    }
    if memmem::find(element.get().as_bytes(), MARK.as_bytes()).is_none() {
        return false;
    }
    let shown = serde_json::from_str::<Shown>(element.get()).ok();
    let marked = |id: Option<String>| {
        id.is_some_and(|id| ["srvtoolu", "mcp"].iter().any(|kind| id.starts_with(&format!("{kind}{MARK}"))))
    };
    shown.is_some_and(|shown| marked(shown.id) || marked(shown.tool_use_id))
}
