//! Timers that wait for a condition: whether looking at many of them keeps its bounds, and whether other timers are late
//! because of it.

use crate::{
    child::{self, Server},
    lateness::Bench,
    seed, table,
};
use anyhow::Context;
use axum::{Router, http::StatusCode};
use futures_util::{StreamExt, stream};
use reveille_core::{Call, Command, Condition, Millis, Purpose, SessionId};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

const CONDITIONS: usize = 10_000;
const PER_SESSION: usize = 50;
const CREATORS: usize = 64;
/// Long enough that none is over while it is measured.
const HOUR: Millis = Millis::from_secs(3600);
const SAMPLE: Duration = Duration::from_millis(20);

/// A server that is never ready, in a process of its own.
pub async fn refuse() -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}", listener.local_addr()?);
    let app = Router::new().fallback(|| async { StatusCode::SERVICE_UNAVAILABLE });
    Ok(axum::serve(listener, app).await?)
}

pub async fn run(dir: &Path, pending: usize) -> anyhow::Result<()> {
    let site = Server::part(&["refuse"])?;
    let directory = seed::directory(dir, pending).await?;
    let bench = Bench::start(directory.path()).await?;
    let alone = bench.fire(due_in).await?;
    wait_for(&bench, &site.address).await?;
    let watched = Watched::begin(&bench);
    let probing = bench.fire(due_in).await?;
    let figures = watched.end(&bench).await?;
    bench.stop().await;

    let late = |name: &str, late: &[i64]| {
        let of = |share| table::percentile(late, share);
        [
            name.to_owned(),
            table::ms(of(0.5)),
            table::ms(of(0.99)),
            format!("{:.2} / {:.2}", ratio(of(0.5), &alone, 0.5), ratio(of(0.99), &alone, 0.99)),
        ]
    };
    table::print(
        &format!("Lateness of {} timers beside {CONDITIONS} conditions that never hold", alone.len()),
        ["", "p50 ms", "p99 ms", "× alone p50 / p99"],
        &[late("alone", &alone), late("beside the conditions", &probing)],
    );
    table::print(
        "What looking costs",
        ["looks", "looks a second, on average", "in the busiest second", "sockets at most", "CPU, share of one core"],
        &[figures],
    );
    Ok(())
}

fn due_in(number: usize) -> u64 {
    use crate::lateness::{LEAD_MS, SPREAD_MS, TIMERS};
    LEAD_MS + number as u64 * SPREAD_MS / TIMERS as u64
}

fn ratio(value: i64, base: &[i64], share: f64) -> f64 {
    value as f64 / table::percentile(base, share).max(1) as f64
}

/// Missions that wait for pages of this server, which never come.
async fn wait_for(bench: &Bench, address: &str) -> anyhow::Result<()> {
    let made = stream::iter(0..CONDITIONS).map(|number| one(bench, address, number)).buffer_unordered(CREATORS);
    made.collect::<Vec<_>>().await.into_iter().collect()
}

async fn one(bench: &Bench, address: &str, number: usize) -> anyhow::Result<()> {
    let engine = &bench.engine;
    let url = format!("http://{address}/{number}");
    let condition = Condition::Http { url, status: Some(200), body_matches: None };
    let until = engine.wanted(condition, &SessionId::new("probes"), None).await?;
    let command = Command::Create {
        id: engine.fresh_timer(),
        purpose: Purpose::Mission("measure".into()),
        total: HOUR,
        timeout: None,
        until: Some(until),
        key: None,
        task: None,
    };
    let session = SessionId::new(format!("waits-{}", number / PER_SESSION));
    engine.execute(&session, Call::new(command)).await.map(drop).context("a condition could not be set")
}

/// What is counted while the other timers fire.
struct Watched {
    began: Instant,
    looks: u64,
    cpu_us: f64,
    sockets: Arc<AtomicUsize>,
    busiest: Arc<AtomicUsize>,
    stop: CancellationToken,
}

impl Watched {
    fn begin(bench: &Bench) -> Self {
        let looks = bench.engine.board().looks();
        let (sockets, busiest, stop) = (Arc::default(), Arc::default(), CancellationToken::new());
        let watched = Self {
            began: Instant::now(),
            looks: *looks.borrow(),
            cpu_us: child::cpu_us(std::process::id()).unwrap_or_default(),
            sockets,
            busiest,
            stop,
        };
        let (sockets, busiest, stop) = (watched.sockets.clone(), watched.busiest.clone(), watched.stop.clone());
        let before = open_sockets();
        tokio::spawn(async move {
            let mut second = (Instant::now(), *looks.borrow());
            while stop.run_until_cancelled(tokio::time::sleep(SAMPLE)).await.is_some() {
                sockets.fetch_max(open_sockets().saturating_sub(before), Ordering::Relaxed);
                if second.0.elapsed() >= Duration::from_secs(1) {
                    let now = *looks.borrow();
                    busiest.fetch_max((now - second.1) as usize, Ordering::Relaxed);
                    second = (Instant::now(), now);
                }
            }
        });
        watched
    }

    async fn end(self, bench: &Bench) -> anyhow::Result<[String; 5]> {
        self.stop.cancel();
        let seconds = self.began.elapsed().as_secs_f64();
        let looks = *bench.engine.board().looks().borrow() - self.looks;
        let cpu = child::cpu_us(std::process::id())? - self.cpu_us;
        Ok([
            looks.to_string(),
            format!("{:.0}", looks as f64 / seconds),
            self.busiest.load(Ordering::Relaxed).to_string(),
            self.sockets.load(Ordering::Relaxed).to_string(),
            format!("{:.0} %", cpu / 10_000.0 / seconds),
        ])
    }
}

/// Of this process.
fn open_sockets() -> usize {
    let Ok(files) = std::fs::read_dir("/proc/self/fd") else { return 0 };
    let links = files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}
