//! Several whole answers as one.

use crate::rounds::{
    heard::sum,
    weave::{Round, Served},
};
use serde_json::{Value, json};

pub(crate) fn merge(rounds: Vec<Round>, served: &Served) -> Value {
    let mut rounds = rounds.into_iter().map(|round| round.answer);
    let mut all = rounds.next().unwrap_or_default();
    for mut next in rounds {
        all["usage"] = sum(&all["usage"], &next["usage"]);
        let (Some(one), Some(two)) = (all.pointer_mut("/choices/0"), next.pointer_mut("/choices/0")) else { continue };
        hide(&mut one["message"], served);
        let (mut before, after) = (one["message"].take(), two["message"].take());
        for (name, value) in after.as_object().into_iter().flatten() {
            match (name.as_str(), before.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()), value) {
                ("content", Some(said), Value::String(more)) if !more.is_empty() => {
                    before[name] = format!("{said}\n\n{more}").into();
                }
                ("role", ..) | (_, _, Value::Null) => {}
                (_, Some(said), Value::String(more)) => before[name] = format!("{said}{more}").into(),
                ("tool_calls", _, Value::Array(more)) => match before.get_mut(name).and_then(Value::as_array_mut) {
                    Some(calls) => calls.extend(more.iter().cloned()),
                    None => before[name] = value.clone(),
                },
                _ => before[name] = value.clone(),
            }
        }
        one["message"] = before;
        one["finish_reason"] = two["finish_reason"].take();
    }
    if let Some(choice) = all.pointer_mut("/choices/0") {
        hide(&mut choice["message"], served);
        if choice["finish_reason"] == "tool_calls" && choice["message"].get("tool_calls").is_none() {
            choice["finish_reason"] = json!("stop");
        }
    }
    all
}

fn hide(message: &mut Value, served: &Served) {
    let Some(message) = message.as_object_mut() else { return };
    let Some(Value::Array(calls)) = message.get_mut("tool_calls") else { return };
    calls.retain(|call| !call["function"]["name"].as_str().is_some_and(|name| served.has(name)));
    if calls.is_empty() {
        message.remove("tool_calls");
        if message.get("content").is_some_and(Value::is_null) {
            message.insert("content".into(), json!(""));
        }
    }
}
