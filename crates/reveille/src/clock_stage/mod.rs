//! Reminders in the model's own context: what the gateway does for a session beyond relaying. A call gains the tools and
//! the messages that wait for its session; calls to those tools are answered here; a turn that ends while a reminder is
//! pending is held until it is due.
//!
//! How a turn is continued on the wire is the gateway's; what is due and who holds it is the engine's. Here is only when to
//! ask which of them.

mod courier;
mod directives;
mod hold;
mod memory;
mod names;
mod tools;
mod visit;

use crate::{config::gateway::GatewayConfig, engine::Engine};
use memory::Memory;
use reveille_gateway::{Draft, Stage, Turn, Visit};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;
use tools::Offer;
use visit::ClockVisit;

pub use tools::check as check_tools;

/// All of the gateway's calls.
pub struct ClockStage(Arc<Desk>);

/// What every visit needs.
struct Desk {
    engine: Arc<Engine>,
    offer: Offer,
    /// Calls of the server's tools that a turn may make in a row before it has to come to an end.
    max_rounds: u32,
    /// Reminders that a turn may be continued with before it has to come to an end.
    max_continuations: u32,
    hold: bool,
    /// Zero is without limit.
    max_hold: Duration,
    max_hold_whole: Duration,
    memory: Memory,
    /// Ends every hold: the server stops.
    stop: CancellationToken,
}

impl ClockStage {
    pub fn new(config: &GatewayConfig, engine: &Arc<Engine>, stop: CancellationToken) -> Self {
        Self(Arc::new(Desk {
            engine: engine.clone(),
            offer: Offer::new(&config.tools),
            max_rounds: config.max_rounds,
            max_continuations: config.max_continuations,
            hold: config.hold,
            max_hold: config.max_hold.0,
            max_hold_whole: config.max_hold_whole.0,
            memory: Memory::new(engine.chance().clone()),
            stop,
        }))
    }
}

impl Stage for ClockStage {
    fn enter(&self, turn: &Turn) -> Option<Box<dyn Visit>> {
        Some(Box::new(ClockVisit::new(self.0.clone(), turn)))
    }

    fn clean(&self, draft: &mut Draft) {
        // Orders are carried out with the call itself.
        drop(directives::take_out(draft));
    }
}
