//! What must not be in this crate: clocks, randomness, files, sockets, threads. Deciding depends on its arguments alone.

use std::{fs, path::Path};

const FORBIDDEN: &[&str] = &[
    "::now(",
    "SystemTime",
    "Instant",
    "std::fs",
    "std::net",
    "std::env",
    "std::thread",
    "std::process",
    "tokio",
    "rand::",
    "unsafe ",
];

#[test]
fn the_core_is_pure() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut seen = 0;
    for entry in fs::read_dir(sources).expect("the sources are there") {
        let path = entry.expect("a readable directory").path();
        let text = fs::read_to_string(&path).expect("a readable source");
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            let found = FORBIDDEN.iter().find(|word| line.contains(**word));
            assert_eq!(found, None, "{}:{}: {line}", path.display(), number + 1);
        }
        seen += 1;
    }
    assert!(seen > 10, "the sources were looked at");
}
