//! `reveille config`: what the server would run with.

use super::{Common, Done, show};
use clap::Subcommand;
use std::process::ExitCode;

#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Check the configuration and print what is in force
    Check,
}

pub fn run(common: &Common, command: ConfigCommand) -> Done {
    let ConfigCommand::Check = command;
    let mut config = common.load()?;
    config.check()?;
    config.hide_secrets();
    if common.json {
        show::line(&serde_json::to_string(&config)?);
    } else {
        show::line(toml::to_string(&config)?.trim_end());
    }
    Ok(ExitCode::SUCCESS)
}
