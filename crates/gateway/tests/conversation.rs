//! What is read of a conversation, and what is put back into it.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use bytes::Bytes;
use reveille_gateway::{Aside, Draft, Outline, Protocol, ToolCall, ToolResult};
use serde_json::{Value, json};

fn draft(protocol: Protocol, mut body: Value) -> Draft {
    body["model"] = json!("m");
    let body = Bytes::from(body.to_string());
    Draft::new(protocol, Outline::read(protocol, &body).unwrap(), body)
}

fn texts(protocol: Protocol, body: Value) -> Vec<(String, bool)> {
    let draft = draft(protocol, body);
    let texts = draft.user_texts();
    for text in &texts {
        let raw = &draft.original()[text.range.clone()];
        assert_eq!(serde_json::from_slice::<String>(raw).unwrap(), text.text);
    }
    texts.into_iter().map(|text| (text.text, text.newest)).collect()
}

#[test]
fn only_what_the_user_wrote_is_the_users() {
    let own = |text: &str, newest| (text.to_owned(), newest);
    let chat = json!({"messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "one \"🙂\""},
        {"role": "assistant", "content": "a"},
        {"role": "tool", "content": "t", "tool_call_id": "x"},
        {"role": "user", "content": [{"type": "text", "text": "two"}, {"type": "image_url", "image_url": {"url": "u"}}]},
    ]});
    assert_eq!(texts(Protocol::Chat, chat), [own("one \"🙂\"", false), own("two", true)]);
    let messages = json!({"messages": [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "not mine"}]},
            {"type": "text", "text": "二"},
        ]},
    ]});
    assert_eq!(texts(Protocol::Messages, messages), [own("one", false), own("二", true)]);
    let responses = json!({"input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "one"}]},
        {"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "no"},
    ]});
    assert_eq!(texts(Protocol::Responses, responses), [own("one", false)]);
    assert_eq!(texts(Protocol::Responses, json!({"input": "bare"})), [own("bare", true)]);
    assert_eq!(texts(Protocol::Chat, json!({"messages": 7})), []);
}

