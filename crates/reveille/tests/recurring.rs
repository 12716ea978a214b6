//! Timers at a time of the calendar and timers that recur, as agents and people use them, over real HTTP, on a manual clock
//! that starts at 2027-01-15T08:00:00Z.

#![allow(clippy::unwrap_used)]

mod support;

use reqwest::Method;
use serde_json::{Value, json};
use support::*;

/// Texts of what is pending, oldest first.
async fn told(world: &World, session: &str) -> Vec<String> {
    world.inbox(session).await.iter().map(|message| text(&message["text"])).collect()
}

/// Until the timer has fired so often.
async fn fired(world: &World, id: &str, times: u64) -> Value {
    world
        .until(&format!("time {times} of {id}"), || async {
            let timer = world.get(&format!("/api/timers/{id}")).await;
            (timer["schedule"]["fires"] == times).then_some(timer)
        })
        .await
}

#[tokio::test]
async fn a_mission_at_four_o_clock() {
    let world = World::start().await;
    let ask = json!({"mission": "发周报 📨", "at": "16:00", "zone": "Europe/Berlin"});
    let made = world.done("agent", "timer", ask).await;
    has(
        &made,
        json!({"outcome": "scheduled", "timer_type": "mission", "total_duration": 7 * 3600, "ends_at": START + 7 * 3_600_000}),
    );
    has(&made["schedule"], json!({"at": "2027-01-15T16:00:00+01:00", "zone": "Europe/Berlin", "next": null}));
    assert!(text(&made["hint"]).contains("2027-01-15T16:00:00+01:00"), "{made}");
    let timer = id(&made);
    world.advance(7 * 3600);
    world.until_message("agent", &timer).await;
    assert_eq!(told(&world, "agent").await, [finished(&timer, "Mission", "发周报 📨", 7 * 3600)]);
}

#[tokio::test]
async fn every_weekday_at_nine_shows_its_next_five_times() {
    let world = World::start().await;
    let ask = json!({"mission": "晨会", "every": "0 9 * * 1-5", "zone": "America/New_York", "max_fires": 7});
    let made = world.done("agent", "timer", ask).await;
    has(&made, json!({"outcome": "scheduled", "total_duration": 6 * 3600}));
    // The 15th is a Friday.
    has(
        &made["schedule"],
        json!({
            "cron": "0 9 * * 1-5", "zone": "America/New_York", "catch_up": "latest", "max_fires": 7, "fires": 0, "missed": null,
            "next": [
                "2027-01-15T09:00:00-05:00", "2027-01-18T09:00:00-05:00", "2027-01-19T09:00:00-05:00",
                "2027-01-20T09:00:00-05:00", "2027-01-21T09:00:00-05:00",
            ],
        }),
    );
    assert!(
        text(&made["hint"]).contains("7 times in all") && !text(&made["hint"]).contains("until you call"),
        "{made}"
    );
    let timer = id(&made);
    world.advance(6 * 3600);
    let after = fired(&world, &timer, 1).await;
    has(
        &after,
        json!({"status": "running_background", "total_duration": 3 * 86_400, "ends_at": START + 78 * 3_600_000}),
    );
    let message = world.until_message("agent", &timer).await;
    assert_eq!(message["kind"], "timer_fired");
    assert_eq!(
        text(&message["text"]),
        format!(
            "[Timer Fired] Timer '{timer}' has fired, time 1 of 7.\nMission: 晨会\nDue: 2027-01-15T09:00:00-05:00\nNext: \
             2027-01-18T09:00:00-05:00"
        )
    );
    let read = world.done("agent", "read_timer", json!({"timer_id": timer})).await;
    assert_eq!(read["schedule"]["next"][0], "2027-01-18T09:00:00-05:00");
    let stats = world.get("/api/stats").await;
    has(&stats["timers"], json!({"created": 1, "running_background": 1, "fired": 1, "missed": 0}));
}

