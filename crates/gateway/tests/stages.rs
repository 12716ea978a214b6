//! Stages see the call, may add to it, change its events, and are told when it is over.

mod support;

use async_trait::async_trait;
use bytes::Bytes;
use reveille_gateway::{
    Draft, Event, Fault, Finish, Interest, Kind, More, Next, Protocol, Seen, Stage, Turn, Verdict, Visit, Voice, Words,
};
use serde_json::json;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use support::{World, next, request, text};

#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    fn note(&self, entry: impl Into<String>) {
        self.0.lock().expect("unpoisoned").push(entry.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("unpoisoned"))
    }
}

impl Stage for Diary {
    fn enter(&self, turn: &Turn) -> Option<Box<dyn Visit>> {
        self.note(format!("enter {} {}", turn.protocol.name(), turn.model));
        Some(Box::new(Visitor(self.clone())))
    }
}

struct Visitor(Diary);

#[async_trait]
impl Visit for Visitor {
    async fn before_request(&mut self, draft: &mut Draft) -> Result<Interest, Fault> {
        draft.append_tool(r#"{"type":"function","function":{"name":"clock"}}"#);
        Ok(Interest::Stay)
    }

    fn on_dispatch(&mut self) {
        self.0.note("dispatch");
    }

    fn on_event(&mut self, event: &Event<'_>) -> Verdict {
        let text = String::from_utf8_lossy(event.raw);
        match event.kind {
            Kind::ToolCall => self.0.note("tool call"),
            Kind::Content if text.contains("secret") => return Verdict::Drop,
            Kind::Content if text.contains("old") => return Verdict::Replace(Bytes::from(text.replace("old", "new"))),
            _ => {}
        }
        Verdict::Pass
    }

    async fn on_finish(&mut self, seen: &Seen) -> Next {
        tokio::time::sleep(Duration::from_secs(3600)).await;
        self.0.note(format!("finish {:?}", seen.finish.expect("finished")));
        Next::End
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        self.0.note("over");
    }
}

fn world(diary: &Diary) -> World {
    World::build(|_| {}, |gateway| gateway.stage(diary.clone()))
}

#[tokio::test(start_paused = true)]
async fn a_stage_takes_part_in_a_stream() {
    for protocol in Protocol::ALL {
        let diary = Diary::default();
        let world = world(&diary);
        let steps =
            json!([{"text": "secret"}, {"text": "old"}, {"wait": 10}, {"tool": {"name": "f", "arguments": {}}}]);
        let script = json!({"steps": steps});
        let mut answer = world.send(protocol, &script, true).await;
        let mut body = String::new();
        while let Some(piece) = next(&mut answer).await {
            body += &piece;
        }
        drop(answer);
        assert!(body.contains("new") && body.find("secret").is_none_or(|at| at > body.find("new").expect("there")));
        let entered = format!("enter {} scripted", protocol.name());
        assert_eq!(diary.take(), [&entered, "dispatch", "tool call", "finish ToolCalls", "over"]);
        assert!(String::from_utf8_lossy(&world.log.requests()[0].body).contains("clock"));
        assert_eq!(world.reports.outcomes(), ["complete"]);
    }
}

/// Waits once for an hour, and then has the turn go on.
#[derive(Clone, Default)]
struct Patient {
    waited: bool,
}

impl Stage for Patient {
    fn enter(&self, _turn: &Turn) -> Option<Box<dyn Visit>> {
        Some(Box::new(self.clone()))
    }
}

#[async_trait]
impl Visit for Patient {
    async fn on_finish(&mut self, _seen: &Seen) -> Next {
        if std::mem::replace(&mut self.waited, true) {
            return Next::End;
        }
        tokio::time::sleep(Duration::from_secs(3600)).await;
        Next::Continue(More { words: vec![Words { voice: Voice::User, text: "go on".into() }], ..More::default() })
    }
}

#[derive(Clone)]
struct Neighbour(Diary);

impl Stage for Neighbour {
    fn enter(&self, _turn: &Turn) -> Option<Box<dyn Visit>> {
        Some(Box::new(self.clone()))
    }
}

#[async_trait]
impl Visit for Neighbour {
    fn on_hold(&mut self) {
        self.0.note("hold");
    }

    async fn on_resume(&mut self) {
        self.0.note("resume");
    }

    async fn on_finish(&mut self, _seen: &Seen) -> Next {
        self.0.note("finish");
        Next::End
    }
}

#[tokio::test(start_paused = true)]
async fn a_stage_is_told_that_another_has_the_turn_wait() {
    // Whoever gets one piece has heard nothing yet.
    for (stream, expected) in [(true, &["hold", "resume", "finish"][..]), (false, &["finish"])] {
        for first in [true, false] {
            let diary = Diary::default();
            let neighbour = Neighbour(diary.clone());
            let world = World::build(
                |_| {},
                |gateway| match first {
                    true => gateway.stage(neighbour).stage(Patient::default()),
                    false => gateway.stage(Patient::default()).stage(neighbour),
                },
            );
            text(world.send(Protocol::Chat, &json!({"steps": [{"text": "hi"}]}), stream).await).await;
            let told = diary.take();
            match first {
                // Asked first, it has finished each time.
                true => assert_eq!(told.len(), expected.len() + 1, "{told:?}"),
                false => assert_eq!(told, expected),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn and_in_a_whole_answer() {
    let diary = Diary::default();
    let body = text(world(&diary).send(Protocol::Chat, &json!({"steps": [{"text": "hi"}]}), false).await).await;
    assert!(body.contains("hi"));
    assert_eq!(diary.take(), ["enter chat scripted", &format!("finish {:?}", Finish::Stop), "dispatch", "over"]);
}

#[tokio::test(start_paused = true)]
async fn what_fails_before_it_begins_is_not_dispatched() {
    let refused =
        |settings: &mut reveille_gateway::Settings| settings.upstreams[0] = support::upstream("http://refused");
    for (script, refuses) in [
        (json!({}), true),
        (json!({"status": 500}), false),
        (json!({"steps": ["stall"]}), false),
        (json!({"steps": ["comment", "ping", "stall"]}), false),
        (json!({"steps": ["cut"]}), false),
    ] {
        for protocol in Protocol::ALL {
            let diary = Diary::default();
            let world = World::build(
                |settings| {
                    if refuses {
                        refused(settings)
                    }
                },
                |gateway| gateway.stage(diary.clone()),
            );
            let (_, body) = world.ask(request(protocol, &script, true)).await;
            assert!(body.contains("error"), "{body}");
            assert_eq!(diary.take(), [&format!("enter {} scripted", protocol.name()), "over"], "{script}");
        }
    }
}
