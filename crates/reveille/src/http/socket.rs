//! One session's changes over a WebSocket: the same entries as the server-sent events, one in each text message.

use super::{
    App,
    body::{Params, Segments, session},
    events::{EventParams, Follower},
    history::Entry,
    problem::ApiError,
};
use axum::{
    extract::{
        State,
        ws::{Message, WebSocket, WebSocketUpgrade, rejection::WebSocketUpgradeRejection},
    },
    http::StatusCode,
    response::Response,
};
use std::time::Duration;

/// A connection that says nothing is asked this often whether it is there.
const PING: Duration = Duration::from_secs(30);
/// Clients have nothing to say here.
const MESSAGE_BYTES_MAX: usize = 4096;

/// Follow a session over a WebSocket. Each message is an `Entry`, as on `/api/events`.
#[utoipa::path(get, path = "/api/sessions/{session}/socket", tag = "history",
    params(("session" = String, Path), EventParams), responses((status = 101, description = "A WebSocket")))]
pub async fn follow(
    State(app): State<App>,
    Segments(name): Segments<String>,
    Params(params): Params<EventParams>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let session = session(&name)?;
    let upgrade = upgrade.map_err(|error| {
        ApiError::new(StatusCode::UPGRADE_REQUIRED, "A WebSocket is wanted", "not_a_websocket", error.body_text())
    })?;
    let follower = Follower::new(app, Some(session), params.after).await?;
    Ok(upgrade.max_message_size(MESSAGE_BYTES_MAX).on_upgrade(|socket| serve(socket, follower)))
}

/// Until either side goes.
async fn serve(mut socket: WebSocket, mut follower: Follower) {
    let mut ping = tokio::time::interval(PING);
    ping.reset();
    loop {
        tokio::select! {
            recorded = follower.next() => {
                let Some(recorded) = recorded else { break };
                let Ok(text) = serde_json::to_string(&Entry::of(&recorded)) else { continue };
                if socket.send(Message::Text(text.into())).await.is_err() {
                    return;
                }
            }
            received = socket.recv() => match received {
                None | Some(Err(_) | Ok(Message::Close(_))) => return,
                Some(Ok(_)) => {}
            },
            _ = ping.tick() => {
                if socket.send(Message::Ping(Default::default())).await.is_err() {
                    return;
                }
            }
        }
    }
    let _ = socket.send(Message::Close(None)).await;
}
