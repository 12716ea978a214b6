//! Everything the fuzzer started from or found, and changes of it, through the same checks.

mod invariants;
#[path = "../../../fuzz/mutate.rs"]
mod mutate;
mod support;

/// Of one seed, so that the whole stays a matter of seconds.
const BREAKS_MAX: usize = 100;
/// Of each kind, likewise.
const INPUTS: usize = 2000;

fn replay(target: &str, check: fn(&[u8])) {
    for input in mutate::seeds(target) {
        // Broken off, at every place of the small ones.
        (0..input.len()).step_by(1 + input.len() / BREAKS_MAX).for_each(|end| check(&input[..end]));
    }
    mutate::each(target, mutate::inputs(INPUTS), check);
}

#[test]
fn streams() {
    replay("stream", invariants::stream);
}

#[test]
fn relays() {
    replay("relay", invariants::relay);
}

#[test]
fn requests() {
    replay("request", invariants::request);
}

#[test]
fn encoded_bodies() {
    replay("encoded", invariants::encoded);
}