#[test]
fn requests_that_forbid_tools() {
    let ask = |protocol, more: Value| {
        let mut body = json!({"messages": [{"role": "user", "content": "x"}], "input": "x"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        draft(protocol, body).forbids_tools()
    };
    assert!(ask(Protocol::Chat, json!({"tool_choice": "none"})));
    assert!(ask(Protocol::Messages, json!({"tool_choice": {"type": "none"}})));
    assert!(ask(Protocol::Chat, json!({"tool_choice": {"type": "function", "function": {"name": "f"}}})));
    assert!(ask(Protocol::Messages, json!({"tool_choice": {"type": "tool", "name": "f"}})));
    assert!(ask(Protocol::Responses, json!({"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []}})));
    assert!(ask(Protocol::Chat, json!({"n": 2})));
    assert!(ask(Protocol::Responses, json!({"background": true})));
    assert!(ask(Protocol::Chat, json!({"messages": []})));
    for choice in [json!("auto"), json!("required"), json!({"type": "any"}), json!(null)] {
        assert!(!ask(Protocol::Chat, json!({"tool_choice": choice, "n": 1})));
    }
}

#[test]
fn answers_that_are_to_be_one_document() {
    let schema = json!({"type": "json_schema", "schema": {}});
    let structured = |protocol, more: Value| {
        let mut body = json!({"messages": [], "input": "x"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        draft(protocol, body).outline.structured
    };
    assert!(structured(Protocol::Chat, json!({"response_format": {"type": "json_object"}})));
    assert!(structured(Protocol::Responses, json!({"text": {"format": schema, "verbosity": "low"}})));
    assert!(structured(Protocol::Messages, json!({"output_format": schema})));
    assert!(structured(Protocol::Messages, json!({"output_config": {"format": schema, "effort": "low"}})));
    for other in
        [json!({"response_format": {"type": "text"}}), json!({"text": {"verbosity": "low"}}), json!({"text": 7})]
    {
        assert!(!structured(Protocol::Chat, other));
    }
}

#[test]
fn a_tool_is_known_by_its_name_alone() {
    let tools = |tools: Value| draft(Protocol::Chat, json!({"tools": tools})).has_tool("clock");
    assert!(tools(json!([{"type": "function", "function": {"name": "clock"}}])));
    assert!(tools(json!([{"name": "x"}, {"name": "clock"}])));
    assert!(!tools(json!([{"name": "alarm", "description": "not a clock", "parameters": {"enum": ["clock"]}}])));
    assert!(!tools(json!(null)));
}

fn aside() -> Aside {
    let call = ToolCall { id: "ours".into(), name: "clock".into(), arguments: "{\"action\":\"list\"}".into() };
    let result = ToolResult { call: "ours".into(), text: "好".into(), failed: false };
    Aside { anchor: "theirs".into(), answered: vec![(call, result)] }
}

fn put_back(protocol: Protocol, body: Value) -> (bool, Value) {
    let mut draft = draft(protocol, body);
    let found = draft.put_back(&aside());
    (found, serde_json::from_slice(&draft.body()).unwrap())
}

#[test]
fn an_aside_is_put_back_where_it_was_said() {
    let (found, body) = put_back(
        Protocol::Chat,
        json!({"messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "theirs", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "theirs", "content": "r"},
            {"role": "user", "content": "later"},
        ]}),
    );
    assert!(found);
    let messages = body["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 5);
    let ids: Vec<&Value> = messages[1]["tool_calls"].as_array().unwrap().iter().map(|call| &call["id"]).collect();
    assert_eq!(ids, ["ours", "theirs"]);
    assert_eq!(messages[2], json!({"role": "tool", "tool_call_id": "ours", "content": "好"}));

    let (found, body) = put_back(
        Protocol::Messages,
        json!({"messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": [{"type": "text", "text": "t"}, {"type": "tool_use", "id": "theirs", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "theirs", "content": "r"}]},
        ]}),
    );
    assert!(found);
    let blocks = &body["messages"][1]["content"];
    assert_eq!(blocks[1], json!({"type": "tool_use", "id": "ours", "name": "clock", "input": {"action": "list"}}));
    assert_eq!(blocks[2]["id"], "theirs");
    assert_eq!(body["messages"][2]["content"][0]["tool_use_id"], "ours");
    assert_eq!(body["messages"][2]["content"][1]["tool_use_id"], "theirs");

    let output = json!({"type": "function_call_output", "call_id": "theirs", "output": "r"});
    let call = json!({"type": "function_call", "call_id": "theirs", "name": "f", "arguments": "{}"});
    let kinds = |body: &Value| {
        let name = |item: &Value| format!("{}:{}", item["type"].as_str().unwrap(), item["call_id"].as_str().unwrap());
        body["input"].as_array().unwrap().iter().map(name).collect::<Vec<_>>()
    };
    let (found, body) = put_back(Protocol::Responses, json!({"input": [call, output]}));
    assert!(found);
    assert_eq!(
        kinds(&body),
        ["function_call:ours", "function_call_output:ours", "function_call:theirs", "function_call_output:theirs"]
    );
    let (found, body) = put_back(Protocol::Responses, json!({"previous_response_id": "r", "input": [output]}));
    assert!(found);
    assert_eq!(kinds(&body), ["function_call_output:ours", "function_call_output:theirs"]);
}

#[test]
fn and_nowhere_else() {
    for (protocol, body) in [
        (Protocol::Chat, json!({"messages": [{"role": "user", "content": "theirs"}]})),
        (
            Protocol::Messages,
            json!({"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "theirs", "name": "f", "input": {}}]}]}),
        ),
        (Protocol::Responses, json!({"input": "theirs"})),
        (Protocol::Chat, json!({})),
    ] {
        let mut before = body.clone();
        before["model"] = json!("m");
        assert_eq!(put_back(protocol, body), (false, before));
    }
}

#[test]
fn an_answer_that_has_another_name_upstream_is_called_by_that() {
    let renamed = |previous: Value| {
        let mut draft = draft(Protocol::Responses, json!({"input": "x", "previous_response_id": previous}));
        draft.rename_previous("resp_shown", "resp_last");
        serde_json::from_slice::<Value>(&draft.body()).unwrap()["previous_response_id"].clone()
    };
    assert_eq!(renamed(json!("resp_shown")), "resp_last");
    assert_eq!(renamed(json!("resp_other")), "resp_other");
    assert_eq!(renamed(json!(null)), Value::Null);
}
