//! Safe against strangers: who may do what, what nobody may ever read, and what is built in. On the real binary.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod doors;
mod files;
mod secrets;
mod supply;
#[path = "../support/mod.rs"]
mod support;
mod tasks;
mod tokens;
mod wake;
