//! A Claude Code channel: a small MCP server over stdio that pushes messages into a running session.
//!
//! Channels need the old handshake and no tools, hence an entry of its own beside `reveille mcp`. Claude Code does not
//! acknowledge what it is sent, and drops it silently unless it was started with this channel: what was written counts as
//! told.

use super::{
    Common, Done, Failure,
    fetch::Fetched,
    presence::{self, Holder, Signal},
};
use clap::Args;
use serde_json::{Value, json};
use std::{
    io::{BufRead, Write},
    process::ExitCode,
};
use tokio::sync::mpsc;

const KIND: &str = "claude-code";
/// Spoken to clients that ask for something newer, which cannot carry channels.
const PROTOCOL: &str = "2025-11-25";
const PROTOCOLS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", PROTOCOL];
const METHOD_NOT_FOUND: i64 = -32601;
const INSTRUCTIONS: &str = "Messages from Reveille arrive as <channel source=\"reveille\">: a timer you set has ended. \
                            Carry out the mission it names.";

#[derive(Args)]
pub struct ChannelArgs {
    /// The session whose messages are pushed [default: the one Claude Code names]
    #[arg(long, short, env = "REVEILLE_SESSION")]
    session: Option<String>,
}

/// Serves the channel until the client closes stdin.
pub fn run(common: &Common, args: ChannelArgs) -> Done {
    let own = || std::env::var("CLAUDE_CODE_SESSION_ID").ok();
    let session = args.session.or_else(own).filter(|session| !session.trim().is_empty());
    let session = session.ok_or_else(|| Failure::Refused("no session is named; use --session".into()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut lines = lines();
        while let Some(line) = lines.recv().await {
            let Ok(request) = serde_json::from_str::<Value>(&line) else { continue };
            if let Some(answer) = answer(&request) {
                write(&answer)?;
            }
            if request["method"] == "notifications/initialized" {
                break;
            }
        }
        tokio::select! {
            done = push(common, &session, |text| write(&notification(text, &session))) => done?,
            done = serve(&mut lines) => done?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Hands every text to `tell` and commits what it has told.
pub async fn push(common: &Common, session: &str, tell: impl Fn(&str) -> std::io::Result<()>) -> Result<(), Failure> {
    let holder = Holder { session, kind: KIND, name: "channel", patient: true, patience: None };
    presence::follow(&holder, common, async |client, signal| {
        match signal {
            Signal::Idle => {}
            Signal::Replaced => return Ok(Some(())),
            Signal::Messages => {
                if let Some(fetched) = Fetched::lease(client, session, "channel").await? {
                    match tell(&fetched.text) {
                        Ok(()) => fetched.commit(client).await?,
                        Err(_) => fetched.release(client).await?,
                    };
                }
            }
        }
        Ok(None)
    })
    .await
}

/// Answers the little a client asks of a server without tools. Ends with stdin.
async fn serve(lines: &mut mpsc::Receiver<String>) -> std::io::Result<()> {
    while let Some(line) = lines.recv().await {
        if let Some(answer) = serde_json::from_str(&line).ok().as_ref().and_then(answer) {
            write(&answer)?;
        }
    }
    Ok(())
}

/// `None` for notifications.
fn answer(request: &Value) -> Option<Value> {
    let id = request.get("id")?;
    let result = match request["method"].as_str()? {
        "initialize" => {
            let asked = request["params"]["protocolVersion"].as_str().unwrap_or_default();
            json!({
                "protocolVersion": PROTOCOLS.into_iter().find(|known| *known == asked).unwrap_or(PROTOCOL),
                "capabilities": {"experimental": {"claude/channel": {}}},
                "serverInfo": {"name": "reveille", "version": env!("CARGO_PKG_VERSION")},
                "instructions": INSTRUCTIONS,
            })
        }
        "ping" => json!({}),
        "tools/list" => json!({"tools": []}),
        // Also for `server/discover`, by which newer clients find out that this server is of the older kind.
        method => {
            let error = json!({"code": METHOD_NOT_FOUND, "message": format!("no method '{method}'")});
            return Some(json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn notification(text: &str, session: &str) -> Value {
    let params = json!({"content": text, "meta": {"session": session}});
    json!({"jsonrpc": "2.0", "method": "notifications/claude/channel", "params": params})
}

fn write(message: &Value) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{message}")?;
    out.flush()
}

/// Lines of stdin, read on a thread that ends with the process.
fn lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
