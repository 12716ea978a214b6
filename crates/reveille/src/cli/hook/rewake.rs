//! The background waiter of Claude Code's `asyncRewake`: ends with exit code 2 and a text on stderr when there is a
//! message, which wakes the idle session; silently with 0 when there is nothing to wait for any more.

use super::{HookArgs, HookClient, HookEvent, settle, within};
use crate::cli::{
    Common, Done, Failure,
    fetch::Fetched,
    presence::{self, Holder, Signal},
};
use crate::engine::REWAKE;
use reveille_core::{Millis, duration};
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::json;
use std::{io::Write, process::ExitCode};

const WAIT_MAX: Millis = Millis::from_secs(366 * 24 * 3600);
/// What Claude Code takes for "wake the model with what is on stderr".
const WAKE: u8 = 2;

pub async fn run(common: &Common, args: &HookArgs, session: &str) -> Done {
    if args.client != HookClient::ClaudeCode {
        return Err(Failure::Refused("only Claude Code has hooks that wake an idle session".into()));
    }
    let length = duration::parse("--timeout", &json!(args.timeout), WAIT_MAX)?;
    tokio::select! {
        done = wait(common, args, session, length) => done,
        () = tokio::time::sleep(length.to_std()) => Ok(ExitCode::SUCCESS),
        // Nobody would hear it, and it would count as told.
        () = left_alone() => Ok(ExitCode::SUCCESS),
    }
}

async fn wait(common: &Common, args: &HookArgs, session: &str, length: Millis) -> Done {
    let patience = Some(length.get() / 1000);
    let holder = Holder { session, kind: args.client.kind(), name: REWAKE, patient: false, patience };
    presence::follow(&holder, common, async |client, signal| match signal {
        Signal::Idle | Signal::Replaced => Ok(Some(ExitCode::SUCCESS)),
        Signal::Messages => {
            let fetched = within(Fetched::lease(client, session, HookEvent::Rewake.channel())).await?;
            let Some(fetched) = fetched else { return Ok(None) };
            let told = writeln!(std::io::stderr(), "{}", fetched.text).is_ok();
            settle(client, fetched, told).await;
            Ok(Some(if told { ExitCode::from(WAKE) } else { ExitCode::SUCCESS }))
        }
    })
    .await
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
