//! `reveille demo`: what Reveille does, in half a minute, without a key and without a network. A real server with a
//! directory of its own plays five scenes through its real doors; what is told is what was seen, and a scene that did not
//! happen ends in a word and exit code 1. Nothing is left behind.

mod agent;
mod model;
mod platform;
mod scenes;
mod sse;
mod stage;
mod story;

use super::{Common, Done, show};
use clap::Args;
use scenes::Scene;
use serde_json::{Value, json};
use stage::{POLL, Stage};
use std::{
    process::ExitCode,
    time::{Duration, Instant},
};
use story::Story;
use tokio::signal::unix::{SignalKind, signal};

/// A scene that takes longer has failed.
const SCENE_MAX: Duration = Duration::from_secs(20);
/// As shells have it for what ctrl-C ended.
const INTERRUPTED: u8 = 130;

#[derive(Args)]
pub struct DemoArgs {
    /// Leave the server and its dashboard there until ctrl-C
    #[arg(long)]
    keep: bool,
}

/// What became of one scene.
struct Played {
    scene: &'static Scene,
    took: Duration,
    outcome: Result<Value, String>,
}

pub fn run(common: &Common, args: DemoArgs) -> Done {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let mut stopped = std::pin::pin!(async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        });
        let (story, stage) = (Story::new(!common.json), Stage::build().await?);
        let told = tokio::select! {
            told = tell(&stage, &story) => Some(told),
            () = &mut stopped => None,
        };
        let ended = match told {
            None => {
                story.line("\nInterrupted; nothing is left behind.");
                Ok(ExitCode::from(INTERRUPTED))
            }
            Some(Ok(document)) => {
                if common.json {
                    show::line(&document.to_string());
                }
                if args.keep {
                    story.line(&format!("\nThe dashboard stays at {}/ until ctrl-C.", stage.url));
                    stopped.await;
                }
                Ok(ExitCode::from(u8::from(document["ok"] != true)))
            }
            Some(Err(error)) => Err(error.into()),
        };
        stage.strike().await?;
        ended
    })
}

/// The whole story; what was seen, as one document.
async fn tell(stage: &Stage, story: &Story) -> anyhow::Result<Value> {
    let began = Instant::now();
    story.line("A real server in a directory of its own, a scripted model behind it, seconds instead of minutes.");
    story.line(&format!("Look at it meanwhile: {}/", stage.url));
    let mut played = Vec::new();
    for (place, scene) in scenes::ALL.iter().enumerate() {
        story.heading(&format!("{}. {}", place + 1, scene.title));
        played.push(play(scene, stage, story).await);
    }
    let stats = stage.get("/api/stats").await?;
    let seen = played.iter().filter(|played| played.outcome.is_ok()).count();
    sum_up(stage, story, &stats, (seen, played.len()), began.elapsed());
    let ok = seen == played.len();
    let scenes: Vec<Value> = played.iter().map(Played::document).collect();
    let figures = json!({
        "seconds": began.elapsed().as_secs_f64(),
        "model_calls": stage.upstream.upstream.log.requests().len(),
        "standby": stats["standby"], "lateness": stats["lateness"], "messages": stats["messages"],
    });
    Ok(json!({"ok": ok, "url": stage.url, "scenes": scenes, "figures": figures}))
}

async fn play(scene: &'static Scene, stage: &Stage, story: &Story) -> Played {
    let began = Instant::now();
    let outcome = match tokio::time::timeout(SCENE_MAX, scene.play(stage, story)).await {
        Ok(outcome) => outcome.map_err(|error| format!("{error:#}")),
        Err(_) => Err(format!("it did not come to an end within {} s", SCENE_MAX.as_secs())),
    };
    if let Err(why) = &outcome {
        story.failed(&format!("this did not happen as it should: {why}"));
    }
    Played { scene, took: began.elapsed(), outcome }
}

impl Played {
    fn document(&self) -> Value {
        let (seen, error) = match &self.outcome {
            Ok(seen) => (seen.clone(), Value::Null),
            Err(why) => (Value::Null, json!(why)),
        };
        let Scene { name, title, .. } = self.scene;
        let took = self.took.as_secs_f64();
        json!({"name": name, "title": title, "ok": self.outcome.is_ok(), "seconds": took, "seen": seen, "error": error})
    }
}

fn sum_up(stage: &Stage, story: &Story, stats: &Value, (seen, all): (usize, usize), took: Duration) {
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    let (standby, late, messages) = (&stats["standby"], &stats["lateness"], &stats["messages"]);
    let calls = stage.upstream.upstream.log.requests().len();
    story.heading(&format!("Seen: {seen} of {all} scenes in {:.0} s", took.as_secs_f64()));
    let poll = POLL.as_secs_f64();
    for line in [
        format!("{calls} model calls; agents slept {:.1} s in calls that cost nothing", number(&standby["slept"])),
        format!("{} requests saved, had they asked every {poll} s instead", number(&standby["requests_saved"])),
        format!(
            "{} deadlines fired, {} ms late in the middle, {} ms at most",
            number(&late["fired"]),
            number(&late["p50_ms"]),
            number(&late["max_ms"])
        ),
        format!(
            "{} messages told, once each; {} left to tell",
            number(&messages["delivered"]),
            number(&messages["pending"])
        ),
    ] {
        story.line(&format!("  {line}"));
    }
    if seen == all {
        story.line(
            "\nNext: `reveille setup claude-code` (or codex, opencode, gemini, cursor, cline), or just `reveille`.",
        );
    } else {
        story.line("\nSomething is wrong here: `reveille doctor` may know what. Please report it with this text.");
    }
}
