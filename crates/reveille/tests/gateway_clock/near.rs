//! Reminders that are nearer than the window in which they may be told early, and models that ask for them for ever.

use super::*;

fn soon(task: &str, length: &str) -> Value {
    clock(json!({"action": "schedule", "task": task, "in": length}))
}

/// A model that looks again in half a minute waits for half a minute.
#[tokio::test]
async fn a_model_that_polls_waits_each_time() {
    let site = site().await;
    for api in APIS {
        let mut plan = json!({"steps": [soon("look", "30s")]});
        plan["then"] =
            json!([says("Not yet."), {"steps": [soon("look again", "30s")]}, says("Not yet."), says("Done.")]);
        let before = site.got().len();
        let call = site.held(api, api, &[&script(&plan)], true).await;
        for (round, wanted) in [(1, 2), (2, 4)] {
            assert_eq!(site.got().len(), before + wanted, "nothing is asked while it waits: {round}");
            let result = site.last();
            assert!(result.contains("due in 30 seconds") && !result.contains("Due now"), "{result}");
            site.world.advance(29);
            assert_eq!(site.reminders(api).await.iter().filter(|one| one["status"] == "scheduled").count(), 1);
            site.world.advance(1);
            site.until_got(before + wanted + if round == 1 { 2 } else { 1 }).await;
            if round == 1 {
                site.until_holds(1).await;
            }
        }
        assert!(within("it ends", call).await.unwrap().contains("Done."));
        site.until_holds(0).await;
    }
}

/// However it goes on, one response comes to its end.
#[tokio::test]
async fn a_response_is_continued_only_so_often() {
    let site = site_with(|config| config.gateway.max_continuations = 3).await;
    for api in APIS {
        for stream in [true, false] {
            let session = format!("{api}-{stream}");
            let before = site.got().len();
            for (place, task) in ["one", "two", "three", "four"].into_iter().enumerate() {
                site.schedule(&session, task, place as u64 + 1).await;
            }
            let body = request(api, &[&script(&json!({"steps": [{"text": "a"}], "then": vec![says("b"); 9]}))], stream);
            let url = format!("{}{}", site.world.url, path(api));
            let call = site.world.http.post(url).header("x-reveille-session", &session).json(&body).send();
            let call = tokio::spawn(async move { call.await.unwrap().text().await.unwrap() });
            for round in 1..=3 {
                site.until_holds(1).await;
                site.world.advance(1);
                site.until_got(before + 1 + round).await;
            }
            let answer = within("it ends", call).await.unwrap();
            assert!(answer.contains('a') && answer.contains('b'), "{answer}");
            assert_eq!(site.got().len(), before + 4, "three times continued");
            let left = site.reminders(&session).await;
            assert_eq!(
                left.iter().filter(|one| one["status"] == "scheduled").count(),
                1,
                "it waits for the next request"
            );
            site.until_holds(0).await;
        }
    }
}

/// What is promised is what will be.
#[tokio::test]
async fn the_result_says_whether_the_turn_is_held_for_it() {
    let delivery = |site: &Site| {
        let got = site.got().pop().unwrap();
        let result = list(&got["messages"]).pop().unwrap();
        serde_json::from_str::<Value>(result["content"].as_str().unwrap()).unwrap()
    };
    let plan = |length: &str| script(&json!({"steps": [soon("tea", length)], "then": [says("ok")]}));
    let held = site().await;
    for (stream, length, wakes) in [(true, "9h", true), (false, "3m", true), (false, "9h", false)] {
        let session = format!("{stream}-{length}");
        let call = held.held(&session, "chat", &[&plan(length)], stream).await;
        let result = delivery(&held);
        assert_eq!(result["delivery"]["wakes"], wakes, "{result}");
        assert_eq!(text(&result["hint"]).contains("next request"), !wakes, "{result}");
        call.abort();
        held.until_holds(0).await;
    }
    let mut structured = request("chat", &[&plan("1h")], true);
    structured["response_format"] = json!({"type": "json_object"});
    held.raw(Some("structured"), "chat", &structured).await;
    assert_eq!(delivery(&held)["delivery"]["wakes"], false);
    let never = site_with(|config| config.gateway.hold = false).await;
    never.ask("s", "chat", &[&plan("1h")], true).await;
    let result = delivery(&never);
    assert_eq!(result["delivery"]["wakes"], false);
    assert!(text(&result["hint"]).contains("next request") && !text(&result["hint"]).contains("setup"), "{result}");
}

