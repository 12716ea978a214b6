//! The production engine, its stores' logic and its deliveries in a simulated world: virtual time that drifts and is set,
//! stores that fail or do not answer, processes that die between any two steps, endpoints and upstreams that break,
//! clients that come and go. Everything follows from a seed, so every run can be repeated exactly; an oracle that shares
//! nothing with the engine but the form of its data judges it.
//!
//! Not here: real sockets, files that lose writes, other programs. Those are met by the tests of the binary.

#![forbid(unsafe_code)]

mod client;
mod endpoint;
mod gate;
mod node;
pub mod oracle;
mod plan;
pub mod plant;
mod random;
mod run;
mod store;
mod time;
pub mod trace;
mod upstream;
mod weather;
mod wire;
mod world;

pub use run::{Figures, Options, Report, StoreKind, run, run_many};
