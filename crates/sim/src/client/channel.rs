//! A channel that fetches messages and says by name what became of them, and programs that only hold their session.

use super::Client;
use crate::{
    node::Node,
    trace::{Ask, Event},
};
use reveille::engine::Hold;
use reveille_core::{Call, Command, command::Ride};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;

impl Client {
    pub(super) async fn channel_step(&mut self, node: &Arc<Node>) {
        match self.random.below(100) {
            0..80 => self.fetch(node).await,
            _ => self.hold(node).await,
        }
    }

    async fn fetch(&mut self, node: &Arc<Node>) {
        let (session, engine) = (self.session(), node.engine.clone());
        let lease = engine.fresh_lease();
        let ride = Ride {
            lease: lease.clone(),
            length: engine.limits().lease,
            messages_max: self.random.between(1, 4) as usize,
            chars_max: usize::MAX,
            alone_among: None,
        };
        let ids = |messages: &Vec<reveille_core::Message>| -> Value {
            json!({"messages": messages.iter().map(|message| json!({"id": &*message.id})).collect::<Vec<_>>()})
        };
        let leased = self.call(node, &session, Ask::Lease, engine.lease(&session, ride, None), ids).await;
        if leased.is_none_or(|messages| messages.is_empty()) {
            return;
        }
        sleep(Duration::from_millis(self.random.spread(12_000))).await;
        // Whoever dies with its lease tells nobody.
        let told = match self.random.below(100) {
            0..65 => true,
            65..85 => false,
            _ => return,
        };
        // It may settle with another node than the one it asked.
        let nodes = self.world.nodes();
        if nodes.is_empty() {
            return;
        }
        let node = self.random.pick(&nodes).clone();
        let (name, engine) = (lease.to_string(), node.engine.clone());
        self.world.trace.note(Event::Delivery { by: node.by, lease: name.clone(), told, by_name: true });
        let (what, command) = match told {
            true => (Ask::Commit { lease: name }, Command::CommitLease { lease, channel: "inbox".into() }),
            false => (Ask::Release { lease: name }, Command::ReleaseLease { lease }),
        };
        self.call(&node, &session, what, engine.execute(&session, Call::new(command)), |_| Value::Null).await;
    }

    async fn hold(&mut self, node: &Arc<Node>) {
        let session = self.session();
        let name = self.random.mille(300).then(|| "editor".to_owned());
        let held = node.engine.presence().hold(&session, Hold::Client { wakes: true, name });
        let _events = node.engine.events();
        let leaves = sleep(Duration::from_millis(self.random.spread(8000)));
        tokio::pin!(leaves);
        loop {
            tokio::select! {
                biased;
                () = node.gate.dead() => return,
                () = &mut leaves => return,
                () = held.changed() => {}
            }
            if held.is_replaced() {
                return;
            }
        }
    }
}