/// Clients that have had enough of pings are not made to wait for them.
#[tokio::test]
async fn where_only_pings_can_be_sent_the_hold_is_short() {
    let site = site().await;
    site.schedule("s", "far", 100_000).await;
    let thought = concat!(
        "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\"}}\n\n",
        "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":1}\n\n",
    );
    let plan = script(&json!({"steps": [{"text": "hm"}, {"raw": thought}]}));
    let call = site.held("s", "messages", &[&plan], true).await;
    site.world.advance(279);
    assert_eq!(site.holds(), 1);
    site.world.advance(1);
    let body = within("it ends before the client gives up", call).await.unwrap();
    assert!(body.contains("message_stop"), "{body}");
    // With a text to keep open there is no such limit.
    let call = site.held("s", "messages", &["hello"], true).await;
    site.world.advance(10_000);
    assert_eq!(site.holds(), 1);
    call.abort();
}

/// An upstream that answers a stream's request in one piece makes its client wait for a whole answer.
#[tokio::test]
async fn an_answer_in_one_piece_is_held_as_such() {
    let choice =
        json!({"index": 0, "message": {"role": "assistant", "content": "in one piece"}, "finish_reason": "stop"});
    let answer = json!({"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]}).to_string();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = axum::Router::new().fallback(move || async move { ([("content-type", "application/json")], answer) });
    let upstream = tokio::spawn(async move { axum::serve(listener, router).await });
    let site = site_with(|config| config.gateway.upstream[0].base_url = url).await;
    site.schedule("s", "far", 100_000).await;
    let call = site.held("s", "chat", &["hello"], true).await;
    site.world.advance(240);
    assert!(within("it ends in time", call).await.unwrap().contains("in one piece"));
    upstream.abort();
}

fn timer(arguments: Value) -> Value {
    json!({"tool": {"name": "timer", "arguments": arguments}})
}

/// In the background; the model's timer stands by when this returns.
async fn standing(site: &Site, api: &str, plan: &Value, stream: bool) -> JoinHandle<String> {
    let (url, body) = (format!("{}{}", site.world.url, path(api)), request(api, &[&script(plan)], stream));
    let request = site.world.http.post(url).header("x-reveille-session", "s").json(&body);
    let call = tokio::spawn(async move { request.send().await.unwrap().text().await.unwrap() });
    site.world.standing_count(1).await;
    call
}

/// A call that stands by waits no longer than its client does.
#[tokio::test]
async fn a_timer_stands_by_within_the_patience_for_pings() {
    let site = site_with(|config| config.gateway.tools = vec!["timer".into()]).await;
    let far = || timer(json!({"total_duration": 3600, "reason": "build"}));
    // Nothing but calls: the client sees pings all the while.
    let plan = json!({"steps": [far()], "then": [{"steps": [far()]}, says("Still building.")]});
    let call = standing(&site, "messages", &plan, true).await;
    site.world.advance(279);
    assert_eq!(site.got().len(), 1);
    site.world.advance(1);
    let body = within("it ends before the client gives up", call).await.unwrap();
    assert!(body.contains("Still building."), "{body}");
    assert_eq!(site.got().len(), 3, "the second had no time left");
}

#[tokio::test]
async fn a_timer_in_a_whole_answer_stands_by_for_what_is_left() {
    for api in APIS {
        let site = site_with(|config| config.gateway.tools = vec!["timer".into()]).await;
        let part = || timer(json!({"total_duration": 3600, "timeout_duration": 200, "reason": "build"}));
        let plan = json!({"steps": [part()], "then": [{"steps": [part()]}, says("Still building.")]});
        let call = standing(&site, api, &plan, false).await;
        site.world.advance(200);
        site.until_got(2).await;
        site.world.standing_count(1).await;
        site.world.advance(39);
        assert_eq!(site.got().len(), 2);
        site.world.advance(1);
        let body = within("it ends in time", call).await.unwrap();
        assert!(body.contains("Still building."), "{body}");
    }
}
