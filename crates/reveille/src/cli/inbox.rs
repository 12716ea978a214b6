//! `reveille inbox`: what waits to be told to a session's agent.

use super::{
    Common, Done, SessionArg,
    client::{Client, segment},
    show,
};
use clap::Args;
use serde_json::{Value, json};
use std::process::ExitCode;

#[derive(Args)]
pub struct InboxArgs {
    /// Take the messages: they count as delivered and are not shown again
    #[arg(long)]
    take: bool,
    #[command(flatten)]
    session: SessionArg,
}

pub async fn run(common: &Common, client: &Client, args: InboxArgs) -> Done {
    let path = format!("/api/sessions/{}/inbox", segment(&args.session.session));
    let answer = if args.take {
        client.post(&format!("{path}/lease"), &Value::Null).await?
    } else {
        client.get(&path, &[]).await?
    };
    if common.json {
        show::line(&answer.to_string());
    } else {
        tell(&answer);
    }
    // Only now that they were shown.
    if let Some(lease) = answer["lease"].as_str() {
        client.post(&format!("{path}/commit"), &json!({"lease": lease})).await?;
    }
    Ok(ExitCode::SUCCESS)
}

fn tell(answer: &Value) {
    let messages = answer["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    if messages.is_empty() {
        return show::line("No messages.");
    }
    for (place, message) in messages.iter().enumerate() {
        if place > 0 {
            show::line("");
        }
        message["text"].as_str().unwrap_or_default().lines().for_each(|text| show::line(&show::clean(text)));
    }
}
