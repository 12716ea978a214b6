//! The file of tokens: names, hashes and rights. Written by `reveille token`, read by the server at its start and again
//! whenever it has changed, so that a token that is revoked is no good a moment later.

use super::{Grant, Hash, Scope};
use crate::private;
use serde::{Deserialize, Serialize};
use std::{fs, io, os::unix::fs::MetadataExt, path::PathBuf};

/// More would slow down nothing, but nobody could say what they are for.
const TOKENS_MAX: usize = 1000;
const NAME_CHARS_MAX: usize = 64;
const HEAD: &str =
    "# Tokens of this Reveille, by their hashes. `reveille token new`, `ls` and `revoke` write here.\n\n";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub name: String,
    pub scope: Scope,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<String>,
    #[serde(default)]
    pub created_at: String,
    pub hash: Hash,
}

impl Entry {
    pub fn grant(&self) -> Grant {
        let Self { name, scope, tenants, sessions, .. } = self.clone();
        Grant { name, scope, tenants, sessions }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    #[error("{path}: {why}")]
    Unusable { path: PathBuf, why: String },
    #[error("there is a token '{0}' already; choose another name, or revoke it first")]
    NameTaken(String),
    #[error("there is no token '{0}'; `reveille token ls` lists them")]
    Unknown(String),
    #[error("the name of a token is 1 to {NAME_CHARS_MAX} letters, digits, `-`, `_`, `.` or `@`")]
    BadName,
    #[error("a session pattern or tenant must not be empty; `*` matches every session")]
    EmptyBound,
    #[error("there are {TOKENS_MAX} tokens already; revoke some")]
    TooMany,
}

/// What tells one state of the file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(u64, u64, i64, i64);

#[derive(Clone, Debug)]
pub struct TokenFile {
    pub path: PathBuf,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    #[serde(default)]
    token: Vec<Entry>,
}

impl TokenFile {
    pub fn stamp(&self) -> Option<Stamp> {
        let metadata = fs::metadata(&self.path).ok()?;
        Some(Stamp(metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
    }

    /// No file is no tokens.
    pub fn read(&self) -> Result<Vec<Entry>, TokenFileError> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.unusable(error.to_string())),
        };
        let content: Content = toml::from_str(&text).map_err(|error| self.unusable(error.to_string()))?;
        Ok(content.token)
    }

    pub fn add(&self, entry: Entry) -> Result<(), TokenFileError> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@');
        if entry.name.is_empty() || entry.name.len() > NAME_CHARS_MAX || !entry.name.chars().all(fits) {
            return Err(TokenFileError::BadName);
        }
        if entry.tenants.iter().chain(&entry.sessions).any(|bound| bound.trim().is_empty()) {
            return Err(TokenFileError::EmptyBound);
        }
        let mut entries = self.read()?;
        if entries.iter().any(|known| known.name == entry.name) {
            return Err(TokenFileError::NameTaken(entry.name));
        }
        if entries.len() >= TOKENS_MAX {
            return Err(TokenFileError::TooMany);
        }
        entries.push(entry);
        self.write(entries)
    }

    pub fn remove(&self, name: &str) -> Result<(), TokenFileError> {
        let mut entries = self.read()?;
        let before = entries.len();
        entries.retain(|entry| entry.name != name);
        if entries.len() == before {
            return Err(TokenFileError::Unknown(name.to_owned()));
        }
        self.write(entries)
    }

    /// In one step, so that no server reads half of it.
    fn write(&self, token: Vec<Entry>) -> Result<(), TokenFileError> {
        let text = toml::to_string(&Content { token }).map_err(|error| self.unusable(error.to_string()))?;
        private::write(&self.path, &format!("{HEAD}{text}")).map_err(|error| self.unusable(error.to_string()))
    }

    fn unusable(&self, why: String) -> TokenFileError {
        TokenFileError::Unusable { path: self.path.clone(), why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn entry(name: &str) -> Entry {
        let (tenants, sessions) = (vec!["acme".into()], vec!["会话-*".into()]);
        let hash = Hash::of(name.as_bytes());
        Entry { name: name.into(), scope: Scope::Agent, tenants, sessions, created_at: String::new(), hash }
    }

    #[test]
    fn tokens_come_and_go_and_nobody_else_reads_them() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = TokenFile { path: directory.path().join("tokens.toml") };
        assert!(file.read().expect("no file is no tokens").is_empty() && file.stamp().is_none());
        file.add(entry("ci")).expect("added");
        let stamp = file.stamp();
        file.add(entry("bot@acme")).expect("added");
        assert_ne!(file.stamp(), stamp);
        assert_eq!(file.read().expect("readable"), [entry("ci"), entry("bot@acme")]);
        assert_eq!(fs::metadata(&file.path).expect("there").permissions().mode() & 0o777, 0o600);
        assert!(matches!(file.add(entry("ci")), Err(TokenFileError::NameTaken(_))));
        for bad in ["", "two words", "../x"] {
            assert!(matches!(file.add(entry(bad)), Err(TokenFileError::BadName)), "{bad}");
        }
        let empty = Entry { sessions: vec![" ".into()], ..entry("empty") };
        assert!(matches!(file.add(empty), Err(TokenFileError::EmptyBound)));
        file.remove("ci").expect("removed");
        assert!(matches!(file.remove("ci"), Err(TokenFileError::Unknown(_))));
        assert_eq!(file.read().expect("readable").len(), 1);
    }

    #[test]
    fn what_cannot_be_read_is_never_no_tokens() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = TokenFile { path: directory.path().join("tokens.toml") };
        for text in ["[[token]]\nname = \"x\"\n", "nonsense", "[[token]]\nname='x'\nscope='root'\nhash='v1:0:0'\n"] {
            fs::write(&file.path, text).expect("written");
            assert!(file.read().is_err(), "{text}");
            assert!(file.add(entry("y")).is_err() && fs::read_to_string(&file.path).expect("there") == text);
        }
    }
}
