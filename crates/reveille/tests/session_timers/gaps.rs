//! The real binary, killed in every gap of a session's life and started again: the same calls, the same words, once.

use super::{
    settled,
    support::{
        endpoint::{Answer, Called, Endpoints},
        process::{Daemon, Home},
        *,
    },
};
use futures_util::future::join_all;
use reqwest::Method;
use reveille::config::Config;
use serde_json::{Value, json};

/// Killed in the middle of a call: nobody knows how it ended, so it is made again, under the same key.
#[tokio::test]
async fn a_call_that_was_under_way_when_the_server_was_killed_is_made_again() {
    let (home, endpoints) = (Home::default(), Endpoints::start().await);
    endpoints.answers("/chat-1", &[Answer::Hangs, Answer::Says(200, "ok".into())]);
    home.write_config(&format!(
        "[[agent]]\ntenant = \"acme\"\nchatbot = \"support\"\nsystem_actions = [\"notify\"]\n\
         [[agent.tools]]\nname = \"notify\"\nendpoint = \"{}/{{session}}\"\n\
         [[agent.timers]]\ntimer_id = \"t\"\ndelay_seconds = 0.05\ntool_name = \"notify\"\n",
        endpoints.url
    ));
    let mut daemon = home.serve().await;
    let body = json!({"agent": "acme:support"});
    let begun =
        send(&client(), Method::POST, &format!("{}/api/sessions/chat-1/activity", daemon.url), Some(&body), None).await;
    assert_eq!(begun.status, 200, "{}", begun.body);
    let first = endpoints.next().await;
    daemon.child.kill().await.unwrap();
    // Much later, by its own clock.
    let config = Config::load(Some(&home.config())).unwrap();
    let world = World::with(|here| {
        (here.data_dir, here.agent, here.database_url) = (home.data(), config.agent, home.database_url.clone());
    })
    .await;
    let second = endpoints.next().await;
    assert_eq!(second.header("idempotency-key"), first.header("idempotency-key"));
    has(&settled(&world, "chat-1", 1).await[0], json!({"status": "done", "attempts": 2}));
    endpoints.quiet().await;
}

/// Where the server is killed: when this has happened, and nothing after it.
const GAPS: [&str; 8] = [
    "never",
    "the user has written",
    "the agent has answered",
    "the first reminder is said",
    "the second reminder is said",
    "the hand-off has failed, and waits to be tried again",
    "the hand-off is done",
    "the session is closed",
];

/// The original's escalation, in seconds instead of minutes. The hand-off fails at first.
fn config(base: &str) -> String {
    let tool = |name: &str| format!("[[agent.tools]]\nname = \"{name}\"\nendpoint = \"{base}/{name}\"\n");
    let timer = |id: &str, delay: f64, max: u32, rest: &str| {
        format!("[[agent.timers]]\ntimer_id = \"{id}\"\ndelay_seconds = {delay}\nmax_triggers = {max}\n{rest}\n")
    };
    [
        "[[agent]]\ntenant = \"acme\"\nchatbot = \"support\"\n".to_owned(),
        "system_actions = [\"handoff_to\", \"close_conversation\"]\n".to_owned(),
        tool("handoff_to"),
        tool("close_conversation"),
        timer("idle_reminder", 1.0, 2, "tool_name = \"generate_response\"\nmessage = \"您好，请问还在吗？🙂\""),
        timer("auto_handoff", 2.5, 1, "tool_name = \"handoff_to\"\ntool_params = { type = \"unassigned\" }"),
        timer("session_timeout", 8.0, 1, "tool_name = \"close_conversation\""),
    ]
    .concat()
}

struct Life {
    home: Home,
    endpoints: Endpoints,
    daemon: Option<Daemon>,
    gap: &'static str,
}

impl Life {
    async fn begin(gap: &'static str) -> Self {
        let (home, endpoints) = (Home::default(), Endpoints::start().await);
        endpoints.answers("/handoff_to", &[Answer::Says(503, "忙".into()), Answer::Says(200, "ok".into())]);
        home.write_config(&config(&endpoints.url));
        let daemon = Some(home.serve().await);
        Self { home, endpoints, daemon, gap }
    }

