//! What is shipped beside the program: manual, completions, units, package.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::Command,
};
use support::process::{BINARY, Home};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

#[tokio::test]
async fn the_program_describes_itself() {
    let home = Home::default();
    let version = home.run(&["--version"]).await.out;
    assert_eq!(version.trim(), concat!("reveille ", env!("CARGO_PKG_VERSION"), " (debug build)"));
    let page = home.run(&["man"]).await.out;
    assert!(page.starts_with(".ie") || page.contains(".TH reveille 1"), "{page}");
    let pages = home.dir.path().join("man");
    let ran = home.run(&["man", "--dir", pages.to_str().unwrap()]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for page in ["reveille.1", "reveille-timer.1", "reveille-demo.1", "reveille-doctor.1", "reveille-config-check.1"] {
        let text = fs::read_to_string(pages.join(page)).unwrap();
        assert!(text.contains(".SH NAME"), "{page}: {text}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let completions = home.run(&["completions", shell]).await;
        assert!(completions.code == Some(0) && completions.out.contains("doctor"), "{shell}");
    }
}

#[tokio::test]
async fn units_start_what_is_packaged() {
    let manifest: toml::Table = read("crates/reveille/Cargo.toml").parse().unwrap();
    let package = &manifest["package"]["metadata"]["deb"];
    let assets = package["assets"].as_array().unwrap();
    let field = |asset: &toml::Value, place: usize| asset[place].as_str().unwrap().to_owned();
    assert!(assets.iter().any(|asset| field(asset, 0) == "target/release/reveille" && field(asset, 1) == "usr/bin/"));
    let script = read("packaging/build-deb");
    for asset in assets {
        let source = field(asset, 0);
        match source.strip_prefix("../../target/package/") {
            // Made by the script.
            Some(made) => {
                let made = made.split('/').next().unwrap();
                assert!(script.contains(&format!("$made/{made}")), "{source} is not made by packaging/build-deb");
            }
            None if source.starts_with("target/") => {}
            None => assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(&source).exists(), "{source} is not there"),
        }
    }
    let home = Home::default();
    for unit in ["packaging/reveille.service", "packaging/reveille.user.service"] {
        let text = read(unit);
        let start = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
        let mut words: Vec<&str> = start.split(' ').collect();
        assert_eq!(words.remove(0), "/usr/bin/reveille", "{unit}");
        words.push("--help");
        assert_eq!(home.run(&words).await.code, Some(0), "{unit}: {start}");
        assert!(text.contains("NoNewPrivileges=yes") && text.contains("UMask=0077"), "{unit}");
    }
    understood_by_systemd(&home);
    // The configuration that is installed is one that the server starts with.
    let config = root().join("packaging/reveille.toml");
    let checked = home.run(&["config", "check", "--config", config.to_str().unwrap()]).await;
    assert_eq!(checked.code, Some(0), "{checked:?}");
}

/// Where there is a systemd, it has no word to say against them; elsewhere they were only read.
fn understood_by_systemd(home: &Home) {
    for (unit, whose) in [("reveille.service", "--system"), ("reveille.user.service", "--user")] {
        // Under the name it is installed by, with a program that is there.
        let place = home.dir.path().join(whose);
        fs::create_dir_all(&place).unwrap();
        let text = read(&format!("packaging/{unit}")).replace("/usr/bin/reveille", BINARY);
        fs::write(place.join("reveille.service"), text).unwrap();
        let mut verify = Command::new("systemd-analyze");
        verify.args([whose, "--man=no", "verify"]).arg(place.join("reveille.service"));
        // A person's own manager has its directory; nobody is signed in here.
        let ran = match verify.env("XDG_RUNTIME_DIR", &place).output() {
            Err(error) if error.kind() == ErrorKind::NotFound => return,
            ran => ran.unwrap(),
        };
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success() && !said.contains("reveille.service:"), "{unit}: {said}");
    }
}

#[test]
fn the_container_runs_what_is_built() {
    let text = read("Dockerfile");
    for words in
        ["rust:1.95", "cargo build --release --locked -p reveille", "USER reveille", "REVEILLE_LISTEN=0.0.0.0:7383"]
    {
        assert!(text.contains(words), "{words}");
    }
    let workspace: toml::Table = read("Cargo.toml").parse().unwrap();
    let needed = workspace["workspace"]["package"]["rust-version"].as_str().unwrap();
    assert!(text.contains(&format!("FROM rust:{needed}-")), "the image has the compiler that is needed, {needed}");
}
