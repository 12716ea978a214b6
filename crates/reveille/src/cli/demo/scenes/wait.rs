//! An agent waits for a server: one call, which returns as soon as the server listens. Nobody asks a model meanwhile.

use super::super::{
    agent::Agent,
    stage::{POLL, Stage},
    story::{Story, Who},
};
use anyhow::ensure;
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};
use tokio::net::{TcpListener, TcpSocket};

const SESSION: &str = "deploy";
/// How long the server takes to start.
const STARTS_AFTER: Duration = Duration::from_millis(4800);

pub async fn play(stage: &Stage, story: &Story) -> anyhow::Result<Value> {
    // Bound, so that nobody else has the port; connections are refused until it listens.
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let asked = format!("Deploy, and go on when {} is up.", socket.local_addr()?);
    let agent = Agent::new(stage, story, SESSION);
    let (turn, (listens, _listener)) = tokio::try_join!(agent.turn(&asked), deploy(story, socket))?;

    let [waited] = &turn.steps[..] else { anyhow::bail!("the agent ran {} tools", turn.steps.len()) };
    ensure!(waited.result["outcome"] == "met", "the call ended otherwise: {}", waited.result);
    ensure!(turn.said.contains("up"), "the model said: {}", turn.said);
    let asleep = waited.ended - waited.began;
    let (woken, polls) = (waited.ended - listens, asleep.as_millis() / POLL.as_millis());
    let poll = POLL.as_secs_f64();
    story.seen(&format!(
        "asleep {:.1} s in one call, woken {} ms after the server listened; {} model calls (asking every {poll} s: {polls} more)",
        asleep.as_secs_f64(),
        woken.as_millis(),
        turn.model_calls,
    ));
    Ok(json!({
        "asleep_seconds": asleep.as_secs_f64(), "woken_after_ms": woken.as_millis(), "model_calls": turn.model_calls,
        "polls_saved": polls, "outcome": waited.result["outcome"], "seen": waited.result["seen"],
    }))
}

/// The deployment: starts the server, and tells nobody.
async fn deploy(story: &Story, socket: TcpSocket) -> anyhow::Result<(Instant, TcpListener)> {
    tokio::time::sleep(STARTS_AFTER).await;
    let (listener, listens) = (socket.listen(8)?, Instant::now());
    story.says(Who::World, "the server listens, and tells nobody");
    Ok((listens, listener))
}
