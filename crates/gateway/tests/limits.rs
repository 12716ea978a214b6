//! The four limits, on paused time: none cuts what lives, each names itself.

mod support;

use reveille_gateway::{Fault, IdleCounts, Limit, Override, Protocol, Settings};
use serde_json::{Value, json};
use std::time::Duration;
use support::{World, next, request, seconds, text};
use tokio::time::Instant;

fn limits(change: impl Fn(&mut reveille_gateway::Limits)) -> impl Fn(&mut Settings) {
    move |settings| change(&mut settings.upstreams[0].limits)
}

#[tokio::test(start_paused = true)]
async fn ten_minutes_of_a_chunk_a_second_survive_an_idle_limit_of_thirty_seconds() {
    for protocol in Protocol::ALL {
        for world in World::both_with(limits(|limits| limits.idle = seconds(30))) {
            let began = Instant::now();
            let script = json!({"steps": [{"repeat": {"text": "word ", "times": 600, "every": 1000}}]});
            let body = text(world.send(protocol, &script, true).await).await;
            // Responses repeats the whole text in its closing events.
            let (said, repeated) = (body.matches("word ").count(), if protocol == Protocol::Responses { 5 } else { 1 });
            assert_eq!(said, 600 * repeated);
            assert!(began.elapsed() >= Duration::from_secs(600));
            assert_eq!(world.reports.outcomes(), ["complete"]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stall_is_cut_at_the_idle_limit_with_an_error_the_protocol_knows() {
    for protocol in Protocol::ALL {
        for world in World::both_with(limits(|limits| limits.idle = seconds(180))) {
            let mut gone = world.log.abandoned();
            let began = Instant::now();
            let body = text(world.send(protocol, &json!({"steps": [{"text": "begun"}, "stall"]}), true).await).await;
            assert!((180..182).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
            let last = body.trim_end().rsplit("\n\n").next().expect("frames");
            let data: Value = serde_json::from_str(last.split_once("data: ").expect("data").1).expect("JSON");
            let message = "idle timeout after 180000 ms of inactivity";
            match protocol {
                Protocol::Chat => {
                    assert_eq!(data["error"]["message"], message);
                    assert_eq!(data["error"]["code"], "idle_timeout");
                }
                Protocol::Responses => {
                    assert!(last.starts_with("event: response.failed\n"), "{last}");
                    assert_eq!(data["response"]["error"]["message"], message);
                    assert_eq!(data["response"]["id"], "resp_scripted");
                    assert_eq!(data["sequence_number"], body.matches("sequence_number").count() - 1);
                }
                Protocol::Messages => {
                    assert!(last.starts_with("event: error\n"), "{last}");
                    assert_eq!(data["error"]["message"], message);
                    assert_eq!(data["error"]["type"], "timeout_error");
                }
            }
            gone.wait_for(|count| *count == 1).await.expect("the upstream call is cancelled");
            let fault = Fault::Limit { limit: Limit::Idle, after: Duration::from_secs(180) };
            assert_eq!(world.reports.all()[0].outcome, reveille_gateway::Outcome::Failed(fault));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn keep_alives_are_life_unless_only_content_counts() {
    let keep_alives: Vec<Value> = (0..20)
        .flat_map(|_| [json!({"wait": 10_000}), json!("comment"), json!({"wait": 10_000}), json!("ping")])
        .collect();
    let mut steps = vec![json!({"text": "a"})];
    steps.extend(keep_alives);
    let script = json!({"steps": steps});
    for protocol in Protocol::ALL {
        for world in World::both_with(limits(|limits| limits.idle = seconds(30))) {
            text(world.send(protocol, &script, true).await).await;
            assert_eq!(world.reports.outcomes(), ["complete"]);
        }
        for world in World::both_with(limits(|limits| {
            (limits.idle, limits.idle_counts) = (seconds(30), IdleCounts::Content);
        })) {
            let began = Instant::now();
            text(world.send(protocol, &script, true).await).await;
            assert_eq!(world.reports.outcomes(), ["idle_timeout"]);
            assert!((30..32).contains(&began.elapsed().as_secs()));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_head_and_no_first_chunk_are_the_first_byte_limit() {
    for world in World::both_with(limits(|limits| limits.first_byte = seconds(120))) {
        let answer = world.send(Protocol::Chat, &json!({"head_after": 500_000}), true).await;
        assert_eq!(answer.status(), 504);
        assert!(text(answer).await.contains("first_byte timeout after 120000 ms"));
        // A head at once, then nothing: the error comes in the stream, as early.
        let began = Instant::now();
        let answer = world.send(Protocol::Messages, &json!({"steps": ["stall"]}), true).await;
        assert_eq!(answer.status(), 200);
        assert!(text(answer).await.contains("first_byte timeout after 120000 ms"));
        assert!((120..122).contains(&began.elapsed().as_secs()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_whole_answer_obeys_the_total_alone() {
    for world in World::both_with(limits(|limits| {
        (limits.first_byte, limits.idle, limits.total) = (seconds(1), seconds(1), seconds(600));
    })) {
        let slow = json!({"head_after": 300_000, "steps": [{"wait": 290_000}, {"text": "at last"}]});
        let answer = world.send(Protocol::Chat, &slow, false).await;
        assert_eq!(answer.status(), 200);
        assert!(text(answer).await.contains("at last"));
        for protocol in Protocol::ALL {
            let began = Instant::now();
            let answer = world.send(protocol, &json!({"steps": ["stall"]}), false).await;
            assert_eq!(answer.status(), 504);
            assert!(text(answer).await.contains("total timeout after 600000 ms"));
            assert!((600..602).contains(&began.elapsed().as_secs()));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_total_for_streams_ends_even_live_ones() {
    for world in World::both_with(limits(|limits| limits.total_stream = seconds(60))) {
        let script = json!({"steps": [{"repeat": {"text": "word ", "times": 600, "every": 1000}}]});
        let body = text(world.send(Protocol::Chat, &script, true).await).await;
        assert!(body.contains("total timeout after 60000 ms"), "{body}");
        assert!((58..=60).contains(&body.matches("word ").count()));
    }
}

#[tokio::test(start_paused = true)]
async fn connecting_has_its_own_limit() {
    let world = World::with(|settings| {
        settings.upstreams[0] = support::upstream("http://slow");
        settings.upstreams[0].limits.connect = seconds(10);
    });
    let began = Instant::now();
    let answer = world.send(Protocol::Chat, &json!({}), true).await;
    assert_eq!(answer.status(), 504);
    assert!(text(answer).await.contains("connect timeout after 10000 ms"));
    assert!((10..12).contains(&began.elapsed().as_secs()));
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_waited_for_as_long_as_the_call_may_that_dials_it() {
    let world = World::with(|settings| {
        settings.upstreams[0] = support::upstream("http://slow");
        settings.upstreams[0].limits.connect = seconds(10);
        let connect = |models: &[&str], agents: &[&str], secs| Override {
            models: models.iter().map(ToString::to_string).collect(),
            agents: agents.iter().map(ToString::to_string).collect(),
            connect: seconds(secs),
            ..Override::default()
        };
        settings.overrides = vec![connect(&[], &["acme:*"], 3), connect(&["scripted"], &[], 30)];
    });
    for (agent, ms) in [(Some("acme:bot"), 3_000), (None, 30_000)] {
        let mut request = support::request(Protocol::Chat, &json!({}), true);
        if let Some(agent) = agent {
            request.headers_mut().insert("x-reveille-agent", agent.parse().expect("valid"));
        }
        let (status, body) = world.ask(request).await;
        assert_eq!(status, 504, "{body}");
        assert!(body.contains(&format!("connect timeout after {ms} ms")), "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn models_and_agents_have_limits_of_their_own() {
    let world = World::with(|settings| {
        let idle = |models: &[&str], agents: &[&str], secs| Override {
            models: models.iter().map(ToString::to_string).collect(),
            agents: agents.iter().map(ToString::to_string).collect(),
            idle: seconds(secs),
            ..Override::default()
        };
        settings.overrides = vec![idle(&[], &["acme:*"], 7), idle(&["scripted"], &[], 20)];
    });
    let script = json!({"steps": [{"text": "a"}, "stall"]});
    let (_, body) = world.ask(request(Protocol::Chat, &script, true)).await;
    assert!(body.contains("after 20000 ms"), "{body}");
    let mut named = request(Protocol::Chat, &script, true);
    named.headers_mut().insert("x-reveille-agent", "acme:support".parse().expect("valid"));
    let (_, body) = world.ask(named).await;
    assert!(body.contains("after 7000 ms"), "{body}");
    let sent = world.log.requests();
    assert!(sent.iter().all(|request| request.header("x-reveille-agent").is_none()));
}

/// The same holds for calls that are only passed on.
#[tokio::test(start_paused = true)]
async fn models_have_limits_of_their_own_on_every_path() {
    let world = World::with(|settings| {
        settings.overrides =
            vec![Override { models: vec!["scripted".into()], total: seconds(20), ..Override::default() }];
    });
    let mut slow = support::post("/v1/embeddings", r#"{"model":"scripted","input":"x"}"#);
    slow.headers_mut().insert("x-script", r#"{"head_after":90000}"#.parse().expect("valid"));
    let (status, body) = world.ask(slow).await;
    assert_eq!(status, 504, "{body}");
    assert!(body.contains("total timeout after 20000 ms"), "{body}");
}

#[tokio::test(start_paused = true)]
async fn a_reader_slower_than_the_limit_loses_nothing_and_buffers_nothing() {
    for world in World::both_with(limits(|limits| limits.idle = seconds(5))) {
        let word = "x".repeat(1000);
        let script = json!({"steps": [{"repeat": {"text": word, "times": 2000, "every": 0}}]});
        let mut answer = world.send(Protocol::Chat, &script, true).await;
        let mut bytes = 0;
        for _ in 0..20 {
            bytes += next(&mut answer).await.expect("more").len();
            tokio::time::sleep(Duration::from_secs(60)).await;
            let ahead = world.log.written() - bytes as u64;
            assert!(ahead < 512 * 1024, "{ahead} bytes were taken that nobody asked for");
        }
        let rest = text(answer).await;
        assert!(rest.ends_with("data: [DONE]\n\n"));
        assert_eq!(world.reports.outcomes(), ["complete"]);
    }
}
