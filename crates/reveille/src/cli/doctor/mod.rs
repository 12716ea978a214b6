//! `reveille doctor`: looks at everything a running Reveille depends on and says what is wrong and what cures it. Reads
//! only; a server that runs is asked, never disturbed. Exit code 1 if there is a problem.

mod agents;
mod clients;
mod clock;
mod data;
mod database;
mod finding;
mod reach;
mod server;
mod token;
mod upstreams;
mod wake;

use super::{Common, Done, paint::Paint, show};
use crate::config::Config;
use clap::Args;
use finding::{Finding, Level};
use serde_json::json;
use std::process::ExitCode;

#[derive(Args)]
pub struct DoctorArgs {
    /// Connect to nothing but this machine: upstreams are not dialled
    #[arg(long)]
    offline: bool,
}

pub fn run(common: &Common, args: DoctorArgs) -> Done {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let findings = runtime.block_on(examine(common, &args));
    let problems = findings.iter().filter(|finding| finding.level == Level::Problem).count();
    let warnings = findings.iter().filter(|finding| finding.level == Level::Warning).count();
    if common.json {
        let document = json!({"ok": problems == 0, "problems": problems, "warnings": warnings, "findings": findings});
        show::line(&document.to_string());
    } else {
        let paint = Paint::for_stdout();
        findings.iter().for_each(|finding| finding.show(paint));
        let verdict = match (problems, warnings) {
            (0, 0) => "All is well.".to_owned(),
            (0, _) => format!("It works; worth a look: {warnings}."),
            _ => format!("Problems: {problems}, worth a look: {warnings}."),
        };
        show::line(&format!("\n{}", paint.bold(&verdict)));
    }
    Ok(ExitCode::from(u8::from(problems > 0)))
}

async fn examine(common: &Common, args: &DoctorArgs) -> Vec<Finding> {
    let config = match common.load() {
        Ok(config) => config,
        Err(failure) => {
            // Where the file says the server is, is not known; where it is without a file, is.
            let server = server::ask_server(common, &common.without_file()).await;
            let cure = match server.now {
                Some(_) => format!("correct it. {UNAFFECTED}; nothing else was looked at"),
                None => "correct it; nothing else was looked at".to_owned(),
            };
            return vec![Finding::problem("configuration", failure.why(), cure)];
        }
    };
    let server = server::ask_server(common, &config).await;
    let mut findings = vec![configuration(&config, server.now.is_some())];
    findings.extend(data::look(&config));
    findings.extend(database::look(&config).await);
    findings.extend(server.findings);
    findings.extend(agents::look(common, &config, server.now.is_some()).await);
    findings.extend(clock::look(&config, server.now).await);
    findings.extend(token::look(&config));
    findings.extend(upstreams::look(&config, args.offline).await);
    findings.extend(wake::look(&config));
    findings.extend(clients::look(common, &config));
    findings
}

const UNAFFECTED: &str =
    "The server that runs is not affected: what it read last stays in force until it is started again";

fn configuration(config: &Config, runs: bool) -> Finding {
    let source = config.source.as_ref().filter(|path| path.exists());
    let shown =
        source.map_or_else(|| "no file, so the defaults are in force".into(), |path| path.display().to_string());
    match config.check() {
        Ok(()) => Finding::ok("configuration", shown),
        Err(error) => {
            // One that systemd or another shell starts has other variables.
            let cure = "with this command's environment the server does not start; `reveille config check` shows what is in \
                        force once it is right";
            let cure = if runs { format!("{cure}. {UNAFFECTED}") } else { cure.to_owned() };
            Finding::problem("configuration", format!("{shown}: {error}"), cure)
        }
    }
}
