//! Guards that everything holds on PostgreSQL as it does on SQLite: the end-to-end tests once more.

#![allow(clippy::duplicate_mod, reason = "each of them brings its own support, and with it the name of this file")]

#[path = "agents/main.rs"]
mod agents;
#[path = "bad_clients.rs"]
mod bad_clients;
#[path = "bad_input.rs"]
mod bad_input;
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
#[path = "gateway_clock/main.rs"]
mod gateway_clock;
#[path = "inbox.rs"]
mod inbox;
#[path = "manual_clock.rs"]
mod manual_clock;
#[path = "mcp_bad_input.rs"]
mod mcp_bad_input;
#[path = "mcp_scenarios.rs"]
mod mcp_scenarios;
#[path = "mcp_tasks.rs"]
mod mcp_tasks;
#[path = "mcp_told_once.rs"]
mod mcp_told_once;
#[path = "outside.rs"]
mod outside;
#[path = "presence.rs"]
mod presence;
#[path = "quiet.rs"]
mod quiet;
#[path = "recurring.rs"]
mod recurring;
#[path = "scenarios.rs"]
mod scenarios;
#[path = "session_timers/main.rs"]
mod session_timers;
#[path = "standby.rs"]
mod standby;
#[path = "states.rs"]
mod states;
#[path = "told_once.rs"]
mod told_once;
#[path = "wake.rs"]
mod wake;
