//! Everything the fuzzer started from or found, and changes of it, through the same checks.

mod invariants;
#[path = "../../../fuzz/mutate.rs"]
mod mutate;

/// Of each kind; a matter of seconds.
const INPUTS: usize = 20_000;

#[test]
fn directives() {
    mutate::each("directive", mutate::inputs(INPUTS), invariants::directive);
}

#[test]
fn lengths() {
    mutate::each("length", mutate::inputs(INPUTS), invariants::length);
}

#[test]
fn instants() {
    mutate::each("instant", mutate::inputs(INPUTS), invariants::instant);
}
