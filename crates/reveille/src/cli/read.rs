//! `reveille read`: one timer.

use super::{
    Common, Done,
    client::{Client, segment},
    show,
};
use clap::Args;
use std::process::ExitCode;

#[derive(Args)]
pub struct ReadArgs {
    /// Id of the timer, as `ls` shows it
    id: String,
}

pub async fn run(common: &Common, client: &Client, args: ReadArgs) -> Done {
    let timer = client.get(&format!("/api/timers/{}", segment(&args.id)), &[]).await?;
    if common.json {
        show::line(&timer.to_string());
    } else {
        show::timer(&timer);
    }
    Ok(ExitCode::SUCCESS)
}
