//! The command line. One file per command, named as the command; they speak to a running server over its HTTP API.
//!
//! Exit codes: 0 done · 1 refused or failed · 2 wrong usage · 3 no server answers · 4 `timer` returned while the timer
//! goes on, or was over before its condition was met · 5 `timer` returned because the timer was stopped. `hook` ends with
//! 0 whatever happens, or 1 if it is called wrongly, but for `rewake`, which wakes its client with 2. `demo` ends with
//! 130 if it is interrupted.

mod act;
pub mod channel;
pub(crate) mod client;
mod clock;
mod config;
mod demo;
mod doctor;
mod failure;
mod fetch;
mod hook;
mod inbox;
mod ls;
mod man;
mod mcp;
mod migrate;
mod paint;
mod pending;
mod presence;
mod quiet;
mod read;
mod serve;
mod setup;
mod show;
mod simulate;
mod timer;
mod token;
mod until;
mod watch;

use crate::{config::Config, mcp::bridge::Daemon};
use clap::{Args, CommandFactory, Parser, Subcommand};
use client::Client;
pub use failure::{Done, Failure};
use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

/// The number, and what it was built from.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("REVEILLE_BUILT"), ")");

/// The clock for AI agents: durable timers that wake the right agent, once.
#[derive(Parser)]
#[command(name = "reveille", version = VERSION, about, long_about = None)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Args, Clone)]
pub struct Common {
    /// Configuration file [default: reveille/reveille.toml in the XDG configuration directory]
    #[arg(long, global = true, env = "REVEILLE_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where everything is kept [default: reveille in the XDG data directory]
    #[arg(long, global = true, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The server to speak to [default: the one that runs on the data directory]
    #[arg(long, global = true, env = "REVEILLE_URL", value_name = "URL")]
    url: Option<String>,
    /// Answer with JSON, for programs; errors too
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Run the server (also without any command)
    Serve(ServeArgs),
    /// Speak MCP over stdio, for an agent's client; starts the server if none runs
    Mcp(mcp::McpArgs),
    /// Set a timer and stand by, or continue one with --id
    Timer(Box<timer::TimerArgs>),
    /// List what is pending: timers, reminders, session timers; the soonest first
    Ls(ls::LsArgs),
    /// Watch live timers in the terminal, with keys to pause, resume, cancel and stop them
    Watch(watch::WatchArgs),
    /// Show one timer
    Read(read::ReadArgs),
    /// End a timer for good, or all of them
    Stop(act::StopArgs),
    /// Stop waiting for a timer; it runs on in the background and leaves a message
    Cancel(act::ActArgs),
    /// Freeze a timer for a while
    Pause(act::PauseArgs),
    /// Resume a paused timer early
    Resume(act::ActArgs),
    /// Schedule, list and cancel reminders
    Clock(clock::ClockArgs),
    /// Show or set when a session is not to be disturbed
    Quiet(quiet::QuietArgs),
    /// Show a session's pending messages
    Inbox(inbox::InboxArgs),
    /// Put pending messages before the model; run by an agent's client as one of its hooks
    Hook(hook::HookArgs),
    /// Push messages into a running Claude Code: an MCP server over stdio, started by it as a channel
    Channel(channel::ChannelArgs),
    /// Show or write what an agent's client needs: tools, hooks, wake command
    Setup(setup::SetupArgs),
    /// See in half a minute what it does, without a key and without a network
    Demo(demo::DemoArgs),
    /// Look at everything a running server depends on, and say what cures what is wrong
    Doctor(doctor::DoctorArgs),
    /// Move everything from SQLite to PostgreSQL, while no server runs
    Migrate(migrate::MigrateArgs),
    /// Show what an agent's timers would do in a session, without waiting
    Simulate(simulate::SimulateArgs),
    /// Look at the configuration
    Config {
        #[command(subcommand)]
        command: config::ConfigCommand,
    },
    /// Make, list and revoke tokens for this server
    Token {
        #[command(subcommand)]
        command: token::TokenCommand,
    },
    /// Print completions for a shell
    Completions { shell: clap_complete::Shell },
    /// Print the manual page, or write those of all commands
    Man(man::ManArgs),
}

#[derive(Args, Default)]
pub struct ServeArgs {
    /// Address to listen on; port 0 picks a free one [default: 127.0.0.1:7383]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// PostgreSQL instead of SQLite
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
    /// Time stands still and moves by POST /api/clock/advance only: for tests [default: from now on]
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "now")]
    manual_clock: Option<String>,
    /// As `reveille mcp` starts it: apart from its terminal, on any port if the configured one is taken
    #[arg(long, hide = true)]
    background: bool,
}

/// Of people at a terminal.
const DEFAULT_SESSION: &str = "cli";

#[derive(Args)]
pub struct SessionArg {
    /// The session it belongs to
    #[arg(long, short, env = "REVEILLE_SESSION", default_value = DEFAULT_SESSION)]
    session: String,
}

impl SessionArg {
    /// What a command has to be given besides, so that it means this session.
    fn flag(&self) -> String {
        if self.session == DEFAULT_SESSION && std::env::var_os("REVEILLE_SESSION").is_none() {
            return String::new();
        }
        format!(" --session {}", show::quoted(&show::clean(&self.session)))
    }
}

