//! `reveille timer`: sets or continues a timer and shows the time pass while it stands by.

use super::{
    Common, Done, Failure, SessionArg,
    client::{Client, segment},
    show,
    until::UntilArgs,
};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use reveille_core::{Millis, duration};
use serde_json::{Map, Value, json};
use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

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
    let (began, mut body, mut told) = (Instant::now(), body(&args), false);
    let result = loop {
        let result = match stand_by(common, client, &args, &body).await {
            // It ended while its own command was being told something else.
            Err(Failure::Problem(mut problem)) if told && problem["code"] == "timer_ended" => {
                let mut timer = problem.remove("timer").unwrap_or_default();
                timer["outcome"] = timer["status"].clone();
                timer
            }
            result => result?,
        };
        match again(&args, &result, began.elapsed()) {
            Some(next) => (body, told) = (next, true),
            None => break result,
        }
        // Another message of the session: it is shown, and the wait goes on.
        if common.json {
            show::line(&result.to_string());
        } else {
            messages(&result, "", "\n");
        }
    };
    if common.json {
        show::line(&result.to_string());
    } else {
        tell(&result, &args.session.flag());
    }
    Ok(ExitCode::from(match result["outcome"].as_str() {
        // The time was over first: what was waited for is not so.
        Some("completed") if result["met"] == false => 4,
        Some("completed" | "met" | "fired" | "scheduled") => 0,
        Some("stopped") => 5,
        _ => 4,
    }))
}

/// What the server is asked for.
fn body(args: &TimerArgs) -> Map<String, Value> {
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
    body.extend(fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value.as_ref()?)))));
    body.extend(args.until.value().map(|until| ("until".to_owned(), until)));
    body
}

/// The same call for what is left of its time, after an answer that told something else.
fn again(args: &TimerArgs, result: &Value, passed: Duration) -> Option<Map<String, Value>> {
    if result["outcome"] != "message" {
        return None;
    }
    let mut body = Map::from_iter([("timer_id".to_owned(), result["timer_id"].clone())]);
    if let Some(timeout) = args.timeout.as_ref().and_then(|text| length(&json!(text))) {
        let left = timeout.get().saturating_sub(passed.as_millis() as u64);
        body.insert("timeout_duration".into(), json!(left as f64 / 1000.0));
        return (left > 0).then_some(body);
    }
    Some(body)
}

async fn stand_by(
    common: &Common,
    client: &Client,
    args: &TimerArgs,
    body: &Map<String, Value>,
) -> Result<Value, Failure> {
    let path = format!("/api/sessions/{}/tools/timer", segment(&args.session.session));
    let bar = match common.json || args.mission.is_some() {
        true => None,
        false => bar(args, shown(client, body).await),
    };
    let result = client.post(&path, &Value::Object(body.clone())).await;
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    result
}

/// `flag`: by which the next command finds the session.
fn tell(result: &Value, flag: &str) {
    show::timer(result);
    messages(result, "\n", "");
    // The server's hint is for models; people are told the command.
    let id = result["timer_id"].as_str().unwrap_or_default();
    let next = match result["outcome"].as_str() {
        Some("fired") => format!("It comes again. Wait on with: reveille timer --id {id}{flag}"),
        Some("timeout" | "message" | "background" | "paused") => {
            format!("The timer goes on. Continue with: reveille timer --id {id}{flag}")
        }
        Some("scheduled") => format!("When the time has come, a message waits in the inbox: reveille inbox{flag}"),
        _ => return,
    };
    show::line(&format!("\n{next}"));
}

fn messages(result: &Value, before: &str, after: &str) {
    for message in result["messages"].as_array().into_iter().flatten() {
        let text = message["text"].as_str().unwrap_or_default().lines().map(show::clean).collect::<Vec<_>>();
        show::line(&format!("{before}{}{after}", text.join("\n")));
    }
}

fn length(value: &Value) -> Option<Millis> {
    duration::parse("duration", value, Millis::new(u64::MAX >> 12)).ok()
}

/// How long the call will stand by at most. `None`: only the server knows.
async fn shown(client: &Client, body: &Map<String, Value>) -> Option<Millis> {
    let given = |name: &str| body.get(name).and_then(length);
    let total = match (given("total_duration"), body.get("timer_id").and_then(Value::as_str)) {
        (None, Some(id)) => {
            let timer = client.get(&format!("/api/timers/{}", segment(id)), &[]).await.ok()?;
            length(&timer["remaining_time"])
        }
        (total, _) => total,
    };
    total.into_iter().chain(given("timeout_duration")).min()
}

/// The stand-by as a bar, or as something that moves where its length is not known; drawn on a terminal only. The server
/// keeps the time; this merely shows it.
fn bar(args: &TimerArgs, shown: Option<Millis>) -> Option<ProgressBar> {
    let template = match shown {
        Some(_) => "{msg} {bar:40.cyan/blue} {eta_precise} left",
        None => "{msg} {spinner} {elapsed_precise}",
    };
    let style = ProgressStyle::with_template(template).ok()?;
    let bar = ProgressBar::with_draw_target(shown.map(Millis::get), ProgressDrawTarget::stderr()).with_style(style);
    bar.set_message(show::clean(args.reason.as_deref().or(args.id.as_deref()).unwrap_or("standing by")));
    let began = Instant::now();
    let weak = bar.downgrade();
    tokio::spawn(async move {
        while let Some(bar) = weak.upgrade() {
            match shown {
                Some(_) => bar.set_position(began.elapsed().as_millis() as u64),
                None => bar.tick(),
            }
            drop(bar);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    Some(bar)
}
