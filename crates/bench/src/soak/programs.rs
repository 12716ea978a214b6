//! Programs around the server: wake commands that it starts, and commands and hooks that speak to it.

use super::door::Door;
use crate::child::beside;
use anyhow::{Context, ensure};
use serde_json::{Value, json};
use std::{path::PathBuf, process::Stdio, time::Duration};
use tokio::{io::AsyncWriteExt, process::Command};

/// A process tells nobody that it is done.
const LOOK: Duration = Duration::from_millis(20);
/// Starting a program is dear; a person does not do it more often.
const PAUSE: Duration = Duration::from_millis(500);

/// A mission ends with nobody there: the command has to find its message on stdin, and leave it on the desk.
pub async fn woken(door: Door, desk: PathBuf, number: usize) {
    let session = format!("soak-sleeper-{number}");
    let (path, told) = (format!("/api/sessions/{session}/tools/timer"), desk.join(&session));
    while door.goes_on().await {
        let Some(made) = door.ask("tools", &path, json!({"total_duration": 0.2, "mission": "wake up"})).await else {
            continue;
        };
        let woken = async {
            let timer = made["timer_id"].as_str().context("no timer")?;
            while !std::fs::read_to_string(&told).is_ok_and(|said| said.contains(timer)) {
                tokio::time::sleep(LOOK).await;
            }
            Ok(())
        };
        door.noted("woken", &session, woken).await;
    }
}

async fn reveille(door: &Door, arguments: &[&str], stdin: &str) -> anyhow::Result<String> {
    let mut command = Command::new(beside("reveille")?);
    command.args(arguments).args(["--url", &format!("http://{}", door.address)]).kill_on_drop(true);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    child.stdin.take().context("no stdin")?.write_all(stdin.as_bytes()).await?;
    let output = child.wait_with_output().await?;
    ensure!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

pub async fn commands(door: Door) {
    while door.goes_on().await {
        let listed = async {
            let said = reveille(&door, &["ls", "--json"], "").await?;
            serde_json::from_str::<Value>(&said).with_context(|| said.clone())?;
            let said = reveille(&door, &["timer", "200ms", "--reason", "tea", "--session", "soak-cli", "--json"], "");
            let ended: Value = serde_json::from_str(&said.await?)?;
            ensure!(ended["outcome"] == "completed", "{ended}");
            Ok(())
        };
        door.noted("cli", "ls, timer", listed).await;
        tokio::time::sleep(PAUSE).await;
    }
}

/// A client asks at the end of its turn, and is told of the mission that has ended.
pub async fn hooks(door: Door) {
    let input = json!({"session_id": "soak-hook", "hook_event_name": "Stop", "stop_hook_active": false}).to_string();
    while door.goes_on().await {
        let mission = json!({"total_duration": 0.1, "mission": "look at it"});
        let Some(made) = door.ask("tools", "/api/sessions/soak-hook/tools/timer", mission).await else { continue };
        let told = async {
            let timer = made["timer_id"].as_str().context("no timer")?;
            while !reveille(&door, &["hook", "claude-code", "stop"], &input).await?.contains(timer) {
                tokio::time::sleep(PAUSE).await;
            }
            Ok(())
        };
        door.noted("hooks", "stop", told).await;
    }
}
