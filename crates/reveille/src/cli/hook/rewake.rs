//! The background waiter of Claude Code's `asyncRewake`: ends with exit code 2 and a text on stderr when there is a
//! message, which wakes the idle session; silently with 0 when there is nothing to wait for any more.

use super::{HookArgs, HookClient, HookEvent, connect, settle, within};
use crate::cli::{
    Common, Done, Failure,
    fetch::Fetched,
    presence::{Presence, Signal},
};
use reveille_core::{Millis, duration};
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::json;
use std::{io::Write, process::ExitCode, time::Duration};

const WAIT_MAX: Millis = Millis::from_secs(366 * 24 * 3600);
/// What Claude Code takes for "wake the model with what is on stderr".
const WAKE: u8 = 2;
/// A server that was never reached is given this many tries; one that was is waited for until the time is over.
const FIRST_TRIES: u32 = 3;
const RECONNECT_FIRST: Duration = Duration::from_millis(200);
const RECONNECT_MAX: Duration = Duration::from_secs(5);

pub async fn run(common: &Common, args: &HookArgs, session: &str) -> Done {
    if args.client != HookClient::ClaudeCode {
        return Err(Failure::Refused("only Claude Code has hooks that wake an idle session".into()));
    }
    let length = duration::parse("--timeout", &json!(args.timeout), WAIT_MAX)?;
    tokio::select! {
        done = wait(common, args, session) => done,
        () = tokio::time::sleep(length.to_std()) => Ok(ExitCode::SUCCESS),
        // Nobody would hear it, and it would count as told.
        () = left_alone() => Ok(ExitCode::SUCCESS),
    }
}

async fn wait(common: &Common, args: &HookArgs, session: &str) -> Done {
    let (mut reached, mut tries, mut pause) = (false, 0, RECONNECT_FIRST);
    loop {
        // Looked up each time: a server that comes back may have another port.
        let ended = match connect(common, args) {
            Ok(client) => match Presence::open(&client, session, args.client.kind(), "rewake").await {
                Ok(mut presence) => {
                    (reached, pause) = (true, RECONNECT_FIRST);
                    hold(session, &client, &mut presence).await
                }
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        tries += 1;
        match ended {
            Ok(Some(code)) => return Ok(code),
            Ok(None) => {}
            Err(error) if !reached && tries >= FIRST_TRIES => return Err(error),
            Err(_) => {}
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RECONNECT_MAX);
    }
}

/// `None`: the connection ended before anything was to be told.
async fn hold(session: &str, client: &super::Client, presence: &mut Presence) -> Result<Option<ExitCode>, Failure> {
    while let Some(signal) = presence.next().await {
        match signal {
            Signal::Idle | Signal::Replaced => return Ok(Some(ExitCode::SUCCESS)),
            Signal::Messages => {
                let channel = HookEvent::Rewake.channel();
                if let Some(fetched) = within(Fetched::lease(client, session, channel)).await? {
                    let mut err = std::io::stderr().lock();
                    let told = writeln!(err, "{}", fetched.text).and_then(|()| err.flush()).is_ok();
                    settle(client, fetched, told).await;
                    return Ok(Some(if told { ExitCode::from(WAKE) } else { ExitCode::SUCCESS }));
                }
            }
        }
    }
    Ok(None)
}

/// Until whoever reads our stderr is gone: the client has ended, and this process would outlive it.
async fn left_alone() {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let stderr = std::io::stderr();
        // Only errors and hang-ups are reported, since nothing else was asked for.
        let mut fds = [PollFd::new(&stderr, PollFlags::empty())];
        loop {
            match poll(&mut fds, None) {
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
                Ok(_) => break,
            }
        }
        let _ = sender.send(());
    });
    if receiver.await.is_err() {
        std::future::pending::<()>().await;
    }
}
