//! A user who talks to an agent: a message begins a turn, the answer ends it, silence follows.

use super::Client;
use crate::{endpoint::agent, node::Node, trace::Ask};
use reveille::{
    agents::turn::{self, TurnError},
    engine::EngineError,
};
use reveille_core::{Call, Command, utterance::Role};
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;

impl Client {
    pub(super) async fn chat_step(&mut self, node: &Arc<Node>) {
        let (session, engine, agents) = (self.session(), node.engine.clone(), node.agents.clone());
        let named = self.random.mille(700).then(|| Arc::<str>::from(self.label()));
        let said = vec![turn::said(&engine, Role::User, "你好")];
        let (owner, name) = (agent(), named.clone());
        let begin = async {
            let begun = turn::begin(&engine, &agents, &session, &owner, name, said).await;
            begun.map_err(|error| match error {
                TurnError::Engine(error) => error,
                TurnError::Agent(_) => EngineError::Contended,
            })
        };
        let begun = self.call(node, &session, Ask::Message, begin, |_| Value::Null).await;
        // The agent works, for longer than a turn may last now and then.
        sleep(Duration::from_millis(self.random.spread(25_000))).await;
        let Some((known, _)) = begun.filter(|_| self.random.mille(850)) else { return };
        let nodes = self.world.nodes();
        if nodes.is_empty() {
            return;
        }
        let node = self.random.pick(&nodes).clone();
        let engine = node.engine.clone();
        let said = vec![turn::said(&engine, Role::Assistant, "您好 👋")];
        let response: Command = turn::response(&engine, &owner, known.as_deref(), named, (said, Vec::new()));
        if self.random.mille(300) {
            // The door does not wait for it.
            let stop = node.stop_engine.clone();
            tokio::spawn(async move { turn::write(&engine, &session, response, &stop).await });
            return;
        }
        self.call(&node, &session, Ask::Response, engine.execute(&session, Call::new(response)), |_| Value::Null).await;
    }
}
