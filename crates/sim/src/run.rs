//! One run from its seed to its verdict, and many of them.

use crate::{
    client::Client,
    gate::Life,
    oracle::{self, Guilt, Rest},
    plan::Plan,
    plant::Bug,
    random::Random,
    store::now,
    trace::{self, Event},
    world::{Root, World},
};
use reveille_core::{Call, Command, command::Ride};
use reveille_store::{ItemFilter, MemoryServer, SessionFilter};
use std::{
    ops::Range,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::{sleep, timeout};

/// When nothing goes wrong any more, every call is over within this.
const CALLS_END: Duration = Duration::from_secs(120);
/// … and everything in the store has come to its end within this.
const ALL_ENDS: Duration = Duration::from_secs(12 * 3600);
/// Between two looks at what is left.
const LOOK: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreKind {
    #[default]
    Memory,
    Sqlite,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    pub store: StoreKind,
    pub bug: Option<Bug>,
    /// The trace is kept and its hash made.
    pub traced: bool,
}

/// What came of a run.
pub struct Report {
    pub seed: u64,
    pub guilt: Vec<Guilt>,
    pub figures: Figures,
    pub hash: u64,
    pub trace: Vec<(u64, Event)>,
}

/// What happened in it, in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub runs: u64,
    pub events: u64,
    pub commits: u64,
    pub calls: u64,
    pub crashes: u64,
    pub stops: u64,
    pub freezes: u64,
    pub clock_sets: u64,
    pub deliveries: u64,
    pub requests: u64,
    pub virtual_seconds: u64,
}

impl Figures {
    fn of(trace: &[(u64, Event)]) -> Self {
        let count = |wanted: fn(&Event) -> bool| trace.iter().filter(|(_, event)| wanted(event)).count() as u64;
        Self {
            runs: 1,
            events: trace.len() as u64,
            commits: count(|event| matches!(event, Event::Committed { .. })),
            calls: count(|event| matches!(event, Event::Asked { .. })),
            crashes: count(|event| matches!(event, Event::Ended(_, "crash"))),
            stops: count(|event| matches!(event, Event::Ended(_, "stop"))),
            freezes: count(|event| matches!(event, Event::Frozen(_))),
            clock_sets: count(|event| matches!(event, Event::ClockSet(_))),
            deliveries: count(|event| matches!(event, Event::Delivery { told: true, .. })),
            requests: count(|event| matches!(event, Event::Called { .. })),
            virtual_seconds: trace.last().map_or(0, |(at, _)| at / 1000),
        }
    }

    pub fn add(&mut self, other: &Figures) {
        self.runs += other.runs;
        self.events += other.events;
        self.commits += other.commits;
        self.calls += other.calls;
        self.crashes += other.crashes;
        self.stops += other.stops;
        self.freezes += other.freezes;
        self.clock_sets += other.clock_sets;
        self.deliveries += other.deliveries;
        self.requests += other.requests;
        self.virtual_seconds += other.virtual_seconds;
    }
}

/// Runs one seed.
pub fn run(seed: u64, options: Options) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O");
    let directory = match options.store {
        StoreKind::Sqlite => Some(tempfile::tempdir().expect("a directory for the database")),
        StoreKind::Memory => None,
    };
    let (trace, plan, rest) = runtime.block_on(async {
        let mut random = Random::new(seed);
        let plan = Plan::new(seed, &mut random, directory.is_some());
        let root = match &directory {
            Some(directory) => Root::Sqlite { path: directory.path().join("sim.db"), open: Mutex::default() },
            None => Root::Memory(MemoryServer::new("server_sim")),
        };
        let world = Arc::new(World::new(plan, root, options.bug, random));
        let rest = live(&world).await;
        (world.trace.take(), world.plan.clone(), rest)
    });
    drop(runtime);
    let guilt = oracle::judge(&plan, &trace, &rest);
    let figures = Figures::of(&trace);
    let hash = if options.traced { trace::hash(&trace) } else { 0 };
    Report { seed, guilt, figures, hash, trace: if options.traced { trace } else { Vec::new() } }
}

