//! `reveille serve`: runs the server until it is told to stop.

use super::{Common, Done, Failure, ServeArgs};
use crate::{
    clock::{Clock, ManualClock, SystemClock},
    run::Server,
};
use reveille_core::due;
use reveille_store::HistoryFilter;
use serde_json::json;
use std::{
    io::{IsTerminal, Write},
    process::ExitCode,
    sync::Arc,
};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// Whatever is asked for: from `debug` on these write what a statement is given, and so the secrets of agents.
const DISCREET: [&str; 2] = ["tokio_postgres=info", "tokio_postgres::query=info"];

/// Descriptors that the server can use: a connection, and one to an upstream, for each place there is.
const FILES_WANTED: u64 = 40_000;

pub fn run(common: &Common, args: ServeArgs) -> Done {
    let mut config = common.load()?;
    if let Some(listen) = args.listen {
        config.listen = listen;
    }
    if args.database_url.is_some() {
        config.database_url = args.database_url;
    }
    if args.background {
        // Whoever started it may be killed with all of its group; the server keeps time for others too.
        rustix::process::setsid()?;
        config.any_port = true;
    }
    let clock = clock(args.manual_clock.as_deref())?;
    let asked = EnvFilter::try_from_env("REVEILLE_LOG").unwrap_or_else(|_| EnvFilter::new("info,rmcp=off"));
    let filter = DISCREET.iter().filter_map(|target| target.parse().ok()).fold(asked, EnvFilter::add_directive);
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    take_files();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let server = Server::start(&config, clock.clone()).await?;
        if let Some(manual) = clock.manual() {
            begin_after_all_that_was(manual, &server).await?;
            tracing::warn!(now = %clock.now().to_iso(), "a manual clock: time stands still until POST /api/clock/advance");
        }
        let (address, data) = (server.address, config.keeps());
        // The reader may be gone (`reveille | head -1`); that is no reason to stop keeping time.
        let _ = writeln!(std::io::stdout(), "Reveille listens on http://{address} and keeps its data in {data}");
        let broken = tokio::select! {
            _ = terminate.recv() => false,
            _ = interrupt.recv() => false,
            () = server.engine.broken() => true,
        };
        tracing::info!("stopping: waiting calls are answered, timers go on at the next start");
        tokio::select! {
            () = server.stop() => {}
            _ = terminate.recv() => return Err(at_once()),
            _ = interrupt.recv() => return Err(at_once()),
        }
        if broken {
            return Err(Failure::Refused("stopped because a part of it broke (see the log); start it again".into()));
        }
        Ok(ExitCode::SUCCESS)
    });
    // What is left after an end at once is not waited for.
    runtime.shutdown_background();
    done
}

/// Whoever asks twice does not want to wait. What was answered is kept, as if the process were killed.
fn at_once() -> Failure {
    Failure::Refused("stopped at once, on the second signal: what was under way is settled at the next start".into())
}

fn clock(manual: Option<&str>) -> Result<Arc<dyn Clock>, Failure> {
    let start = match manual {
        None => return Ok(Arc::new(SystemClock)),
        Some("now") => SystemClock.now(),
        Some(time) => {
            let why = |_| Failure::Refused(format!("--manual-clock: '{time}' is not like 2026-11-16T16:00:00Z"));
            due::parse(&json!(time)).map_err(why)?
        }
    };
    Ok(Arc::new(ManualClock::at(start)))
}

/// A manual clock does not go back by a restart: what was written by it has happened.
async fn begin_after_all_that_was(clock: &ManualClock, server: &Server) -> Result<(), Failure> {
    let last = HistoryFilter { limit: 1, ..HistoryFilter::default() };
    let last = server.engine.store().history(last).await.map_err(anyhow::Error::from)?.pop();
    if let Some(last) = last.map(|last| last.entry.at).filter(|last| *last > clock.now()) {
        clock.set(last);
    }
    Ok(())
}

/// Systems give a process few descriptors unless it asks for more. Without them, connections wait.
fn take_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(FILES_WANTED, |maximum| maximum.min(FILES_WANTED));
    if limit.current.is_some_and(|current| current < wanted) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit });
    }
}
