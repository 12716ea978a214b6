//! What is built in, held to `deny.toml`: licences, sources, and nothing twice that is not known.

use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

/// Everything that is compiled here, tests included.
fn packages() -> Vec<Value> {
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", &host])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn rules() -> toml::Table {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deny.toml");
    std::fs::read_to_string(file).unwrap().parse().unwrap()
}

fn text<'a>(package: &'a Value, field: &str) -> &'a str {
    package[field].as_str().unwrap_or_default()
}

/// Whether an expression such as `(MIT OR Apache-2.0) AND ISC` can be met with these.
fn met(expression: &str, allowed: &BTreeSet<String>) -> bool {
    // `/` is the old way to say OR.
    let expression = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = expression.split_whitespace().collect();
    let mut at = 0;
    let met = any(&words, &mut at, allowed);
    met && at == words.len()
}

fn any(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut met = all(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        met |= all(words, at, allowed);
    }
    met
}

fn all(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut met = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(words, at, allowed);
    }
    met
}

fn one(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let word = words.get(*at).copied().unwrap_or_default();
    *at += 1;
    if word == "(" {
        let met = any(words, at, allowed);
        *at += 1;
        return met;
    }
    // An exception only ever allows more, and what it is taken from is here without it.
    let with = words.get(*at) == Some(&"WITH");
    if with {
        *at += 2;
    }
    !with && allowed.contains(word)
}

#[test]
fn licences_are_read_as_written() {
    let allowed = BTreeSet::from(["MIT".to_owned(), "ISC".to_owned()]);
    for (expression, fits) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("MIT AND GPL-3.0", false),
        ("(MIT OR Apache-2.0) AND ISC", true),
        ("(GPL-3.0 OR Apache-2.0) AND ISC", false),
        ("Apache-2.0 WITH LLVM-exception OR MIT", true),
        ("", false),
    ] {
        assert_eq!(met(expression, &allowed), fits, "{expression}");
    }
}

#[test]
fn every_licence_is_allowed_and_every_source_is_the_registry() {
    let rules = rules();
    let allowed = rules["licenses"]["allow"].as_array().unwrap();
    let allowed: BTreeSet<String> = allowed.iter().map(|name| name.as_str().unwrap().to_owned()).collect();
    let packages = packages();
    assert!(packages.len() > 100, "only {} packages", packages.len());
    for package in &packages {
        let (name, licence, source) = (text(package, "name"), text(package, "license"), text(package, "source"));
        assert!(met(licence, &allowed), "{name} has the licence `{licence}`, which deny.toml does not allow");
        assert!(source.is_empty() || source.starts_with("registry+"), "{name} comes from {source}");
    }
}

#[test]
fn nothing_is_there_twice_that_is_not_known() {
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in packages() {
        versions.entry(text(&package, "name").into()).or_default().insert(text(&package, "version").into());
    }
    let doubled: BTreeSet<String> =
        versions.iter().filter(|(_, found)| found.len() > 1).map(|(name, _)| name.clone()).collect();
    let rules = rules();
    let known = rules["bans"]["skip"].as_array().unwrap();
    let known: BTreeSet<String> = known.iter().map(|entry| entry["crate"].as_str().unwrap().to_owned()).collect();
    let new: Vec<_> = doubled.difference(&known).map(|name| (name, &versions[name])).collect();
    assert!(new.is_empty(), "now there twice: {new:?}; use one version, or say why not in deny.toml");
    let gone: Vec<_> = known.difference(&doubled).collect();
    assert!(gone.is_empty(), "no longer there twice: {gone:?}; take them out of deny.toml");
}
