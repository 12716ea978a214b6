//! The official SDKs, and the programs that use them.

use super::support::install;
use std::{ffi::OsString, fs, path::PathBuf};

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sdk_clients");

#[derive(Clone, Copy, Debug)]
pub enum Sdk {
    Python1,
    Python2,
    TypeScript1,
    TypeScript2,
}

impl Sdk {
    pub fn is_modern(self) -> bool {
        matches!(self, Sdk::Python2 | Sdk::TypeScript2)
    }

    /// The command that runs its client.
    pub fn installed(self) -> Vec<OsString> {
        match self {
            Sdk::Python1 => python("1"),
            Sdk::Python2 => python("2"),
            Sdk::TypeScript1 => node("sdk.mjs"),
            Sdk::TypeScript2 => node("client.mjs"),
        }
    }
}

fn python(generation: &str) -> Vec<OsString> {
    let list = format!("sdk_clients/requirements-{generation}.txt");
    let programs = install::venv(&format!("sdk-clients-{generation}"), &list);
    // -B: nothing is written beside the scripts.
    vec![programs.join("python").into(), "-B".into(), format!("{HERE}/python/mcp{generation}.py").into()]
}

fn node(script: &str) -> Vec<OsString> {
    let (place, _lock) = install::npm("sdk_clients");
    // Modules are looked for where the script is.
    let (scripts, link) = (PathBuf::from(format!("{HERE}/typescript")), place.join("typescript"));
    if !fs::read_link(&link).is_ok_and(|linked| linked == scripts) {
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(scripts, &link).unwrap();
    }
    vec!["node".into(), "--preserve-symlinks".into(), "--preserve-symlinks-main".into(), link.join(script).into()]
}
