//! `reveille hook`: run by an agent's client at its own moments; puts pending messages before the model.
//!
//! A hook must never break the agent it belongs to: without a server, or with one that does not answer, it says nothing
//! and succeeds.

mod format;
mod rewake;

pub use format::{HookClient, HookEvent};

use super::{Common, Done, Failure, client::Client, fetch::Fetched};
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
    /// Claude Code over stdio and Codex name the session in their calls; the others' models have to.
    fn introduces(&self) -> bool {
        (self.tell_session || self.client == HookClient::Gemini)
            && matches!(self.event, HookEvent::Start | HookEvent::Prompt)
    }
}

pub fn run(common: &Common, args: HookArgs) -> Done {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let said = said(&args).await?;
        match args.event {
            HookEvent::Rewake => rewake::run(common, &args, &said.session).await,
            _ => tell(common, &args, &said).await,
        }
    });
    Ok(outcome.unwrap_or_else(|failure| {
        if args.verbose {
            let (Failure::Refused(why) | Failure::NoServer(why)) = failure;
            let _ = writeln!(std::io::stderr(), "reveille: {why}");
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
    /// The model has forgotten what it was told.
    forgotten: bool,
    /// Where the agent works.
    cwd: Option<String>,
}

/// Flag, environment, then what the client says: the same order in which the tools find their session.
async fn said(args: &HookArgs) -> Result<Said, Failure> {
    if let Some(session) = args.session.as_ref().filter(|session| !session.trim().is_empty()) {
        return Ok(Said { session: session.clone(), by_client: false, forgotten: false, cwd: None });
    }
    let input: Value = serde_json::from_str(&input().await).unwrap_or_default();
    let Some(named) = format::session_of(&input) else {
        return Err(Failure::Refused("the hook's input names no session; use --session".into()));
    };
    let (forgotten, cwd) = (input["source"] == "compact", input["cwd"].as_str().map(str::to_owned));
    Ok(Said { session: named.to_owned(), by_client: true, forgotten, cwd })
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
    let introduces = said.by_client && args.introduces();
    let (channel, cwd) = (args.event.channel(), said.cwd.as_deref());
    let asked = within(Fetched::ask(&client, &said.session, channel, introduces, cwd)).await;
    let (fetched, introduce) = match asked {
        // It is started by the first call, which is too late to learn the name.
        Err(Failure::NoServer(_)) if introduces && args.event == HookEvent::Start => (None, true),
        asked => asked?,
    };
    let introduce = introduces && (introduce || said.forgotten);
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
