//! The binary's parts, as a library: tests, benchmarks and the simulator run the same code as production.

pub mod access;
mod address;
pub mod agents;
pub mod chance;
pub mod cli;
pub mod clock;
mod clock_stage;
pub mod config;
pub mod engine;
pub mod gateway;
pub mod http;
pub mod mcp;
pub mod metrics;
pub mod outgoing;
mod private;
pub mod probe;
pub mod reach;
pub mod run;
mod secret;
pub mod simulate;
pub mod tools;
pub mod wake;
