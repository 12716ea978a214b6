//! One session's changes over a WebSocket: the same entries as the server-sent events, one in each text message.

use super::{
    App,
    body::{Params, Segments, session},
    events::{EventParams, Follower},
    history::Entry,
    problem::ApiError,
    serve::Place,
    sight::Sight,
};
use crate::clock::Clock;
use axum::{
    Extension,
    extract::{
        State,
        ws::{Message, WebSocket, WebSocketUpgrade, rejection::WebSocketUpgradeRejection},
    },
    http::StatusCode,
    response::Response,
};
use reveille_core::Millis;
use std::{sync::Arc, time::Duration};

/// A connection is asked this often whether it is there.
const PING: Millis = Millis::from_secs(30);
/// One that has not answered so many times is gone.
const UNANSWERED_MAX: u32 = 2;
/// So long a client may leave what it is told unread.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// Clients have nothing to say here.
const MESSAGE_BYTES_MAX: usize = 4096;

/// Follow a session over a WebSocket. Each message is an `Entry`, as on `/api/events`.
#[utoipa::path(get, path = "/api/sessions/{session}/socket", tag = "history",
    params(("session" = String, Path), EventParams), responses((status = 101, description = "A WebSocket")))]
pub async fn follow(
    State(app): State<App>,
    Segments(name): Segments<String>,
    Params(params): Params<EventParams>,
    place: Option<Extension<Place>>,
    sight: Sight,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let session = session(&name)?;
    let upgrade = upgrade.map_err(|error| {
        ApiError::new(StatusCode::UPGRADE_REQUIRED, "A WebSocket is wanted", "not_a_websocket", error.body_text())
    })?;
    let clock = app.engine.clock().clone();
    let follower = Follower::new(app, sight, Some(session), params.after).await?;
    Ok(upgrade.max_message_size(MESSAGE_BYTES_MAX).on_upgrade(|socket| async move {
        serve(socket, follower, clock).await;
        // It was a connection all the while, and took the place of one.
        drop(place);
    }))
}

/// Until either side goes.
async fn serve(mut socket: WebSocket, mut follower: Follower, clock: Arc<dyn Clock>) {
    let (mut ping, mut unanswered) = (clock.sleep(PING), 0);
    loop {
        let message = tokio::select! {
            biased;
            // First, so that nobody is taken for gone whose answer is here.
            received = socket.recv() => match received {
                None | Some(Err(_) | Ok(Message::Close(_))) => return,
                Some(Ok(_)) => {
                    unanswered = 0;
                    continue;
                }
            },
            recorded = follower.next() => {
                let Some(recorded) = recorded else { break };
                let Ok(text) = serde_json::to_string(&Entry::of(&recorded)) else { continue };
                Message::Text(text.into())
            }
            () = &mut ping => {
                if unanswered == UNANSWERED_MAX {
                    return;
                }
                (ping, unanswered) = (clock.sleep(PING), unanswered + 1);
                Message::Ping(Default::default())
            }
        };
        if !sent(&mut socket, message).await {
            return;
        }
    }
    sent(&mut socket, Message::Close(None)).await;
}

async fn sent(socket: &mut WebSocket, message: Message) -> bool {
    matches!(tokio::time::timeout(SEND_TIMEOUT, socket.send(message)).await, Ok(Ok(())))
}
