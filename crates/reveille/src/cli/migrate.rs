//! `reveille migrate`: everything of an SQLite file into PostgreSQL. Cut off anywhere, it goes on when it is run again.

use super::{Common, Done, Failure, show};
use clap::Args;
use reveille_store::{PostgresOptions, postgres::import};
use serde_json::json;
use std::{path::PathBuf, process::ExitCode};

#[derive(Args)]
pub struct MigrateArgs {
    /// The file, `sqlite:PATH` [default: the one in the data directory]
    #[arg(long, value_name = "SQLITE")]
    from: Option<String>,
    /// The database, `postgres://…`; its server must not have been used yet
    #[arg(long, value_name = "URL", env = "REVEILLE_DATABASE_URL")]
    to: String,
}

pub fn run(common: &Common, args: MigrateArgs) -> Done {
    let from = match &args.from {
        Some(from) => PathBuf::from(from.strip_prefix("sqlite:").unwrap_or(from)),
        None => common.load()?.database(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let told = |table: &str, rows: i64| {
        if !common.json {
            eprintln!("{table}: {rows}");
        }
    };
    let moved = runtime
        .block_on(import(&from, &PostgresOptions::new(&args.to), told))
        .map_err(|error| Failure::Refused(format!("{error}\nWhat was copied stays; run it again to go on")))?;
    for one in moved {
        if common.json {
            let tables: serde_json::Map<_, _> =
                one.tables.iter().map(|(name, rows)| ((*name).into(), json!(rows))).collect();
            show::line(&json!({"server_id": one.server_id, "rows": tables, "default": one.is_default}).to_string());
            continue;
        }
        let counts: Vec<String> = one.tables.iter().map(|(name, rows)| format!("{rows} {name}")).collect();
        show::line(&format!("Server {} is moved, and counted on both sides: {}", one.server_id, counts.join(", ")));
        if !one.is_default {
            show::line(&format!(
                "Another server is at home there: set server_id = \"{}\" to be this one",
                one.server_id
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}
