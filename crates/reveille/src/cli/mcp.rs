//! `reveille mcp`: what an agent's client starts to speak MCP over stdio. Nothing but the protocol goes to stdout.

use super::{Common, Done};
use crate::mcp::{
    StandbyLimits,
    bridge::{self, Daemon},
};
use clap::Args;
use reveille_core::SessionId;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

#[derive(Args)]
pub struct McpArgs {
    /// The session all calls belong to [default: what the client says, else a new one]
    #[arg(long, short, env = "REVEILLE_SESSION")]
    session: Option<String>,
}

pub fn run(common: &Common, args: McpArgs) -> Done {
    let config = common.load()?;
    let filter = EnvFilter::try_from_env("REVEILLE_LOG").unwrap_or_else(|_| EnvFilter::new("warn,rmcp=off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    let named = args.session.filter(|name| !name.trim().is_empty());
    let session = named.map(|name| SessionId::parse(&name)).transpose()?;
    let daemon = match &common.url {
        Some(url) => Daemon::at(url)?,
        None => Daemon::local(&config, common.config.clone())?,
    };
    let limits = StandbyLimits::new(&config.mcp);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(bridge::serve(daemon, session, limits));
    // A read of stdin that will never end must not keep the process.
    runtime.shutdown_background();
    served?;
    Ok(ExitCode::SUCCESS)
}
