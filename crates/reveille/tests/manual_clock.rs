//! `reveille serve --manual-clock`: the real binary, its time moved over HTTP, as builders do it in their own tests.

#![allow(clippy::unwrap_used)]

mod support;

use reqwest::Method;
use serde_json::{Value, json};
use support::{
    endpoint::{self, Endpoints},
    process::{Daemon, Home},
    *,
};

async fn ask(daemon: &Daemon, method: Method, path: &str, body: Value) -> Answer {
    send(&client(), method, &format!("{}{path}", daemon.url), Some(&body), None).await
}

async fn serve(home: &Home, flag: &str) -> Daemon {
    Daemon::start(home.command(&["serve", "--listen", "127.0.0.1:0", flag])).await
}

#[tokio::test]
async fn a_builder_moves_time_and_sees_what_a_day_would_have_shown() {
    let home = Home::default();
    let daemon = serve(&home, "--manual-clock=2026-11-16T08:00:00Z").await;
    let clock = ask(&daemon, Method::GET, "/api/clock", Value::Null).await;
    has(&clock.body, json!({"now": "2026-11-16T08:00:00Z", "manual": true, "next_deadline_ms": null}));
    let made = home.run(&["--json", "timer", "--every", "0 9 * * *", "--zone", "UTC", "--mission", "站会 ☀️"]).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    let advanced = ask(&daemon, Method::POST, "/api/clock/advance", json!({"by": "3d"})).await;
    assert_eq!(advanced.status, 200, "{advanced:?}");
    has(&advanced.body, json!({"now": "2026-11-19T08:00:00Z", "passed": 3}));
    let inbox = ask(&daemon, Method::GET, "/api/sessions/cli/inbox", Value::Null).await;
    let dues: Vec<String> = list(&inbox.body["messages"]).iter().map(|message| text(&message["text"])).collect();
    assert_eq!(dues.len(), 3, "{dues:?}");
    for (text, day) in dues.iter().zip(["16", "17", "18"]) {
        assert!(text.contains(&format!("Due: 2026-11-{day}T09:00:00+00:00")) && !text.contains("missed"), "{text}");
    }
    let to = ask(&daemon, Method::POST, "/api/clock/advance", json!({"to": "2026-11-19T09:00:00Z"})).await;
    has(&to.body, json!({"now": "2026-11-19T09:00:00Z", "passed": 1}));
    let shown = home.run(&["read", &id(&made.json())]).await;
    assert!(
        shown.out.contains("every 0 9 * * * (UTC), 4 times so far") && shown.out.contains("2026-11-20T09:00"),
        "{shown:?}"
    );

    for (body, code) in [
        (json!({"to": "2026-11-16T08:00:00Z"}), "clock_back"),
        (json!({}), "invalid_argument"),
        (json!({"by": "1m", "to": "2027-01-01T00:00:00Z"}), "invalid_argument"),
        (json!({"by": "-1m"}), "invalid_duration"),
        (json!({"by": "soon"}), "invalid_duration"),
        (json!({"to": "tomorrow"}), "invalid_time"),
        (json!({"to": "16:00"}), "invalid_time"),
    ] {
        let refused = ask(&daemon, Method::POST, "/api/clock/advance", body.clone()).await;
        assert_eq!((refused.status, refused.body["code"].as_str()), (400, Some(code)), "{body}: {refused:?}");
        assert!(!text(&refused.body["detail"]).contains("dueAt"), "{refused:?}");
    }
}