#[tokio::test]
async fn a_waiting_agent_is_told_each_time_and_waits_on() {
    let world = World::start().await;
    let call = world.standing("agent", json!({"reason": "看构建", "every": "10m", "max_fires": 2})).await;
    world.advance(600);
    let first = result(call).await;
    let timer = id(&first);
    has(&first, json!({"outcome": "fired", "timeout": false, "status": "running_background", "messages": []}));
    let call = world.standing("agent", json!({"timer_id": timer})).await;
    world.advance(600);
    has(&result(call).await, json!({"outcome": "completed", "status": "completed", "timeout": false}));
    // Both were told by the calls themselves.
    world.until("an empty inbox", || async { world.inbox("agent").await.is_empty().then_some(()) }).await;
    let events: Vec<String> = world.history_of(&timer).await.iter().map(|entry| text(&entry["event"])).collect();
    assert_eq!(events.iter().filter(|event| *event == "timer.fired").count(), 1, "{events:?}");
    assert_eq!(events.iter().filter(|event| *event == "timer.completed").count(), 1, "{events:?}");
}

#[tokio::test]
async fn a_recurring_timer_is_paused_resumed_and_stopped() {
    let world = World::start().await;
    let made =
        world.done("agent", "timer", json!({"mission": "备份", "every": "0 * * * *", "zone": "Asia/Shanghai"})).await;
    let timer = id(&made);
    let paused = world.done("agent", "pause_timer", json!({"timer_id": timer, "pause_duration": "3h"})).await;
    has(&paused, json!({"status": "paused"}));
    assert_eq!(paused["schedule"]["next"][0], "2027-01-15T20:00:00+08:00");
    // Two times pass meanwhile, and are not made up for.
    world.advance(2 * 3600 + 60);
    let resumed = world.done("agent", "resume_timer", json!({"timer_id": timer})).await;
    has(&resumed, json!({"status": "running", "ends_at": START + 3 * 3_600_000}));
    assert_eq!(told(&world, "agent").await, [] as [String; 0]);
    world.advance(3540);
    fired(&world, &timer, 1).await;
    let stopped = world.post(&format!("/api/timers/{timer}/stop"), json!({"reason": "够了"})).await;
    has(&stopped.body, json!({"status": "stopped", "outcome": "stopped"}));
    world.advance(86_400);
    let other = world.done("other", "timer", json!({"total_duration": 1, "mission": "x"})).await;
    world.advance(1);
    world.until_message("other", &id(&other)).await;
    assert_eq!(told(&world, "agent").await.len(), 1);
}

#[tokio::test]
async fn what_passed_while_the_server_was_down_is_caught_up_as_asked() {
    let mut world = World::start().await;
    let mut timers = Vec::new();
    for (number, every) in [json!({"every": "1h"}), json!({"every": "0 * * * *", "zone": "UTC"})].iter().enumerate() {
        for catch_up in ["skip", "latest", "all"] {
            let mut ask = every.clone();
            (ask["mission"], ask["catch_up"]) = (json!(catch_up), json!(catch_up));
            timers.push(id(&world.done(&format!("{catch_up}-{number}"), "timer", ask).await));
        }
    }
    world.down().await;
    world.advance(3 * 3600 + 1800);
    world.up().await;
    let after_the_start = [(0, json!(3)), (1, json!(2)), (3, Value::Null)];
    for (timer, (times, missed)) in timers.iter().zip(after_the_start.iter().cycle()) {
        world
            .until("what was missed has been looked at", || async {
                let schedule = &world.get(&format!("/api/timers/{timer}")).await["schedule"];
                (schedule["fires"] == *times && schedule["missed"] == *missed && world.now() == START + 12_600_000)
                    .then_some(())
            })
            .await;
    }
    world.advance(1800);
    let later = [
        (1, json!(3), ["12:00"].as_slice()),
        (2, json!(2), &["11:00", "12:00"]),
        (4, json!(null), &["09:00", "10:00", "11:00", "12:00"]),
    ];
    for (timer, (times, missed, dues)) in timers.iter().zip(later.iter().cycle()) {
        let after = fired(&world, timer, *times).await;
        has(&after["schedule"], json!({"missed": missed, "next": after["schedule"]["next"].clone()}));
        assert_eq!(after["ends_at"], START + 5 * 3_600_000);
        let told = told(&world, &text(&after["session"])).await;
        assert_eq!(told.len(), dues.len(), "{told:?}");
        for (text, due) in told.iter().zip(*dues) {
            assert!(text.contains(&format!("Due: 2027-01-15T{due}:00")), "{text}");
        }
    }
}

