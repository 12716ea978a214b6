//! Turns that break off and are sent again, beside others of the same session; words that are said again.

use super::*;

/// Two turns of one session: what became of the one says nothing about the other.
#[tokio::test]
async fn a_turn_that_broke_off_is_known_whatever_others_do_meanwhile() {
    let site = site().await;
    site.schedule("s", "far", 100_000).await;
    let one = script(&says("one"));
    let call = site.held("s", "messages", &[&one], true).await;
    let other = site.held("s", "messages", &["another"], true).await;
    other.abort();
    site.until_holds(1).await;
    let theirs = json!({"steps": [{"tool": {"name": "get_weather", "arguments": {}}}]});
    site.ask("s", "messages", &[&script(&theirs)], false).await;
    call.abort();
    site.until_holds(0).await;
    assert!(site.ask("s", "messages", &[&one], false).await.contains("one"), "not held a second time");
    assert!(site.ask("s", "messages", &["another"], false).await.contains("Hello!"), "nor the other one");
}

#[tokio::test]
async fn a_mixed_turn_that_was_not_heard_schedules_once() {
    let site = site_with(|config| config.gateway.hold = false).await;
    for api in APIS {
        let theirs = json!({"tool": {"name": "get_weather", "arguments": {}}});
        let plan = json!({"steps": [clock(json!({"action": "schedule", "task": "tea", "in": "1h"})), theirs]});
        for _ in 0..2 {
            site.ask(api, api, &[&script(&plan)], false).await;
        }
        assert_eq!(site.reminders(api).await.len(), 1, "the client never got the first answer");
        site.world.advance(600);
        site.ask(api, api, &[&script(&plan)], false).await;
        assert_eq!(site.reminders(api).await.len(), 2, "much later it is meant");
    }
}

/// A conversation that its upstream keeps is not sent along: the same words are another message.
#[tokio::test]
async fn a_directive_said_again_in_a_kept_conversation_is_carried_out_again() {
    let site = site_with(|config| config.gateway.hold = false).await;
    let mut body = request("responses", &["<**clock:clear**>"], false);
    body["conversation"] = json!("conv_1");
    for _ in 0..3 {
        let id = site.schedule("conv_1", "tea", 3600).await;
        site.raw(None, "responses", &body).await;
        assert_eq!(site.status("conv_1", &id).await, "cancelled");
    }
    // Sent again because it broke off, it is not.
    let mut armed = request("responses", &[], false);
    armed["conversation"] = json!("conv_1");
    armed["input"] = json!([
        {"role": "user", "content": "<**stopMessage:\"go on\",1**>"},
        {"role": "user", "content": script(&json!({"status": 500, "times": 1, "steps": [{"text": "x"}]}))},
    ]);
    let before = site.got().len();
    assert_eq!(site.raw(None, "responses", &armed).await.0, 500);
    assert_eq!(site.raw(None, "responses", &armed).await.0, 200);
    assert_eq!(site.got().len(), before + 3, "armed once, and used once");
}

/// A request without a history, under a session that it always names: a while later its words are meant again.
#[tokio::test]
async fn a_directive_said_again_much_later_is_carried_out_again() {
    let site = site_with(|config| config.gateway.hold = false).await;
    for (later, wanted) in [(0, "cancelled"), (60, "scheduled"), (600, "cancelled")] {
        site.world.advance(later);
        let id = site.schedule("s", "tea", 36_000).await;
        site.ask("s", "chat", &["<**clock:clear**> hello"], false).await;
        assert_eq!(site.status("s", &id).await, wanted, "{later}");
    }
}

