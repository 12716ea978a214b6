//! Guards that everything holds on PostgreSQL as it does on SQLite: the end-to-end tests once more.

#![allow(clippy::duplicate_mod, reason = "each of them brings its own support, and with it the name of this file")]

#[path = "clock.rs"]
mod clock;
#[path = "clock_tool.rs"]
mod clock_tool;
#[path = "conditions.rs"]
mod conditions;
#[path = "events.rs"]
mod events;
#[path = "figures.rs"]
mod figures;
#[path = "inbox.rs"]
mod inbox;
#[path = "mcp_scenarios.rs"]
mod mcp_scenarios;
#[path = "mcp_tasks.rs"]
mod mcp_tasks;
#[path = "presence.rs"]
mod presence;
#[path = "scenarios.rs"]
mod scenarios;
#[path = "standby.rs"]
mod standby;
#[path = "states.rs"]
mod states;
#[path = "wake.rs"]
mod wake;
