//! Quiet hours as people set them: for all, for an agent, for a session; over real HTTP and on the command line. The manual
//! clock starts at 2027-01-15T08:00:00Z, a Friday.

#![allow(clippy::unwrap_used)]

mod support;

use reqwest::Method;
use reveille_core::Quiet;
use serde_json::{Value, json};
use support::{process::Home, *};

const HOUR: i64 = 3_600_000;

fn nights() -> Value {
    json!({"zone": "Europe/Berlin", "from": "22:00", "to": "08:00"})
}

#[tokio::test]
async fn a_mission_due_at_night_is_told_in_the_morning_also_after_a_restart() {
    let quiet = Quiet::parse(nights()).unwrap();
    let mut world = World::with(|config| config.quiet = Some(quiet)).await;
    // 02:10 in Berlin.
    let made = world.done("agent", "timer", json!({"mission": "夜班 🌙", "total_duration": "17h10m"})).await;
    let morning = START + 23 * HOUR;
    has(&made, json!({"ends_at": START + 17 * HOUR + HOUR / 6, "waits_until": morning}));
    assert!(text(&made["hint"]).contains("waits for 2027-01-16T07:00:00Z (quiet hours)"), "{made}");
    let timer = id(&made);
    world.advance(18 * 3600);
    let read = world.done("agent", "read_timer", json!({"timer_id": timer})).await;
    has(&read, json!({"status": "running", "remaining_time": 0, "waits_until": morning}));
    world.down().await;
    world.up().await;
    assert_eq!(world.inbox("agent").await.len(), 0);
    world.advance(5 * 3600);
    world.until_message("agent", &timer).await;
    let entry = world.until_event(&timer, "timer.completed").await;
    has(&entry["data"], json!({"opened": morning, "lateness_ms": 0}));
}

#[tokio::test]
async fn a_condition_met_at_night_is_told_in_the_morning_also_after_a_restart() {
    let quiet = Quiet::parse(nights()).unwrap();
    let mut world = World::with(|config| config.quiet = Some(quiet)).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("完成");
    world.advance(15 * 3600);
    let until = json!({"file": file.to_str().unwrap()});
    // It is midnight in Berlin.
    let made =
        world.done("agent", "timer", json!({"mission": "部署 🚢", "total_duration": "5h", "until": until})).await;
    let (timer, morning) = (id(&made), START + 23 * HOUR);
    has(&made, json!({"waits_until": morning, "met": false}));
    let hint = text(&made["hint"]);
    assert!(hint.contains("exists") && hint.contains("waits for 2027-01-16T07:00:00Z (quiet hours)"), "{hint}");
    let mut looks = world.server().engine.board().looks();
    within("a first look", looks.wait_for(|made| *made > 0)).await.unwrap();
    std::fs::write(&file, "").unwrap();
    world.advance(1);
    let waits = world.until_event(&timer, "timer.waits").await;
    has(&waits["data"], json!({"until": morning, "met": format!("{} exists, 0 bytes", file.display())}));
    let read = world.done("agent", "read_timer", json!({"timer_id": timer})).await;
    has(&read, json!({"status": "running", "met": true, "remaining_time": 0, "waits_until": morning, "messages": []}));
    assert!(text(&read["hint"]).contains("exists, 0 bytes. It waits for 2027-01-16T07:00:00Z (quiet hours)"), "{read}");
    world.down().await;
    std::fs::remove_file(&file).unwrap();
    world.up().await;
    world.advance(5 * 3600);
    world.done("agent", "read_timer", json!({"timer_id": timer})).await;
    assert_eq!(world.inbox("agent").await.len(), 0, "its own time is over, and it is still night");
    world.advance(3 * 3600);
    let message = world.until_message("agent", &timer).await;
    assert!(text(&message["text"]).contains("\nElapsed: 1 seconds\nMet: "), "{message}");
    has(&world.get(&format!("/api/timers/{timer}")).await, json!({"status": "completed", "met": true}));
    // Who stands by is awake: told at once. In a session where nothing else waits to be told.
    world.advance(15 * 3600);
    std::fs::write(&file, "").unwrap();
    let told = world.done("awake", "timer", json!({"reason": "等", "total_duration": "5h", "until": until})).await;
    has(&told, json!({"outcome": "met", "elapsed_time": 0}));
}

