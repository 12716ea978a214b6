//! `reveille ls`: what is pending, soonest first.

use super::{
    Common, Done, Failure,
    client::Client,
    pending::{self, Kind, Live, Pending},
    show,
};
use clap::Args;
use serde_json::{Value, json};
use std::process::ExitCode;

/// So many of each kind are read for a status line: what comes next is among them.
const READ_MAX: usize = 1000;

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
    /// One line of JSON for an agent's status bar: how many timers, reminders and session timers are live, and what is next
    #[arg(long, conflicts_with_all = ["all", "status"])]
    status_line: bool,
    /// At most this many
    #[arg(long, default_value_t = 100)]
    limit: usize,
}

pub async fn run(common: &Common, client: &Client, args: LsArgs) -> Done {
    if args.status_line {
        show::line(&status_line(client, args.session.as_deref()).await?.to_string());
        return Ok(ExitCode::SUCCESS);
    }
    let limit = args.limit.to_string();
    let newest = args.all || args.status.is_some();
    let mut query = vec![("limit", limit.as_str()), ("order", if newest { "newest" } else { "soonest" })];
    query.extend(args.session.as_deref().map(|session| ("session", session)));
    query.extend(args.status.as_deref().map(|status| ("status", status)));
    let mut page = client.get("/api/timers", &query).await?;
    // These have lists of their own for what has ended.
    let others = if newest { Vec::new() } else { vec![Kind::Reminder, Kind::SessionTimer] };
    for kind in &others {
        let (path, field) = kind.list();
        page[field] = client.get(path, &query).await?[field].take();
    }
    if common.json {
        show::line(&page.to_string());
        return Ok(ExitCode::SUCCESS);
    }
    let timers = page["timers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let others = others.into_iter().flat_map(|kind| pending::of_page(kind, &page)).collect::<Vec<_>>();
    if timers.is_empty() && others.is_empty() {
        show::line(if newest { "No timers." } else { "No live timers; `reveille ls --all` shows ended ones." });
        return Ok(ExitCode::SUCCESS);
    }
    let now = pending::now(client).await?;
    if !timers.is_empty() {
        show::timers(timers, now);
    }
    if !others.is_empty() {
        if !timers.is_empty() {
            show::line("");
        }
        tell(&others, now);
    }
    Ok(ExitCode::SUCCESS)
}

/// What is no timer, the soonest first.
fn tell(others: &[Pending], now: i64) {
    let mut table = show::table(["ID", "KIND", "STATUS", "LEFT", "SESSION", "FOR"]);
    let mut others: Vec<&Pending> = others.iter().collect();
    others.sort_by_key(|one| (one.at.is_none(), one.at));
    for one in others {
        table.add_row([
            show::clean(&one.id),
            one.kind.words().to_owned(),
            show::clean(&one.status),
            one.at.map(|_| show::length(one.remaining(now).ceil())).unwrap_or_default(),
            show::clean(&one.session),
            show::joined([one.text.clone(), one.note.clone()]),
        ]);
    }
    show::line(&table.to_string());
}

/// `text` is for people, the rest for programs.
async fn status_line(client: &Client, session: Option<&str>) -> Result<Value, Failure> {
    let now = pending::now(client).await?;
    let (pending, live) = pending::load(client, session, READ_MAX).await?;
    Ok(summary(&pending, live, now))
}

/// What is paused happens only once it has been resumed, so that it is never next.
fn summary(pending: &[Pending], live: Live, now: i64) -> Value {
    let paused = live.paused;
    let next = pending.iter().filter(|one| !one.is_paused() && one.at.is_some()).min_by_key(|one| one.at);
    let text = match next {
        Some(next) => format!("⏰ {} {}", show::length(next.remaining(now).ceil()), next.text),
        None if paused > 0 => format!("⏸ {paused}"),
        None => String::new(),
    };
    let next = next.map(|next| {
        json!({
            "kind": next.kind.as_str(),
            "id": next.id,
            "status": next.status,
            "remaining_time": next.remaining(now),
            "ends_at": next.at,
            "for": next.text,
            "session": next.session,
        })
    });
    json!({
        "live": live.all(),
        "timers": live.timers,
        "reminders": live.reminders,
        "session_timers": live.session_timers,
        "paused": paused,
        "or_more": live.or_more,
        "next": next,
        "text": text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::pending::{Kind, tests::list};

    #[test]
    fn the_status_line_tells_of_every_kind() {
        let timer = json!({"timer_id": "t", "session": "a", "status": "paused", "mission": "看部署", "total_duration": 100,
            "remaining_time": 1, "ends_at": 10_000, "pause_until": 9_000});
        let reminder = json!({"taskId": "r", "session": "b", "status": "due", "task": "备份 🙂",
            "createdAt": "1970-01-01T00:00:00Z", "dueAt": "1970-01-01T00:01:05Z"});
        let idle = json!({"timer_instance_id": "st", "session": "c", "timer_id": "idle", "tool_name": "close",
            "status": "pending", "suspended": false, "next_trigger_at": 300_000, "delay_seconds": 300});
        let said = |items: &[(Kind, Value)]| {
            let pending = list(items);
            summary(&pending, Live::of(&pending), 5_000)
        };
        let paused = said(&[(Kind::Timer, timer.clone())]);
        let said = said(&[(Kind::Timer, timer), (Kind::Reminder, reminder), (Kind::SessionTimer, idle)]);
        assert_eq!((&said["live"], &said["paused"], &said["session_timers"]), (&json!(3), &json!(1), &json!(1)));
        assert_eq!((&said["next"]["kind"], &said["next"]["id"]), (&json!("reminder"), &json!("r")));
        assert_eq!(said["text"], "⏰ 1m 00s 备份 🙂");
        assert_eq!(paused["text"], "⏸ 1");
        assert_eq!(summary(&[], Live::default(), 0)["text"], "");
        let many = summary(&[], Live { timers: 10_000, or_more: true, ..Live::default() }, 0);
        assert_eq!((&many["live"], &many["or_more"]), (&json!(10_000), &json!(true)));
    }
}
