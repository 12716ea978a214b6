//! The demo's model: what it says to what it was told. Written in advance, but it reads the conversation that really
//! reached it: addresses, outcomes, reminders. Everything else of the demo is real.

use scripted_upstream::{Script, Step};
use serde_json::{Value, json};

/// Runs tools: the scenes with timers.
pub const AGENT: &str = "demo-agent";
/// Uses the gateway's clock.
pub const PLANNER: &str = "demo-planner";
/// Speaks slowly and without a stop.
pub const LIVE: &str = "demo-stream-live";
/// Falls silent in the middle of a word.
pub const STALLED: &str = "demo-stream-stalled";
/// The chatbot of a shop.
pub const SUPPORT: &str = "demo-support";

/// The words of the live stream, one at a time.
pub const WORDS: u64 = 9;
pub const WORD_MS: u64 = 350;

/// How long the server is waited for at most.
const TOTAL_SECONDS: u64 = 60;
pub const MISSION_SECONDS: f64 = 3.0;
pub const REMINDER_SECONDS: f64 = 3.0;

pub fn answer(body: &Value) -> Option<Script> {
    let last = body["messages"].as_array()?.last()?;
    match body["model"].as_str()? {
        AGENT => Some(agent(last)),
        PLANNER => Some(planner(last)),
        LIVE => {
            let words = Step::Repeat { text: "still alive … ".into(), times: WORDS, every: WORD_MS };
            Some(Script::of(vec![words]))
        }
        STALLED => Some(Script::of(vec![Step::Text("Let me thi".into()), Step::Stall])),
        SUPPORT => Some(Script::says("Your parcel left the depot this morning 📦")),
        _ => None,
    }
}

fn agent(last: &Value) -> Script {
    let said = text(last);
    if last["role"] != "tool" {
        return match said.contains("restart") {
            true => call("timer", json!({"total_duration": MISSION_SECONDS, "mission": "restart the server"})),
            false => {
                let reason = "waiting for the server to start";
                let until = json!({"tcp": said.split_whitespace().find(|word| word.contains(':'))});
                call("timer", json!({"total_duration": TOTAL_SECONDS, "reason": reason, "until": until}))
            }
        };
    }
    let result: Value = serde_json::from_str(&said).unwrap_or_default();
    Script::says(match result["outcome"].as_str() {
        Some("scheduled") => "Scheduled. I end my turn.",
        Some("met") => "The server is up, going on.",
        _ => "The server did not start.",
    })
}

fn planner(last: &Value) -> Script {
    let said = text(last);
    if said.contains("[scheduled task:") {
        return Script::says("It is time: the nightly build is green. 构建成功 ✅");
    }
    if last["role"] == "tool" {
        return Script::says("I will look at the nightly build when it is due.");
    }
    let item = json!({"task": "Look at the nightly build 夜间构建", "in": REMINDER_SECONDS});
    call("clock", json!({"action": "schedule", "items": [item]}))
}

fn call(name: &str, arguments: Value) -> Script {
    Script::of(vec![Step::Tool { name: name.to_owned(), arguments }])
}

/// All text of a message, whole or in parts.
fn text(message: &Value) -> String {
    let parts = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let whole = message["content"].as_str().into_iter();
    whole.chain(parts.iter().filter_map(|part| part["text"].as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(model: &str, messages: Value) -> String {
        let script = answer(&json!({"model": model, "messages": messages})).expect("it has an answer");
        serde_json::to_string(&script.steps).expect("representable")
    }

    #[test]
    fn it_answers_what_it_was_told() {
        let tool = |result: Value| json!({"role": "tool", "content": result.to_string()});
        let user = json!({"role": "user", "content": "Deploy, and go on when 127.0.0.1:5432 is up."});
        let waits = says(AGENT, json!([user]));
        assert!(waits.contains("127.0.0.1:5432"), "the address comes from the conversation: {waits}");
        assert!(says(AGENT, json!([user, tool(json!({"outcome": "met"}))])).contains("is up"));
        assert!(says(AGENT, json!([user, tool(json!({"outcome": "completed"}))])).contains("did not"));
        let parts = json!([{"role": "user", "content": [{"type": "text", "text": "[scheduled task:\"x\"]"}]}]);
        assert!(says(PLANNER, parts).contains("It is time"));
        assert!(answer(&json!({"model": "gpt", "messages": [user]})).is_none());
    }
}