#[tokio::test]
async fn a_time_of_the_night_on_which_clocks_change() {
    // 2027-03-28, 02:00 → 03:00 in Berlin; 2027-03-14 in New York.
    let world = World::start().await;
    for (zone, day, due) in [
        ("America/New_York", "2027-03-13T20:00:00Z", "2027-03-14T03:00:00-04:00"),
        ("Europe/Berlin", "2027-03-27T20:00:00Z", "2027-03-28T03:00:00+02:00"),
    ] {
        let day: jiff::Timestamp = day.parse().unwrap();
        world.clock.set(reveille_core::Timestamp::from_millis(day.as_millisecond()));
        let made = world.done("agent", "timer", json!({"mission": zone, "every": "30 2 * * *", "zone": zone})).await;
        assert_eq!(made["schedule"]["next"][0], due);
        let timer = id(&made);
        world.advance(24 * 3600);
        fired(&world, &timer, 1).await;
        world.done("agent", "stop_timer", json!({"timer_id": timer})).await;
    }
}

#[tokio::test]
async fn a_repeated_request_plans_nothing_a_second_time() {
    let world = World::start().await;
    let ask = json!({"session": "s", "mission": "一次", "every": "0 9 * * *", "zone": "UTC"});
    let post = |key: &'static str, ask: Value| {
        let (http, url) = (world.http.clone(), format!("{}/api/timers", world.url));
        async move { send(&http, Method::POST, &url, Some(&ask), Some(key)).await }
    };
    let (first, again) = (post("k", ask.clone()).await, post("k", ask.clone()).await);
    assert_eq!((first.status, again.status), (200, 200), "{first:?}");
    assert_eq!(first.body["timer_id"], again.body["timer_id"]);
    let mut other = ask;
    other["every"] = json!("0 10 * * *");
    assert_eq!(post("k", other).await.status, 422);
    assert_eq!(world.timers().await.len(), 1);
}

#[tokio::test]
async fn bad_schedules_change_nothing_and_are_explained() {
    let world = World::start().await;
    for (ask, code, word) in [
        (json!({"mission": "m", "at": "16:00", "zone": "Berlin"}), "unknown_zone", "Europe/Berlin"),
        (json!({"mission": "m", "at": "16:00"}), "invalid_time", "`zone`"),
        (json!({"mission": "m", "at": "2027-01-15T07:59:00Z"}), "invalid_time", "it is 2027-01-15T08:00:00Z now"),
        (json!({"mission": "m", "at": "2027-02-30T00:00:00Z"}), "invalid_time", "not a time there is"),
        (json!({"mission": "m", "every": "0 0 30 2 *", "zone": "UTC"}), "invalid_every", "never comes"),
        (json!({"mission": "m", "every": "0 0 29 2 *", "zone": "UTC"}), "invalid_every", "2028-02-29"),
        (json!({"mission": "m", "every": 0}), "invalid_duration", "more than zero"),
        (json!({"mission": "m", "every": "10m", "total_duration": 5}), "invalid_argument", "excludes"),
        (json!({"timer_id": "timer_x", "every": "10m"}), "invalid_argument", "new timer"),
    ] {
        let (status, got, problem) = world.refused("agent", "timer", ask.clone()).await;
        let detail = text(&problem["detail"]);
        assert!(status == 400 && got == code && detail.contains(word), "{ask}: {problem}");
    }
    assert_eq!(world.timers().await.len(), 0);
    assert_eq!(world.history().await.len(), 0);
}
