//! `reveille serve`: runs the server until it is told to stop.

use super::{Common, Done, Failure, ServeArgs};
use crate::{clock::SystemClock, run::Server};
use std::{
    io::{IsTerminal, Write},
    process::ExitCode,
    sync::Arc,
};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

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
    let filter = EnvFilter::try_from_env("REVEILLE_LOG").unwrap_or_else(|_| EnvFilter::new("info,rmcp=off"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let server = Server::start(&config, Arc::new(SystemClock)).await?;
        let (address, data) = (server.address, config.keeps());
        // The reader may be gone (`reveille | head -1`); that is no reason to stop keeping time.
        let _ = writeln!(std::io::stdout(), "Reveille listens on http://{address} and keeps its data in {data}");
        let broken = tokio::select! {
            _ = terminate.recv() => false,
            _ = interrupt.recv() => false,
            () = server.engine.broken() => true,
        };
        tracing::info!("stopping: waiting calls are answered, timers go on at the next start");
        server.stop().await;
        if broken {
            return Err(Failure::Refused("stopped because a part of it broke (see the log); start it again".into()));
        }
        Ok(ExitCode::SUCCESS)
    })
}
