//! A turn of several rounds is one valid response: one start, places that go on, counts that add up, one end, and no trace
//! of the calls that were not the client's.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod accumulate;
mod clock;
mod malformed;
mod odd;
mod shown;
#[path = "../support/mod.rs"]
mod support;
mod turns;
mod waiting;
