//! What models are told and what comes of what they say, in every protocol.

use super::{QUERY, Stage, agent, armed, script, stage, support::*};
use reqwest::Method;
use reveille_core::{Call, Command, ItemId, SessionId, Timestamp, Utterance, utterance::Role};
use serde_json::{Value, json};

const PROTOCOLS: [&str; 3] = ["chat", "messages", "responses"];

/// The agent, spoken to by this protocol, with a timer that calls one of its actions.
async fn speaking(world: &World, base: &str, protocol: &str) {
    let mut agent = agent(base);
    agent["protocol"] = json!(protocol);
    agent["timers"] = json!([{"timer_id": "look", "delay_seconds": 60, "tool_name": "read_customer",
                              "tool_params": {"id": 7}}]);
    let set = world.request(Method::PUT, "/api/agents/acme/support", Some(&agent)).await;
    assert_eq!(set.status, 200, "{}", set.body);
}

/// What the model was asked last.
fn asked(stage: &Stage) -> Value {
    serde_json::from_slice(&stage.model.upstream.log.requests().last().unwrap().body).unwrap()
}

/// Every id of a call or a result in a request.
fn ids(value: &Value) -> Vec<String> {
    match value {
        Value::Array(all) => all.iter().flat_map(ids).collect(),
        Value::Object(fields) => {
            let own =
                ["id", "tool_use_id", "tool_call_id", "call_id"].iter().filter_map(|name| fields.get(*name)?.as_str());
            own.map(str::to_owned).chain(fields.values().flat_map(ids)).collect()
        }
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn an_answer_is_as_long_as_the_agent_allows() {
    let names = [("chat", "max_completion_tokens"), ("messages", "max_tokens"), ("responses", "max_output_tokens")];
    for (protocol, name) in names {
        let stage = stage().await;
        for max in [None, Some(20_000)] {
            let mut agent = agent(&stage.endpoints.url);
            agent["protocol"] = json!(protocol);
            agent["max_tokens"] = json!(max);
            let set = stage.world.request(Method::PUT, "/api/agents/acme/support", Some(&agent)).await;
            assert_eq!(set.status, 200, "{}", set.body);
            assert_eq!(stage.world.post(QUERY, json!({"message": "你好"})).await.status, 200);
            let default = if protocol == "messages" { json!(8192) } else { Value::Null };
            assert_eq!(asked(&stage)[name], max.map_or(default, |max| json!(max)), "{protocol}");
            armed(&stage.world).await;
        }
    }
}

#[tokio::test]
async fn a_timer_that_speaks_for_days_makes_its_agent_forget_nothing() {
    let stage = stage().await;
    let world = &stage.world;
    assert_eq!(world.post(QUERY, json!({"message": "我叫李雷"})).await.status, 200);
    armed(world).await;
    let said = (0..2500).map(|number| {
        let at = Timestamp::from_millis(world.now());
        let mut said = Utterance::new(format!("said_again.{number}"), Role::Assistant, "还在吗？", at);
        said.timer = Some(ItemId::new("st_1"));
        said
    });
    let (made, notify) = (Vec::new(), Vec::new());
    let again = Command::Response { agent: None, turn: None, said: said.collect(), made, notify };
    world.server().engine.execute(&SessionId::new("chat-1"), Call::new(again)).await.unwrap();
    assert_eq!(world.post(QUERY, json!({"message": "我叫什么？"})).await.status, 200);
    let sent = asked(&stage)["messages"].to_string();
    assert!(sent.contains("李雷"), "{sent}");
    assert_eq!(sent.matches("还在吗").count(), 1, "{sent}");
}

#[tokio::test]
async fn a_conversation_in_which_a_timer_acted_goes_on_in_every_protocol() {
    for protocol in PROTOCOLS {
        let stage = stage().await;
        let (world, endpoints) = (&stage.world, &stage.endpoints);
        speaking(world, &endpoints.url, protocol).await;
        assert_eq!(world.post(QUERY, json!({"message": "你好"})).await.status, 200);
        armed(world).await;
        world.advance(60);
        endpoints.next().await;
        world
            .until("the result is in the conversation", || async {
                let said = list(&world.get("/api/sessions/chat-1").await["conversation"]);
                (said.last().unwrap()["role"] == "tool").then_some(())
            })
            .await;
        assert_eq!(world.post(QUERY, json!({"message": "在"})).await.status, 200);
        let sent = asked(&stage);
        let ids = ids(sent.get("messages").unwrap_or(&sent["input"]));
        assert_eq!(ids.len(), 2, "{protocol}: {sent}");
        assert_eq!(ids[0], ids[1], "a result names its call");
        // As Anthropic has it; OpenAI takes up to 64 characters of any kind.
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        assert!(ids[0].len() <= 64 && (protocol != "messages" || ids[0].chars().all(plain)), "{protocol}: {ids:?}");
    }
}

#[tokio::test]
async fn a_model_without_words_spoils_nothing_and_its_client_is_told() {
    let empty = |protocol: &str| match protocol {
        "chat" => {
            json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": ""}, "finish_reason": "stop"}]})
        }
        "messages" => json!({"type": "message", "role": "assistant", "content": [], "stop_reason": "end_turn"}),
        _ => json!({"status": "completed", "output": []}),
    };
    for protocol in PROTOCOLS {
        let stage = stage().await;
        let world = &stage.world;
        speaking(world, &stage.endpoints.url, protocol).await;
        let silent = format!("script:{}", json!({"body": empty(protocol).to_string()}));
        let refused = world.post(QUERY, json!({"message": silent})).await;
        assert_eq!((refused.status, &refused.body["code"]), (502, &json!("empty_answer")), "{protocol}");
        armed(world).await;
        let answer = world.post(QUERY, json!({"message": script(json!([{"text": "好"}]))})).await;
        assert_eq!(answer.body["content"], "好", "{protocol}: {}", answer.body);
        let sent = asked(&stage);
        let said = list(sent.get("messages").unwrap_or(&sent["input"]));
        assert!(said.iter().all(|said| !said["content"].as_array().is_some_and(Vec::is_empty)), "{protocol}: {sent}");
        // After a tool it may well have nothing to add.
        armed(world).await;
        let calls = json!({"steps": [{"tool": {"name": "save", "arguments": {}}}], "then": [{"body": empty(protocol).to_string()}]});
        let answer = world.post(QUERY, json!({"message": format!("script:{calls}")})).await;
        assert_eq!((answer.status, &answer.body["content"]), (200, &json!("")), "{protocol}: {}", answer.body);
    }
}

#[tokio::test]
async fn what_is_said_beside_a_system_action_is_said() {
    let stage = stage().await;
    let world = &stage.world;
    let calls = json!({"steps": [{"text": "我记下来"}, {"tool": {"name": "save", "arguments": {}}}],
                       "then": [{"steps": [{"text": "好了"}]}]});
    assert_eq!(world.post(QUERY, json!({"message": format!("script:{calls}")})).await.status, 200);
    armed(world).await;
    let said = list(&world.get("/api/sessions/chat-1").await["conversation"]);
    let words: Vec<String> = said.iter().skip(1).map(|said| text(&said["content"])).collect();
    assert_eq!(words, ["我记下来", "好了"]);
    assert!(said.iter().all(|said| said.get("tool_calls").is_none()), "{said:?}");
}

#[tokio::test]
async fn an_upstream_that_wants_patience_is_heard() {
    let stage = stage().await;
    let world = &stage.world;
    for (upstream, status, retry_after) in [(429, 429, Some("7")), (503, 503, Some("7")), (401, 502, None)] {
        let says = json!({"status": upstream, "headers": [["retry-after", "7"]]});
        let body = json!({"message": format!("script:{says}")});
        let request = world.http.post(format!("{}{QUERY}", world.url)).json(&body);
        let refused = within("an answer", request.send()).await.unwrap();
        let asks = refused.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
        assert_eq!((refused.status().as_u16(), asks.as_deref()), (status, retry_after), "{upstream}");
        let problem: Value = refused.json().await.unwrap();
        has(&problem, json!({"code": "model_failed", "upstream_status": upstream}));
        armed(world).await;
    }
}
