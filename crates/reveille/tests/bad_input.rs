//! Whatever is sent wrongly: a clear error with a stable code, nothing changed, nothing lost, the server still up.

#![allow(clippy::unwrap_used)]

mod support;

use reqwest::Method;
use serde_json::{Value, json};
use support::*;

const NOBODY: &str = "timer_00000000";

/// A session with a timer in each state and a message that waits.
async fn populated() -> (World, String) {
    let world = World::start().await;
    let make = || world.done("agent", "timer", json!({"total_duration": 1000, "mission": "m"}));
    let (live, paused, stopped) = (id(&make().await), id(&make().await), id(&make().await));
    world.done("agent", "pause_timer", json!({"timer_id": paused, "pause_duration": 5000})).await;
    world.done("agent", "stop_timer", json!({"timer_id": stopped})).await;
    let ended = id(&world.done("agent", "timer", json!({"total_duration": 1, "mission": "m"})).await);
    world.advance(1);
    world.until_message("agent", &ended).await;
    (world, live)
}

/// Everything that a call could have changed.
async fn everything(world: &World) -> Value {
    let stats = world.get("/api/stats").await;
    json!([
        world.timers().await,
        world.get("/api/reminders").await,
        world.history().await,
        world.inbox("agent").await,
        world.get("/api/sessions").await,
        stats["timers"],
        stats["messages"],
        stats["sessions"],
    ])
}

