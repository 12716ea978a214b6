//! Several whole answers as one.

use crate::rounds::{
    heard::sum,
    weave::{Round, Served},
};
use serde_json::{Value, json};

pub(crate) fn merge(rounds: Vec<Round>, served: &Served) -> Value {
    let mut rounds = rounds.into_iter().map(with_shown);
    let mut all = rounds.next().unwrap_or_default();
    for mut next in rounds {
        all["usage"] = sum(&all["usage"], &next["usage"]);
        for name in ["stop_reason", "stop_sequence"] {
            all[name] = next[name].take();
        }
        if let (Some(blocks), Value::Array(more)) = (all["content"].as_array_mut(), next["content"].take()) {
            blocks.extend(more);
        }
    }
    if let Some(blocks) = all["content"].as_array_mut() {
        let ours =
            |block: &Value| block["type"] == "tool_use" && block["name"].as_str().is_some_and(|name| served.has(name));
        blocks.retain(|block| !ours(block));
        let calls = blocks.iter().any(|block| block["type"] == "tool_use");
        if all["stop_reason"] == "tool_use" && !calls {
            all["stop_reason"] = json!("end_turn");
        }
    }
    all
}

/// What is shown of a round's calls comes after what was said in it.
fn with_shown(round: Round) -> Value {
    let Round { mut answer, shown } = round;
    if let Some(blocks) = answer["content"].as_array_mut() {
        blocks.extend(shown);
    }
    answer
}
