//! `reveille ls`: what is pending, soonest first.

use super::{Common, Done, client::Client, show};
use clap::Args;
use std::process::ExitCode;

#[derive(Args)]
pub struct LsArgs {
    /// Ended timers too, newest first
    #[arg(long, short)]
    all: bool,
    /// Only this session's
    #[arg(long, short)]
    session: Option<String>,
    /// Only these states, separated by commas: running, paused, running_background, completed, stopped, live
    #[arg(long)]
    status: Option<String>,
    /// At most this many
    #[arg(long, default_value_t = 100)]
    limit: usize,
}

pub async fn run(common: &Common, client: &Client, args: LsArgs) -> Done {
    let limit = args.limit.to_string();
    let newest = args.all || args.status.is_some();
    let mut query = vec![("limit", limit.as_str()), ("order", if newest { "newest" } else { "soonest" })];
    query.extend(args.session.as_deref().map(|session| ("session", session)));
    query.extend(args.status.as_deref().map(|status| ("status", status)));
    let page = client.get("/api/timers", &query).await?;
    if common.json {
        show::line(&page.to_string());
        return Ok(ExitCode::SUCCESS);
    }
    match page["timers"].as_array().filter(|timers| !timers.is_empty()) {
        Some(timers) => show::timers(timers),
        None => show::line(if newest { "No timers." } else { "No live timers; `reveille ls --all` shows ended ones." }),
    }
    Ok(ExitCode::SUCCESS)
}
