//! Wake commands: the program is there.

use super::finding::Finding;
use crate::config::Config;
use rustix::fs::{Access, access};
use std::{
    env,
    path::{Path, PathBuf},
};

const AREA: &str = "wake command";

pub fn look(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, rule) in &config.wake {
        let Some(program) = rule.command.first() else { continue };
        let cwd = rule.cwd.as_ref().filter(|cwd| !cwd.is_dir());
        findings.push(match (found(program), cwd) {
            (None, _) => Finding::problem(
                AREA,
                format!("{name}: the program `{program}` is not found"),
                "install it, or write its whole path: a server started by systemd has a shorter PATH than your shell",
            ),
            (_, Some(cwd)) => Finding::problem(
                AREA,
                format!("{name}: its `cwd` {} is not a directory", cwd.display()),
                "correct it, or leave it out to run where the agent's hooks last ran",
            ),
            (Some(path), None) => {
                Finding::ok(AREA, format!("{name}: {}, for sessions that match `{}`", path.display(), rule.matches))
            }
        });
    }
    findings
}

/// As the operating system would find it.
pub fn found(program: &str) -> Option<PathBuf> {
    let runs = |path: &Path| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| runs(path));
    }
    env::split_paths(&env::var_os("PATH")?).map(|directory| directory.join(program)).find(|path| runs(path))
}
