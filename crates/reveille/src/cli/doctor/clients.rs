//! Agents' clients: those that are installed, and whether they know Reveille.

use super::{super::Common, finding::Finding};
use crate::{
    cli::setup::{self, Knows},
    config::Config,
};

const AREA: &str = "client";

pub fn look(common: &Common, config: &Config) -> Vec<Finding> {
    let states = match setup::states(common, config) {
        Ok(states) => states,
        Err(failure) => return vec![Finding::problem(AREA, failure.why(), "correct it")],
    };
    let mut findings = Vec::new();
    for (name, program, knows) in states {
        let there = super::wake::found(program).is_some();
        let write = format!("`reveille setup {name} --write`");
        findings.push(match knows {
            Knows::All => Finding::ok(AREA, format!("{name} is set up")),
            Knows::Nothing if there => {
                Finding::note(AREA, format!("{name} is installed and does not know Reveille"), write)
            }
            Knows::Nothing => continue,
            Knows::Part { missing } => {
                let what =
                    format!("{name} knows Reveille, but not all of it: {missing} is missing or says something else");
                Finding::warning(AREA, what, write)
            }
            Knows::Unreadable { why } => {
                Finding::warning(AREA, format!("{name}: {why}"), format!("see what `reveille setup {name}` shows"))
            }
        });
    }
    if findings.is_empty() {
        let cure = "`reveille setup claude-code` (or codex, opencode, gemini, cursor, cline) shows what each needs";
        findings.push(Finding::note(AREA, "no agent's client was found here", cure));
    }
    findings
}
