//! More clients than one would like: ten thousand connections, none that read, and no descriptors left.

use crate::support::{
    process::{BINARY, Daemon, Home},
    *,
};
use reqwest::Method;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const CROWD: usize = 10_000;
/// What a stream on which nothing happens may cost.
const BYTES_EACH_MAX: u64 = 20 * 1024;

fn address(daemon: &Daemon) -> String {
    daemon.url.trim_start_matches("http://").to_owned()
}

async fn healthy(daemon: &Daemon, session: &str) {
    let body = json!({"total_duration": 1000, "mission": "m"});
    let url = format!("{}/api/sessions/{session}/tools/timer", daemon.url);
    let answer = within("others are served", send(&client(), Method::POST, &url, Some(&body), None)).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
}

async fn files_are(daemon: &Daemon, most: usize) {
    within("the descriptors are given back", async {
        while daemon.files() > most {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn ten_thousand_connections_are_borne_and_forgotten() {
    let limit = getrlimit(Resource::Nofile);
    let needed = CROWD as u64 + 500;
    assert!(limit.maximum.is_none_or(|maximum| maximum >= needed), "this test needs {needed} descriptors: ulimit -Hn");
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum.or(Some(needed)), ..limit }).unwrap();
    let home = Home::default();
    // With few descriptors at first, as most systems give: the server asks for more.
    let mut command = home.wrap("sh");
    command.args(["-c", "ulimit -Sn 1024; exec \"$0\" serve --listen 127.0.0.1:0", BINARY]);
    let daemon = Daemon::start(command).await;
    healthy(&daemon, "before").await;
    let (files, memory) = (daemon.files(), daemon.memory());
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        let mut stream = within("a connection", TcpStream::connect(address(&daemon))).await.unwrap();
        stream.write_all(b"GET /api/events HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        crowd.push(stream);
    }
    within("all are accepted", async {
        // A few that were open before may have been closed since.
        while daemon.files() + 50 < files + CROWD {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    healthy(&daemon, "meanwhile").await;
    let each = daemon.memory().saturating_sub(memory) / CROWD as u64;
    println!("{CROWD} streams: {each} bytes each");
    assert!(each < BYTES_EACH_MAX, "{each} bytes for each connection");
    drop(crowd);
    files_are(&daemon, files + 50).await;
    healthy(&daemon, "after").await;
    assert_eq!(daemon.terminate().await, Some(0));
}

#[tokio::test]
async fn without_descriptors_clients_wait_and_timers_fire() {
    let home = Home::default();
    let mut command = home.wrap("sh");
    command.args(["-c", "ulimit -n 64; exec \"$0\" serve --listen 127.0.0.1:0", BINARY]);
    let daemon = Daemon::start(command).await;
    let http = client();
    let body = json!({"total_duration": 2, "mission": "m"});
    let url = format!("{}/api/sessions/s/tools/timer", daemon.url);
    let made = send(&http, Method::POST, &url, Some(&body), None).await;
    let timer = id(&made.body);
    let mut crowd = Vec::new();
    for _ in 0..120 {
        // The kernel takes them; the server cannot.
        crowd.push(within("a connection", TcpStream::connect(address(&daemon))).await.unwrap());
    }
    // The connection that was there before is served, and time goes on.
    within("the timer fires without descriptors", async {
        loop {
            let read = send(&http, Method::GET, &format!("{}/api/timers/{timer}", daemon.url), None, None).await;
            if read.body["status"] == "completed" {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    drop(crowd);
    healthy(&daemon, "after").await;
    assert_eq!(daemon.terminate().await, Some(0));
}

/// Followers that never read cost a bounded amount; one that begins to gets everything, in order.
#[tokio::test]
async fn slow_readers_hold_up_nobody() {
    let home = Home::default();
    let daemon = home.serve().await;
    healthy(&daemon, "before").await;
    let memory = daemon.memory();
    let mut followers = Vec::new();
    for _ in 0..30 {
        let mut stream = TcpStream::connect(address(&daemon)).await.unwrap();
        stream.write_all(b"GET /api/events?after=0 HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        followers.push(stream);
    }
    let http = client();
    let text = "话".repeat(3900);
    for number in 0..600 {
        let body = json!({"total_duration": 100_000, "mission": text});
        let url = format!("{}/api/sessions/s{}/tools/timer", daemon.url, number / 90);
        let answer = within("creation", send(&http, Method::POST, &url, Some(&body), None)).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    let grown = daemon.memory().saturating_sub(memory);
    println!("30 followers that do not read, 7 MB of events: {} KB more", grown / 1024);
    assert!(grown < 100 << 20, "{grown} bytes more");
    let mut slow = followers.pop().unwrap();
    let (mut heard, mut buffer) = (String::new(), vec![0; 1 << 16]);
    within("the slow one catches up", async {
        while heard.matches("\"event\":\"timer.created\"").count() < 601 {
            let read = slow.read(&mut buffer).await.unwrap();
            assert!(read > 0, "the stream ended");
            heard.push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
    })
    .await;
    let numbers: Vec<i64> =
        heard.lines().filter_map(|line| line.strip_prefix("id:")).filter_map(|id| id.trim().parse().ok()).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "something was left out or told twice");
    assert_eq!(daemon.terminate().await, Some(0));
}