#[tokio::test]
async fn whoever_stands_by_for_a_mission_at_night_is_told_at_once() {
    let quiet = Quiet::parse(nights()).unwrap();
    let world = World::with(|config| config.quiet = Some(quiet)).await;
    world.advance(15 * 3600);
    let made = world.done("agent", "timer", json!({"mission": "夜班 🌙", "total_duration": "10m"})).await;
    has(&made, json!({"waits_until": START + 23 * HOUR}));
    let waits = json!({"timer_id": id(&made), "timeout_duration": "10m"});
    let call = world.standing("agent", waits.clone()).await;
    world.advance(600);
    has(&result(call).await, json!({"outcome": "completed", "status": "completed", "elapsed_time": 600}));
    // Its time was over before anybody came to wait for it.
    let made = world.done("agent", "timer", json!({"mission": "夜班 🌙", "total_duration": "10m"})).await;
    world.advance(660);
    let waits = json!({"timer_id": id(&made), "timeout_duration": "10m"});
    has(&world.done("agent", "timer", waits).await, json!({"outcome": "completed", "status": "completed"}));
}

#[tokio::test]
async fn a_reminder_due_at_night_says_so_when_it_is_scheduled() {
    let quiet = Quiet::parse(nights()).unwrap();
    let world = World::with(|config| config.quiet = Some(quiet)).await;
    let item = |due: &str| json!({"action": "schedule", "items": [{"task": "看日志", "dueAt": due}]});
    let night = world.tool("agent", "clock", item("2027-01-16T02:00:00+01:00")).await.body;
    let waits = text(&night["scheduled"][0]["waitsUntil"]);
    let instant = |text: &str| text.parse::<jiff::Timestamp>().unwrap().as_millisecond();
    assert_eq!(instant(&waits), START + 23 * HOUR, "{night}");
    assert!(
        text(&night["hint"]).contains(&format!("within quiet hours: it waits for their end at {waits}")),
        "{night}"
    );
    let day = world.tool("agent", "clock", item("2027-01-15T12:00:00+01:00")).await.body;
    assert_eq!(day["scheduled"][0].get("waitsUntil"), None, "{day}");
    assert!(!text(&day["hint"]).contains("quiet"), "{day}");
    // Due at once, but not to be told now.
    world.advance(15 * 3600);
    let now =
        world.tool("other", "clock", json!({"action": "schedule", "items": [{"task": "现在", "in": 30}]})).await.body;
    assert!(!text(&now["hint"]).contains("Due now") && text(&now["hint"]).contains("quiet hours"), "{now}");
}

#[tokio::test]
async fn a_session_has_its_own_and_they_move_what_is_to_come() {
    let world = World::start().await;
    let made = world.done("agent", "timer", json!({"mission": "夜里", "total_duration": "17h"})).await;
    assert_eq!(made.get("waits_until"), None);
    let timer = id(&made);
    let put = world.request(Method::PUT, "/api/sessions/agent/quiet", Some(&nights())).await;
    assert_eq!(put.status, 200, "{put:?}");
    assert_eq!(put.body["quiet"], json!([nights()]));
    let read = world.get(&format!("/api/timers/{timer}")).await;
    has(&read, json!({"waits_until": START + 23 * HOUR}));
    has(&world.get("/api/sessions/agent").await, json!({"quiet": [nights()]}));
    // Another session is not concerned.
    let other = world.done("other", "timer", json!({"mission": "夜里", "total_duration": "17h"})).await;
    assert_eq!(other.get("waits_until"), None);
    let gone = world.request(Method::DELETE, "/api/sessions/agent/quiet", None).await;
    assert_eq!((gone.status, gone.body.get("in_force")), (200, None));
    assert_eq!(world.get(&format!("/api/timers/{timer}")).await.get("waits_until"), None);
    // What is not there is not made by taking something away from it.
    let typo = world.request(Method::DELETE, "/api/sessions/typo/quiet", None).await;
    assert_eq!((typo.status, text(&typo.body["code"])), (404, "unknown_session".to_owned()), "{typo:?}");
    assert_eq!(world.request(Method::GET, "/api/sessions/typo", None).await.status, 404);
    for bad in [
        json!({"zone": "Berlin", "from": "22:00", "to": "08:00"}),
        json!({"zone": "UTC", "from": "0:00", "to": "0:00"}),
        json!([]),
    ] {
        let refused = world.request(Method::PUT, "/api/sessions/agent/quiet", Some(&bad)).await;
        assert_eq!(refused.status, 400, "{bad}: {refused:?}");
    }
}

