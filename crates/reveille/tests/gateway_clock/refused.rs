//! Upstreams that refuse what is added to a request, or fail when they are asked again.

use super::*;
use scripted_upstream::Script;

/// As templates do that want roles to alternate: nothing of the user's after a tool's answer, no two of the user in a row.
fn strict() -> Upstream {
    Upstream::new(&["scripted"]).saying(|body| {
        let roles: Vec<String> = body["messages"].as_array()?.iter().map(|one| text(&one["role"])).collect();
        let refused = roles.windows(2).any(|pair| pair[1] == "user" && (pair[0] == "user" || pair[0] == "tool"));
        refused.then(|| Script { status: Some(400), ..Script::default() })
    })
}

fn tool_loop() -> Value {
    let mut body = request("chat", &["what is the weather?"], false);
    let call = json!({"id": "w", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}});
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
    messages.push(json!({"role": "tool", "tool_call_id": "w", "content": "sunny"}));
    body
}

#[tokio::test]
async fn a_call_that_is_refused_with_a_reminder_goes_without_it_and_the_reminder_waits() {
    let site = site_behind(strict(), |config| config.gateway.hold = false).await;
    let id = site.due("s", "tea").await;
    for _ in 0..2 {
        let before = site.got().len();
        let (status, body) = site.raw(Some("s"), "chat", &tool_loop()).await;
        assert_eq!((status, site.got().len()), (200, before + 2), "{body}");
        let sent = site.got();
        assert!(sent[before].to_string().contains("scheduled task"));
        let (first, second) = (&tool_loop()["messages"], &sent[before + 1]["messages"]);
        assert_eq!(first, second, "as the client sent it");
        site.world
            .until("it is free again", || async {
                site.world.inbox("s").await[0].get("leased_until").is_none().then_some(())
            })
            .await;
        assert_eq!(site.status("s", &id).await, "due");
    }
    // Where the user speaks last, it is part of that message.
    let before = site.got().len();
    site.ask("s", "chat", &["hello"], true).await;
    assert_eq!(site.got().len(), before + 1);
    assert!(text(&site.got()[before]["messages"][0]["content"]).starts_with("hello\n\n[scheduled task:\"tea\""));
    site.until_status("s", &id, "delivered").await;
    // What is wrong without it stays wrong, and is asked for once more at most.
    site.due("t", "tea").await;
    let before = site.got().len();
    let mut wrong = tool_loop();
    wrong["messages"].as_array_mut().unwrap().push(json!({"role": "user", "content": "and?"}));
    let (status, body) = site.raw(Some("t"), "chat", &wrong).await;
    assert_eq!((status, site.got().len()), (400, before + 2), "{body}");
}

/// After the model's own words it may be told.
#[tokio::test]
async fn what_was_refused_is_told_when_the_model_stops() {
    let site = site_behind(strict(), |_| {}).await;
    let id = site.due("s", "tea").await;
    assert_eq!(site.raw(Some("s"), "chat", &tool_loop()).await.0, 200);
    let roles: Vec<String> =
        list(&site.got().pop().unwrap()["messages"]).iter().map(|one| text(&one["role"])).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant", "user"]);
    assert_eq!(site.got().len(), 3);
    site.until_status("s", &id, "delivered").await;
}

/// Its own open models drop a system message in the middle, so that OpenAI's name alone says nothing.
#[tokio::test]
async fn each_family_is_told_in_a_role_it_hears() {
    let site = site_with(|config| config.gateway.hold = false).await;
    for (model, role) in
        [("gpt-5", "system"), ("gpt-oss:20b", "user"), ("openai/gpt-oss-120b", "user"), ("other", "user")]
    {
        for api in ["chat", "responses"] {
            let session = format!("{api}-{}", model.replace(['/', ':'], "-"));
            site.due(&session, "tea").await;
            let mut body = request(api, &["hello"], false);
            body["model"] = json!(model);
            site.raw(Some(&session), api, &body).await;
            let got = site.got().pop().unwrap();
            let last = list(&got[if api == "chat" { "messages" } else { "input" }]).pop().unwrap();
            assert!(last.to_string().contains("scheduled task"), "{got}");
            assert_eq!(last["role"], role, "{model}, {api}");
        }
    }
}

#[tokio::test]
async fn a_stop_message_that_did_not_arrive_is_told_again() {
    for api in APIS {
        for stream in [true, false] {
            let site = site().await;
            let fails = json!({"steps": [{"text": "one"}], "then": [{"status": 500}]});
            let mut body = request(api, &[], stream);
            let name = if api == "responses" { "input" } else { "messages" };
            body[name] = json!([{"role": "user", "content": "<**stopMessage:\"go on\",1**>"}, {"role": "user", "content": script(&fails)}]);
            let (status, answer) = site.raw(Some("s"), api, &body).await;
            assert!(status == 200 && answer.contains("one"), "{answer}");
            assert!(site.last().contains("go on"));
            let whole = site.world.get("/api/sessions/s").await;
            assert_eq!(whole["stop_message"], json!({"text": "go on", "left": 1}), "{api}");
            let events = site.world.events_of("s").await;
            assert!(events.iter().any(|event| event == "stop_message.returned"), "{events:?}");
            site.ask("s", api, &["hello"], stream).await;
            assert!(site.last().contains("go on"), "{}", site.last());
            assert!(site.world.get("/api/sessions/s").await.get("stop_message").is_none());
        }
    }
}

/// A head is no answer yet.
#[tokio::test]
async fn a_stop_message_whose_continuation_dies_is_told_again() {
    for api in APIS {
        for steps in [json!(["cut"]), json!(["close"])] {
            let site = site().await;
            let dies = json!({"steps": [{"text": "one"}], "then": [{"steps": steps}]});
            let mut body = request(api, &[], true);
            let name = if api == "responses" { "input" } else { "messages" };
            body[name] = json!([{"role": "user", "content": "<**stopMessage:\"go on\",1**>"}, {"role": "user", "content": script(&dies)}]);
            let (_, answer) = site.raw(Some("s"), api, &body).await;
            assert!(answer.contains("one") && answer.contains("error") && site.last().contains("go on"), "{answer}");
            let returned = || async {
                let events = site.world.events_of("s").await;
                events.iter().any(|event| event == "stop_message.returned").then_some(())
            };
            site.world.until("it is given back", returned).await;
            site.ask("s", api, &["hello"], true).await;
            assert!(site.last().contains("go on"), "{}", site.last());
        }
    }
}

/// Whoever waits for the answer to a call learns what the upstream said to it.
#[tokio::test]
async fn the_upstreams_own_status_and_words_are_passed_on() {
    let site = site().await;
    let plan = json!({"steps": [clock(json!({"action": "list"}))], "then": [{"status": 429}]});
    let (status, body) = site.raw(Some("s"), "chat", &request("chat", &[&script(&plan)], false)).await;
    assert_eq!(status, 429);
    assert!(body.contains("as the script says") && body.contains("upstream_refused"), "{body}");
    let (_, body) = site.raw(Some("s"), "chat", &request("chat", &[&script(&plan)], true)).await;
    assert!(body.contains("as the script says") && body.contains("429"), "{body}");
}
