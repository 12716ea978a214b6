//! The SDKs, from PyPI and npm in pinned versions, kept in the target directory.

use std::{
    ffi::OsString,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Output},
};

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
    let requirements = format!("{HERE}/requirements-{generation}.txt");
    let (place, _lock) = once(&format!("sdk-python-{generation}"), &requirements, |place| {
        let _ = fs::remove_dir_all(place.join("venv"));
        let venv = Command::new("python3").args(["-m", "venv"]).arg(place.join("venv")).output();
        let venv = venv.expect("this test needs python3, which is not on the PATH: install Python 3.10 or newer");
        succeeded("python3 -m venv (on some systems a package of its own, python3-venv)", &venv);
        let mut pip = Command::new(place.join("venv/bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--requirement", &requirements]);
        succeeded("pip install", &pip.output().unwrap());
    });
    // -B: nothing is written beside the scripts.
    vec![place.join("venv/bin/python").into(), "-B".into(), format!("{HERE}/python/mcp{generation}.py").into()]
}

/// Where the packages of npm are; the lock keeps others from changing them.
pub fn packages() -> (PathBuf, File) {
    once("sdk-typescript", &format!("{HERE}/package-lock.json"), |place| {
        for file in ["package.json", "package-lock.json"] {
            fs::copy(format!("{HERE}/{file}"), place.join(file)).unwrap();
        }
        let npm = Command::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(place).output();
        let npm = npm.expect("this test needs npm, which is not on the PATH: install Node.js 20 or newer");
        succeeded("npm ci", &npm);
    })
}

fn node(script: &str) -> Vec<OsString> {
    let (place, _lock) = packages();
    // Modules are looked for where the script is.
    let (scripts, link) = (PathBuf::from(format!("{HERE}/typescript")), place.join("typescript"));
    if !fs::read_link(&link).is_ok_and(|linked| linked == scripts) {
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(scripts, &link).unwrap();
    }
    vec!["node".into(), "--preserve-symlinks".into(), "--preserve-symlinks-main".into(), link.join(script).into()]
}

/// Installs once for each state of the list of versions, also when several tests want it at the same time.
fn once(name: &str, versions: &str, install: impl FnOnce(&Path)) -> (PathBuf, File) {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&place).unwrap();
    let lock = File::create(place.join("lock")).unwrap();
    lock.lock().unwrap();
    let (versions, done) = (fs::read_to_string(versions).unwrap(), place.join("installed"));
    if !fs::read_to_string(&done).is_ok_and(|installed| installed == versions) {
        install(&place);
        fs::write(done, versions).unwrap();
    }
    (place, lock)
}

pub fn succeeded(what: &str, ran: &Output) {
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{what}:\n{out}{err}");
}
