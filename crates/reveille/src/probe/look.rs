//! One look at a condition: whether it holds, and what was seen. One file for each kind; here is what they share.

mod command;
mod file;
mod http;
pub(super) mod process;
mod tcp;

use super::{
    rules::Rules,
    schedule::{Due, Memory},
};
use crate::{clock::Clock, outgoing::Outgoing};
use reveille_core::{
    Condition, Millis, Reject,
    condition::{Expect, Watch},
};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// A look that takes longer has seen nothing.
const LOOK_MAX: Millis = Millis::from_secs(10);
const COMMAND_MAX: Millis = Millis::from_secs(30);
/// Longest account of what was seen, in characters: it is repeated into a model's context.
const SEEN_CHARS_MAX: usize = 300;
/// Looks at one host, at files, at processes and by commands at once.
const LANE_HOST: usize = 8;
const LANE_FILES: usize = 8;
const LANE_PROCESSES: usize = 8;
const LANE_COMMANDS: usize = 4;
/// Threads that read files, hanging ones among them; beyond it files are not looked at.
const FILE_THREADS_MAX: usize = 32;

/// What looks are made with.
pub struct Eyes {
    pub rules: Rules,
    clock: Arc<dyn Clock>,
    outgoing: Outgoing,
    file_threads: Arc<Semaphore>,
}

/// What a look found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    pub holds: bool,
    pub seen: String,
    pub memory: Memory,
}

impl Look {
    fn new(holds: bool, seen: impl AsRef<str>) -> Self {
        Self { holds, seen: brief(seen.as_ref()), memory: Memory::default() }
    }
}

impl Eyes {
    pub fn new(rules: Rules, clock: Arc<dyn Clock>) -> Self {
        let file_threads = Arc::new(Semaphore::new(FILE_THREADS_MAX));
        Self { rules, clock, outgoing: Outgoing::one_by_one(), file_threads }
    }

    /// Looks once. Dropped, it leaves nothing running.
    pub async fn look(&self, due: &Due) -> Look {
        let condition = &due.watch.wanted.condition;
        // An operator may have forbidden since what was allowed before.
        if let Err(reject) = self.allowed(condition) {
            return Look { memory: due.memory, ..Look::new(false, reject.to_string()) };
        }
        let limit = if matches!(condition, Condition::Command { .. }) { COMMAND_MAX } else { LOOK_MAX };
        let looking = async {
            match condition {
                Condition::Http { url, status, body_matches } => self.http(url, *status, body_matches.as_deref()).await,
                Condition::Tcp { host, port } => self.tcp(host, *port, &condition.target()).await,
                Condition::File { path, expect } => self.file(path, expect, due.memory).await,
                Condition::Process { pid, began } => process::look(*pid, began.as_deref()),
                Condition::Command { argv } => self.command(argv).await,
            }
        };
        tokio::select! {
            look = looking => look,
            () = self.over(limit) => {
                let seen = format!("{}: nothing within {limit} seconds", condition.target());
                Look { memory: due.memory, ..Look::new(false, seen) }
            }
        }
    }

    /// So long has been waited. What is looked at answers in its own time, also while a manual clock stands still.
    async fn over(&self, limit: Millis) {
        tokio::select! {
            () = self.clock.sleep(limit) => {}
            () = tokio::time::sleep(limit.to_std()), if self.clock.manual().is_some() => {}
        }
    }

    /// Paths and addresses are asked about where they are used.
    fn allowed(&self, condition: &Condition) -> Result<(), Reject> {
        let why = match condition {
            Condition::Process { .. } if !self.rules.processes => "processes may not be watched here any more",
            Condition::Command { .. } if !self.rules.commands => "commands may not be run here any more",
            _ => return Ok(()),
        };
        Err(Reject::ForbiddenCondition { why: why.into() })
    }

    /// The condition with what later looks compare to: how things are now.
    pub async fn remember(&self, condition: Condition) -> Result<Condition, Reject> {
        Ok(match condition {
            Condition::File { path, expect: Expect::Changed { .. } } => {
                let from = self.state_of(&path).await?;
                Condition::File { path, expect: Expect::Changed { from } }
            }
            Condition::Process { pid, .. } => Condition::Process { pid, began: process::began(pid)? },
            other => other,
        })
    }
}

/// With whom it shares its places, and how many those are.
pub fn lane(watch: &Watch) -> (Arc<str>, usize) {
    match &watch.wanted.condition {
        Condition::Http { url, .. } => {
            let url = super::rules::address(url).ok();
            let host = url.as_ref().map(|url| url[..url::Position::BeforePath].to_owned()).unwrap_or_default();
            (host.into(), LANE_HOST)
        }
        tcp @ Condition::Tcp { .. } => (tcp.target().into(), LANE_HOST),
        Condition::File { .. } => ("files".into(), LANE_FILES),
        Condition::Process { .. } => ("processes".into(), LANE_PROCESSES),
        Condition::Command { .. } => ("commands".into(), LANE_COMMANDS),
    }
}

/// One line, short enough, without anything a terminal would obey.
fn brief(text: &str) -> String {
    let mut line = String::new();
    for (number, word) in
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()).enumerate()
    {
        if number > 0 {
            line.push(' ');
        }
        line.push_str(word);
    }
    match line.char_indices().nth(SEEN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    #[tokio::test]
    async fn what_nobody_could_look_at_is_not_taken_for_missing() {
        let eyes = Eyes::new(Rules::default(), Arc::new(SystemClock));
        let changed = || Condition::File { path: "/".into(), expect: Expect::Changed { from: None } };
        let hang = eyes.file_threads.clone().acquire_many_owned(FILE_THREADS_MAX as u32).await.expect("free");
        let refused = eyes.remember(changed()).await.expect_err("no thread is free");
        assert!(refused.to_string().contains("try again"), "{refused}");
        drop(hang);
        let kept = eyes.remember(changed()).await.expect("looked at");
        assert!(matches!(kept, Condition::File { expect: Expect::Changed { from: Some(_) }, .. }), "{kept:?}");
    }
}
