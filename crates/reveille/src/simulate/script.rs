//! What a simulation is given: an agent out of a file, and what its user says when.

use crate::agents::{self, Agent, AgentConfig, watch};
use anyhow::{Context, bail, ensure};
use reveille_core::{AgentId, Limits, Millis, Quiet, duration};
use serde::Deserialize;
use serde_json::Value;
use std::{fs, path::Path, str::FromStr};

/// `7m hello?`: so long after the beginning the user says this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Say {
    pub after: Millis,
    pub text: String,
}

impl FromStr for Say {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let (after, text) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
        let zero = after.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse() == Ok(0.0);
        let after = match zero {
            true => Millis::ZERO,
            false => {
                let far = Limits::default().duration_max;
                duration::parse("say", &Value::from(after), far)
                    .map_err(|reject| format!("{reject}. It begins with a time: \"7m hello?\""))?
            }
        };
        Ok(Self { after, text: text.trim().to_owned() })
    }
}

/// The agent of a file: one agent as TOML or JSON, or a configuration that has some. `wanted`: which, if there are several.
/// With the quiet hours that a configuration has for all.
pub fn agent(
    path: &Path,
    wanted: Option<&str>,
    timers_max: usize,
    limits: &Limits,
) -> anyhow::Result<(Agent, Option<Quiet>)> {
    let text = fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let (mut found, quiet) = configs(path, &text).with_context(|| format!("{}", path.display()))?;
    let names: Vec<String> = found.iter().map(name).collect();
    let config = match (wanted, found.len()) {
        (_, 0) => bail!("{}: has no agent; write [[agent]] into it", path.display()),
        (Some(wanted), _) => match names.iter().position(|name| name == wanted) {
            Some(place) => found.swap_remove(place),
            None => bail!("{}: has no agent '{wanted}'; it has: {}", path.display(), names.join(", ")),
        },
        (None, 1) => found.swap_remove(0),
        (None, _) => bail!("{}: has several agents; choose one with --agent: {}", path.display(), names.join(", ")),
    };
    let id = AgentId::parse(&name(&config)).map_err(|reject| anyhow::anyhow!("{reject}"))?;
    let agent = agents::of_operator(id, without_secrets(config), timers_max, limits);
    Ok((agent.with_context(|| format!("{}", path.display()))?, quiet))
}

fn name(config: &AgentConfig) -> String {
    let part = |part: &Option<String>, default: &str| part.clone().unwrap_or_else(|| default.to_owned());
    format!("{}:{}", part(&config.tenant, "any"), part(&config.chatbot, "agent"))
}

/// One agent, whose quiet hours are its own; or those of a whole configuration.
fn configs(path: &Path, text: &str) -> anyhow::Result<(Vec<AgentConfig>, Option<Quiet>)> {
    if path.extension().is_some_and(|extension| extension == "json") {
        return Ok((vec![watch::parse(text)?], None));
    }
    let mut table: toml::Table = toml::from_str(text)?;
    match table.remove("agent") {
        Some(agents) => {
            let quiet = table.remove("quiet").map(Quiet::deserialize).transpose().context("`quiet`")?;
            Ok((agents.try_into()?, quiet))
        }
        None => {
            ensure!(!table.is_empty(), "is empty");
            Ok((vec![toml::from_str(text)?], None))
        }
    }
}

/// Nothing is called, so no keys are needed, and nobody is told.
fn without_secrets(mut config: AgentConfig) -> AgentConfig {
    config.webhooks.clear();
    config.tools.iter_mut().filter_map(|tool| tool.endpoint.as_mut()).for_each(|endpoint| endpoint.headers.clear());
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_begins_with_a_time() {
        for (line, seconds, text) in
            [("0s hi", 0, "hi"), ("7m hello?", 420, "hello?"), ("0 你好 🙂", 0, "你好 🙂"), ("1h30m", 5400, "")]
        {
            let expected = Say { after: Millis::from_secs(seconds), text: text.into() };
            assert_eq!(line.parse(), Ok(expected), "{line}");
        }
        for line in ["hello", "", "-5m hi", "soon hi"] {
            assert!(line.parse::<Say>().expect_err(line).contains("7m hello?"), "{line}");
        }
    }
}
