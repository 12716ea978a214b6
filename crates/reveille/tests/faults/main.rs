//! The real binary when its system does not play along: writes and syncs that fail, a clock that is set, files that are
//! damaged, descriptors and memory that run out, thousands of connections. What was acknowledged is there afterwards, what
//! was refused is not, and the server goes on or ends with a word about why.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod clock;
mod crowd;
mod damage;
mod ledger;
mod neighbour;
mod shim;
#[path = "../support/mod.rs"]
mod support;
mod writes;
