//! Guards that what people have on their disks stays known: no step of a migration and no golden file is ever edited.
//! `tests/golden/SHA256` is written as `sha256sum` writes it; a new step or file gets a new line, and no line is changed.

#![allow(clippy::unwrap_used)]

use sha2::{Digest, Sha256};
use std::{collections::BTreeMap, fs, path::Path};

/// Where nothing is edited, only added.
const RELEASED: [&str; 3] = ["src/sqlite/migrations", "src/postgres/migrations", "tests/golden"];
const LIST: &str = "tests/golden/SHA256";

#[test]
fn nothing_that_was_released_is_edited() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeMap::new();
    for directory in RELEASED {
        for entry in fs::read_dir(root.join(directory)).unwrap() {
            let name = format!("{directory}/{}", entry.unwrap().file_name().to_str().unwrap());
            if name != LIST {
                let digest = Sha256::digest(fs::read(root.join(&name)).unwrap());
                found.insert(name, digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
            }
        }
    }
    let list = fs::read_to_string(root.join(LIST)).unwrap();
    let listed: BTreeMap<String, String> = list
        .lines()
        .map(|line| line.split_once("  ").unwrap())
        .map(|(hash, name)| (name.into(), hash.into()))
        .collect();
    let new: Vec<String> = found
        .iter()
        .filter(|(name, _)| !listed.contains_key(*name))
        .map(|(name, hash)| format!("{hash}  {name}"))
        .collect();
    for (name, hash) in &listed {
        assert_eq!(found.get(name), Some(hash), "{name} is released and never edited: put it back, and add a new step");
    }
    assert!(new.is_empty(), "add to {LIST}:\n{}", new.join("\n"));
}
