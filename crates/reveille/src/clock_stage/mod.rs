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
mod tools;
mod visit;

use crate::{config::gateway::GatewayConfig, engine::Engine};
use memory::Memory;
use reveille_gateway::{Protocol, SessionHint, Source, Stage, Turn, Visit};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;
use tools::Offer;
use visit::ClockVisit;

pub use tools::check as check_tools;

/// Calls of the server's tools that one turn may make before it has to come to an end.
const ROUNDS_MAX: u32 = 8;

/// All of the gateway's calls.
pub struct ClockStage(Arc<Desk>);

/// What every visit needs.
struct Desk {
    engine: Arc<Engine>,
    offer: Offer,
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
            hold: config.hold,
            max_hold: config.max_hold.0,
            max_hold_whole: config.max_hold_whole.0,
            memory: Memory::default(),
            stop,
        }))
    }
}

impl Stage for ClockStage {
    fn enter(&self, turn: &Turn) -> Option<Box<dyn Visit>> {
        let session = turn.session.as_ref().and_then(|hint| self.0.session(turn.protocol, hint));
        Some(Box::new(ClockVisit::new(self.0.clone(), turn, session)))
    }
}

impl Desk {
    fn session(&self, protocol: Protocol, hint: &SessionHint) -> Option<reveille_core::SessionId> {
        // An answer of a conversation that is not known is as good a name for it as any.
        let of_answer = || self.memory.session_of(&hint.id);
        match (hint.source, protocol) {
            (Source::PreviousResponse, Protocol::Responses) if of_answer().is_some() => of_answer(),
            _ => reveille_core::SessionId::parse(&hint.id).ok(),
        }
    }
}
