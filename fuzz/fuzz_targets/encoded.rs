#![no_main]

#[path = "../../crates/gateway/tests/invariants/mod.rs"]
mod invariants;
#[path = "../../crates/gateway/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|input: &[u8]| invariants::encoded(input));
