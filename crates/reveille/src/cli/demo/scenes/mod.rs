//! The scenes, in the order in which they are played. Each uses the server as anybody would, looks at what happened, and
//! fails with a word on what did not.

mod chatbot;
mod mission;
mod reminder;
mod streams;
mod wait;

use super::{stage::Stage, story::Story};
use futures_util::{FutureExt, future::LocalBoxFuture};
use serde_json::Value;

pub struct Scene {
    pub name: &'static str,
    pub title: &'static str,
    play: for<'a> fn(&'a Stage, &'a Story) -> LocalBoxFuture<'a, anyhow::Result<Value>>,
}

impl Scene {
    /// What was seen.
    pub async fn play(&self, stage: &Stage, story: &Story) -> anyhow::Result<Value> {
        (self.play)(stage, story).await
    }
}

pub const ALL: [Scene; 5] = [
    Scene {
        name: "wait",
        title: "An agent waits for a server, sleeps, and is woken",
        play: |stage, story| wait::play(stage, story).boxed_local(),
    },
    Scene {
        name: "mission",
        title: "A mission comes due while nobody is there",
        play: |stage, story| mission::play(stage, story).boxed_local(),
    },
    Scene {
        name: "reminder",
        title: "A reminder lands in a held stream",
        play: |stage, story| reminder::play(stage, story).boxed_local(),
    },
    Scene {
        name: "streams",
        title: "A stalled stream is cut, a live one is not",
        play: |stage, story| streams::play(stage, story).boxed_local(),
    },
    Scene {
        name: "chatbot",
        title: "A chatbot's session is reminded, handed off, closed",
        play: |stage, story| chatbot::play(stage, story).boxed_local(),
    },
];
