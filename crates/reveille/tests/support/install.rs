//! What tests need from PyPI and npm, in pinned versions, kept in the target directory.
//!
//! Everything is installed once for each state of its list of versions, also when several tests, or several programs of
//! tests, want it at the same time.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Output},
};

const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");

/// The vendors' SDKs for Python.
pub fn python() -> PathBuf {
    venv("sdk", "sdk/requirements.txt").join("python")
}

/// The programs of a virtual environment with what a list below `tests` names.
pub fn venv(name: &str, requirements: &str) -> PathBuf {
    let requirements = format!("{TESTS}/{requirements}");
    let (place, _lock) = once(&format!("venv-{name}"), &requirements, |place| {
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv", "--clear"]).arg(place.join("venv"));
        let venv =
            venv.output().expect("this test needs python3, which is not on the PATH: install Python 3.10 or newer");
        succeeded("python3 -m venv (on some systems a package of its own, python3-venv)", &venv);
        let mut pip = Command::new(place.join("venv/bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--requirement", &requirements]);
        succeeded("pip install", &pip.output().unwrap());
    });
    place.join("venv/bin")
}

/// Where the packages are that the lock file of a directory below `tests` names. The file keeps others from changing them.
pub fn npm(directory: &str) -> (PathBuf, File) {
    let from = Path::new(TESTS).join(directory);
    once(&format!("npm-{directory}"), from.join("package-lock.json"), |place| {
        for file in ["package.json", "package-lock.json"] {
            fs::copy(from.join(file), place.join(file)).unwrap();
        }
        let npm = Command::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(place).output();
        let npm = npm.expect("this test needs npm, which is not on the PATH: install Node.js 20 or newer");
        succeeded("npm ci", &npm);
    })
}

fn once(name: &str, versions: impl AsRef<Path>, install: impl FnOnce(&Path)) -> (PathBuf, File) {
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