/// The whole of a world's life; what is left at its end.
async fn live(world: &Arc<World>) -> Rest {
    for number in 0..world.plan.nodes {
        world.start(number);
    }
    let clients: Vec<_> =
        (0..world.plan.clients).map(|number| tokio::spawn(Client::new(world, number).run())).collect();
    let chaos = tokio::spawn(chaos(world.clone()));
    sleep(Duration::from_millis(world.plan.length)).await;
    chaos.abort();
    world.weather.end();
    for node in world.nodes() {
        if node.gate.set(Life::Running) {
            world.trace.note(Event::Thawed(node.by));
        }
    }
    while world.nodes().len() < world.plan.nodes {
        sleep(Duration::from_millis(500)).await;
    }
    world.trace.note(Event::Peace);
    let mut unanswered = 0;
    for client in clients {
        let abort = client.abort_handle();
        if timeout(CALLS_END, client).await.is_err() {
            abort.abort();
            unanswered += 1;
        }
    }
    let ended = timeout(ALL_ENDS, drain(world)).await.is_ok();
    // What clients left behind is settled after they are gone.
    sleep(world.plan.limits.lease.to_std() + Duration::from_secs(30)).await;
    for node in world.nodes() {
        let attended = node.engine.attended();
        if attended != Default::default() {
            world.trace.note(Event::Left { by: node.by, what: format!("{attended:?}") });
        }
    }
    let rest = rest(world, unanswered, ended);
    for node in world.nodes() {
        now(node.place.close());
    }
    rest
}

/// What befalls the nodes.
async fn chaos(world: Arc<World>) {
    if !world.plan.stormy {
        return;
    }
    let mut random = world.fork(77);
    let mut storm = false;
    loop {
        sleep(Duration::from_millis(random.between(200, 6000))).await;
        if random.mille(300) {
            storm = !storm;
            world.weather.set(storm);
            world.trace.note(Event::Weather { storm });
        }
        let nodes = world.nodes();
        if nodes.is_empty() {
            continue;
        }
        let node = random.pick(&nodes).clone();
        match random.below(100) {
            0..20 => drop(node.gate.set(Life::Dead)),
            20..35 => drop(tokio::spawn(world.clone().restart(node))),
            35..60 => {
                let until = Duration::from_millis(random.spread(9000));
                if node.gate.set(Life::Frozen) {
                    world.trace.note(Event::Frozen(node.by));
                }
                let world = world.clone();
                tokio::spawn(async move {
                    sleep(until).await;
                    if node.gate.set(Life::Running) {
                        world.trace.note(Event::Thawed(node.by));
                    }
                });
            }
            60..85 if world.plan.jumps => {
                let by = random.spread(90_000) as i64 * if random.mille(500) { 1 } else { -1 };
                world.trace.note(Event::ClockSet(by));
                world.wall.set(by);
            }
            _ => {}
        }
    }
}

/// Everything comes to its end, and every message is fetched.
async fn drain(world: &Arc<World>) {
    loop {
        sleep(LOOK).await;
        let Some(node) = world.nodes().first().cloned() else { continue };
        let engine = &node.engine;
        for session in &world.plan.sessions {
            let agent = world.nodes()[0].engine.glance(session).await.ok().and_then(|glance| glance.session);
            if agent.is_some_and(|session| session.agent.is_some() && session.state.as_str() == "open") {
                let _ = engine.execute(session, Call::new(Command::Close { note: None, notify: Vec::new() })).await;
            }
            let lease = engine.fresh_lease();
            let ride = Ride {
                lease: lease.clone(),
                length: engine.limits().lease,
                messages_max: 50,
                chars_max: usize::MAX,
                alone_among: None,
            };
            if engine.lease(session, ride, None).await.is_ok_and(|messages| !messages.is_empty()) {
                let name = lease.to_string();
                world.trace.note(Event::Delivery { by: node.by, lease: name, told: true, by_name: true });
                let commit = Command::CommitLease { lease, channel: "inbox".into() };
                let _ = engine.execute(session, Call::new(commit)).await;
            }
        }
        let pending = engine.store().deadlines(1).await;
        let undelivered = SessionFilter { undelivered: true, limit: 1, ..SessionFilter::default() };
        let undelivered = engine.store().sessions(undelivered).await;
        if pending.is_ok_and(|some| some.is_empty()) && undelivered.is_ok_and(|some| some.is_empty()) {
            return;
        }
    }
}

fn rest(world: &Arc<World>, unanswered: usize, ended: bool) -> Rest {
    let nodes = world.nodes();
    let place = &nodes[0].place;
    let filter = ItemFilter { limit: usize::MAX >> 1, ..ItemFilter::default() };
    let items = now(place.items(filter)).unwrap_or_default();
    let mut inbox = Vec::new();
    for session in &world.plan.sessions {
        let needs = reveille_core::Needs { inbox: true, ..Default::default() };
        let state = now(place.load(session, needs)).unwrap_or_default();
        inbox.extend(state.inbox.into_iter().map(|message| (session.clone(), message)));
    }
    Rest { items, inbox, unanswered, ended }
}

/// Runs these seeds on all cores; those that are guilty, and what all of them were.
pub fn run_many(seeds: Range<u64>, options: Options, threads: usize) -> (Vec<Report>, Figures) {
    let next = AtomicU64::new(seeds.start);
    let found = Mutex::new((Vec::new(), Figures::default()));
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let report = run(seed, options);
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    found.1.add(&report.figures);
                    if !report.guilt.is_empty() {
                        found.0.push(report);
                    }
                }
            });
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}
