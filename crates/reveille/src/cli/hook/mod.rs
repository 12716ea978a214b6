//! `reveille hook`: run by an agent's client at its own moments; puts pending messages before the model.
//!
//! A hook must never break the agent it belongs to: without a server, or with one that does not answer, it says nothing
//! and succeeds.

mod format;
mod rewake;

pub use format::{HookClient, HookEvent};

use super::{
    Common, Done, Failure,
    client::Client,
    fetch::{Ask, Fetched},
};
use clap::Args;
use serde_json::{Value, json};
use std::{
    io::{IsTerminal, Read, Write},
    process::ExitCode,
    time::Duration,
};

/// The agent waits for its hooks; a server that needs longer is as good as none.
const ANSWER: Duration = Duration::from_secs(5);
/// The client's JSON is small, but may hold the last answer of the model.
const INPUT_BYTES_MAX: u64 = 4 * 1024 * 1024;
const INPUT: Duration = Duration::from_secs(5);
/// Why a session starts, other than for the first time. Claude Code's tools over stdio know only the conversation that
/// its window began with.
const ANEW: [&str; 4] = ["resume", "clear", "fork", "compact"];

#[derive(Args)]
pub struct HookArgs {
    client: HookClient,
    event: HookEvent,
    /// The session [default: the one named on stdin by the client]
    #[arg(long, short, env = "REVEILLE_SESSION")]
    session: Option<String>,
    /// Tell the model how its session is called, where its tools cannot know (always for Gemini)
    #[arg(long)]
    tell_session: bool,
    /// How long `rewake` waits
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    timeout: String,
    /// Say on stderr why nothing was said
    #[arg(long, short)]
    verbose: bool,
}

impl HookArgs {
    /// Codex names the session in its calls, and so does Claude Code over stdio until the conversation changes; the
    /// others' models have to.
    fn introduces(&self, said: &Said) -> bool {
        let anew = said.anew && self.client == HookClient::ClaudeCode;
        (self.tell_session || anew || self.client == HookClient::Gemini)
            && matches!(self.event, HookEvent::Start | HookEvent::Prompt)
    }
}

pub fn run(common: &Common, args: HookArgs) -> Done {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let said = said(&args).await?;
        match args.event {
            HookEvent::Rewake => rewake::run(common, &args, &said.session).await,
            HookEvent::Tool => Ok(name(&args, &said)),
            _ => tell(common, &args, &said).await,
        }
    });
    Ok(outcome.unwrap_or_else(|failure| {
        if args.verbose {
            let _ = writeln!(std::io::stderr(), "reveille: {}", failure.why());
        }
        say(args.client.silence());
        ExitCode::SUCCESS
    }))
}

/// What is known of the conversation.
struct Said {
    session: String,
    /// The client's own name for it, which its tools may not know.
    by_client: bool,
    /// The conversation begins anew for its client: the model has forgotten what it was told, or never heard it, and
    /// tools that were told the conversation's name before may know another.
    anew: bool,
    /// The agent goes on because a hook has kept it from stopping, which its client allows only so often.
    kept_going: bool,
    /// Where the agent works.
    cwd: Option<String>,
    /// All that the client says.
    input: Value,
}

/// Flag, environment, then what the client says: the same order in which the tools find their session.
async fn said(args: &HookArgs) -> Result<Said, Failure> {
    let input: Value = serde_json::from_str(&input().await).unwrap_or_default();
    let given = args.session.as_deref().filter(|session| !session.trim().is_empty());
    let Some(session) = given.or_else(|| format::session_of(&input)).map(str::to_owned) else {
        return Err(Failure::Refused("the hook's input names no session; use --session".into()));
    };
    let anew = input["source"].as_str().is_some_and(|source| ANEW.contains(&source));
    let (kept_going, cwd) = (input["stop_hook_active"] == true, input["cwd"].as_str().map(str::to_owned));
    Ok(Said { session, by_client: given.is_none(), anew, kept_going, cwd, input })
}

/// A model that calls our tools need not know its session, and tools that were started with another conversation do.
fn name(args: &HookArgs, said: &Said) -> ExitCode {
    let named = format::named(&said.input, &said.session).filter(|_| args.client == HookClient::ClaudeCode);
    match named {
        Some(named) => say(&format!("{named}\n")),
        None => say(args.client.silence()),
    };
    ExitCode::SUCCESS
}

/// Read on a thread of its own, which ends with the process: an input that never ends must not keep the agent waiting.
async fn input() -> String {
    if std::io::stdin().is_terminal() {
        return String::new();
    }
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = std::io::stdin().take(INPUT_BYTES_MAX).read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    tokio::time::timeout(INPUT, receiver).await.ok().and_then(Result::ok).unwrap_or_default()
}

async fn tell(common: &Common, args: &HookArgs, said: &Said) -> Done {
    if args.client.tell(args.event, "").is_none() {
        say(args.client.silence());
        return Ok(ExitCode::SUCCESS);
    }
    let client = connect(common, args)?;
    let introduces = said.by_client && args.introduces(said);
    // What is told then may be dropped without a word; a hook that wakes is not counted.
    let yields = args.event == HookEvent::Stop && said.kept_going;
    let ask = Ask { channel: args.event.channel(), introduce: introduces, cwd: said.cwd.as_deref(), yields };
    let asked = within(Fetched::ask(&client, &said.session, ask)).await;
    let (fetched, introduce) = match asked {
        // It is started by the first call, which is too late to learn the name.
        Err(Failure::NoServer(_)) if introduces && args.event == HookEvent::Start => (None, true),
        asked => asked?,
    };
    let introduce = introduces && (introduce || said.anew);
    let introduction = introduce.then(|| format!("For Reveille's tools pass session: {}.", json!(said.session)));
    let parts: Vec<&str> =
        introduction.as_deref().into_iter().chain(fetched.as_ref().map(|fetched| fetched.text.as_str())).collect();
    if parts.is_empty() {
        say(args.client.silence());
        return Ok(ExitCode::SUCCESS);
    }
    let output = args.client.tell(args.event, &parts.join("\n\n")).map(|output| format!("{output}\n"));
    let told = output.is_some_and(|output| say(&output));
    if let Some(fetched) = fetched {
        settle(&client, fetched, told).await;
    }
    Ok(ExitCode::SUCCESS)
}

/// Only what was really written was told.
async fn settle(client: &Client, fetched: Fetched, told: bool) {
    let _ = match told {
        true => within(fetched.commit(client)).await,
        false => within(fetched.release(client)).await,
    };
}

fn connect(common: &Common, args: &HookArgs) -> Result<Client, Failure> {
    Ok(common.client()?.kind(args.client.kind()))
}

async fn within<T>(asking: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let late = || Failure::NoServer(format!("the server did not answer within {} seconds", ANSWER.as_secs()));
    tokio::time::timeout(ANSWER, asking).await.unwrap_or_else(|_| Err(late()))
}

/// Whether all of it was written.
fn say(text: &str) -> bool {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
}
