//! What all nodes and clients of a run share, and how nodes come and go.

use crate::{
    gate::Life,
    node::Node,
    plan::Plan,
    plant::Bug,
    random::Random,
    store::now,
    time::Wall,
    trace::{Event, Process, Trace},
    weather::Weather,
};
use reveille_store::{MemoryServer, SqliteStore, Store};
use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::{sleep, timeout};

/// A node that died is noticed after this long at the latest.
const NOTICED_MS: u64 = 6000;
/// A process that is told to stop does so within this, however bad the weather.
const STOP: Duration = Duration::from_secs(180);

/// Where the data is.
pub enum Root {
    Memory(MemoryServer),
    Sqlite { path: PathBuf, open: Mutex<Option<Arc<SqliteStore>>> },
}

impl Root {
    /// A node's way to it.
    pub fn join(&self) -> Arc<dyn Store> {
        match self {
            Root::Memory(server) => Arc::new(server.join()),
            Root::Sqlite { path, open } => {
                let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(before) = open.take() {
                    now(before.close());
                }
                let store = SqliteStore::open(path, None, "server_sim").expect("a file of our own can be opened");
                open.insert(Arc::new(store)).clone()
            }
        }
    }
}

pub struct World {
    pub plan: Plan,
    pub wall: Arc<Wall>,
    pub trace: Arc<Trace>,
    pub weather: Arc<Weather>,
    pub root: Root,
    pub bug: Option<Bug>,
    random: Mutex<Random>,
    nodes: Mutex<Vec<Slot>>,
    numbers: AtomicU64,
}

#[derive(Default)]
struct Slot {
    lives: u32,
    node: Option<Arc<Node>>,
}

impl World {
    pub fn new(plan: Plan, root: Root, bug: Option<Bug>, random: Random) -> Self {
        let wall = Arc::new(Wall::new());
        let nodes = (0..plan.nodes).map(|_| Slot::default()).collect();
        Self {
            trace: Arc::new(Trace::new(wall.clone())),
            weather: Arc::default(),
            root,
            bug,
            random: Mutex::new(random),
            nodes: Mutex::new(nodes),
            numbers: AtomicU64::new(0),
            plan,
            wall,
        }
    }

    /// One that nothing else has.
    pub fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub fn fork(&self, label: u64) -> Random {
        self.draw(|random| random.fork(label))
    }

    pub fn draw<T>(&self, draw: impl FnOnce(&mut Random) -> T) -> T {
        draw(&mut self.random.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The nodes that clients can reach.
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        self.slots().iter().filter_map(|slot| slot.node.clone()).collect()
    }

    pub fn start(self: &Arc<Self>, number: usize) {
        let (by, random) = {
            let mut slots = self.slots();
            slots[number].lives += 1;
            (Process { node: number, life: slots[number].lives }, self.fork(number as u64))
        };
        self.trace.note(Event::Started(by));
        let node = Arc::new(Node::start(self, by, random));
        self.slots()[number].node = Some(node.clone());
        tokio::spawn(self.clone().attend(node));
    }

    /// Waits for a node's death, and brings it back.
    async fn attend(self: Arc<Self>, node: Arc<Node>) {
        node.gate.dead().await;
        if !self.leave(&node) {
            return; // it was stopped
        }
        self.trace.note(Event::Ended(node.by, "crash"));
        let (noticed, back) = self.draw(|random| (random.below(NOTICED_MS), random.spread(6000)));
        // One process per file: the next one can only begin when this one is gone.
        let place = node.place.clone();
        if let Root::Memory(_) = self.root {
            tokio::spawn(async move {
                sleep(Duration::from_millis(noticed)).await;
                place.close().await;
            });
        }
        sleep(Duration::from_millis(back)).await;
        self.start(node.by.node);
    }

    /// Ends a process as `SIGTERM` does, and begins it again.
    pub async fn restart(self: Arc<Self>, node: Arc<Node>) {
        if !self.leave(&node) {
            return;
        }
        node.stop_door.cancel();
        sleep(Duration::from_millis(100)).await;
        node.stop_engine.cancel();
        node.tasks.close();
        let stopped = async {
            tokio::select! {
                biased;
                () = node.gate.dead() => {}
                () = node.tasks.wait() => {}
            }
        };
        if timeout(STOP, stopped).await.is_err() {
            self.trace.note(Event::Stuck(node.by));
        }
        node.gate.set(Life::Dead);
        now(node.place.close());
        self.trace.note(Event::Ended(node.by, "stop"));
        let back = self.draw(|random| random.spread(3000));
        sleep(Duration::from_millis(back)).await;
        self.start(node.by.node);
    }

    /// Whether this is what takes it from the clients.
    fn leave(&self, node: &Arc<Node>) -> bool {
        let mut slots = self.slots();
        let slot = &mut slots[node.by.node].node;
        let there = slot.as_ref().is_some_and(|there| Arc::ptr_eq(there, node));
        if there {
            *slot = None;
        }
        there
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