#[tokio::test]
async fn an_agents_sessions_are_left_alone_at_night() {
    let world = World::start().await;
    let agent = json!({
        "quiet": {"zone": "Europe/Berlin", "from": "09:00", "to": "10:00"},
        "timers": [{"timer_id": "remind", "delay_seconds": 300, "tool_name": "generate_response"}],
    });
    let put = world.request(Method::PUT, "/api/agents/acme/bot", Some(&agent)).await;
    assert_eq!(put.status, 200, "{put:?}");
    let said = world.post("/api/sessions/s/activity", json!({"agent": "acme:bot"})).await;
    // It is nine in Berlin.
    has(&said.body["session_timers"][0], json!({"next_trigger_at": START + HOUR, "waits_since": START + 300_000}));
    world.advance(3600);
    let fired = world
        .until("the reminder", || async {
            world.history().await.into_iter().find(|entry| entry["event"] == "session_timer.triggered")
        })
        .await;
    has(&fired["data"], json!({"due": START + 300_000, "opened": START + HOUR, "lateness_ms": 0}));
}

#[tokio::test]
async fn people_set_them_on_the_command_line_and_simulations_know_them() {
    let home = Home::default();
    home.write_config("[quiet]\nzone = \"UTC\"\nfrom = \"12:00\"\nto = \"13:00\"\n");
    let _daemon = home.serve().await;
    let shown = home.run(&["quiet"]).await;
    assert!(shown.out.contains("12:00 to 13:00 (UTC), every day"), "{shown:?}");
    let set =
        home.run(&["quiet", "--from", "22:00", "--to", "08:00", "--zone", "Asia/Shanghai", "--days", "weekdays"]).await;
    assert!(
        set.code == Some(0) && set.out.contains("22:00 to 08:00 (Asia/Shanghai), mon, tue, wed, thu, fri"),
        "{set:?}"
    );
    // Reminders say what they wait for, whatever the time is now: two hours apart, one of them is in these.
    home.run(&["quiet", "--from", "00:00", "--to", "23:59", "--zone", "UTC"]).await;
    let mut told = String::new();
    for length in ["1h", "3h"] {
        told.push_str(&home.run(&["clock", "schedule", "报告", "--in", length]).await.out);
    }
    assert!(told.contains(", waits for 20") && told.contains("T23:59:00+00:00 (quiet hours)"), "{told}");
    let listed = home.run(&["clock", "ls"]).await.out;
    assert!(listed.contains("waits for") && listed.contains("(quiet"), "{listed}");
    let off = home.run(&["--json", "quiet", "--off"]).await;
    assert_eq!(off.json().get("quiet"), None, "{off:?}");
    let wrong = home.run(&["quiet", "--from", "22:00", "--to", "25:00", "--zone", "UTC"]).await;
    assert!(wrong.code == Some(1) && wrong.err.contains("22:00"), "{wrong:?}");

    let agent = home.dir.path().join("agent.toml");
    std::fs::write(
        &agent,
        "quiet = { zone = \"UTC\", from = \"22:00\", to = \"08:00\" }\n[[timers]]\ntimer_id = \"remind\"\ndelay_seconds = 300\ntool_name = \"generate_response\"\n",
    )
    .unwrap();
    let ran = home.run(&["simulate", agent.to_str().unwrap(), "--start", "2026-11-16T21:58:00Z"]).await;
    assert!(ran.out.contains("10h 02m 00s") && ran.out.contains("due 2026-11-16T22:03:00Z, waited"), "{ran:?}");
    // Those that the file has for all go over those of the machine's configuration.
    let whole = home.dir.path().join("whole.toml");
    std::fs::write(
        &whole,
        "[quiet]\nzone = \"UTC\"\nfrom = \"22:00\"\nto = \"06:00\"\ndays = \"mon\"\n[[agent]]\n[[agent.timers]]\ntimer_id = \"remind\"\ndelay_seconds = 300\ntool_name = \"generate_response\"\n",
    )
    .unwrap();
    let ran = home.run(&["simulate", whole.to_str().unwrap(), "--start", "2026-11-16T21:58:00Z"]).await;
    assert!(ran.out.contains("8h 02m 00s") && ran.out.contains("due 2026-11-16T22:03:00Z, waited"), "{ran:?}");
    let ran = home.run(&["simulate", whole.to_str().unwrap(), "--start", "soon"]).await;
    assert!(ran.code == Some(1) && ran.err.contains("`--start`") && !ran.err.contains("`in`"), "{ran:?}");
}
