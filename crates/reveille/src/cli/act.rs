//! `reveille stop`, `cancel`, `pause` and `resume`.

use super::{
    Common, Done,
    client::{Client, segment},
    show,
};
use clap::Args;
use serde_json::{Map, Value, json};
use std::process::ExitCode;

#[derive(Args)]
pub struct ActArgs {
    /// Id of the timer, as `ls` shows it
    id: String,
    /// Why; kept with the timer
    #[arg(long, short)]
    reason: Option<String>,
}

#[derive(Args)]
pub struct StopArgs {
    /// Id of the timer, as `ls` shows it
    #[arg(required_unless_present_any = ["all", "session"])]
    id: Option<String>,
    /// Every live timer of this session
    #[arg(long, short, conflicts_with_all = ["id", "all"])]
    session: Option<String>,
    /// Every live timer of every session
    #[arg(long, conflicts_with = "id")]
    all: bool,
    /// Why; kept with the timer
    #[arg(long, short)]
    reason: Option<String>,
}

#[derive(Args)]
pub struct PauseArgs {
    #[command(flatten)]
    pub act: ActArgs,
    /// For how long: 120, 2m, 1h30m
    #[arg(long = "for", short = 'f', value_name = "DURATION")]
    pub duration: String,
}

pub async fn run(common: &Common, client: &Client, action: &str, args: ActArgs, pause: Option<String>) -> Done {
    let mut body = Map::new();
    if let Some(reason) = args.reason {
        body.insert("reason".into(), json!(reason));
    }
    if let Some(duration) = pause {
        body.insert("pause_duration".into(), json!(duration));
    }
    let result = client.post(&format!("/api/timers/{}/{action}", segment(&args.id)), &Value::Object(body)).await?;
    if common.json {
        show::line(&result.to_string());
    } else {
        show::timer(&result);
    }
    Ok(ExitCode::SUCCESS)
}

pub async fn stop(common: &Common, client: &Client, args: StopArgs) -> Done {
    if let Some(id) = args.id {
        return run(common, client, "stop", ActArgs { id, reason: args.reason }, None).await;
    }
    let body = json!({"session": args.session, "all": args.all, "reason": args.reason});
    let result = client.post("/api/timers/stop", &body).await?;
    if common.json {
        show::line(&result.to_string());
    } else {
        show::line(&format!("{} stopped", result["stopped"]));
    }
    Ok(ExitCode::SUCCESS)
}
