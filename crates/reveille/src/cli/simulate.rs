//! `reveille simulate`: what an agent's timers would do in a session, without waiting for it.

use super::{Common, Done, Failure, show};
use crate::{
    clock::{Clock, SystemClock},
    simulate::{self, Line, Play, Say, What},
};
use clap::Args;
use reveille_core::{Limits, Millis, due, duration};
use serde_json::{Value, json};
use std::{path::PathBuf, process::ExitCode, sync::Arc};

#[derive(Args)]
pub struct SimulateArgs {
    /// The agent: a TOML or JSON file with one, or a configuration with [[agent]]
    file: PathBuf,
    /// Which one, if there are several: tenant:chatbot
    #[arg(long)]
    agent: Option<String>,
    /// What the user says, and how long after the beginning: "7m hello?"
    #[arg(long, value_name = "WHEN WHAT", default_value = "0s hi")]
    say: Vec<Say>,
    /// How long the agent takes to answer
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    answers_in: String,
    /// When it begins, 2026-11-16T22:00:00+01:00; only quiet hours depend on it [default: now]
    #[arg(long, value_name = "TIME")]
    start: Option<String>,
    /// How long after the last message to look
    #[arg(long = "for", value_name = "DURATION", default_value = "1d")]
    look: String,
}

pub fn run(common: &Common, args: SimulateArgs) -> Done {
    let config = common.load()?;
    let limits = config.limits();
    let refused = |why: String| Failure::Refused(why);
    let length = |flag: &'static str, text: &str| match text.trim_end_matches(char::is_alphabetic).parse() {
        Ok(0.0) => Ok(Millis::ZERO),
        _ => duration::parse(flag, &json!(text), limits.duration_max).map_err(|reject| refused(reject.to_string())),
    };
    let start = match &args.start {
        Some(start) => due::named("--start", &json!(start)).map_err(|reject| refused(reject.to_string()))?,
        None => SystemClock.now(),
    };
    let play =
        Play { start, answers_in: length("--answers-in", &args.answers_in)?, look: length("--for", &args.look)? };
    let timers_max = config.limits.session_timers_per_session;
    let agent = simulate::agent(&args.file, args.agent.as_deref(), timers_max, &limits);
    let (agent, quiet) = agent.map_err(|error| refused(format!("{error:#}")))?;
    // Those of the file that is tried out, where it has some.
    let limits = Limits { quiet: quiet.map(Arc::new).or(limits.quiet.clone()), ..limits };
    let lines = simulate::run(&agent, &args.say, &play, &limits).map_err(|reject| refused(reject.to_string()))?;
    if common.json {
        show::line(&json!({"agent": agent.id, "start": start.to_iso(), "lines": lines}).to_string());
        return Ok(ExitCode::SUCCESS);
    }
    show::line(&format!("{}, from {}", agent.id, start.to_iso()));
    lines.iter().for_each(tell);
    Ok(ExitCode::SUCCESS)
}

fn tell(line: &Line) {
    let after = show::seconds(&line.after);
    let (who, what) = match &line.what {
        What::Message { text } => ("user", format!("\"{}\"", show::clean(text))),
        What::Answered => ("agent", "answers; silence begins".to_owned()),
        What::Fired { timer_id, tool_name, trigger_count, max_triggers, with, due } => {
            let with = match with {
                Value::Null => String::new(),
                Value::Object(arguments) if arguments.is_empty() => String::new(),
                with => format!(" {}", show::clean(&with.to_string())),
            };
            let of = if *max_triggers == 0 { String::new() } else { format!(" of {max_triggers}") };
            let quiet =
                due.as_ref().map(|due| format!(", due {due}, waited for the end of quiet hours")).unwrap_or_default();
            (timer_id.as_str(), format!("{tool_name}{with} (time {trigger_count}{of}{quiet})"))
        }
        What::Closed { reason } => ("session", format!("closed: {}", show::clean(reason))),
        What::GoesOn { next } => ("…", format!("goes on at {next}; --for shows more")),
    };
    show::line(&format!("{after:>12}  {who:<18} {what}"));
}
