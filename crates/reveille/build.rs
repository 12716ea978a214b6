//! What `--version` says besides the number: the commit, if this is built from a repository or whoever builds it says so.
//! Only for release builds, since every commit would otherwise compile everything once more while one works on it.

use std::{env, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=REVEILLE_COMMIT");
    let release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let given = env::var("REVEILLE_COMMIT").ok().filter(|commit| !commit.is_empty());
    let built = match (release, given) {
        (_, Some(commit)) => commit,
        (false, None) => "debug build".to_owned(),
        (true, None) => commit().unwrap_or_else(|| "commit unknown".to_owned()),
    };
    println!("cargo::rustc-env=REVEILLE_BUILT={built}");
}

/// The short name and the day of the commit; `None` outside a repository, or without git.
fn commit() -> Option<String> {
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    println!("cargo::rerun-if-changed={log}");
    git(&["log", "-1", "--format=%h %cs"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
