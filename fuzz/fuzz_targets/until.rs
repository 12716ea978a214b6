#![no_main]

#[path = "../../crates/core/tests/invariants/mod.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|input: &[u8]| invariants::until(input));
