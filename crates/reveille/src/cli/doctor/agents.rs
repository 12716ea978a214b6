//! Agents: those that came by the API and are kept in the database, and those of files as the server has them. Whether files
//! make sense as they are now is the configuration's part.

use super::{
    super::Common,
    database,
    finding::Finding,
    reach::{Reached, address, ask},
};
use crate::{agents::check_stored, config::Config};
use reqwest::StatusCode;
use serde_json::Value;

const AREA: &str = "agent";
const CURE: &str = "correct it with PUT /api/agents/{tenant}/{chatbot}; until then no session of it begins, and calls of its tools fail";

pub async fn look(common: &Common, config: &Config, runs: bool) -> Vec<Finding> {
    let findings = match asked(common, config).await.filter(|_| runs) {
        Some(document) => of_server(&document),
        None => of_file(config),
    };
    if findings.is_empty() { vec![Finding::ok(AREA, "none is configured")] } else { findings }
}

/// What the server that runs has of them; its environment is the one that counts.
async fn asked(common: &Common, config: &Config) -> Option<Value> {
    let (address, token) = address(common, config);
    match ask(&address?, token.as_ref(), "/api/agents").await {
        Reached::Ours(StatusCode::OK, response) => response.json().await.ok(),
        _ => None,
    }
}

fn of_server(document: &Value) -> Vec<Finding> {
    let texts = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(Value::as_str).map(Into::into).collect()
    };
    let mut findings: Vec<Finding> = document["agents"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|one| {
            let made = match one["problem"].as_str() {
                Some(why) => Err(why.to_owned()),
                None => Ok(texts(&one["warnings"])),
            };
            of_agent(one["agent"].as_str().unwrap_or_default(), made)
        })
        .collect();
    findings.extend(texts(&document["problems"]).into_iter().map(|why| {
        let cure = "correct the file; until then the server goes by what it said before";
        Finding::problem(AREA, why, cure)
    }));
    findings
}

/// No server says more: by this command's environment.
fn of_file(config: &Config) -> Vec<Finding> {
    let stored = database::agents(config);
    stored.iter().flat_map(|(name, body)| of_agent(name, check_stored(config, name, body))).collect()
}

fn of_agent(name: &str, made: Result<Vec<String>, String>) -> Vec<Finding> {
    match made {
        Ok(warnings) if warnings.is_empty() => vec![Finding::ok(AREA, name)],
        Ok(warnings) => {
            let cure = "see whether that is meant";
            warnings.into_iter().map(|why| Finding::warning(AREA, format!("{name}: {why}"), cure)).collect()
        }
        Err(why) => vec![Finding::problem(AREA, format!("{name}: {why}"), CURE)],
    }
}
