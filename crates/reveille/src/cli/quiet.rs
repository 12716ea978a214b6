//! `reveille quiet`: shows, sets and removes a session's quiet hours.

use super::{
    Common, Done, SessionArg,
    client::{Client, segment},
    show,
};
use clap::Args;
use serde_json::{Map, Value, json};
use std::process::ExitCode;

#[derive(Args)]
pub struct QuietArgs {
    /// When they begin, 22:00
    #[arg(long, requires = "to", value_name = "TIME")]
    from: Option<String>,
    /// When they end, 08:00
    #[arg(long, requires = "from", value_name = "TIME")]
    to: Option<String>,
    /// On these days only, separated by commas: mon, weekdays, weekend
    #[arg(long, requires = "from", value_delimiter = ',')]
    days: Vec<String>,
    /// The time zone, an IANA name [default: this machine's]
    #[arg(long, requires = "from")]
    zone: Option<String>,
    /// None any more
    #[arg(long, conflicts_with = "from")]
    off: bool,
    #[command(flatten)]
    session: SessionArg,
}

pub async fn run(common: &Common, client: &Client, args: QuietArgs) -> Done {
    let path = format!("/api/sessions/{}/quiet", segment(&args.session.session));
    let found = match (args.from, args.to) {
        (Some(from), Some(to)) => {
            let here = || jiff::tz::TimeZone::system().iana_name().unwrap_or("UTC").to_owned();
            let mut body = Map::from_iter([("from".to_owned(), json!(from)), ("to".to_owned(), json!(to))]);
            body.insert("zone".into(), json!(args.zone.unwrap_or_else(here)));
            if !args.days.is_empty() {
                body.insert("days".into(), json!(args.days));
            }
            client.put(&path, &Value::Object(body)).await?
        }
        _ if args.off => client.delete(&path).await?,
        _ => client.get(&path, &[]).await?,
    };
    if common.json {
        show::line(&found.to_string());
        return Ok(ExitCode::SUCCESS);
    }
    let list = found["in_force"].as_array().cloned().unwrap_or_default();
    if list.is_empty() {
        show::line("No quiet hours.");
    }
    for one in list {
        let text = |name: &str| show::clean(one[name].as_str().unwrap_or_default());
        let days: Vec<&str> = one["days"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let days = if days.is_empty() { "every day".to_owned() } else { days.join(", ") };
        show::line(&format!("{} to {} ({}), {days}", text("from"), text("to"), text("zone")));
    }
    Ok(ExitCode::SUCCESS)
}