#[tokio::test]
async fn conditions_are_looked_at_before_time_goes_on() {
    let home = Home::default();
    let daemon = serve(&home, "--manual-clock=2026-11-16T08:00:00Z").await;
    let file = home.dir.path().join("完成");
    let advance = async |by: &str| {
        let advanced = ask(&daemon, Method::POST, "/api/clock/advance", json!({"by": by})).await;
        assert_eq!(advanced.status, 200, "{advanced:?}");
    };
    let tool = async |session: &str, arguments: Value| {
        let made = ask(&daemon, Method::POST, &format!("/api/sessions/{session}/tools/timer"), arguments).await;
        assert_eq!(made.status, 200, "{made:?}");
        id(&made.body)
    };
    let read = async |timer: &str| ask(&daemon, Method::GET, &format!("/api/timers/{timer}"), Value::Null).await.body;
    let until = json!({"file": file.to_str().unwrap()});
    // More of them than looks may be made at once, and in a moment.
    let mission = json!({"mission": "x", "total_duration": "1h", "until": until});
    for (round, by) in ["1m", "1h", "2h", "1m", "3d"].into_iter().enumerate() {
        let mut timers = Vec::new();
        for number in 0..70 {
            timers.push(tool(&format!("s{round}-{number}"), mission.clone()).await);
        }
        std::fs::write(&file, "").unwrap();
        advance(by).await;
        for timer in &timers {
            has(&read(timer).await, json!({"status": "completed", "met": true, "elapsed_time": 0}));
        }
        std::fs::remove_file(&file).unwrap();
    }
    // One that does not hold ends by its time; what comes true on the way is met when a step sees it.
    let never = tool("never", mission.clone()).await;
    advance("30m").await;
    has(
        &read(&never).await,
        json!({"status": "running", "met": false, "seen": format!("{} is not there", file.display())}),
    );
    advance("30m").await;
    has(&read(&never).await, json!({"status": "completed", "met": false}));
    // At night nobody is woken by it.
    let quiet = json!({"zone": "UTC", "from": "22:00", "to": "07:00"});
    assert_eq!(ask(&daemon, Method::PUT, "/api/sessions/night/quiet", quiet).await.status, 200);
    let now = ask(&daemon, Method::POST, "/api/clock/advance", json!({"to": "2026-11-30T23:00:00Z"})).await;
    assert_eq!(now.status, 200, "{now:?}");
    let night = tool("night", mission.clone()).await;
    std::fs::write(&file, "").unwrap();
    advance("2h").await;
    has(&read(&night).await, json!({"status": "running", "met": true, "elapsed_time": 0}));
    let inbox =
        async || ask(&daemon, Method::GET, "/api/sessions/night/inbox", Value::Null).await.body["messages"].take();
    assert_eq!(inbox().await, json!([]));
    advance("6h").await;
    let told = text(&inbox().await[0]["text"]);
    assert!(
        told.contains("\nMet: ") && told.ends_with("Due: 2026-11-30T23:00:00Z (quiet hours then, told now)"),
        "{told}"
    );
}

#[tokio::test]
async fn days_on_which_clocks_are_put_back_have_each_time_once() {
    let home = Home::default();
    let daemon = serve(&home, "--manual-clock=2027-10-30T12:00:00Z").await;
    for (zone, every, to, dues) in [
        (
            "Europe/Berlin",
            "30 2 * * *",
            "2027-11-02T00:00:00Z",
            ["2027-10-31T02:30:00+02:00", "2027-11-01T02:30:00+01:00"].as_slice(),
        ),
        (
            "America/New_York",
            "30 1 * * *",
            "2027-11-09T00:00:00Z",
            &[
                "2027-11-02",
                "2027-11-03",
                "2027-11-04",
                "2027-11-05",
                "2027-11-06",
                "2027-11-07T01:30:00-04:00",
                "2027-11-08T01:30:00-05:00",
            ],
        ),
    ] {
        let session = zone.replace('/', "-");
        let asked = json!({"mission": zone, "every": every, "zone": zone});
        let made = ask(&daemon, Method::POST, &format!("/api/sessions/{session}/tools/timer"), asked).await;
        assert_eq!(made.status, 200, "{made:?}");
        let advanced = ask(&daemon, Method::POST, "/api/clock/advance", json!({"to": to})).await;
        assert_eq!(advanced.status, 200, "{advanced:?}");
        let inbox = ask(&daemon, Method::GET, &format!("/api/sessions/{session}/inbox"), Value::Null).await;
        let told: Vec<String> = list(&inbox.body["messages"]).iter().map(|message| text(&message["text"])).collect();
        assert_eq!(told.len(), dues.len(), "{told:?}");
        for (text, due) in told.iter().zip(dues) {
            assert!(text.contains(&format!("Due: {due}")), "{due}: {text}");
        }
    }
}

