//! The vendors' SDKs for Python, as their package index has them.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::Command,
};

/// A virtual environment with the pinned SDKs, made once per set of requirements.
pub fn python() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk");
    let requirements = std::fs::read_to_string(here.join("requirements.txt")).unwrap();
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sdk-venv");
    let (python, mark) = (home.join("bin/python"), home.join("installed.txt"));
    // Tests that want it at the same time wait for whoever comes first.
    let lock = File::create(home.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    if std::fs::read_to_string(&mark).is_ok_and(|installed| installed == requirements) {
        return python;
    }
    let run = |command: &mut Command| {
        let output =
            command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; this test needs python3 with venv"));
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&home));
    run(Command::new(&python)
        .args(["-m", "pip", "install", "--quiet", "--requirement"])
        .arg(here.join("requirements.txt")));
    std::fs::write(mark, requirements).unwrap();
    python
}
