//! Several whole answers as one.

use crate::rounds::{
    heard::sum,
    weave::{Round, Served},
};
use serde_json::Value;

pub(crate) fn merge(rounds: Vec<Round>, served: &Served) -> Value {
    let mut rounds = rounds.into_iter().map(with_shown);
    let mut all = rounds.next().unwrap_or_default();
    for mut next in rounds {
        all["usage"] = sum(&all["usage"], &next["usage"]);
        for name in ["status", "incomplete_details", "error"] {
            all[name] = next[name].take();
        }
        if let (Some(items), Value::Array(more)) = (all["output"].as_array_mut(), next["output"].take()) {
            items.extend(more);
        }
    }
    if let Some(items) = all["output"].as_array_mut() {
        let ours = |item: &Value| {
            item["type"] == "function_call" && item["name"].as_str().is_some_and(|name| served.has(name))
        };
        items.retain(|item| !ours(item));
    }
    all
}

/// What is shown of a round's calls comes after what was said in it.
fn with_shown(round: Round) -> Value {
    let Round { mut answer, shown } = round;
    if let Some(items) = answer["output"].as_array_mut() {
        items.extend(shown);
    }
    answer
}
