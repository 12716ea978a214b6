//! Model calls in the three protocols: plain ones, ones in which the model uses the clock, turns that are held until a
//! reminder is due, and clients that leave such a turn.

use super::door::{Ask, Door};
use anyhow::{Context, bail};
use http_body_util::BodyExt;
use serde_json::{Value, json};

#[derive(Clone, Copy)]
pub enum Api {
    Chat,
    Responses,
    Messages,
}

impl Api {
    pub const ALL: [Self; 3] = [Self::Chat, Self::Responses, Self::Messages];

    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Messages => "messages",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
            Self::Messages => "/v1/messages",
        }
    }

    /// A request whose model does what the script says; with a tool of the client's it is part of a conversation.
    fn request(self, script: &Value, stream: bool, conversation: bool) -> Value {
        let said = json!([{"role": "user", "content": format!("script:{script}")}]);
        let schema = json!({"type": "object"});
        let mut body = json!({"model": "scripted", "max_tokens": 100, "stream": stream});
        let (place, tool) = match self {
            Self::Chat => {
                ("messages", json!({"type": "function", "function": {"name": "get_weather", "parameters": schema}}))
            }
            Self::Responses => ("input", json!({"type": "function", "name": "get_weather", "parameters": schema})),
            Self::Messages => ("messages", json!({"name": "get_weather", "input_schema": schema})),
        };
        body[place] = said;
        if conversation {
            body["tools"] = json!([tool]);
        }
        body
    }
}

fn says(text: &str) -> Value {
    json!({"steps": [{"text": text}]})
}

fn clock(arguments: Value) -> Value {
    json!({"steps": [{"tool": {"name": "clock", "arguments": arguments}}]})
}

fn session(what: &str, api: Api, stream: bool) -> String {
    format!("soak-{what}-{}-{stream}", api.name())
}

pub async fn plain(door: Door, api: Api, stream: bool) {
    let script = json!({"steps": [{"repeat": {"text": "word ", "times": 50, "every": 0}}, {"text": "Over."}]});
    let body = api.request(&script, stream, false);
    while door.goes_on().await {
        let ask = Ask::post(api.path(), &body).with("x-reveille-session", session("plain", api, stream));
        door.hears("gateway", ask, &["word ", "Over."]).await;
    }
}

/// The model schedules, looks and clears, and the client sees one answer.
pub async fn clocked(door: Door, api: Api, stream: bool) {
    let session = session("clocked", api, stream);
    let mut round = 0;
    while door.goes_on().await {
        round += 1;
        let mut first = clock(json!({"action": "schedule", "items": [{"task": format!("喝茶 {round}"), "in": "1h"}]}));
        let (list, clear) = (clock(json!({"action": "list"})), clock(json!({"action": "clear"})));
        first["then"] = json!([list, clear, says(&format!("Cleared {round}."))]);
        let body = api.request(&first, stream, true);
        let ask = Ask::post(api.path(), &body).with("x-reveille-session", &session);
        door.hears("clocked", ask, &[&format!("Cleared {round}.")]).await;
    }
}

/// A script whose turn is held for a second or two and then goes on; rounds differ, since the same turn is not held twice.
fn waits(round: u64, length: &str) -> Value {
    let mut first = clock(json!({"action": "schedule", "items": [{"task": format!("look {round}"), "in": length}]}));
    first["then"] = json!([says(&format!("Waiting {round}.")), says(&format!("Reminded {round}."))]);
    first
}

pub async fn held(door: Door, api: Api, stream: bool) {
    let session = session("held", api, stream);
    let mut round = 0;
    while door.goes_on().await {
        round += 1;
        let body = api.request(&waits(round, "2s"), stream, true);
        let ask = Ask::post(api.path(), &body).with("x-reveille-session", &session);
        door.hears("held", ask, &[&format!("Waiting {round}."), &format!("Reminded {round}.")]).await;
    }
}

/// The client goes in the middle of the hold, and clears what it left.
pub async fn left(door: Door, api: Api) {
    let session = session("left", api, true);
    let clear = format!("/api/sessions/{session}/tools/clock");
    let mut round = 0;
    while door.goes_on().await {
        round += 1;
        let body = api.request(&waits(round, "1h"), true, true);
        let ask = Ask::post(api.path(), &body).with("x-reveille-session", &session);
        let leaves = async {
            let mut body = door.open(ask).await?.into_body();
            let (mut said, waiting) = (String::new(), format!("Waiting {round}."));
            while !said.contains(&waiting) {
                let Some(frame) = body.frame().await else { bail!("it ended: {said}") };
                let bytes = frame.context("it broke off")?.into_data().unwrap_or_default();
                said.push_str(&String::from_utf8_lossy(&bytes));
            }
            Ok(())
        };
        door.noted("left", api.path(), leaves).await;
        door.ask("clock", &clear, json!({"action": "clear"})).await;
    }
}
