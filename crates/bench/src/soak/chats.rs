//! Sessions of agents: timers that fire at endpoints and close the session, signed webhooks and a WebSocket that tell of
//! it; and agents that the server runs itself.

use super::{
    door::{Ask, Door},
    gateway::Api,
    stage::{Endpoints, Told},
};
use anyhow::{Context, bail};
use futures_util::{SinkExt, StreamExt};
use hyper::Method;
use serde_json::{Value, json};
use tokio::{net::TcpStream, sync::mpsc::UnboundedReceiver};
use tokio_tungstenite::WebSocketStream;

/// After so many turns a session is closed, and begins anew.
const TURNS: u64 = 20;

/// One session's life, over and over: somebody speaks, and then is silent until it is closed.
pub async fn chat(door: Door, endpoints: Endpoints, number: usize) {
    let session = format!("soak-chat-{number}");
    let mut told = endpoints.of(&session);
    let mut round = 0;
    while door.goes_on().await {
        round += 1;
        let Some(mut socket) = door.noted("sockets", &session, socket(&door, &session)).await else { continue };
        let path = format!("/api/sessions/{session}/activity");
        if door.ask("activity", &path, json!({"agent": "soak:chatbot", "text": "你好"})).await.is_none() {
            continue;
        }
        door.noted("endpoints", &session, note(&mut told)).await;
        door.noted("webhooks", &session, closed(&mut told)).await;
        let heard = async {
            heard(&mut socket).await?;
            // Some say that they go, some do not.
            if round % 2 == 0 {
                socket.close(None).await?;
            }
            Ok(())
        };
        door.noted("sockets", &session, heard).await;
    }
}

async fn socket(door: &Door, session: &str) -> anyhow::Result<WebSocketStream<TcpStream>> {
    let stream = TcpStream::connect(&door.address).await?;
    let url = format!("ws://{}/api/sessions/{session}/socket", door.address);
    Ok(tokio_tungstenite::client_async(url, stream).await?.0)
}

/// The tool was called, and once; webhooks may have come before.
async fn note(told: &mut UnboundedReceiver<Told>) -> anyhow::Result<()> {
    loop {
        match told.recv().await.context("nobody tells")? {
            Told::Note => return Ok(()),
            Told::Hook(_) => {}
            Told::Forged => bail!("a signature that is not ours"),
        }
    }
}

/// Until the webhook that tells of the session's end, which comes last.
async fn closed(told: &mut UnboundedReceiver<Told>) -> anyhow::Result<()> {
    loop {
        match told.recv().await.context("nobody tells")? {
            Told::Hook(kind) if kind == "session.closed" => return Ok(()),
            Told::Hook(_) => {}
            Told::Note => bail!("the tool was called twice"),
            Told::Forged => bail!("a signature that is not ours"),
        }
    }
}

/// The timers' firings, then the end.
async fn heard(socket: &mut WebSocketStream<TcpStream>) -> anyhow::Result<()> {
    let mut fired = 0;
    while let Some(message) = socket.next().await {
        let message = message?;
        if message.is_ping() {
            socket.flush().await?;
        }
        let Ok(text) = message.into_text() else { continue };
        let entry: Value = serde_json::from_str(&text).unwrap_or_default();
        match entry["event"].as_str() {
            Some("session_timer.triggered") => fired += 1,
            Some("session.closed") if fired == 3 => return Ok(()),
            Some("session.closed") => bail!("closed after {fired} firings"),
            _ => {}
        }
    }
    bail!("the socket ended by itself")
}

/// Turns of an agent, each with a call of its tool, as one answer and as a stream.
pub async fn queries(door: Door, api: Api) {
    let session = format!("soak-turns-{}", api.name());
    let path = format!("/api/agents/soak/{}/sessions/{session}/query", api.name());
    let mut round = 0;
    while door.goes_on().await {
        round += 1;
        let said = format!("Found {round}.");
        let script = json!({
            "steps": [{"tool": {"name": "look", "arguments": {}}}], "then": [{"steps": [{"text": said}]}],
        });
        let stream = round % 2 == 0;
        let body = json!({"message": format!("script:{script}"), "stream": stream});
        let ask = Ask::post(&path, &body).with("accept", if stream { "text/event-stream" } else { "application/json" });
        let words = if stream { ["event: message", said.as_str()] } else { ["content", said.as_str()] };
        door.hears("turns", ask, &words).await;
        if round % TURNS == 0 {
            let path = format!("/api/sessions/{session}");
            door.send("sessions", Ask { method: Method::DELETE, ..Ask::get(&path) }).await;
        }
    }
}
