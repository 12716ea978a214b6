//! Hears other nodes' hints: by LISTEN on a connection of its own, or by looking often where there is no such thing.

use super::{
    lane::{Lane, prepare, words},
    options::Target,
    relay::Relay,
};
use std::{future::poll_fn, time::Duration};
use tokio_postgres::AsyncMessage;

const RECONNECT_EVERY: Duration = Duration::from_millis(500);

/// Runs until it is dropped.
pub async fn listen(target: &Target, relay: &Relay) {
    loop {
        if let Err(error) = listen_once(target, relay).await {
            // The heartbeat looks every second meanwhile.
            tracing::debug!(error = %words(&error), "the listening connection ended; connecting again");
        }
        tokio::time::sleep(RECONNECT_EVERY).await;
    }
}

async fn listen_once(target: &Target, relay: &Relay) -> Result<(), tokio_postgres::Error> {
    let (client, mut connection) = target.config.connect(target.tls.clone()).await?;
    let begin = async {
        prepare(&client, target).await?;
        client.batch_execute("LISTEN reveille").await
    };
    let mut begin = std::pin::pin!(begin);
    let mut begun = false;
    loop {
        tokio::select! {
            biased;
            done = &mut begin, if !begun => {
                done?;
                begun = true;
            }
            message = poll_fn(|context| connection.poll_message(context)) => match message {
                Some(Ok(AsyncMessage::Notification(hint))) => relay.heard(hint.payload()),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return Ok(()),
            },
        }
    }
}

/// Looks instead of listening. Runs until it is dropped.
pub async fn poll(lane: &Lane, server: i64, every: Duration, relay: &Relay) {
    loop {
        tokio::time::sleep(every).await;
        if let Ok(rows) = lane.read("SELECT commits FROM reveille.servers WHERE num = $1", &[&server]).await
            && let Some(row) = rows.first()
        {
            relay.exists(row.get(0));
        }
    }
}
