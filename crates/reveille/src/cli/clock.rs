//! `reveille clock`: reminders of a session.

use super::{
    Common, Done,
    client::{Client, segment},
    show,
};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use std::process::ExitCode;

#[derive(Args)]
pub struct ClockArgs {
    #[command(subcommand)]
    command: ClockCommand,
    /// The session whose reminders are meant
    #[arg(long, short, env = "REVEILLE_SESSION", default_value = super::DEFAULT_SESSION, global = true)]
    session: String,
}

#[derive(Subcommand)]
enum ClockCommand {
    /// Have a task told to the session's agent at a time
    Schedule(ScheduleArgs),
    /// List the session's reminders
    Ls,
    /// Cancel one
    Cancel {
        /// Id of the task, as `ls` shows it
        id: String,
    },
    /// Cancel all that are pending
    Clear,
}

#[derive(Args)]
#[group(id = "when", required = true)]
struct WhenArgs {
    /// How long from now: 600, 10m, 1h30m
    #[arg(long = "in", value_name = "DURATION")]
    after: Option<String>,
    /// When: ISO 8601 with offset, such as 2026-01-21T20:30:00-08:00
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
}

#[derive(Args)]
struct ScheduleArgs {
    /// What to do then
    task: String,
    #[command(flatten)]
    when: WhenArgs,
    /// The tool the agent should call
    #[arg(long)]
    tool: Option<String>,
    /// Its arguments, a JSON object
    #[arg(long, value_name = "JSON")]
    arguments: Option<String>,
    /// Replace this task
    #[arg(long, value_name = "TASK")]
    id: Option<String>,
}

pub async fn run(common: &Common, client: &Client, args: ClockArgs) -> Done {
    let mut body = Map::new();
    let mut put = |name: &str, value: Option<&String>| {
        if let Some(value) = value {
            body.insert(name.to_owned(), json!(value));
        }
    };
    let action = match &args.command {
        ClockCommand::Schedule(schedule) => {
            put("task", Some(&schedule.task));
            put("in", schedule.when.after.as_ref());
            put("dueAt", schedule.when.at.as_ref());
            put("tool", schedule.tool.as_ref());
            put("arguments", schedule.arguments.as_ref());
            put("taskId", schedule.id.as_ref());
            "schedule"
        }
        ClockCommand::Ls => return list(common, client, &args.session).await,
        ClockCommand::Cancel { id } => {
            put("taskId", Some(id));
            "cancel"
        }
        ClockCommand::Clear => "clear",
    };
    body.insert("action".into(), json!(action));
    let path = format!("/api/sessions/{}/tools/clock", segment(&args.session));
    let result = client.post(&path, &Value::Object(body)).await?;
    if common.json {
        show::line(&result.to_string());
    } else {
        tell(&result);
    }
    Ok(ExitCode::SUCCESS)
}

/// Looking takes no messages, so it does not go by way of the agent's tool.
async fn list(common: &Common, client: &Client, session: &str) -> Done {
    let page = client.get("/api/reminders", &[("session", session)]).await?;
    if common.json {
        show::line(&page.to_string());
        return Ok(ExitCode::SUCCESS);
    }
    let reminders = page["reminders"].as_array().map(Vec::as_slice).unwrap_or_default();
    if reminders.is_empty() {
        show::line("No reminders.");
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = show::table(["ID", "STATUS", "DUE", "TASK"]);
    for reminder in reminders {
        table.add_row([text(&reminder["taskId"]), text(&reminder["status"]), due(reminder), text(&reminder["task"])]);
    }
    show::line(&table.to_string());
    Ok(ExitCode::SUCCESS)
}

fn tell(result: &Value) {
    for scheduled in result["scheduled"].as_array().into_iter().flatten() {
        show::line(&format!("{} {}", text(&scheduled["taskId"]), due(scheduled)));
    }
    if let Some(removed) = result["removed"].as_str() {
        show::line(&format!("{} cancelled", show::clean(removed)));
    }
    if let Some(count) = result["removedCount"].as_u64() {
        show::line(&format!("{count} cancelled"));
    }
    for message in result["messages"].as_array().into_iter().flatten() {
        show::line("");
        message["text"].as_str().unwrap_or_default().lines().for_each(|text| show::line(&show::clean(text)));
    }
}

/// When it is due, and what it has to wait for then.
fn due(reminder: &Value) -> String {
    let waits = reminder["waitsUntil"].as_str().map(|until| show::quiet(&show::clean(until))).unwrap_or_default();
    show::joined([text(&reminder["dueAt"]), waits])
}

fn text(value: &Value) -> String {
    value.as_str().map(show::clean).unwrap_or_default()
}