impl Common {
    fn load(&self) -> Result<Config, Failure> {
        let mut config = Config::load(self.config.as_deref())?;
        if let Some(data_dir) = &self.data_dir {
            config.data_dir.clone_from(data_dir);
        }
        Ok(config)
    }

    /// What is known where the file cannot be read.
    fn without_file(&self) -> Config {
        let config = Config::without_file();
        let data_dir = self.data_dir.clone().unwrap_or_else(|| config.data_dir.clone());
        Config { data_dir, ..config }
    }

    fn client(&self) -> Result<Client, Failure> {
        match &self.url {
            Some(url) => Client::new(url),
            None => Client::of(&self.load()?),
        }
    }

    /// Brings a server back that was killed, for those who wait for what it keeps. Without one they go on waiting.
    async fn revive(&self) {
        if self.url.is_none()
            && let Ok(config) = self.load()
            && let Ok(daemon) = Daemon::local(&config, self.config.clone())
        {
            let _ = daemon.revive_if_dead().await;
        }
    }
}

pub fn main() -> ExitCode {
    // `serve` is what one means without a command, so its flags are understood there too.
    let mut words: Vec<_> = std::env::args_os().collect();
    if needs_serve(&words) {
        words.insert(1, "serve".into());
    }
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        // 2 would block the agent whose client runs this.
        Err(error) if error.use_stderr() && command_word(&words).is_some_and(|word| word == "hook") => {
            let _ = error.print();
            return ExitCode::from(1);
        }
        Err(error) => failure::misused(&error, words.iter().any(|word| word == "--json")),
    };
    let outcome = match cli.command.unwrap_or(Command::Serve(ServeArgs::default())) {
        Command::Serve(args) => serve::run(&cli.common, args),
        Command::Mcp(args) => mcp::run(&cli.common, args),
        Command::Config { command } => config::run(&cli.common, command),
        Command::Demo(args) => demo::run(&cli.common, args),
        Command::Doctor(args) => doctor::run(&cli.common, args),
        Command::Token { command } => token::run(&cli.common, command),
        Command::Migrate(args) => migrate::run(&cli.common, args),
        Command::Simulate(args) => simulate::run(&cli.common, args),
        Command::Hook(args) => hook::run(&cli.common, args),
        Command::Setup(args) => setup::run(&cli.common, args),
        Command::Channel(args) => channel::run(&cli.common, args),
        Command::Man(args) => man::run(args),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "reveille", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
        command => ask(&cli.common, command),
    };
    outcome.unwrap_or_else(|failure| failure.complain(cli.common.json))
}

fn ask(common: &Common, command: Command) -> Done {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = common.client()?;
    runtime.block_on(async {
        match command {
            Command::Timer(args) => timer::run(common, &client, *args).await,
            Command::Ls(args) => ls::run(common, &client, args).await,
            Command::Watch(args) => watch::run(common, args).await,
            Command::Read(args) => read::run(common, &client, args).await,
            Command::Stop(args) => act::stop(common, &client, args).await,
            Command::Cancel(args) => act::run(common, &client, "cancel", args, None).await,
            Command::Resume(args) => act::run(common, &client, "resume", args, None).await,
            Command::Pause(args) => act::run(common, &client, "pause", args.act, Some(args.duration)).await,
            Command::Clock(args) => clock::run(common, &client, args).await,
            Command::Quiet(args) => quiet::run(common, &client, args).await,
            Command::Inbox(args) => inbox::run(common, &client, args).await,
            Command::Serve(_)
            | Command::Mcp(_)
            | Command::Config { .. }
            | Command::Demo(_)
            | Command::Doctor(_)
            | Command::Token { .. }
            | Command::Migrate(_)
            | Command::Simulate(_)
            | Command::Channel(_)
            | Command::Hook(_)
            | Command::Setup(_)
            | Command::Man(_)
            | Command::Completions { .. } => {
                unreachable!("carried out without a server")
            }
        }
    })
}

/// No command was given, only flags, and none that is answered by itself.
fn needs_serve(words: &[std::ffi::OsString]) -> bool {
    command_word(words).is_none()
}

/// The command, or the flag that is answered by itself.
fn command_word(words: &[std::ffi::OsString]) -> Option<String> {
    let mut command = Cli::command();
    command.build();
    let takes_value = |flag: &str| {
        command.get_arguments().any(|arg| arg.get_long() == flag.strip_prefix("--") && arg.get_action().takes_values())
    };
    let mut words = words.iter().skip(1).map(|word| word.to_string_lossy().into_owned());
    while let Some(word) = words.next() {
        if !word.starts_with('-') || ["--help", "-h", "--version", "-V"].contains(&word.as_str()) {
            return Some(word);
        }
        if takes_value(&word) || word == "--listen" || word == "--database-url" {
            words.next();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_alone_mean_serve() {
        let serves = |line: &str| needs_serve(&line.split(' ').map(Into::into).collect::<Vec<_>>());
        for line in
            ["reveille", "reveille --listen 127.0.0.1:0", "reveille --data-dir ls --json", "reveille --config=x"]
        {
            assert!(serves(line), "{line}");
        }
        for line in ["reveille ls", "reveille --json ls", "reveille --data-dir d ls", "reveille --help", "reveille -V"]
        {
            assert!(!serves(line), "{line}");
        }
    }
}
