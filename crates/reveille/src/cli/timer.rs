//! `reveille timer`: sets or continues a timer and shows the time pass while it stands by.

use super::{
    Common, Done, SessionArg,
    client::{Client, segment},
    show,
    until::UntilArgs,
};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use reveille_core::{Millis, duration};
use serde_json::{Map, Value, json};
use std::{process::ExitCode, time::Duration};

#[derive(Args)]
pub struct TimerArgs {
    /// How long the timer runs: 300, 5m, 1h30m. With --id: how much shall remain from now
    total: Option<String>,
    /// What you wait for; the command stands by
    #[arg(long, short, conflicts_with = "mission")]
    reason: Option<String>,
    /// What to do when the time has come; the command returns at once
    #[arg(long, short)]
    mission: Option<String>,
    /// How long this call stands by at most [default: to the end]
    #[arg(long, short, value_name = "DURATION")]
    timeout: Option<String>,
    /// At this time instead: 16:00, 2026-11-20T16:00, 2026-11-20T16:00:00+01:00
    #[arg(long, value_name = "TIME", conflicts_with_all = ["total", "id"])]
    at: Option<String>,
    /// Again and again: 10m, or cron fields such as "0 9 * * 1-5"
    #[arg(long, value_name = "INTERVAL", conflicts_with_all = ["total", "id"])]
    every: Option<String>,
    /// The time zone of --at and --every, an IANA name [default: this machine's]
    #[arg(long)]
    zone: Option<String>,
    /// What becomes of times that pass while the server is down: skip, latest or all [default: latest]
    #[arg(long, value_name = "WHICH", requires = "every")]
    catch_up: Option<String>,
    /// End after so many times
    #[arg(long, value_name = "COUNT", requires = "every")]
    max_fires: Option<u32>,
    /// Continue this timer
    #[arg(long, value_name = "TIMER")]
    id: Option<String>,
    #[command(flatten)]
    until: UntilArgs,
    #[command(flatten)]
    session: SessionArg,
}

pub async fn run(common: &Common, client: &Client, args: TimerArgs) -> Done {
    let mut body = Map::new();
    // People mean the clock they see.
    let planned = args.at.is_some() || args.every.is_some();
    let here = || jiff::tz::TimeZone::system().iana_name().map(str::to_owned);
    let zone = if planned { args.zone.clone().or_else(here) } else { args.zone.clone() };
    body.extend(args.max_fires.map(|max| ("max_fires".to_owned(), json!(max))));
    let fields = [
        ("at", &args.at),
        ("every", &args.every),
        ("zone", &zone),
        ("catch_up", &args.catch_up),
        ("total_duration", &args.total),
        ("timeout_duration", &args.timeout),
        ("reason", &args.reason),
        ("mission", &args.mission),
        ("timer_id", &args.id),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            body.insert(name.into(), json!(value));
        }
    }
    if let Some(until) = args.until.value() {
        body.insert("until".into(), until);
    }
    let path = format!("/api/sessions/{}/tools/timer", segment(&args.session.session));
    let bar = match shown(common, client, &args).await {
        Some(length) => bar(&args, length),
        None => None,
    };
    let result = client.post(&path, &Value::Object(body)).await;
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let result = result?;
    if common.json {
        show::line(&result.to_string());
    } else {
        tell(&result);
    }
    Ok(ExitCode::from(match result["outcome"].as_str() {
        // The time was over first: what was waited for is not so.
        Some("completed") if result["met"] == false => 4,
        Some("completed" | "met" | "fired" | "scheduled") => 0,
        Some("stopped") => 5,
        _ => 4,
    }))
}

fn tell(result: &Value) {
    show::timer(result);
    for message in result["messages"].as_array().into_iter().flatten() {
        show::line("");
        message["text"].as_str().unwrap_or_default().lines().for_each(|text| show::line(&show::clean(text)));
    }
    // The server's hint is for models; people are told the command.
    let id = result["timer_id"].as_str().unwrap_or_default();
    let next = match result["outcome"].as_str() {
        Some("fired") => format!("It comes again. Wait on with: reveille timer --id {id}"),
        Some("timeout" | "message" | "background" | "paused") => {
            format!("The timer goes on. Continue with: reveille timer --id {id}")
        }
        Some("scheduled") => "When the time has come, a message waits in the inbox: reveille inbox".to_owned(),
        _ => return,
    };
    show::line(&format!("\n{next}"));
}

/// How long the call will stand by at most, if that is to be shown.
async fn shown(common: &Common, client: &Client, args: &TimerArgs) -> Option<Millis> {
    if common.json || args.mission.is_some() {
        return None;
    }
    let parse = |text: &Option<String>| {
        let value = Value::String(text.clone()?);
        duration::parse("duration", &value, Millis::new(u64::MAX >> 12)).ok()
    };
    let (total, timeout) = (parse(&args.total), parse(&args.timeout));
    let total = match (total, &args.id) {
        (None, Some(id)) => {
            let timer = client.get(&format!("/api/timers/{}", segment(id)), &[]).await.ok()?;
            duration::parse("remaining_time", &timer["remaining_time"], Millis::new(u64::MAX >> 12)).ok()
        }
        (total, _) => total,
    };
    total.into_iter().chain(timeout).min()
}

/// The stand-by as a bar, drawn on a terminal only. The server keeps the time; this merely shows it.
fn bar(args: &TimerArgs, shown: Millis) -> Option<ProgressBar> {
    let style = ProgressStyle::with_template("{msg} {bar:40.cyan/blue} {eta_precise} left").ok()?;
    let bar = ProgressBar::with_draw_target(Some(shown.get()), ProgressDrawTarget::stderr()).with_style(style);
    bar.set_message(show::clean(args.reason.as_deref().or(args.id.as_deref()).unwrap_or("standing by")));
    let began = std::time::Instant::now();
    let weak = bar.downgrade();
    tokio::spawn(async move {
        while let Some(bar) = weak.upgrade() {
            bar.set_position(began.elapsed().as_millis() as u64);
            drop(bar);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    Some(bar)
}
