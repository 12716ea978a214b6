//! Everything the fuzzer started from or found, through the same checks.

mod invariants;
mod support;

use std::{fs, path::Path};

/// Of one seed, so that the whole stays a matter of seconds.
const BREAKS_MAX: usize = 100;

fn replay(target: &str, check: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut seeds: Vec<_> =
        fs::read_dir(&directory).expect("seeds").map(|entry| entry.expect("a seed").path()).collect();
    seeds.sort();
    assert!(seeds.len() >= 5, "too few seeds in {}", directory.display());
    for seed in seeds {
        println!("{}", seed.display());
        let input = fs::read(&seed).expect("readable");
        check(&input);
        // And broken off, at every place of the small ones.
        (0..input.len()).step_by(1 + input.len() / BREAKS_MAX).for_each(|end| check(&input[..end]));
    }
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
