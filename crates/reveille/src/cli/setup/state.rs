//! What a client's configuration already says. Reads only.

use super::{
    super::{Common, Failure},
    clients::{self, Place, Setup, SetupClient},
    content, edited, options, program, variable,
};
use crate::config::Config;
use clap::ValueEnum;

pub enum Knows {
    All,
    /// What is missing, or says something else than `setup` would.
    Part {
        missing: String,
    },
    Nothing,
    Unreadable {
        why: String,
    },
}

/// Every client: its name, the program it is known by, and what it knows.
pub fn states(common: &Common, config: &Config) -> Result<Vec<(String, &'static str, Knows)>, Failure> {
    let (program, options) = (program(), options(common)?);
    let url = format!("http://{}/mcp", config.listen);
    let mut states = Vec::new();
    for client in SetupClient::value_variants() {
        let name = client.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        // Over stdio or over HTTP: either will do.
        let ways = [None, Some(url.as_str())].map(|http| {
            let exists = |path: &std::path::Path| path.exists();
            let place = Place {
                program: &program,
                options: &options,
                http,
                project: false,
                variable: &variable,
                exists: &exists,
            };
            clients::setup(*client, &place)
                .map_or_else(|error| Knows::Unreadable { why: format!("{error:#}") }, |setup| knows(&setup))
        });
        let [stdio, http] = ways;
        let best = if matches!(http, Knows::All) { http } else { stdio };
        states.push((name, client.program(), best));
    }
    Ok(states)
}

fn knows(setup: &Setup) -> Knows {
    let (mut there, mut missing) = (0, Vec::new());
    for piece in &setup.pieces {
        let text = match content(&piece.path) {
            Ok(text) => text,
            Err(why) => return Knows::Unreadable { why },
        };
        let mentions = text.as_deref().is_some_and(|text| text.contains("reveille"));
        let complete = match &text {
            None => false,
            Some(text) => match edited(piece, text) {
                Ok(after) => after == *text,
                Err(failure) if mentions => return Knows::Unreadable { why: failure.why() },
                Err(_) => false,
            },
        };
        there += usize::from(mentions);
        if !complete {
            missing.push(format!("{} in {}", piece.what, piece.path.display()));
        }
    }
    match (there, missing.is_empty()) {
        (_, true) => Knows::All,
        (0, false) => Knows::Nothing,
        (_, false) => Knows::Part { missing: missing.join(" and ") },
    }
}
