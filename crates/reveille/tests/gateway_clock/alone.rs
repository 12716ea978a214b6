//! Calls that are left alone, in conversations in which calls of ours are hidden.

use super::*;

const MIXED: &str = "get_weather";

/// The four forms: no tools, none wanted, others wanted, a sub-agent's.
fn forms(body: &Value) -> Vec<(&'static str, Value, Option<&'static str>)> {
    let with = |choice: Value| {
        let mut body = body.clone();
        body["tool_choice"] = choice;
        body
    };
    let mut side = body.clone();
    side.as_object_mut().unwrap().remove("tools");
    vec![
        ("side", side, None),
        ("none", with(json!("none")), None),
        ("named", with(json!({"type": "function", "name": MIXED})), None),
        ("subagent", body.clone(), Some("x-openai-subagent")),
    ]
}

async fn post(site: &Site, body: &Value, mark: Option<&str>) -> Value {
    let mut request = site.world.http.post(format!("{}/v1/responses", site.world.url)).json(body);
    if let Some(mark) = mark {
        request = request.header(mark, "review");
    }
    within("an answer", request.send()).await.unwrap().json().await.unwrap()
}

fn answer(id: &str) -> String {
    let said = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]});
    script(&json!({"body": json!({"id": id, "status": "completed", "output": [said]}).to_string()}))
}

#[tokio::test]
async fn they_name_the_answer_before_as_the_upstream_does() {
    let site = site_with(|config| config.gateway.hold = false).await;
    let plan =
        json!({"steps": [clock(json!({"action": "schedule", "task": "tea", "in": "1h"}))], "then": [says("ok")]});
    let first = post(&site, &request("responses", &[&script(&plan)], false), None).await;
    for (number, (form, mut body, mark)) in forms(&request("responses", &["x"], false)).into_iter().enumerate() {
        body["previous_response_id"] = first["id"].clone();
        body["input"][0]["content"] = answer(&format!("resp_left_{number}")).into();
        let left = post(&site, &body, mark).await;
        let got = site.got().pop().unwrap();
        assert_eq!(got["previous_response_id"], "resp_1_scripted", "{form}");
        assert!(!got.to_string().contains("\"clock\""), "{form}: {got}");
        // Its own answer leads to the conversation, unless it was no part of it.
        let mut next = request("responses", &["and now?"], false);
        next["previous_response_id"] = left["id"].clone();
        let id = site.due(first["id"].as_str().unwrap(), &format!("after {form}")).await;
        post(&site, &next, None).await;
        assert_eq!(site.last().contains(&format!("after {form}")), mark.is_none(), "{form}: {}", site.last());
        if mark.is_none() {
            site.until_status(first["id"].as_str().unwrap(), &id, "delivered").await;
        }
    }
}

#[tokio::test]
async fn they_bring_the_results_that_the_upstream_waits_for() {
    for conversation in [false, true] {
        for place in 0..4 {
            let site = site_with(|config| config.gateway.hold = false).await;
            let theirs = json!({"tool": {"name": MIXED, "arguments": {}}});
            let plan = json!({"steps": [clock(json!({"action": "list"})), theirs]});
            let mut body = request("responses", &[&script(&plan)], false);
            if conversation {
                body["conversation"] = json!("conv_1");
            }
            let first = post(&site, &body, None).await;
            let call = &first["output"][0];
            assert_eq!((&call["type"], &call["name"]), (&json!("function_call"), &json!(MIXED)), "{first}");
            let mut next = request("responses", &[], false);
            next["input"] = json!([{"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}]);
            match conversation {
                true => next["conversation"] = json!("conv_1"),
                false => next["previous_response_id"] = first["id"].clone(),
            }
            let (form, body, mark) = forms(&next).remove(place);
            post(&site, &body, mark).await;
            let got = site.got().pop().unwrap();
            let outputs = list(&got["input"]);
            assert_eq!(outputs.len(), 2, "{form}: {got}");
            assert!(outputs.iter().all(|one| one["type"] == "function_call_output"), "{got}");
            assert!(outputs[0]["output"].as_str().unwrap().contains("\"items\""), "{got}");
            assert!(!got["tools"].to_string().contains("clock"), "{got}");
        }
    }
}

/// In a conversation that its upstream keeps, what a turn left open is answered with the next call, once.
#[tokio::test]
async fn what_a_turn_left_open_in_a_conversation_is_answered_once() {
    let site = site_with(|config| (config.gateway.max_rounds, config.gateway.hold) = (1, false)).await;
    for left_alone in [false, true] {
        let name = format!("conv_{left_alone}");
        let all = json!({"steps": [clock(json!({"action": "list"}))]});
        // The upstream has the conversation, so that each answer is the script's first.
        let mut body = request("responses", &[&script(&all)], false);
        body["conversation"] = json!(name);
        let url = format!("{}/v1/responses", site.world.url);
        let ask = |body: &Value| {
            let script = json!({"steps": [clock(json!({"action": "list"}))]}).to_string();
            site.world.http.post(&url).header("x-script", script).json(body).send()
        };
        within("an answer", ask(&body)).await.unwrap();
        let mut next = request("responses", &["hello"], false);
        next["conversation"] = json!(name);
        if left_alone {
            next["tool_choice"] = json!("none");
        }
        for round in 0..2 {
            post(&site, &next, None).await;
            let got = site.got().pop().unwrap();
            let owed = got["input"].to_string().contains("too_many_calls");
            assert_eq!(owed, round == 0, "{left_alone}: {got}");
        }
    }
}
