//! A command that outlived the process which started it: found again after a crash by its number and the time it began.
//!
//! Judged only where that means the same: on the machine and in the process namespace it was started in, and never while
//! its own server lives, which may be another node.

use crate::probe::runs_since;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use std::{future::Future, time::Duration};

/// How often a process is looked at where the system cannot tell of its end.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// One process, whatever becomes of its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    pub pid: u32,
    began: String,
    /// The server that started it.
    server: u32,
    server_began: String,
    /// Where these numbers mean something.
    place: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Somebody else's business, or not to be seen from here.
    Unknown,
    Alive,
    Gone,
}

impl Left {
    /// A process that this one has started. `None`: nothing certain can be said of processes here.
    pub fn found(pid: u32) -> Option<Self> {
        let server = std::process::id();
        Some(Self { pid, began: runs_since(pid)?, server, server_began: runs_since(server)?, place: place()? })
    }

    pub fn state(&self) -> State {
        if place().as_ref() != Some(&self.place) || runs_since(self.server).as_ref() == Some(&self.server_began) {
            return State::Unknown;
        }
        if self.runs() { State::Alive } else { State::Gone }
    }

    fn runs(&self) -> bool {
        runs_since(self.pid).as_ref() == Some(&self.began)
    }

    /// Until it has ended. Killed with all it started when its time is over.
    pub async fn ends(&self, time_over: impl Future<Output = ()>) {
        let ended = async {
            while self.runs() {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        tokio::select! {
            () = ended => {}
            () = time_over => {}
        }
    }

    pub fn kill(&self) {
        let group = i32::try_from(self.pid).ok().and_then(Pid::from_raw).filter(|_| self.runs());
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// This boot of this machine, and this namespace of processes.
#[cfg(target_os = "linux")]
fn place() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim(), namespace.display()))
}

#[cfg(not(target_os = "linux"))]
fn place() -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_is_known_by_more_than_its_number() {
        let mut child = tokio::process::Command::new("sleep").arg("60").process_group(0).spawn().expect("it starts");
        let left = Left::found(child.id().expect("it runs")).expect("it is there");
        assert_eq!(left.state(), State::Unknown, "its server lives");
        let left = Left { server_began: "long ago".into(), ..left };
        assert_eq!(left.state(), State::Alive);
        assert_eq!(Left { began: "long ago".into(), ..left.clone() }.state(), State::Gone);
        assert_eq!(Left { place: "elsewhere".into(), ..left.clone() }.state(), State::Unknown);
        let (waiting, ended) = (left.clone(), left.clone());
        let waiting = tokio::spawn(async move { waiting.ends(std::future::pending()).await });
        ended.kill();
        child.wait().await.expect("it ends");
        waiting.await.expect("and that is noticed");
        assert_eq!(left.state(), State::Gone);
    }
}
