//! Wiring: store, engine and door into one running server. The only place that knows all of them; tests start the same
//! server as production, with a clock of their own.

use crate::{
    address::Address,
    agents::{self, SessionStage, query::Turns, watch},
    clock::Clock,
    config::Config,
    engine::{Engine, Settings},
    gateway,
    http::{self, App, access::Access, guard::Guard, pace::Pace, serve::Doorman},
    mcp::StandbyLimits,
    private,
};
use anyhow::Context;
use futures_util::FutureExt;
use reveille_core::id;
use reveille_store::{PostgresStore, SqliteStore, Store};
use std::{fs, io, net::SocketAddr, path::PathBuf, sync::Arc};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub struct Server {
    pub address: SocketAddr,
    pub engine: Arc<Engine>,
    address_file: PathBuf,
    /// Ends the door: no new connections, stand-bys answered, streams ended.
    stop_door: CancellationToken,
    door: JoinHandle<()>,
    /// Ends the engine, after the door.
    stop_engine: CancellationToken,
    tasks: TaskTracker,
}

async fn open(config: &Config, fresh: &str) -> anyhow::Result<Arc<dyn Store>> {
    let wanted = config.server_id.as_deref();
    Ok(match config.postgres() {
        Some(options) => Arc::new(PostgresStore::open(&options, wanted, fresh).await?),
        None => Arc::new(SqliteStore::open(&config.database(), wanted, fresh)?),
    })
}

async fn listen(config: &Config) -> anyhow::Result<TcpListener> {
    let bound = match TcpListener::bind(config.listen).await {
        Err(error) if config.any_port && error.kind() == io::ErrorKind::AddrInUse => {
            TcpListener::bind((config.listen.ip(), 0)).await
        }
        bound => bound,
    };
    bound.with_context(|| {
        format!("cannot listen on {}; is Reveille running already? Choose another with --listen", config.listen)
    })
}

impl Server {
    pub async fn start(config: &Config, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        config.check()?;
        let fresh = id::readable("server", clock.now(), rand::random());
        private::directory(&config.data_dir)
            .with_context(|| format!("cannot make {}; choose another with --data-dir", config.data_dir.display()))?;
        let store = open(config, &fresh).await?;
        let listener = listen(config).await?;
        let address = listener.local_addr()?;
        let wake = Arc::new(config.wake_rules(address));
        let settings = Settings {
            limits: config.limits(),
            retention: config.retention.0,
            wake,
            probe: config.probe(),
            ..Settings::default()
        };
        let (stop_door, stop_engine, tasks) = (CancellationToken::new(), CancellationToken::new(), TaskTracker::new());
        let engine = Engine::start(store, clock, settings, stop_engine.clone(), &tasks);
        let (agents, executor) = agents::open(config, &engine)?;
        if let Some(begun) = engine.calls() {
            tasks.spawn(executor.clone().run(begun, stop_engine.clone()));
        }
        let renewing = engine.clone();
        let on_read = move |fresh: &Config| match fresh.check_wake() {
            Ok(()) => renewing.renew_wake_rules(fresh.wake_rules(address)),
            Err(error) => tracing::error!("the wake commands make no sense and the last good ones stay: {error}"),
        };
        tasks.spawn(watch::run(config.clone(), agents.clone(), on_read, stop_engine.clone()));
        let gateway = gateway::open(&config.gateway, &engine, stop_door.clone())?;
        let stage = SessionStage::new(engine.clone(), agents.clone(), tasks.clone(), stop_engine.clone());
        let gateway = Arc::new(gateway.stage(stage));
        let turns = Arc::new(Turns::new(config.agents.turns, tasks.clone(), stop_engine.clone()));
        let (started_at, standby_limits) = (engine.now(), StandbyLimits::new(&config.mcp));
        let access = Arc::new(Access::open(config.token.clone(), config.tokens(), engine.clock().clone())?);
        let app = App {
            engine: engine.clone(),
            stop: stop_door.clone(),
            started_at,
            standby_limits,
            gateway,
            agents,
            executor,
            turns,
            access: access.clone(),
            ui_dir: config.ui_dir.clone(),
        };
        let (announced, address_file) = (Address::new(address), config.address_file());
        let hosts = config.allowed_hosts.iter().cloned().chain([address.ip().to_string()]);
        let guard = Guard::new(hosts, announced.server.clone());
        let pace = Pace::new(config.limits.requests_per_second);
        let doorman = Doorman { guard, access, pace, engine: Some(engine.clone()) };
        let door = tokio::spawn(http::serve::serve(listener, http::router(app), doorman, stop_door.clone()));
        announced.write(&address_file).with_context(|| format!("cannot write {}", address_file.display()))?;
        Ok(Self { address, engine, address_file, stop_door, door, stop_engine, tasks })
    }

    /// Answers what is waiting, finishes what was begun, lets go of the files.
    pub async fn stop(self) {
        // One that broke leaves it behind as if it were killed, so that whoever waits brings it back.
        if self.engine.broken().now_or_never().is_none() {
            let _ = fs::remove_file(&self.address_file);
        }
        self.stop_door.cancel();
        let _ = self.door.await;
        self.stop_engine.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.engine.store().close().await;
    }
}
