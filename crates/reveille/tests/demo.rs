//! The demo as a newcomer runs it: every scene is seen, in words and as JSON, and nothing is left behind. Time is real
//! here: half a minute of it.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::{fs, path::PathBuf, process::Stdio, time::Duration};
use support::{
    has, list,
    process::{Home, Ran},
    text,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
    time::timeout,
};

/// The story takes about twenty seconds; a busy machine may need more.
const STORY: Duration = Duration::from_secs(180);

/// A home with a place for temporary files, all of whose content is the demo's.
struct Newcomer {
    home: Home,
    temporary: PathBuf,
}

impl Newcomer {
    fn arrives() -> Self {
        let home = Home::default();
        let temporary = home.dir.path().join("tmp");
        fs::create_dir(&temporary).unwrap();
        Self { home, temporary }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.home.command(arguments);
        command.env("TMPDIR", &self.temporary).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    async fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(&timeout(STORY, self.command(arguments).output()).await.expect("it ends by itself").unwrap())
    }

    fn finds_nothing(&self) {
        let left: Vec<_> = fs::read_dir(&self.temporary).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "left behind: {left:?}");
        assert!(!self.home.data().exists() && !self.home.config().exists(), "the user's own places are not touched");
    }
}

#[tokio::test]
async fn every_scene_is_seen() {
    let newcomer = Newcomer::arrives();
    let ran = newcomer.run(&["demo", "--json"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let seen = ran.json();
    has(&seen, json!({"ok": true}));
    let scenes = list(&seen["scenes"]);
    let names: Vec<String> = scenes.iter().map(|scene| text(&scene["name"])).collect();
    assert_eq!(names, ["wait", "mission", "reminder", "streams", "chatbot"]);
    let facts = |place: usize| &scenes[place]["seen"];
    has(facts(0), json!({"outcome": "met", "model_calls": 2}));
    assert!(text(&facts(0)["seen"]).ends_with("takes connections"), "{}", facts(0));
    assert!(facts(0)["asleep_seconds"].as_f64().unwrap() > 3.0, "{}", facts(0));
    assert!(text(&facts(1)["woken_with"]).contains("[Timer Completed]"), "{}", facts(1));
    has(facts(1), json!({"left_to_tell": 0}));
    has(facts(2), json!({"model_calls": 3}));
    assert!(text(&facts(2)["last_words"]).contains("构建成功 ✅"), "{}", facts(2));
    assert!(text(&facts(3)["error"]).contains("idle timeout after 1000 ms"), "{}", facts(3));
    has(facts(4), json!({"steps": ["reminded", "handed off", "closed"], "state": "closed"}));
    assert!(seen["figures"]["standby"]["requests_saved"].as_i64().unwrap() > 5, "{seen}");
    has(&seen["figures"]["messages"], json!({"pending": 0}));
    newcomer.finds_nothing();
}

#[tokio::test]
async fn it_is_told_in_plain_words_where_there_is_no_terminal() {
    let newcomer = Newcomer::arrives();
    let ran = newcomer.run(&["demo"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!ran.out.contains('\u{1b}'), "no colours without a terminal");
    for words in [
        "1. An agent waits for a server",
        "2. A mission comes due",
        "3. A reminder lands in a held stream",
        "4. A stalled stream is cut, a live one is not",
        "5. A chatbot's session is reminded, handed off, closed",
        "Seen: 5 of 5 scenes",
        "requests saved",
        "reveille setup claude-code",
    ] {
        assert!(ran.out.contains(words), "{words}: {}", ran.out);
    }
    assert_eq!(ran.err, "");
    newcomer.finds_nothing();
}

#[tokio::test]
async fn ctrl_c_leaves_nothing_behind() {
    let newcomer = Newcomer::arrives();
    let mut child = newcomer.command(&["demo"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // In the middle of a scene: an agent sleeps.
    while let Some(line) = timeout(STORY, lines.next_line()).await.expect("it begins").unwrap() {
        if line.contains("timer {") {
            break;
        }
    }
    kill_process(Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap(), Signal::INT).unwrap();
    let code = timeout(STORY, child.wait()).await.expect("it ends").unwrap().code();
    assert_eq!(code, Some(130));
    newcomer.finds_nothing();
}
