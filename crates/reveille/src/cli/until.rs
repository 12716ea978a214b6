//! What `reveille timer` waits for, by flags: the tool's `until` argument.

use clap::Args;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

#[derive(Args)]
pub struct UntilArgs {
    /// End as soon as this URL answers, below 400 unless --status says otherwise
    #[arg(long, value_name = "URL", group = "until")]
    until_http: Option<String>,
    /// With --until-http: with this status
    #[arg(long, value_name = "CODE", requires = "until_http")]
    status: Option<u16>,
    /// With --until-http: with a body that matches this regular expression
    #[arg(long, value_name = "REGEX", requires = "until_http")]
    body_matches: Option<String>,
    /// End as soon as this takes connections
    #[arg(long, value_name = "HOST:PORT", group = "until")]
    until_tcp: Option<String>,
    /// End as soon as this file exists
    #[arg(long, value_name = "PATH", group = "until")]
    until_file: Option<PathBuf>,
    /// With --until-file: is gone
    #[arg(long, requires = "until_file", conflicts_with_all = ["changed", "contains"])]
    gone: bool,
    /// With --until-file: changes
    #[arg(long, requires = "until_file", conflicts_with = "contains")]
    changed: bool,
    /// With --until-file: contains this text
    #[arg(long, value_name = "TEXT", requires = "until_file")]
    contains: Option<String>,
    /// End as soon as this process has ended
    #[arg(long, value_name = "PID", group = "until")]
    until_process: Option<u32>,
    /// End as soon as this command, run by sh, exits with 0; only if the server allows it
    #[arg(long, value_name = "COMMAND", group = "until")]
    until_command: Option<String>,
}

impl UntilArgs {
    /// The argument, if a condition was asked for.
    pub fn value(&self) -> Option<Value> {
        let mut until = Map::new();
        let mut put = |name: &str, value: Value| drop(until.insert(name.to_owned(), value));
        if let Some(url) = &self.until_http {
            put("http", json!(url));
            self.status.iter().for_each(|status| put("status", json!(status)));
            self.body_matches.iter().for_each(|pattern| put("body_matches", json!(pattern)));
        }
        if let Some(address) = &self.until_tcp {
            put("tcp", json!(address));
        }
        if let Some(path) = &self.until_file {
            // The server knows nothing of where this command runs.
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            put("file", json!(path.to_string_lossy()));
            match &self.contains {
                Some(text) => put("contains", json!(text)),
                None if self.changed => put("changed", json!(true)),
                None => put("exists", json!(!self.gone)),
            }
        }
        if let Some(pid) = self.until_process {
            put("process", json!(pid));
        }
        if let Some(command) = &self.until_command {
            put("command", json!(["sh", "-c", command]));
        }
        (!until.is_empty()).then_some(Value::Object(until))
    }
}

/// `until http://localhost:3000/ answers`: a condition of a timer from the API, in words.
pub fn words(timer: &Value) -> Option<String> {
    let condition = reveille_core::condition::parse(timer.get("until")?).ok()??;
    Some(format!("until {condition}"))
}