#[tokio::test]
async fn session_timers_call_their_tools_at_their_own_instants() {
    let endpoints = Endpoints::start().await;
    let home = Home::default();
    home.write_config(&format!(
        "[[agent]]\ntenant = \"acme\"\nchatbot = \"客服\"\n\
         tools = [{{ name = \"handoff_to\", endpoint = \"{url}/handoff\" }}, {{ name = \"close_conversation\", endpoint = \"{url}/close\" }}]\n\
         [[agent.timers]]\ntimer_id = \"remind\"\ndelay_seconds = 300\ntool_name = \"generate_response\"\n\
         [[agent.timers]]\ntimer_id = \"hand_off\"\ndelay_seconds = 600\ntool_name = \"handoff_to\"\n\
         [[agent.timers]]\ntimer_id = \"close\"\ndelay_seconds = 1800\ntool_name = \"close_conversation\"\n",
        url = endpoints.url
    ));
    let daemon = serve(&home, "--manual-clock=2026-11-16T08:00:00Z").await;
    let said =
        ask(&daemon, Method::POST, "/api/sessions/s/activity", json!({"agent": "acme:客服", "text": "你好"})).await;
    assert_eq!(said.status, 200, "{said:?}");
    let advanced = ask(&daemon, Method::POST, "/api/clock/advance", json!({"by": "1h"})).await;
    assert_eq!(advanced.status, 200, "{advanced:?}");
    let history = ask(&daemon, Method::GET, "/api/history?after=0&limit=1000", Value::Null).await;
    let fired: Vec<(String, i64)> = list(&history.body["entries"])
        .iter()
        .filter(|entry| entry["event"] == "session_timer.triggered")
        .map(|entry| (text(&entry["data"]["timer_id"]), entry["data"]["lateness_ms"].as_i64().unwrap()))
        .collect();
    assert_eq!(fired, [("remind".into(), 0), ("hand_off".into(), 0), ("close".into(), 0)]);
    let session = ask(&daemon, Method::GET, "/api/sessions/s", Value::Null).await;
    has(&session.body, json!({"state": "closed"}));
    let calls = list(&session.body["calls"]);
    assert!(calls.len() == 2 && calls.iter().all(|call| call["status"] == "done"), "{calls:?}");
}

#[tokio::test]
async fn an_endpoint_that_hangs_is_given_up_in_its_time_and_a_restart_does_not_go_back() {
    let endpoints = Endpoints::start().await;
    endpoints.answers("/hangs", &[endpoint::Answer::Hangs]);
    let home = Home::default();
    home.write_config(&format!(
        "[[agent]]\ntenant = \"acme\"\nchatbot = \"support\"\n\
         tools = [{{ name = \"note\", endpoint = {{ url = \"{url}/hangs\", timeout = \"300ms\" }} }}]\n\
         [[agent.timers]]\ntimer_id = \"t\"\ndelay_seconds = 60\ntool_name = \"note\"\n",
        url = endpoints.url
    ));
    let daemon = serve(&home, "--manual-clock=2126-11-16T08:00:00Z").await;
    let said = ask(&daemon, Method::POST, "/api/sessions/s/activity", json!({"agent": "acme:support"})).await;
    assert_eq!(said.status, 200, "{said:?}");
    let advanced = ask(&daemon, Method::POST, "/api/clock/advance", json!({"by": "1h"})).await;
    assert_eq!(advanced.status, 200, "{advanced:?}");
    has(&advanced.body, json!({"now": "2126-11-16T09:00:00Z"}));
    let session = ask(&daemon, Method::GET, "/api/sessions/s", Value::Null).await;
    has(&session.body["calls"][0], json!({"status": "failed", "attempts": 4}));
    // Four attempts of 300 ms, and 1, 2 and 4 seconds between them.
    let ended = session.body["calls"][0]["ended_at"].as_i64().unwrap();
    let fired = session.body["session_timers"][0]["last_triggered_at"].as_i64().unwrap();
    assert_eq!(ended - fired, 4 * 300 + 7000);
    daemon.kill().await;
    let daemon = serve(&home, "--manual-clock").await;
    let clock = ask(&daemon, Method::GET, "/api/clock", Value::Null).await;
    assert!(clock.body["now_ms"].as_i64().unwrap() >= ended, "{clock:?}");
}

#[tokio::test]
async fn the_machines_clock_is_nobodys_to_move() {
    let home = Home::default();
    let daemon = home.serve().await;
    let clock = ask(&daemon, Method::GET, "/api/clock", Value::Null).await;
    has(&clock.body, json!({"manual": false}));
    let refused = ask(&daemon, Method::POST, "/api/clock/advance", json!({"by": "1h"})).await;
    assert_eq!((refused.status, refused.body["code"].as_str()), (409, Some("clock_not_manual")), "{refused:?}");
    assert!(text(&refused.body["detail"]).contains("--manual-clock"));
    let wrong = home.run(&["serve", "--manual-clock=soon"]).await;
    assert!(wrong.code == Some(1) && wrong.err.contains("2026-11-16T16:00:00Z"), "{wrong:?}");
}
