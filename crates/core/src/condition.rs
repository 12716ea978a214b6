//! What a timer may wait for besides its time, and in which words. Looking whether it holds is the server's business;
//! nothing here knows how that is done.

mod parse;

pub use parse::parse;

use crate::time::{Millis, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::{fmt, sync::Arc};

/// Longest text that is searched for and longest pattern, in characters.
pub const PATTERN_CHARS_MAX: usize = 1000;
/// Longest URL, address or path, in bytes.
pub const TARGET_BYTES_MAX: usize = 4096;
/// Of a command: so many words, and so many bytes in all.
pub const COMMAND_WORDS_MAX: usize = 64;
pub const COMMAND_BYTES_MAX: usize = 8192;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// It answers a GET: with this status, else with any below 400; and with such a body.
    Http {
        url: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
        /// A regular expression.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body_matches: Option<String>,
    },
    /// It takes connections.
    Tcp {
        host: String,
        port: u16,
    },
    File {
        path: String,
        expect: Expect,
    },
    /// It has ended.
    Process {
        pid: u32,
        /// When it began, as the system tells it: another process of the same number is another process.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        began: Option<String>,
    },
    /// It exits with 0.
    Command {
        argv: Vec<String>,
    },
}

/// What is expected of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expect {
    Exists,
    Gone,
    /// It is no longer as it was when this was asked for; `None`: it was not there.
    Changed {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
    },
    Contains {
        text: String,
    },
}

/// A condition as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    pub condition: Condition,
    /// Only the node of this name can see whether it holds; `None`: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Arc<str>>,
}

/// A condition that a timer waits for, or waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    #[serde(flatten)]
    pub wanted: Wanted,
    /// Since when; no two of one timer begin at the same instant, so it is known by this.
    pub since: Timestamp,
    /// Of the timer's time, this had passed by then.
    pub from: Millis,
    /// What was seen when it held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
}

/// Somebody saw that a condition holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    pub id: crate::ItemId,
    /// Of the condition ([`Watch::since`]): by now the timer may wait for another.
    pub since: Timestamp,
    pub seen: String,
}

impl Watch {
    /// The next condition of a timer that had `before`.
    pub fn begin(wanted: Wanted, before: Option<&Watch>, elapsed: Millis, now: Timestamp) -> Self {
        let since = before.map_or(now, |before| now.max(before.since.plus(Millis::new(1))));
        Self { wanted, since, from: elapsed, seen: None }
    }

    /// How long the timer has run with this condition.
    pub fn waited(&self, elapsed: Millis) -> Millis {
        elapsed.minus(self.from)
    }
}

impl Condition {
    /// What it is about: `http`, `tcp`, `file`, `process` or `command`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Condition::Http { .. } => "http",
            Condition::Tcp { .. } => "tcp",
            Condition::File { .. } => "file",
            Condition::Process { .. } => "process",
            Condition::Command { .. } => "command",
        }
    }

    /// Means something else on every machine.
    pub const fn is_local(&self) -> bool {
        matches!(self, Condition::File { .. } | Condition::Process { .. } | Condition::Command { .. })
    }

    /// In the form in which it is asked for.
    pub fn to_value(&self) -> Value {
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
        match self {
            Condition::Http { url, status, body_matches } => {
                put("http", json!(url));
                status.iter().for_each(|status| put("status", json!(status)));
                body_matches.iter().for_each(|pattern| put("body_matches", json!(pattern)));
            }
            Condition::Tcp { .. } => put("tcp", json!(self.target())),
            Condition::File { path, expect } => {
                put("file", json!(path));
                match expect {
                    Expect::Exists => put("exists", json!(true)),
                    Expect::Gone => put("exists", json!(false)),
                    Expect::Changed { .. } => put("changed", json!(true)),
                    Expect::Contains { text } => put("contains", json!(text)),
                }
            }
            Condition::Process { pid, .. } => put("process", json!(pid)),
            Condition::Command { argv } => put("command", json!(argv)),
        }
        Value::Object(fields)
    }

    /// Whom or what is looked at.
    pub fn target(&self) -> String {
        match self {
            Condition::Http { url, .. } => url.clone(),
            Condition::Tcp { host, port } if host.contains(':') => format!("[{host}]:{port}"),
            Condition::Tcp { host, port } => format!("{host}:{port}"),
            Condition::File { path, .. } => path.clone(),
            Condition::Process { pid, .. } => format!("process {pid}"),
            Condition::Command { argv } => argv.join(" "),
        }
    }
}

/// `http://localhost:3000/ answers 200`: what has to be so.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = self.target();
        match self {
            Condition::Http { status, body_matches, .. } => {
                write!(f, "{target} answers")?;
                status.iter().try_for_each(|status| write!(f, " {status}"))?;
                body_matches.iter().try_for_each(|pattern| write!(f, " with a body that matches {pattern}"))
            }
            Condition::Tcp { .. } => write!(f, "{target} takes connections"),
            Condition::File { expect, .. } => match expect {
                Expect::Exists => write!(f, "{target} exists"),
                Expect::Gone => write!(f, "{target} is gone"),
                Expect::Changed { .. } => write!(f, "{target} changes"),
                Expect::Contains { text } => write!(f, "{target} contains {text:?}"),
            },
            Condition::Process { .. } => write!(f, "{target} ends"),
            Condition::Command { .. } => write!(f, "`{target}` exits with 0"),
        }
    }
}
