//! The Claude Code channel as its client runs it: the old handshake over stdio, then notifications.

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::{Value, json};
use std::process::Stdio;
use support::{process::Home, *};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
};

struct Client {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Client {
    fn start(home: &Home) -> Self {
        let mut command = home.command(&["channel"]);
        command.env("CLAUDE_CODE_SESSION_ID", "s").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, stdin, lines: BufReader::new(stdout).lines() }
    }

    async fn send(&mut self, message: Value) {
        self.stdin.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        let line = within("a message", self.lines.next_line()).await.unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

#[tokio::test]
async fn messages_are_pushed_into_the_session_and_counted_as_told() {
    let home = Home::default();
    let daemon = home.serve().await;
    let mut client = Client::start(&home);
    client.send(json!({"jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": {}})).await;
    assert_eq!(client.next().await["error"]["code"], -32601, "so that the client falls back to the old handshake");
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x"}});
    client.send(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})).await;
    let hello = client.next().await;
    assert_eq!(hello["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(hello["result"]["capabilities"], json!({"experimental": {"claude/channel": {}}}));
    client.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    client.send(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})).await;
    assert_eq!(client.next().await["result"], json!({"tools": []}));

    for word in ["first", "second"] {
        let made = home.run(&["--json", "timer", "10ms", "--mission", word, "--session", "s"]).await.json();
        let pushed = client.next().await;
        assert_eq!(pushed["method"], "notifications/claude/channel");
        assert_eq!(pushed["params"]["meta"], json!({"session": "s"}));
        let content = text(&pushed["params"]["content"]);
        assert!(content.contains(&id(&made)) && content.contains(word), "{content}");
    }
    let path = format!("{}/api/history?session=s&event=message.delivered", daemon.url);
    within("both are committed", async {
        loop {
            let entries: Value = client_get(&path).await;
            let entries = list(&entries["entries"]);
            if entries.len() == 2 {
                assert!(entries.iter().all(|entry| entry["data"]["channel"] == "channel"));
                return;
            }
        }
    })
    .await;
    drop(client.stdin);
    assert_eq!(within("it ends", client.child.wait()).await.unwrap().code(), Some(0));
}

async fn client_get(url: &str) -> Value {
    support::client().get(url).send().await.unwrap().json().await.unwrap()
}