#[tokio::test]
async fn a_directive_that_nobody_can_carry_out_is_refused() {
    let site = site().await;
    for api in ["chat", "messages"] {
        let (status, body) = site.raw(None, api, &request(api, &["<**clock:clear**> hello"], false)).await;
        assert_eq!(status, 400, "{body}");
        assert!(body.contains("could not be carried out") && body.contains("x-reveille-session"), "{body}");
    }
    let long = "x".repeat(201);
    let (status, body) = site.raw(Some(&long), "chat", &request("chat", &["<**clock:clear**> hello"], false)).await;
    assert!(status == 400 && body.contains("is longer than 200 bytes"), "{body}");
    assert_eq!(site.got().len(), 0);
    // Malformed ones order nothing.
    assert_eq!(site.raw(None, "chat", &request("chat", &["<**clock:clean**> hello"], false)).await.0, 200);
    // A conversation that is known by its answers has its session with the first of them.
    let body = request("responses", &["<**stopMessage:\"go on\",1**> hello"], false);
    assert_eq!(site.raw(None, "responses", &body).await.0, 200);
    assert_eq!(site.got().len(), 3, "continued once");
}

#[tokio::test]
async fn mistakes_have_one_form() {
    let site = site().await;
    let mut bad =
        json!({"id": "c", "object": "chat.completion", "choices": [{"index": 0, "finish_reason": "tool_calls"}]});
    let function = json!({"name": "clock", "arguments": "{\"action\":"});
    bad["choices"][0]["message"] =
        json!({"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": function}]});
    let invalid = json!({"body": bad.to_string(), "then": [says("I see.")]});
    let listing = json!({"steps": [clock(json!({"action": "list"}))], "then": [says("I see.")]});
    let long = "x".repeat(201);
    for (session, plan, code, word) in [
        (Some("s"), &invalid, "invalid_argument", "not valid JSON"),
        (None, &listing, "session_required", "is missing"),
        (Some(long.as_str()), &listing, "session_required", "is longer than 200 bytes"),
    ] {
        let (_, body) = site.raw(session, "chat", &request("chat", &[&script(plan)], false)).await;
        assert!(body.contains("I see."), "{body}");
        let got = site.got().pop().unwrap();
        let result = list(&got["messages"]).pop().unwrap();
        let error: Value = serde_json::from_str(result["content"].as_str().unwrap()).unwrap();
        assert_eq!((&error["ok"], &error["code"]), (&json!(false), &json!(code)), "{error}");
        assert!(text(&error["error"]).contains(word) && error["now"].is_string(), "{error}");
    }
}

/// Clients that name calls anew have no place left for ours; the model is told of them in words, once.
#[tokio::test]
async fn a_call_whose_place_is_gone_is_told_in_words_once() {
    let site = site_with(|config| config.gateway.hold = false).await;
    let theirs = json!({"tool": {"name": "get_weather", "arguments": {}}});
    let plan = json!({"steps": [clock(json!({"action": "schedule", "task": "tea", "in": "1h"})), theirs]});
    site.ask("s", "chat", &[&script(&plan)], false).await;
    let mut next = request("chat", &["what is the weather?"], false);
    let call = json!({"id": "renamed", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}});
    let messages = next["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
    messages.push(json!({"role": "tool", "tool_call_id": "renamed", "content": "sunny"}));
    let mut told = Vec::new();
    for _ in 0..2 {
        site.raw(Some("s"), "chat", &next).await;
        told.push(site.last().contains("[clock was called with") && site.last().contains("taskId"));
    }
    assert_eq!(told, [true, false]);
}

/// A title is made of what the user said, and gives no orders.
#[tokio::test]
async fn a_directive_in_a_call_without_tools_is_taken_out_and_no_more() {
    let site = site().await;
    site.schedule("s", "tea", 3600).await;
    for api in APIS {
        let mut body = request(api, &["A title for: <**clock:clear**> <**stopMessage:\"go\",2**> hello"], false);
        body.as_object_mut().unwrap().remove("tools");
        let (status, answer) = site.raw(Some("s"), api, &body).await;
        assert_eq!(status, 200, "{answer}");
        assert!(site.last().contains("hello") && !site.last().contains("<**"), "{}", site.last());
    }
    assert_eq!(site.reminders("s").await[0]["status"], "scheduled");
    assert!(site.world.get("/api/sessions/s").await.get("stop_message").is_none());
}
