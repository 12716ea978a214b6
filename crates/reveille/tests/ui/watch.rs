//! `reveille watch` in a real terminal: tmux gives it one, presses its keys and reads its screen.

use super::{
    Other,
    browser::install,
    support::process::{BINARY, Home},
};
use serde_json::json;
use std::{
    process::Command,
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_secs(60);

struct Terminal {
    socket: String,
}

impl Terminal {
    /// A terminal of its own, in which this command runs.
    fn open(home: &Home, command: &str) -> Self {
        install(&["tmux"], &["tmux"]);
        let terminal = Self { socket: home.dir.path().join("tmux").display().to_string() };
        let dir = home.dir.path().display();
        let line = format!(
            "env HOME={dir} XDG_DATA_HOME={dir}/data XDG_CONFIG_HOME={dir}/config {BINARY} {command}; echo ended $?; exec cat"
        );
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "130", "-y", "20", &line]);
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux")
            .env("LC_ALL", "C.UTF-8")
            .env("TERM", "xterm-256color")
            .arg("-u")
            .args(["-S", &self.socket])
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "tmux {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    async fn until(&self, what: &str, fits: impl Fn(&str) -> bool) -> String {
        let began = Instant::now();
        loop {
            let screen = self.tmux(&["capture-pane", "-p"]);
            if fits(&screen) {
                return screen;
            }
            assert!(began.elapsed() < PATIENCE, "never: {what}\n{screen}");
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-S", &self.socket, "kill-server"]).output();
    }
}

#[tokio::test]
async fn timers_are_watched_and_handled_in_a_terminal() {
    let home = Home::default();
    let server = home.serve().await;
    let other = Other::of(&server.url);
    let first = other.mission("builder", 300, "look at the build").await;
    let terminal = Terminal::open(&home, "watch");
    let screen = terminal.until("the list", |screen| screen.contains("look at the build")).await;
    assert!(screen.contains("1 live") && screen.contains("builder") && screen.contains("░"), "{screen}");
    terminal
        .until("the time goes on", |screen| {
            screen.contains("4m 58s") || screen.contains("4m 57s") || screen.contains("4m 56s")
        })
        .await;

    // What others do appears by itself.
    let second = other.mission("巡检", 900, "检查备份").await;
    terminal.until("the second", |screen| screen.contains("检查备份") && screen.contains("2 live")).await;

    terminal.keys(&["p"]);
    terminal.until("it asks for how long", |screen| screen.contains("Pause it for") && screen.contains(&first)).await;
    terminal.keys(&["Enter"]);
    terminal.until("it is paused", |screen| screen.contains("paused")).await;
    assert_eq!(other.get(&format!("/api/timers/{first}")).await["status"], "paused");

    // A paused one moves down the list, and stays selected.
    terminal.keys(&["r"]);
    terminal.until("it asks", |screen| screen.contains("Resume it")).await;
    terminal.keys(&["Enter"]);
    terminal.until("it counts again", |screen| !screen.contains("paused")).await;
    terminal.keys(&["c"]);
    terminal.until("it asks", |screen| screen.contains("in the background. Reason")).await;
    terminal.keys(&["Enter"]);
    terminal
        .until("it is in the background", |screen| screen.contains("background ") && screen.contains("cancel done"))
        .await;

    terminal.keys(&["j", "s"]);
    terminal.until("it asks", |screen| screen.contains("Stop it for good")).await;
    terminal.keys(&["enough", "Enter"]);
    terminal.until("it is gone", |screen| !screen.contains("检查备份") && screen.contains("1 live")).await;
    let stopped = other.get(&format!("/api/timers/{second}")).await;
    assert_eq!((stopped["status"].as_str(), stopped["stop_reason"].as_str()), (Some("stopped"), Some("enough")));

    server.kill().await;
    terminal.until("it says so", |screen| screen.contains("not connected")).await;
    terminal.keys(&["q"]);
    terminal.until("the screen is given back", |screen| screen.contains("ended 0") && !screen.contains("live")).await;
}

#[tokio::test]
async fn reminders_and_session_timers_are_watched_too() {
    let home = Home::default();
    let server = home.serve().await;
    let other = Other::of(&server.url);
    let config = json!({"timers": [{"timer_id": "idle", "delay_seconds": 900, "tool_name": "generate_response", "message": "还在吗"}]});
    other.put("/api/agents/acme/support", config).await;
    let terminal = Terminal::open(&home, "watch");
    terminal.until("nothing is live", |screen| screen.contains("0 live")).await;
    other.post("/api/sessions/chat/activity", json!({"agent": "acme:support", "phase": "message"})).await;
    let screen = terminal.until("the session timer", |screen| screen.contains("idle → generate_response")).await;
    assert!(
        screen.contains("session timer") && screen.contains("suspended") && screen.contains("answering"),
        "{screen}"
    );
    other.post("/api/sessions/chat/activity", json!({"phase": "response"})).await;
    terminal.until("it is armed", |screen| screen.contains("pending") && screen.contains("14m 5")).await;
    let made = other.post("/api/reminders", json!({"session": "ops", "task": "检查备份 🙂", "in": "5m"})).await;
    terminal.until("the reminder", |screen| screen.contains("检查备份") && screen.contains("scheduled")).await;

    // Keys that do not apply say so, and change nothing.
    terminal.keys(&["s"]);
    terminal.until("why not", |screen| screen.contains("a session timer follows its agent's configuration")).await;
    terminal.keys(&["k", "p"]);
    terminal.until("why not", |screen| screen.contains("cannot be paused; c cancels it")).await;
    terminal.keys(&["c"]);
    terminal.until("it asks", |screen| screen.contains("Cancel the reminder")).await;
    terminal.keys(&["Enter"]);
    terminal.until("it is gone", |screen| !screen.contains("检查备份") && screen.contains("1 live")).await;
    let reminder = other.get(&format!("/api/reminders?id={}", made["taskId"].as_str().unwrap())).await;
    assert_eq!(reminder["reminders"][0]["status"], "cancelled");
    assert_eq!(other.get("/api/session_timers").await["session_timers"][0]["status"], "pending");

    let line = home.run(&["ls", "--status-line"]).await.json();
    assert_eq!(
        (&line["live"], &line["session_timers"], &line["next"]["kind"]),
        (&json!(1), &json!(1), &json!("session_timer"))
    );
    assert!(line["text"].as_str().unwrap().contains("idle"), "{line}");
}

#[tokio::test]
async fn a_timer_shows_its_progress() {
    let home = Home::default();
    let _server = home.serve().await;
    let terminal = Terminal::open(&home, "timer 3s --reason 等待构建");
    terminal.until("a bar", |screen| screen.contains("等待构建") && screen.contains("█")).await;
    terminal.until("its end", |screen| screen.contains("completed") && screen.contains("ended 0")).await;
}

#[tokio::test]
async fn more_than_is_read_is_counted() {
    let home = Home::default();
    let server = home.serve().await;
    super::lists::fill(&server.url, 0, 1010).await;
    let terminal = Terminal::open(&home, "watch");
    terminal.until("all are counted", |screen| screen.contains("1010 live")).await;
    let line = home.run(&["ls", "--status-line"]).await.json();
    assert_eq!((&line["live"], &line["timers"], &line["or_more"]), (&json!(1010), &json!(1010), &json!(false)));
}