    /// This has happened; here the server may be killed.
    async fn after(&mut self, what: &'static str) {
        if self.gap == what {
            self.daemon.take().expect("it runs").kill().await;
            self.daemon = Some(self.home.serve().await);
        }
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.daemon.as_ref().expect("it runs").url)
    }

    async fn activity(&self, phase: &str) {
        let body = json!({"agent": "acme:support", "phase": phase});
        let url = self.url("/api/sessions/chat-1/activity");
        let done = send(&client(), Method::POST, &url, Some(&body), None).await;
        assert_eq!(done.status, 200, "{}: {}", self.gap, done.body);
    }

    /// Waits until the session looks like this.
    async fn until(&self, what: &str, look: impl Fn(&Value) -> bool) -> Value {
        within(&format!("{}: {what}", self.gap), async {
            loop {
                let whole = send(&client(), Method::GET, &self.url("/api/sessions/chat-1"), None, None).await.body;
                if look(&whole) {
                    return whole;
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        })
        .await
    }

    async fn live(mut self) -> (Vec<Called>, Value) {
        let said = |count: usize| move |whole: &Value| list(&whole["conversation"]).len() == count;
        let call = |name: &'static str, status: &'static [&str]| {
            move |whole: &Value| {
                let is = |call: &Value| status.contains(&call["status"].as_str().unwrap_or_default());
                list(&whole["calls"]).iter().any(|call| call["target"] == name && is(call) && call["attempts"] != 0)
            }
        };
        self.activity("message").await;
        self.after("the user has written").await;
        self.activity("response").await;
        self.after("the agent has answered").await;
        self.until("one reminder", said(1)).await;
        self.after("the first reminder is said").await;
        self.until("two reminders", said(2)).await;
        self.after("the second reminder is said").await;
        let mut called = vec![self.endpoints.next().await];
        self.until("the hand-off fails", call("handoff_to", &["waiting", "done"])).await;
        self.after("the hand-off has failed, and waits to be tried again").await;
        called.push(self.endpoints.next().await);
        self.until("the hand-off is done", call("handoff_to", &["done"])).await;
        self.after("the hand-off is done").await;
        called.push(self.endpoints.next().await);
        self.until("the session is closed", |whole| whole["state"] == "closed").await;
        self.until("the last call is done", call("close_conversation", &["done"])).await;
        self.after("the session is closed").await;
        let whole = self.until("it is closed", |whole| whole["state"] == "closed").await;
        self.endpoints.quiet().await;
        (called, whole)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_lives_the_same_life_whenever_its_server_is_killed() {
    let lives = join_all(GAPS.map(|gap| async move { (gap, Life::begin(gap).await.live().await) })).await;
    for (gap, (called, whole)) in lives {
        let seen: Vec<(&str, Value)> = called.iter().map(|call| (call.path.as_str(), call.json())).collect();
        let handoff = ("/handoff_to", json!({"type": "unassigned"}));
        assert_eq!(seen, [handoff.clone(), handoff, ("/close_conversation", json!({}))], "{gap}");
        assert_eq!(called[0].header("idempotency-key"), called[1].header("idempotency-key"), "{gap}");
        assert_ne!(called[1].header("idempotency-key"), called[2].header("idempotency-key"), "{gap}");
        let said: Vec<String> = list(&whole["conversation"]).iter().map(|said| text(&said["content"])).collect();
        assert_eq!(said, ["您好，请问还在吗？🙂"; 2], "{gap}");
        let counts: Vec<(String, Value)> = list(&whole["session_timers"])
            .iter()
            .map(|timer| (text(&timer["timer_id"]), timer["trigger_count"].clone()))
            .collect();
        for (timer, count) in [("idle_reminder", 2), ("auto_handoff", 1), ("session_timeout", 1)] {
            assert!(counts.contains(&(timer.to_owned(), json!(count))), "{gap}: {counts:?}");
        }
    }
}

/// Nobody answers for it any more: its suspension runs out, and silence is counted again.
#[tokio::test]
async fn a_turn_that_died_with_its_server_is_given_up() {
    let (home, endpoints) = (Home::default(), Endpoints::start().await);
    home.write_config(&format!("{}\n[limits]\nturn = \"1s\"\n", config(&endpoints.url)));
    let life = Life { daemon: Some(home.serve().await), home, endpoints, gap: "in mid-turn" };
    life.activity("message").await;
    let Life { home, endpoints, daemon, gap } = life;
    daemon.unwrap().kill().await;
    let life = Life { daemon: Some(home.serve().await), home, endpoints, gap };
    life.until("it reminds", |whole| !list(&whole["conversation"]).is_empty()).await;
}
