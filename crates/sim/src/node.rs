//! One process: the engine and what calls and is called through it, wired as production wires it, over a simulated store,
//! clock and network.

use crate::{
    endpoint::{Endpoints, agents},
    gate::Gate,
    plant::{Bug, Plant},
    random::{Drawn, Random},
    store::SimStore,
    time::NodeClock,
    trace::Process,
    upstream::{self, Upstreams},
    world::{Root, World},
};
use reveille::{
    agents::{Executor, Registry, executor, registry},
    engine::Engine,
    gateway,
};
use reveille_gateway::Gateway;
use reveille_store::Store;
use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub struct Node {
    pub by: Process,
    pub gate: Gate,
    pub clock: NodeClock,
    pub engine: Arc<Engine>,
    pub agents: Arc<Registry>,
    pub gateway: Arc<Gateway>,
    /// Its place in the server.
    pub place: Arc<dyn Store>,
    /// Ends the door, then the engine.
    pub stop_door: CancellationToken,
    pub stop_engine: CancellationToken,
    pub tasks: TaskTracker,
}

impl Node {
    pub fn start(world: &Arc<World>, by: Process, mut random: Random) -> Self {
        let gate = Gate::default();
        let (skew, drift) = match world.plan.nodes {
            1 => (0, random.between(0, 400) as i64 - 200),
            _ => (random.between(0, 40) as i64 - 20, random.between(0, 400) as i64 - 200),
        };
        let mut clock = NodeClock::new(world.wall.clone(), gate.clone(), skew, drift);
        let place = world.root.join();
        let store = Arc::new(SimStore {
            inner: place.clone(),
            by,
            gate: gate.clone(),
            clock: clock.clone(),
            trace: world.trace.clone(),
            weather: world.weather.clone(),
            random: Arc::new(Drawn::new(random.fork(1))),
            remote: world.plan.remote,
            plant: world.bug.map(|bug| Arc::new(Plant::new(bug))),
            tells: matches!(world.root, Root::Sqlite { .. }).then(Mutex::default),
        });
        if world.bug == Some(Bug::FiresEarly) {
            clock.fast_by = 1;
        }
        let settings = world.plan.settings(Arc::new(Drawn::new(random.fork(2))));
        let (stop_door, stop_engine, tasks) = (CancellationToken::new(), CancellationToken::new(), TaskTracker::new());
        let engine = Engine::start(store.clone(), Arc::new(clock.clone()), settings, stop_engine.clone(), &tasks);
        let agents = registry(&engine, store);
        let outgoing = Endpoints::new(world, by, gate.clone(), random.fork(3));
        let bounds = executor::Settings { concurrency: 8, concurrency_per_host: 4, allow_private: true };
        let executor = Arc::new(Executor::new(engine.clone(), agents.clone(), Arc::new(outgoing), bounds));
        if let Some(begun) = engine.calls() {
            tasks.spawn(executor.run(begun, stop_engine.clone()));
        }
        let config = upstream::config();
        let bounds = config.settings().expect("the simulation's own gateway makes sense");
        let dial = Arc::new(Upstreams::new(world, by, gate.clone(), random.fork(4)));
        let gateway = Arc::new(gateway::over(dial, bounds, &config, &engine, stop_door.clone()));
        Self { by, gate, clock, engine, agents, gateway, place, stop_door, stop_engine, tasks }
    }
}

fn registry(engine: &Arc<Engine>, store: Arc<dyn Store>) -> Arc<Registry> {
    let settings = registry::Settings {
        limits: engine.limits().clone(),
        timers_max: 10,
        api_secrets: Vec::new(),
        cache: NonZeroUsize::MIN,
    };
    let registry = Registry::new(store, settings);
    let source = registry::Source { name: "simulation".into(), agents: Ok(agents()) };
    registry.load(&[source]).expect("the simulation's own agent makes sense");
    Arc::new(registry)
}
