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
    let mut left = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut seen = 0;
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let inside = fs::read_dir(path).expect("the sources are there");
            left.extend(inside.map(|entry| entry.expect("a readable directory").path()));
            continue;
        }
        let text = fs::read_to_string(&path).expect("a readable source");
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            let found = FORBIDDEN.iter().find(|word| line.contains(**word));
            assert_eq!(found, None, "{}:{}: {line}", path.display(), number + 1);
        }
        seen += 1;
    }
    assert!(seen > 10, "the sources were looked at");
}
