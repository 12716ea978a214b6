//! Those who call: agents with their tools, channels that fetch messages, users who talk to agents. They come, wait, lose
//! patience, lose the connection, ask again. Each writes down what it asked and what it was told, and nothing else.

mod channel;
mod chat;
mod model;
mod tools;

use crate::{
    node::Node,
    random::Random,
    trace::{Answer, Ask, Event},
    world::World,
};
use reveille::engine::{Delivery, EngineError};
use reveille_core::{ItemId, SessionId};
use serde_json::Value;
use std::{future::Future, sync::Arc, time::Duration};
use tokio::time::sleep;

/// Between two calls at most.
const PAUSE_MS: u64 = 1500;
/// Who leaves does so after this long at most.
const PATIENCE_MS: u64 = 15_000;
/// Things of its own that a client remembers.
const OWN_MAX: usize = 6;

pub struct Client {
    world: Arc<World>,
    name: String,
    random: Random,
    made: u64,
    timers: Vec<(SessionId, ItemId)>,
    reminders: Vec<(SessionId, ItemId)>,
    tasks: Vec<(SessionId, String)>,
    /// Creations that may be asked for again under their keys.
    keyed: Vec<(SessionId, &'static str, Value, String)>,
}

impl Client {
    pub fn new(world: &Arc<World>, number: usize) -> Self {
        let random = world.fork(1000 + number as u64);
        Self {
            world: world.clone(),
            name: format!("c{number}"),
            random,
            made: 0,
            timers: Vec::new(),
            reminders: Vec::new(),
            tasks: Vec::new(),
            keyed: Vec::new(),
        }
    }

    /// Calls until its time is over.
    pub async fn run(mut self) {
        while self.world.wall.passed() < self.world.plan.length {
            let pause = self.random.spread(PAUSE_MS);
            sleep(Duration::from_millis(pause)).await;
            let nodes = self.world.nodes();
            if !nodes.is_empty() {
                let node = self.random.pick(&nodes).clone();
                self.step(&node).await;
            }
        }
    }

    async fn step(&mut self, node: &Arc<Node>) {
        match self.random.below(100) {
            0..38 => self.timer_step(node).await,
            38..55 => self.clock_step(node).await,
            55..62 => self.task_step(node).await,
            62..80 => self.channel_step(node).await,
            80..90 => self.chat_step(node).await,
            90..98 => self.model_step(node).await,
            _ => self.close(node).await,
        }
    }

    fn session(&mut self) -> SessionId {
        self.random.pick(&self.world.plan.sessions).clone()
    }

    fn length(&mut self, most: u64) -> String {
        format!("{}ms", 10 + self.random.spread(most))
    }

    /// A name that no other creation has.
    fn label(&mut self) -> String {
        self.made += 1;
        format!("{}-{} 等", self.name, self.made)
    }

    /// One call, as long as client and node both last.
    async fn call<T>(
        &mut self,
        node: &Arc<Node>,
        session: &SessionId,
        what: Ask,
        asked: impl Future<Output = Result<T, EngineError>>,
        shown: impl FnOnce(&T) -> Value,
    ) -> Option<T> {
        let call = self.world.number();
        self.world.trace.note(Event::Asked { call, by: node.by, session: session.clone(), what });
        let leaves = self.random.mille(120).then(|| Duration::from_millis(self.random.spread(PATIENCE_MS)));
        let leaving = async {
            match leaves {
                Some(after) => sleep(after).await,
                None => std::future::pending().await,
            }
        };
        let (answer, given) = tokio::select! {
            biased;
            () = node.gate.dead() => (Answer::Gone, None),
            () = leaving => (Answer::Left, None),
            answered = asked => match answered {
                Ok(given) => (Answer::Ok(shown(&given)), Some(given)),
                Err(EngineError::Reject(reject)) => (Answer::Refused(reject.code().to_owned()), None),
                Err(error) => (Answer::Failed(error.to_string()), None),
            },
        };
        let highest = node.clock.highest();
        self.world.trace.note(Event::Answered { call, highest, answer });
        given
    }

    /// The answer is on the wire: it arrives, and what it carried is delivered; or it does not.
    async fn arrives(&mut self, node: &Arc<Node>, deliveries: Vec<Arc<Delivery>>) {
        if deliveries.is_empty() {
            return;
        }
        let (wait, lost) = (self.random.spread(300), self.random.mille(150));
        let died = tokio::select! {
            biased;
            () = node.gate.dead() => true,
            () = sleep(Duration::from_millis(wait)) => false,
        };
        if died {
            return;
        }
        for delivery in deliveries {
            let lease = delivery.lease().to_string();
            self.world.trace.note(Event::Delivery { by: node.by, lease, told: !lost, by_name: false });
            if !lost {
                delivery.confirm();
            }
        }
    }
}

fn remember<T>(list: &mut Vec<T>, one: T) {
    if list.len() >= OWN_MAX {
        list.remove(0);
    }
    list.push(one);
}
