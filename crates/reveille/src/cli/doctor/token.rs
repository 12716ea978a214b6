//! The token: there where it is needed, and nobody else's to read.

use super::finding::Finding;
use crate::config::Config;
use std::{fs, os::unix::fs::PermissionsExt, path::Path};

const AREA: &str = "token";

pub fn look(config: &Config) -> Option<Finding> {
    let beside = config.source.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
    let file = config.token_file.as_ref().map(|file| beside.join(file));
    let mode = |path: &Path| fs::metadata(path).map(|found| found.permissions().mode() & 0o777).ok();
    if let Some(path) = &file
        && let Some(mode) = mode(path).filter(|mode| mode & 0o077 != 0)
    {
        let what = format!("{} can be read by other users (mode {mode:o})", path.display());
        return Some(Finding::warning(AREA, what, format!("`chmod 600 {}`", path.display())));
    }
    let required = config.token.is_some() || config.tokens().read().is_ok_and(|entries| !entries.is_empty());
    match (required, config.listen.ip().is_loopback()) {
        (true, _) => Some(Finding::ok(AREA, "required of every request")),
        (false, true) => Some(Finding::ok(AREA, "none: everybody on this machine may use the server, and nobody else")),
        // The configuration says so already.
        (false, false) => None,
    }
}
