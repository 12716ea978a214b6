//! `reveille ls`: what is pending, soonest first.

use super::{Common, Done, client::Client, show};
use clap::Args;
use serde_json::{Value, json};
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
    /// One line of JSON for an agent's status bar: how many are live, and what ends next
    #[arg(long, conflicts_with_all = ["all", "status"])]
    status_line: bool,
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
    if args.status_line {
        show::line(&status_line(&page).to_string());
        return Ok(ExitCode::SUCCESS);
    }
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

/// `text` is for people, the rest for programs. What ends next comes first in the list, but for what is paused.
fn status_line(page: &Value) -> Value {
    let timers = page["timers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let paused = timers.iter().filter(|timer| timer["status"] == "paused").count();
    let next = timers.iter().filter(|timer| timer["status"] != "paused").min_by_key(|timer| timer["ends_at"].as_i64());
    let text = match next {
        Some(next) => format!("⏰ {} {}", show::seconds(&next["remaining_time"]), show::purpose(next)),
        None if paused > 0 => format!("⏸ {paused}"),
        None => String::new(),
    };
    let next = next.map(|next| {
        json!({
            "timer_id": next["timer_id"],
            "status": next["status"],
            "remaining_time": next["remaining_time"],
            "ends_at": next["ends_at"],
            "for": show::purpose(next),
            "session": next["session"],
        })
    });
    json!({"live": timers.len(), "paused": paused, "next": next, "text": text})
}
