//! Why a command did not do what it was asked to, for people and for programs.

use serde_json::{Map, Value, json};
use std::process::ExitCode;

pub enum Failure {
    /// This program itself could not, or would not.
    Refused(String),
    /// The server's answer: a problem of its API.
    Problem(Map<String, Value>),
    NoServer(String),
}

pub type Done = Result<ExitCode, Failure>;

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Refused(format!("{:#}", error.into()))
    }
}

impl Failure {
    /// As an answer of the server says it.
    pub fn problem(answer: Value) -> Self {
        let mut problem = if let Value::Object(problem) = answer { problem } else { Map::new() };
        // What is only about HTTP.
        for field in ["type", "title", "status"] {
            problem.remove(field);
        }
        problem.entry("code").or_insert_with(|| "unknown".into());
        problem.entry("detail").or_insert_with(|| "the server refused without saying why".into());
        Failure::Problem(problem)
    }

    pub fn code(&self) -> &str {
        match self {
            Failure::Refused(_) => "failed",
            Failure::Problem(problem) => problem["code"].as_str().unwrap_or_default(),
            Failure::NoServer(_) => "no_server",
        }
    }

    pub fn why(self) -> String {
        match self {
            Failure::Problem(problem) => {
                let text = |field: &str| problem[field].as_str().unwrap_or_default();
                format!("{} [{}]", text("detail"), text("code"))
            }
            Failure::Refused(why) | Failure::NoServer(why) => why,
        }
    }

    /// Says so, and how the program ends. `as_json`: one object on one line.
    pub fn complain(self, as_json: bool) -> ExitCode {
        let exit = if let Failure::NoServer(_) = self { 3 } else { 1 };
        if as_json {
            let code = self.code().to_owned();
            let said = match self {
                Failure::Problem(problem) => Value::Object(problem),
                failure => json!({"code": code, "detail": failure.why()}),
            };
            eprintln!("{said}");
        } else {
            eprintln!("reveille: {}", self.why());
        }
        ExitCode::from(exit)
    }
}

/// The command was called wrongly.
pub fn misused(error: &clap::Error, as_json: bool) -> ! {
    if as_json && error.use_stderr() {
        eprintln!("{}", json!({"code": "usage", "detail": error.to_string().trim_end()}));
        std::process::exit(error.exit_code());
    }
    error.exit()
}
