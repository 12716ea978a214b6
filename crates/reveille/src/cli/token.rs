//! `reveille token`: tokens of the server on this data directory. They are kept as hashes in a file, so no server need
//! run; one that does reads the file again within a second.

use super::{Common, Done, show};
use crate::{
    access::{Entry, Hash, Scope},
    clock::{Clock, SystemClock},
    secret,
};
use clap::{Args, Subcommand};
use serde_json::json;
use std::process::ExitCode;

#[derive(Subcommand)]
pub enum TokenCommand {
    /// Make a token and show it, this once
    New(NewArgs),
    /// List tokens: their names and rights, never themselves
    Ls,
    /// Make a token worthless
    Revoke { name: String },
}

#[derive(Args)]
pub struct NewArgs {
    /// What it is for: a name to revoke it by
    name: String,
    /// What it allows
    #[arg(long, value_enum, default_value = "agent")]
    scope: Scope,
    /// Only agents of this tenant and their sessions; may be given several times
    #[arg(long, value_name = "TENANT")]
    tenant: Vec<String>,
    /// Only sessions that match this pattern, such as `claude-*`; may be given several times
    #[arg(long, value_name = "PATTERN")]
    session: Vec<String>,
}

pub fn run(common: &Common, command: TokenCommand) -> Done {
    let config = common.load()?;
    let file = config.tokens();
    match command {
        TokenCommand::New(args) => {
            crate::private::directory(&config.data_dir)?;
            let token = format!("rv_{}", secret::fresh());
            let operated = config.token.is_some() || file.read()?.iter().any(|entry| entry.scope == Scope::Operator);
            let entry = Entry {
                name: args.name,
                scope: args.scope,
                tenants: args.tenant,
                sessions: args.session,
                created_at: SystemClock.now().to_iso(),
                hash: Hash::of(token.as_bytes()),
            };
            let shown = json!({"name": entry.name, "scope": entry.scope, "token": token});
            let locks_out = !operated && entry.scope != Scope::Operator;
            file.add(entry)?;
            if common.json {
                show::line(&shown.to_string());
            } else {
                show::line(&token);
                eprintln!(
                    "It is not shown again. Clients send it as `Authorization: Bearer …`, ours take it from REVEILLE_TOKEN."
                );
            }
            if locks_out {
                eprintln!(
                    "From now on every request needs a token. Make one for yourself: reveille token new me --scope operator"
                );
            }
        }
        TokenCommand::Ls => list(common, &file.read()?),
        TokenCommand::Revoke { name } => {
            file.remove(&name)?;
            match common.json {
                true => show::line(&json!({"name": name, "revoked": true}).to_string()),
                false => show::line(&format!("{name} is revoked")),
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(common: &Common, entries: &[Entry]) {
    if common.json {
        let lines: Vec<_> = entries
            .iter()
            .map(|entry| {
                json!({"name": entry.name, "scope": entry.scope, "tenants": entry.tenants, "sessions": entry.sessions,
                       "created_at": entry.created_at})
            })
            .collect();
        show::line(&json!({ "tokens": lines }).to_string());
        return;
    }
    for entry in entries {
        let bounds = |what: &str, names: &[String]| match names.is_empty() {
            true => String::new(),
            false => format!("  {what} {}", names.join(", ")),
        };
        let bounds = bounds("tenants", &entry.tenants) + &bounds("sessions", &entry.sessions);
        show::line(&format!("{}  {}{bounds}  since {}", entry.name, entry.scope.name(), entry.created_at));
    }
}