async fn send_bytes(world: &World, method: &str, path: &str, body: Vec<u8>) -> (u16, Value) {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let request = world.http.request(method, format!("{}{path}", world.url)).body(body);
    let response = within(path, request.send()).await.unwrap();
    let status = response.status().as_u16();
    let kind = response.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
    let text = response.text().await.unwrap();
    let body: Value = serde_json::from_str(&text).unwrap_or(json!(text));
    if status >= 400 {
        assert_eq!(kind.as_deref(), Some("application/problem+json"), "{path}: {body}");
        assert_eq!(body["status"], status);
        for field in ["type", "title", "detail", "code"] {
            assert!(!text_of(&body[field]).is_empty(), "{field} of {body}");
        }
        assert!(text_of(&body["detail"]).len() < 2000, "an error is short enough to be read: {path}");
    }
    (status, body)
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Sends each, expects its status and code, and that it was as if nobody had sent it.
async fn all_refused(world: &World, cases: Vec<(&str, String, Vec<u8>, u16, &str)>) {
    let before = everything(world).await;
    for (method, path, body, status, code) in cases {
        let shown = String::from_utf8_lossy(&body[..body.len().min(120)]).into_owned();
        let (got, problem) = send_bytes(world, method, &path, body).await;
        assert_eq!((got, text_of(&problem["code"])), (status, code), "{method} {path} {shown}: {problem}");
        assert_eq!(everything(world).await, before, "{method} {path} {shown} changed something");
    }
    assert_eq!(world.get("/healthz").await, json!("ok\n"));
    assert_eq!(world.get("/readyz").await, json!("ready\n"));
}

fn tool(
    name: &str,
    body: Value,
    status: u16,
    code: &'static str,
) -> (&'static str, String, Vec<u8>, u16, &'static str) {
    ("POST", format!("/api/sessions/agent/tools/{name}"), body.to_string().into_bytes(), status, code)
}

#[tokio::test]
async fn arguments_that_make_no_sense() {
    let (world, live) = populated().await;
    let mut cases = vec![
        tool("timer", json!({}), 400, "reason_or_mission_required"),
        tool("timer", Value::Null, 400, "reason_or_mission_required"),
        tool("timer", json!({"total_duration": 5}), 400, "reason_or_mission_required"),
        tool("timer", json!({"total_duration": 5, "reason": "  \n"}), 400, "reason_or_mission_required"),
        tool("timer", json!({"total_duration": 5, "reason": "r", "mission": "m"}), 400, "reason_and_mission"),
        tool("timer", json!({"timer_id": live, "reason": "r", "mission": "m"}), 400, "reason_and_mission"),
        tool("timer", json!({"timer_id": live, "reason": "r"}), 400, "mission_takes_no_reason"),
        tool("timer", json!({"reason": "r"}), 400, "missing_argument"),
        tool("timer", json!({"reason": "r", "total_duration": null}), 400, "missing_argument"),
        tool("timer", json!({"mission": "m", "timeout_duration": 5}), 400, "missing_argument"),
        tool("stop_timer", json!({}), 400, "missing_argument"),
        tool("cancel_timer", json!({"timer_id": ""}), 400, "missing_argument"),
        tool("resume_timer", json!({"timer_id": null}), 400, "missing_argument"),
        tool("pause_timer", json!({"timer_id": live}), 400, "missing_argument"),
        tool("pause_timer", json!({"pause_duration": 5}), 400, "missing_argument"),
        tool("resume_timer", json!({"timer_id": live}), 409, "not_paused"),
        tool("Timer", json!({}), 404, "unknown_tool"),
        tool("clock", json!({}), 400, "missing_argument"),
        tool("alarm", json!({}), 404, "unknown_tool"),
        tool("%F0%9F%99%82", json!({}), 404, "unknown_tool"),
    ];
    for (value, code) in [
        (json!(0), "invalid_duration"),
        (json!(-0.0), "invalid_duration"),
        (json!(-1), "invalid_duration"),
        (json!(i64::MIN), "invalid_duration"),
        (json!(1e-9), "invalid_duration"),
        (json!("NaN"), "invalid_duration"),
        (json!("inf"), "invalid_duration"),
        (json!("-Infinity"), "invalid_duration"),
        (json!("-5m"), "invalid_duration"),
        (json!("soon"), "invalid_duration"),
        (json!("5 分钟"), "invalid_duration"),
        (json!("1 month"), "invalid_duration"),
        (json!("x".repeat(100_000)), "invalid_duration"),
        (json!(true), "invalid_duration"),
        (json!([300]), "invalid_duration"),
        (json!({"seconds": 300}), "invalid_duration"),
        (json!(366 * 86_400 + 1), "duration_too_long"),
        (json!("367d"), "duration_too_long"),
        (json!(u64::MAX), "duration_too_long"),
        (json!(1e300), "duration_too_long"),
        (json!("1e300"), "duration_too_long"),
    ] {
        cases.push(tool("timer", json!({"total_duration": value, "reason": "r"}), 400, code));
        cases.push(tool("timer", json!({"total_duration": value, "mission": "m"}), 400, code));
        cases.push(tool("timer", json!({"total_duration": 5, "timeout_duration": value, "reason": "r"}), 400, code));
        cases.push(tool("timer", json!({"timer_id": live, "total_duration": value}), 400, code));
        cases.push(tool("pause_timer", json!({"timer_id": live, "pause_duration": value}), 400, code));
        let act = json!({"pause_duration": value}).to_string().into_bytes();
        cases.push(("POST", format!("/api/timers/{live}/pause"), act, 400, code));
    }
    all_refused(&world, cases).await;
}

#[tokio::test]
async fn text_and_types_that_are_wrong() {
    let (world, live) = populated().await;
    let mut cases = Vec::new();
    for wrong in [json!(7), json!(true), json!(["r"]), json!({"r": 1})] {
        cases.push(tool("timer", json!({"total_duration": 5, "reason": wrong}), 400, "invalid_argument"));
        cases.push(tool("timer", json!({"total_duration": 5, "mission": wrong}), 400, "invalid_argument"));
        cases.push(tool("timer", json!({"timer_id": wrong}), 400, "invalid_argument"));
        cases.push(tool("read_timer", json!({"timer_id": wrong}), 400, "invalid_argument"));
        cases.push(tool("stop_timer", json!({"timer_id": live, "reason": wrong}), 400, "invalid_argument"));
        let act = json!({"reason": wrong}).to_string().into_bytes();
        cases.push(("POST", format!("/api/timers/{live}/stop"), act, 400, "invalid_argument"));
        let settle = json!({"lease": wrong}).to_string().into_bytes();
        cases.push(("POST", "/api/sessions/agent/inbox/commit".into(), settle, 400, "invalid_argument"));
    }
    for (text, code) in [
        ("长".repeat(4001), "text_too_long"),
        ("a\0b".into(), "control_characters"),
        ("\u{1b}[31mred".into(), "control_characters"),
        ("\u{7f}".into(), "control_characters"),
        ("\u{85}x".into(), "control_characters"),
    ] {
        cases.push(tool("timer", json!({"total_duration": 5, "reason": text}), 400, code));
        cases.push(tool("timer", json!({"total_duration": 5, "mission": text}), 400, code));
        cases.push(tool("timer", json!({"timer_id": live, "mission": text}), 400, code));
        for tool_name in ["stop_timer", "cancel_timer", "resume_timer", "pause_timer"] {
            let arguments = json!({"timer_id": live, "pause_duration": 5, "reason": text});
            cases.push(tool(tool_name, arguments, 400, code));
        }
        let act = json!({"reason": text}).to_string().into_bytes();
        cases.push(("POST", format!("/api/timers/{live}/stop"), act, 400, code));
    }
    for body in [json!([]), json!(["x"]), json!("timer"), json!(5), json!(true)] {
        cases.push(tool("timer", body.clone(), 400, "invalid_argument"));
        cases.push(tool("read_timer", body, 400, "invalid_argument"));
    }
    all_refused(&world, cases).await;
}

#[tokio::test]
async fn reminders_that_make_no_sense() {
    let (world, live) = populated().await;
    let task = "task_0000000000";
    let item = |item: Value| json!({"action": "schedule", "items": [item]});
    let good = json!({"task": "t", "in": 600});
    let mut cases = vec![
        tool("clock", json!({"action": "remind"}), 400, "invalid_argument"),
        tool("clock", json!({"action": ["list"]}), 400, "invalid_argument"),
        tool("clock", json!({"action": "schedule"}), 400, "missing_argument"),
        tool("clock", json!({"action": "schedule", "items": []}), 400, "missing_argument"),
        tool("clock", json!({"action": "schedule", "items": "soon"}), 400, "invalid_argument"),
        tool("clock", json!({"action": "schedule", "items": [good, 7]}), 400, "invalid_argument"),
        tool("clock", json!({"action": "schedule", "items": [good, {"task": "t"}]}), 400, "missing_argument"),
        tool(
            "clock",
            json!({"action": "schedule", "items": [good, {"taskId": task, "in": 9}]}),
            404,
            "unknown_reminder",
        ),
        tool("clock", json!({"action": "schedule", "items": vec![good.clone(); 101]}), 400, "invalid_argument"),
        tool("clock", json!({"action": "cancel"}), 400, "missing_argument"),
        tool("clock", json!({"action": "cancel", "taskId": task}), 404, "unknown_reminder"),
        tool("clock", json!({"action": "cancel", "taskId": live}), 404, "unknown_reminder"),
        tool("clock", item(json!({"task": "t", "in": 9, "tool": "a b"})), 400, "invalid_argument"),
        tool("clock", item(json!({"task": "t", "in": 9, "arguments": "x"})), 400, "invalid_argument"),
        tool("clock", item(json!({"task": "a\u{0}", "in": 9})), 400, "control_characters"),
        tool("clock", item(json!({"task": "长".repeat(4001), "in": 9})), 400, "text_too_long"),
        ("GET", "/api/reminders?status=asleep".into(), Vec::new(), 400, "invalid_argument"),
        ("GET", "/api/reminders?order=random".into(), Vec::new(), 400, "invalid_argument"),
        ("GET", "/api/reminders?order=soonest&after=5".into(), Vec::new(), 400, "invalid_argument"),
        ("GET", "/api/reminders?session=%00".into(), Vec::new(), 400, "invalid_session"),
    ];
    for (due, code) in [
        (json!("2027-01-15T08:00:00"), "invalid_due_at"),
        (json!("tomorrow"), "invalid_due_at"),
        (json!(1_800_000_600), "invalid_due_at"),
        (json!("2026-01-15T08:00:00Z"), "due_too_old"),
        (json!("2027-01-15T07:39:00Z"), "due_too_old"),
        (json!("2099-01-15T08:00:00Z"), "due_too_far"),
        (json!("9998-12-31T23:59:59Z"), "due_too_far"),
        (json!("0001-01-01T00:00:00Z"), "due_too_old"),
        (json!("x".repeat(100_000)), "invalid_due_at"),
    ] {
        cases.push(tool("clock", item(json!({"task": "t", "dueAt": due})), 400, code));
    }
    for length in [json!(0), json!(-5), json!("NaN"), json!("soon"), json!(true)] {
        cases.push(tool("clock", item(json!({"task": "t", "in": length})), 400, "invalid_duration"));
    }
    cases.push(tool("clock", item(json!({"task": "t", "in": "10000 days"})), 400, "duration_too_long"));
    all_refused(&world, cases).await;
}

/// A list is not an object, even where its elements would fit the fields one after the other.
#[tokio::test]
async fn a_list_in_place_of_an_object() {
    let (world, live) = populated().await;
    let mut cases = Vec::new();
    for body in ["[]", r#"["why"]"#, r#"["why", 5]"#] {
        for action in ["stop", "cancel", "resume", "pause"] {
            let path = format!("/api/timers/{live}/{action}");
            cases.push(("POST", path, body.as_bytes().to_vec(), 400, "invalid_argument"));
        }
    }
    for (how, body) in [("lease", "[]"), ("lease", "[1]"), ("commit", r#"["lease_x"]"#), ("release", r#"["lease_x"]"#)]
    {
        let path = format!("/api/sessions/agent/inbox/{how}");
        cases.push(("POST", path, body.as_bytes().to_vec(), 400, "invalid_argument"));
    }
    all_refused(&world, cases).await;
}

#[tokio::test]
async fn bodies_that_are_not_json() {
    let (world, _) = populated().await;
    let deep = "[".repeat(100_000);
    let mut bodies: Vec<Vec<u8>> = [
        "{",
        "{'reason': 'r'}",
        r#"{"total_duration": NaN, "reason": "r"}"#,
        r#"{"total_duration": Infinity, "reason": "r"}"#,
        r#"{"total_duration": 1e999, "reason": "r"}"#,
        r#"{"total_duration": 5, "reason": "r",}"#,
        r#"{"total_duration": 5, "reason": "r"} {}"#,
        "{\"total_duration\": 5, \"reason\": \"line\nbreak\"}",
        r#"{"total_duration": 5, "reason": "\ud800"}"#,
        "\u{feff}{}",
        "total_duration=5&reason=r",
        deep.as_str(),
    ]
    .map(|text| text.as_bytes().to_vec())
    .into();
    bodies.push(b"{\"total_duration\": 5, \"reason\": \"\xff\xfe\"}".to_vec());
    bodies.push(vec![0; 64]);
    let mut cases = Vec::new();
    for body in bodies {
        for path in ["/api/sessions/agent/tools/timer", "/api/sessions/agent/inbox/lease"] {
            cases.push(("POST", path.to_owned(), body.clone(), 400, "invalid_json"));
        }
        cases.push(("POST", format!("/api/timers/{NOBODY}/stop"), body, 400, "invalid_json"));
    }
    all_refused(&world, cases).await;
}

/// It is an error like any other, and is not sent back to fill a model's context.
#[tokio::test]
async fn a_name_that_is_far_too_long() {
    let (world, _) = populated().await;
    let name = "x".repeat(100_000);
    all_refused(&world, vec![tool("read_timer", json!({"timer_id": name}), 404, "unknown_timer")]).await;
}

#[tokio::test]
async fn names_that_nobody_has() {
    let (world, live) = populated().await;
    let mut cases = Vec::new();
    for name in
        [NOBODY, "'; DROP TABLE items; --", "../../etc/passwd", "🙂", "timer_\u{0}", "nul", &live.to_uppercase()]
    {
        for tool_name in ["timer", "read_timer", "stop_timer", "cancel_timer", "resume_timer"] {
            cases.push(tool(tool_name, json!({"timer_id": name}), 404, "unknown_timer"));
        }
        cases.push(tool("pause_timer", json!({"timer_id": name, "pause_duration": 5}), 404, "unknown_timer"));
    }
    for (method, path, status, code) in [
        ("GET", format!("/api/timers/{NOBODY}"), 404, "unknown_timer"),
        ("GET", "/api/timers/%00".into(), 404, "unknown_timer"),
        ("GET", "/api/timers/%FF".into(), 400, "invalid_argument"),
        ("POST", format!("/api/timers/{NOBODY}/stop"), 404, "unknown_timer"),
        ("POST", format!("/api/timers/{live}/explode"), 404, "unknown_action"),
        ("POST", format!("/api/timers/{live}/pause"), 400, "missing_argument"),
        ("POST", format!("/api/timers/{live}/resume"), 409, "not_paused"),
        ("GET", "/api/sessions/nobody".into(), 404, "unknown_session"),
        ("DELETE", "/api/sessions/nobody".into(), 404, "unknown_session"),
        ("GET", "/api/sessions/%20".into(), 400, "invalid_session"),
        ("GET", "/api/sessions/a%0Ab/inbox".into(), 400, "invalid_session"),
        ("GET", "/api/sessions/%FF/inbox".into(), 400, "invalid_argument"),
        ("POST", "/api/sessions/a%00b/tools/read_timer".into(), 400, "invalid_session"),
        ("POST", format!("/api/sessions/{}/tools/read_timer", "x".repeat(201)), 400, "invalid_session"),
        ("POST", "/api/sessions/agent/inbox/commit".into(), 400, "missing_argument"),
        ("POST", "/api/sessions/agent/inbox/release".into(), 400, "missing_argument"),
        ("GET", "/api/timers?limit=many".into(), 400, "invalid_argument"),
        ("GET", "/api/timers?limit=-1".into(), 400, "invalid_argument"),
        ("GET", "/api/timers?status=asleep".into(), 400, "invalid_argument"),
        ("GET", "/api/timers?order=random".into(), 400, "invalid_argument"),
        ("GET", "/api/timers?after=x".into(), 400, "invalid_argument"),
        ("GET", "/api/timers?session=%00".into(), 400, "invalid_session"),
        ("GET", "/api/sessions?after=x".into(), 400, "invalid_argument"),
        ("GET", "/api/history?after=x".into(), 400, "invalid_argument"),
        ("GET", "/api/history?before=1.5".into(), 400, "invalid_argument"),
        ("GET", "/api/events?after=x".into(), 400, "invalid_argument"),
        ("GET", "/api/events?session=%0A".into(), 400, "invalid_session"),
        ("GET", "/api/tools?format=xml".into(), 400, "invalid_argument"),
        ("GET", "/ui".into(), 404, "not_found"),
        ("GET", "/api".into(), 404, "not_found"),
        ("GET", "/api/timers/".into(), 404, "not_found"),
        ("POST", "/api/sessions//tools/timer".into(), 400, "invalid_session"),
        ("POST", "/api/sessions/agent/tools/".into(), 404, "not_found"),
        ("GET", "/api/sessions/agent/tools/timer".into(), 405, "method_not_allowed"),
        ("DELETE", "/api/timers".into(), 405, "method_not_allowed"),
        ("PUT", format!("/api/timers/{live}"), 405, "method_not_allowed"),
        ("BREW", "/api/stats".into(), 405, "method_not_allowed"),
    ] {
        cases.push((method, path, Vec::new(), status, code));
    }
    for (body, status, code) in
        [(json!({"lease": "lease_00000000"}), 409, "unknown_lease"), (json!({"lease": ""}), 400, "missing_argument")]
    {
        for how in ["commit", "release"] {
            let path = format!("/api/sessions/agent/inbox/{how}");
            cases.push(("POST", path, body.to_string().into_bytes(), status, code));
        }
    }
    for (body, code) in [
        (json!({"limit": -1}), "invalid_argument"),
        (json!({"limit": "all"}), "invalid_argument"),
        (json!({"duration": 0}), "invalid_duration"),
        (json!({"duration": "1h1s"}), "duration_too_long"),
    ] {
        let path = "/api/sessions/agent/inbox/lease".to_owned();
        cases.push(("POST", path, body.to_string().into_bytes(), 400, code));
    }
    all_refused(&world, cases).await;
}

/// All that can be wrong about when and what to wait for, in one place.
#[tokio::test]
async fn wishes_about_times_and_conditions_that_make_no_sense_are_explained() {
    let dir = tempfile::tempdir().unwrap();
    let allowed = dir.path().to_owned();
    let world = World::with(|config| config.until.files = Some(vec![allowed])).await;
    let (at, every, until) = (
        |at: &str, zone: &str| json!({"at": at, "zone": zone}),
        |every: &str, zone: &str| json!({"every": every, "zone": zone}),
        |until: Value| json!({"total_duration": 60, "until": until}),
    );
    let body = |pattern: String| json!({"http": "http://127.0.0.1/", "body_matches": pattern});
    for (ask, code, words) in [
        // Unknown zones.
        (at("16:00", "Berlin"), "unknown_zone", "Europe/Berlin"),
        (at("16:00", "Mars/Olympus"), "unknown_zone", "IANA name"),
        (every("0 9 * * *", "CEST+2"), "unknown_zone", "IANA name"),
        (at("16:00", ""), "invalid_time", "send `zone`"),
        (every("0 9 * * *", ""), "missing_argument", "`zone`"),
        // Dates that there are not, or not any more.
        (at("2027-02-30T10:00", "UTC"), "invalid_time", "not a time there is"),
        (at("2027-02-29T10:00", "UTC"), "invalid_time", "not a time there is"),
        (at("25:00", "UTC"), "invalid_time", "not a time there is"),
        (at("4pm", "UTC"), "invalid_time", "16:00"),
        (at("2020-01-01T00:00:00Z", ""), "invalid_time", "is past"),
        (at("2099-01-01T00:00:00Z", ""), "invalid_time", "too far away"),
        // Cron that never comes, or is none.
        (every("0 0 30 2 *", "UTC"), "invalid_every", "never comes"),
        (every("0 0 31 4,6,9,11 *", "UTC"), "invalid_every", "never comes"),
        (every("0 0 29 2 *", "UTC"), "invalid_every", "2028-02-29"),
        (every("0 9 * *", "UTC"), "invalid_every", "five cron fields: minute hour day month weekday"),
        (every("0 9 1 1", "UTC"), "invalid_every", "five cron fields"),
        (every("* * * * * *", "UTC"), "invalid_every", "these are 6"),
        (every("61 9 * * *", "UTC"), "invalid_every", "no such minute: '61'"),
        (every("0 24 * * *", "UTC"), "invalid_every", "no such hour: '24'"),
        (every("0 9 32 * *", "UTC"), "invalid_every", "no such day: '32'"),
        (every("0 9 * 13 *", "UTC"), "invalid_every", "no such month: '13'"),
        (every("0 9 * * 8", "UTC"), "invalid_every", "no such weekday: '8'"),
        (every("@reboot", "UTC"), "invalid_every", "five cron fields"),
        (every("every monday", ""), "invalid_every", "0 9 * * 1-5"),
        (every("500ms", ""), "invalid_every", "shortest"),
        (every("400d", ""), "duration_too_long", "longest"),
        // Targets and paths that are nobody's business.
        (until(json!({"http": "http://169.254.169.254/latest"})), "forbidden_condition", "link-local"),
        (until(json!({"http": "http://[fe80::1]/"})), "forbidden_condition", "link-local"),
        (until(json!({"tcp": "224.0.0.1:80"})), "forbidden_condition", "not an address of one machine"),
        (until(json!({"file": "/etc/passwd", "contains": "root"})), "forbidden_condition", "until.files"),
        (until(json!({"file": "/proc/self/environ"})), "forbidden_condition", "never be watched"),
        (until(json!({"file": "a/b"})), "invalid_argument", "relative"),
        (until(json!({"file": "/a/../b"})), "invalid_argument", "goes back"),
        (until(json!({"http": "ftp://127.0.0.1/"})), "invalid_argument", "http://"),
        (until(json!({"http": "http://u:p@127.0.0.1/"})), "invalid_argument", "password"),
        (until(json!({"tcp": "localhost"})), "invalid_argument", "host:port"),
        (until(json!({"process": 99_999_999})), "invalid_argument", "has ended already"),
        // Patterns that are none, or blow up.
        (until(body("(".into())), "invalid_argument", "not a regular expression"),
        (until(body("(x{1000}){1000}".into())), "invalid_argument", "too large"),
        (until(body("(a+)+$".repeat(400))), "invalid_argument", "`body_matches`"),
        (until(body("(a)\\1".into())), "invalid_argument", "backreferences"),
        (until(json!({"command": ["true"]})), "forbidden_condition", "until.commands"),
        (until(json!({"tcp": "a:1", "file": "/a"})), "invalid_argument", "both `tcp` and `file`"),
        (json!({"every": "1h", "until": {"tcp": "127.0.0.1:1"}}), "invalid_argument", "`total_duration`"),
        (json!({"every": "1h", "max_fires": 0}), "invalid_argument", "1 or more"),
        (json!({"every": "1h", "catch_up": "never"}), "invalid_argument", "latest"),
        (json!({"total_duration": 5, "catch_up": "all"}), "invalid_argument", "`every`"),
    ] {
        let mut mission = ask.clone();
        mission["mission"] = json!("x");
        let (status, got, problem) = world.refused("agent", "timer", mission.clone()).await;
        let detail = text_of(&problem["detail"]);
        assert!(status == 400 && got == code && detail.contains(words), "{ask}: {problem}");
        assert!(detail.len() < 600, "{detail}");
        // By people, the same.
        mission["session"] = json!("agent");
        let (status, problem) = send_bytes(&world, "POST", "/api/timers", mission.to_string().into_bytes()).await;
        assert_eq!((status, text_of(&problem["code"])), (400, code), "{ask}: {problem}");
    }
    for (quiet, code, words) in [
        (json!({"zone": "Berlin", "from": "22:00", "to": "08:00"}), "unknown_zone", "Europe/Berlin"),
        (json!({"zone": "UTC", "from": "22", "to": "08:00"}), "invalid_time", "`from`: 22 is not a time of day"),
        (
            json!({"zone": "UTC", "from": "22:00", "to": "08:00", "days": ["funday"]}),
            "invalid_argument",
            "'funday' in `days`",
        ),
        (json!({"zone": "UTC", "from": "00:00", "to": "00:00"}), "invalid_argument", "no open moment"),
        (json!({"from": "22:00", "to": "08:00"}), "invalid_argument", "needs `zone`"),
        (json!("night"), "invalid_argument", "must be {"),
        (json!([]), "invalid_argument", "1 to 20"),
    ] {
        let body = quiet.to_string().into_bytes();
        let (status, problem) = send_bytes(&world, "PUT", "/api/sessions/agent/quiet", body).await;
        let detail = text_of(&problem["detail"]);
        assert!(status == 400 && problem["code"] == code && detail.contains(words), "{quiet}: {problem}");
        assert!(detail.matches("`quiet`").count() < 2 && !detail.contains("struct"), "{detail}");
    }
    assert!(world.timers().await.is_empty() && world.history().await.is_empty());
}
