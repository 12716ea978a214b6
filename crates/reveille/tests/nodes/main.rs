//! Guards that several nodes on one PostgreSQL are one server: whatever happens to one of them, or to the database,
//! nothing is lost, doubled or early.

#![allow(clippy::unwrap_used)]

mod chaos;
mod conditions;
mod doors;
mod failover;
mod migrate;
mod outage;
#[path = "../support/mod.rs"]
mod support;
mod together;
mod wake;
mod wire;
