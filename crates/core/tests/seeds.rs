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

#[test]
fn recurring_ones() {
    mutate::each("every", mutate::inputs(INPUTS), invariants::every);
}

#[test]
fn times() {
    mutate::each("time", mutate::inputs(INPUTS), invariants::time);
}

#[test]
fn conditions() {
    mutate::each("until", mutate::inputs(INPUTS), invariants::until);
}

#[test]
fn quiet_hours() {
    mutate::each("quiet", mutate::inputs(INPUTS), invariants::quiet);
}
