//! Reveille measured against its floors, in one run: the machine is noisy, so only ratios within a run mean anything.
//!
//! `cargo build --release --workspace && target/release/reveille-bench all` prints the tables of `docs/benchmarks.md`.

mod agents;
mod baseline;
mod burst;
mod child;
mod creates;
mod gateway;
mod gateway_clock;
mod idle;
mod idle_timeout;
mod lateness;
mod llm;
mod load;
mod nodes;
mod peers;
mod postgres;
mod probes;
mod queues;
mod restart;
mod scaling;
mod seed;
mod sessions;
mod soak;
mod table;

use clap::{Parser, Subcommand};
use std::path::PathBuf;

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    what: What,
    /// Where databases are made; a real disk, not a RAM disk
    #[arg(long, global = true, default_value = "target/bench")]
    dir: PathBuf,
    /// Timers pending beside the measured ones
    #[arg(long, global = true, default_value_t = 1_000_000)]
    pending: usize,
}

#[derive(Subcommand)]
enum What {
    /// Everything; takes about a quarter of an hour and 6 GB
    All,
    /// Durable creates through HTTP, 64 connections
    Creates,
    /// 10,000 timers over 10 s
    Lateness,
    /// 10,000 timers at one instant
    Burst,
    /// Memory and CPU at rest
    Idle,
    /// From kill -9 to the first overdue firing
    Restart,
    /// 1,000 agents standing by at once, over the API and over MCP
    Agents,
    /// Cost per create and firing from 10 k to 5 M pending
    Scaling,
    /// Several nodes on one PostgreSQL, against pgbench, graphile-worker and pg-boss; needs PostgreSQL, npm and node
    Postgres,
    /// Creates alone by one, two and three nodes, and what they wait for in the database
    Nodes {
        #[arg(long, default_value_t = 3)]
        rounds: usize,
    },
    /// The gateway against direct calls and a bare pass-through
    Gateway,
    /// Servers that run already side by side; `bench/peers/run` starts them and calls this
    #[command(hide = true)]
    Peers { servers: PathBuf },
    /// What the clock adds to the gateway's calls, and what a held turn takes
    GatewayClock,
    /// Sessions of an agent with three timers each
    Sessions {
        #[arg(long, default_value_t = sessions::COUNT)]
        count: usize,
    },
    /// 10,000 timers that wait for a condition, beside 10,000 others
    Probes,
    /// A server that is never ready, run as a child by `probes`
    #[command(hide = true)]
    Refuse,
    /// All doors under mixed load: flat memory, flat descriptors, no errors; not part of `all`
    Soak {
        #[arg(long, default_value_t = 5.0)]
        minutes: f64,
    },
    /// What an idle timeout costs per item
    IdleTimeout,
    /// A canned model provider, or the bare pass-through to one, run as children by `gateway`
    #[command(hide = true)]
    Llm { upstream: Option<String> },
    /// A baseline server, run as a child by `creates`
    #[command(hide = true)]
    Serve { kind: baseline::Kind, dir: PathBuf },
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    std::fs::create_dir_all(&cli.dir)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let (dir, pending) = (cli.dir.as_path(), cli.pending);
        match cli.what {
            What::Serve { kind, dir } => baseline::serve(kind, &dir).await,
            What::Creates => creates::run(dir, pending).await,
            What::Lateness => lateness::run(dir, pending).await,
            What::Burst => burst::run(dir, pending).await,
            What::Idle => idle::run(dir, pending).await,
            What::Restart => restart::run(dir, pending).await,
            What::Agents => agents::run(dir).await,
            What::Scaling => scaling::run(dir).await,
            What::Gateway => gateway::run(dir).await,
            What::Peers { servers } => peers::run(&servers).await,
            What::GatewayClock => gateway_clock::run(dir).await,
            What::Sessions { count } => sessions::run(dir, count).await,
            What::Postgres => postgres::run(dir, pending).await,
            What::Nodes { rounds } => nodes::run(dir, rounds).await,
            What::Probes => probes::run(dir, pending).await,
            What::Refuse => probes::refuse().await,
            What::IdleTimeout => idle_timeout::run().await,
            What::Soak { minutes } => soak::run(dir, minutes).await,
            What::Llm { upstream: None } => llm::canned().await,
            What::Llm { upstream: Some(upstream) } => llm::pass_through(upstream).await,
            What::All => {
                creates::run(dir, pending).await?;
                lateness::run(dir, pending).await?;
                burst::run(dir, pending).await?;
                idle::run(dir, pending).await?;
                restart::run(dir, pending).await?;
                agents::run(dir).await?;
                scaling::run(dir).await?;
                gateway::run(dir).await?;
                gateway_clock::run(dir).await?;
                sessions::run(dir, sessions::COUNT).await?;
                probes::run(dir, pending).await?;
                idle_timeout::run().await
            }
        }
    })
}
