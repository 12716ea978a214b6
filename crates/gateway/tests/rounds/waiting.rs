//! What a turn keeps while it waits: little, counted, and bounded.

use crate::{
    clock::{Clock, calls},
    support::{self, World, next},
};
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use reveille_gateway::{Answer, Protocol, Settings};
use serde_json::{Value, json};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

fn patient() -> Clock {
    Clock { hold: Some(HOUR), ..Clock::default() }
}

/// A call with something long said before it.
fn after(said: &str, protocol: Protocol, script: &Value, stream: bool) -> Request<Full<Bytes>> {
    let list = if protocol == Protocol::Responses { "input" } else { "messages" };
    let mut body = json!({"model": "scripted", "stream": stream});
    body[list] = json!([
        {"role": "user", "content": said},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": format!("script:{script}")},
    ]);
    support::post(protocol.path(), body.to_string())
}

/// Reads until the turn is held, and a little longer.
async fn held(answer: &mut Answer) -> String {
    let (mut body, began) = (String::new(), tokio::time::Instant::now());
    while began.elapsed() < Duration::from_secs(30) {
        body += &next(answer).await.expect("it is held");
    }
    body
}

async fn rest(mut answer: Answer) -> String {
    let mut body = String::new();
    while let Some(piece) = next(&mut answer).await {
        body += &piece;
    }
    body
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_leave_room_for_others_and_go_on_as_they_were() {
    const BODY: usize = 1024 * 1024;
    let words = "长 🙂 words ".repeat(BODY / 16);
    let script = json!({"steps": [{"text": "One."}], "then": [{"steps": [{"text": "Two."}, calls(json!({}))]}, {"steps": [{"text": "Three."}]}]});
    for protocol in Protocol::ALL {
        let clock = patient();
        let world =
            World::build(|settings| settings.bodies_bytes_max = 3 * BODY, |gateway| gateway.stage(clock.clone()));
        let mut turns = Vec::new();
        for _ in 0..8 {
            let mut answer = world.gateway.handle(after(&words, protocol, &script, true)).await;
            assert_eq!(answer.status(), 200, "there is room for the next");
            assert!(held(&mut answer).await.contains("One."));
            turns.push(answer);
        }
        for turn in turns {
            let body = rest(turn).await;
            assert!(body.contains("Two.") && body.contains("Three."), "{protocol:?}");
        }
        let sent = world.log.requests();
        assert_eq!(sent.len(), 24);
        for later in &sent[8..] {
            let first = &sent[0].body;
            let same = first.iter().zip(&later.body).take_while(|(one, other)| one == other).count();
            assert!(same + 100 > first.len(), "nothing before what was added changes: {same} of {}", first.len());
            let later = String::from_utf8(later.body.clone()).unwrap();
            assert_eq!(
                (later.matches("One.").count(), later.matches("scheduled task").count()),
                (2, 1),
                "once in the script"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_without_room_to_wait_is_over() {
    // What cannot be made smaller.
    let noise: String =
        (0..4000_u64).map(|number| format!("{:x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    let script = json!({"steps": [{"text": "One."}], "then": [{"steps": [{"text": "Two."}]}]});
    let slow = json!({"steps": [calls(json!({"slow": true}))], "then": [{"steps": [{"text": "Two."}]}]});
    for protocol in Protocol::ALL {
        for stream in [true, false] {
            let clock = patient();
            let tight = |settings: &mut Settings| settings.held_bytes_max = 16 * 1024;
            let world = World::build(tight, |gateway| gateway.stage(clock.clone()));
            let began = tokio::time::Instant::now();
            let (status, body) = world.ask(after(&noise, protocol, &script, stream)).await;
            assert_eq!(status, 200);
            assert!(body.contains("One.") && !body.contains("Two."), "{body}");
            assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
            assert_eq!(world.reports.outcomes(), ["complete"]);
            assert!(clock.seen().contains(&"no room".to_owned()));
            // A call of the model's is answered all the same.
            let (_, body) = world.ask(after(&noise, protocol, &slow, stream)).await;
            assert!(body.contains("Two."), "{body}");
            // A small one fits.
            let (_, body) = world.ask(after("small", protocol, &script, stream)).await;
            assert!(body.contains("Two."), "{body}");
        }
    }
}

/// A stream passes whatever its length; only what could not be kept cannot be gone on from.
#[tokio::test(start_paused = true)]
async fn an_answer_without_room_to_be_kept_passes_and_ends() {
    let world = World::build(|settings| settings.held_bytes_max = 64 * 1024, |gateway| gateway.stage(patient()));
    let long = json!({"steps": [{"repeat": {"text": "many words ", "times": 2000, "every": 0}}], "then": [{"steps": [{"text": "Two."}]}]});
    for protocol in Protocol::ALL {
        let (_, body) = world.ask(support::request(protocol, &long, true)).await;
        assert!(body.matches("many words ").count() >= 2000 && !body.contains("Two."), "{protocol:?}");
    }
    assert_eq!(world.reports.outcomes(), ["complete"; 3]);
    // Nothing of it is left: a short one waits.
    let short = json!({"steps": [{"text": "One."}], "then": [{"steps": [{"text": "Two."}]}]});
    let (_, body) = world.ask(support::request(Protocol::Chat, &short, true)).await;
    assert!(body.contains("Two."), "{body}");
}
