//! What may be looked at: asked when a condition is set, where it is an error for the agent, and again before every look,
//! since names and links may lead elsewhere by then.

use crate::reach::Reach;
use regex::bytes::{Regex, RegexBuilder};
use reveille_core::{Condition, Reject};
use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
};
use url::Url;

/// What the system shows of itself there, this server's environment among it, is nobody's work to wait for.
const SYSTEM: [&str; 3] = ["/proc", "/sys", "/dev"];
/// A pattern that takes more memory than this is refused. Matching takes linear time whatever the pattern.
const PATTERN_BYTES_MAX: usize = 256 * 1024;

#[derive(Clone, Debug)]
pub struct Rules {
    /// Where HTTP and TCP may lead.
    pub reach: Reach,
    /// Below these; `None`: anywhere.
    pub files: Option<Vec<PathBuf>>,
    /// Never these, nor what is below them: what this server keeps, and its secrets. Whoever may wait for a file is shown
    /// what is in it.
    pub own: Vec<PathBuf>,
    pub processes: bool,
    pub commands: bool,
}

/// As for a server that only its own machine reaches.
impl Default for Rules {
    fn default() -> Self {
        Self { reach: Reach::Private, files: None, own: Vec::new(), processes: true, commands: false }
    }
}

impl Rules {
    /// Whether this may be asked for. Names that are not known yet are let through: what they lead to is asked at every
    /// look.
    pub async fn check(&self, condition: &Condition) -> Result<(), Reject> {
        match condition {
            Condition::Http { url, body_matches, .. } => {
                let url = address(url)?;
                body_matches.iter().try_for_each(|text| pattern(text).map(drop))?;
                let port = url.port_or_known_default().unwrap_or_default();
                self.may_reach(url.host_str().unwrap_or_default().trim_matches(['[', ']']), port).await
            }
            Condition::Tcp { host, port } => self.may_reach(host, *port).await,
            Condition::File { path, .. } => {
                let (rules, path) = (self.clone(), PathBuf::from(path));
                let checked = tokio::task::spawn_blocking(move || rules.place(&path)).await;
                match checked {
                    Ok(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
                        Err(forbidden(format!("`file`: {error}")))
                    }
                    _ => Ok(()),
                }
            }
            Condition::Process { .. } if !self.processes => {
                Err(forbidden("processes may not be watched here; the operator can set `until.processes = true`".into()))
            }
            Condition::Command { .. } if !self.commands => Err(forbidden(
                "commands may not be run here; the operator can set `until.commands = true`. Wait for a file, a port or \
                 a process instead"
                    .into(),
            )),
            Condition::Process { .. } | Condition::Command { .. } => Ok(()),
        }
    }

    async fn may_reach(&self, host: &str, port: u16) -> Result<(), Reject> {
        match self.reach.resolve(host, port).await {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(forbidden(error.to_string())),
            _ => Ok(()),
        }
    }

    /// Where the path really leads, if that may be watched; of one that is not there, where it would be.
    pub fn place(&self, path: &Path) -> io::Result<PathBuf> {
        let real = real(path)?;
        self.may(&real, path)?;
        Ok(real)
    }

    /// Whether what is really there may be watched under this name.
    pub fn may(&self, real: &Path, path: &Path) -> io::Result<()> {
        let refused = |why: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        if SYSTEM.iter().any(|root| real.starts_with(root)) {
            return refused(format!("{} shows the system, and may never be watched", path.display()));
        }
        if self.own.iter().filter_map(|own| self::real(own).ok()).any(|own| real.starts_with(own)) {
            let why = "belongs to this server (its data, configuration and secrets), and may never be watched";
            return refused(format!("{} {why}", path.display()));
        }
        let Some(allowed) = &self.files else { return Ok(()) };
        if allowed.iter().filter_map(|directory| directory.canonicalize().ok()).any(|root| real.starts_with(root)) {
            return Ok(());
        }
        refused(match allowed.is_empty() {
            true => "files may not be watched here; the operator can name directories in `until.files`".to_owned(),
            false => format!("{} is outside of the directories that may be watched (`until.files`)", path.display()),
        })
    }
}

/// With all links followed, as far as the path exists.
fn real(path: &Path) -> io::Result<PathBuf> {
    let mut rest: Vec<OsString> = Vec::new();
    let mut there = path;
    loop {
        match there.canonicalize() {
            Ok(mut real) => {
                real.extend(rest.iter().rev());
                return Ok(real);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let (Some(parent), Some(name)) = (there.parent(), there.file_name()) else { return Err(error) };
                // A link to something that is not there yet may lead anywhere.
                if there.is_symlink() {
                    return Err(io::Error::new(io::ErrorKind::NotFound, "it is a link to something that is not there"));
                }
                rest.push(name.to_owned());
                there = parent;
            }
            Err(error) => return Err(io::Error::other(error.to_string())),
        }
    }
}

/// A URL that can be looked at.
pub fn address(text: &str) -> Result<Url, Reject> {
    let shown = reveille_core::text::shown(text);
    let wrong = |why: &str| invalid(format!("`http`: '{shown}' {why}"));
    let mut url = Url::parse(text).map_err(|error| wrong(&format!("is not a URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(wrong("must begin with http:// or https:// and name a host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("must not carry a user or password"));
    }
    url.set_fragment(None);
    Ok(url)
}

/// A regular expression within bounds. As usual `.` stops at line breaks, and `(?s)` has it go on.
pub fn pattern(text: &str) -> Result<Regex, Reject> {
    RegexBuilder::new(text).size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX).build().map_err(|error| {
        match error {
            regex::Error::CompiledTooBig(_) => invalid("`body_matches` is too large a pattern; simplify it".into()),
            error => invalid(format!("`body_matches` is not a regular expression: {}", last_line(&error))),
        }
    })
}

/// Of a drawing with the place of the error, the words.
fn last_line(error: &regex::Error) -> String {
    let text = error.to_string();
    text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

fn invalid(why: String) -> Reject {
    Reject::InvalidArgument { field: "until".into(), why }
}

fn forbidden(why: String) -> Reject {
    Reject::ForbiddenCondition { why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn below(directory: &Path) -> Rules {
        Rules { files: Some(vec![directory.to_owned()]), ..Rules::default() }
    }

    #[test]
    fn no_link_and_no_missing_directory_leads_out() {
        let directory = tempfile::tempdir().expect("a directory");
        let (inside, outside) = (directory.path().join("in"), directory.path().join("out"));
        fs::create_dir(&inside).expect("made");
        fs::create_dir(&outside).expect("made");
        fs::write(outside.join("secret"), "x").expect("written");
        std::os::unix::fs::symlink(&outside, inside.join("link")).expect("linked");
        std::os::unix::fs::symlink(outside.join("secret"), inside.join("file")).expect("linked");
        std::os::unix::fs::symlink(outside.join("later"), inside.join("dangling")).expect("linked");
        let rules = below(&inside);
        for (path, allowed) in [
            ("in/log", true),
            ("in", true),
            ("in/not/yet/there", true),
            ("out/secret", false),
            ("in/link/secret", false),
            ("in/link/new", false),
            ("in/file", false),
            ("in/dangling", false),
            ("inside", false),
        ] {
            assert_eq!(rules.place(&directory.path().join(path)).is_ok(), allowed, "{path}");
        }
        assert!(Rules { files: Some(vec![]), ..rules }.place(&inside).is_err());
    }

    #[test]
    fn what_the_server_keeps_is_never_watched() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("data")).expect("made");
        fs::write(at("data/tokens.toml"), "x").expect("written");
        fs::write(at("reveille.toml"), "x").expect("written");
        std::os::unix::fs::symlink(at("data"), at("link")).expect("linked");
        std::os::unix::fs::symlink("/proc/self", at("me")).expect("linked");
        std::os::unix::fs::symlink(at("reveille.toml"), at("configuration")).expect("linked");
        // Also where the directory around it may be watched, and by another name of its own.
        let own = vec![at("link"), at("reveille.toml"), at("not yet there")];
        for files in [None, Some(vec![directory.path().to_owned()]), Some(vec!["/".into()])] {
            let rules = Rules { files, own: own.clone(), ..Rules::default() };
            for path in [
                "data",
                "data/tokens.toml",
                "data/reveille.db",
                "link/tokens.toml",
                "reveille.toml",
                "configuration",
                "me/environ",
                "not yet there",
                "/proc/self/environ",
                "/proc/1/environ",
                "/sys/kernel",
                "/dev/null",
            ] {
                let refused = rules.place(&at(path)).expect_err(path);
                assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "{path}: {refused}");
            }
            assert!(rules.place(&at("data.log")).is_ok() && rules.place(&at("log")).is_ok());
        }
    }

    #[tokio::test]
    async fn forbidden_and_impossible_conditions_are_refused_in_words() {
        let strict = Rules { reach: Reach::Public, files: Some(vec![]), processes: false, ..Rules::default() };
        for (condition, code, why) in [
            (r#"{"http": "http://127.0.0.1:80/"}"#, "forbidden_condition", "allow_private"),
            (r#"{"http": "http://[::1]/"}"#, "forbidden_condition", "private network"),
            (r#"{"http": "http://169.254.169.254/latest"}"#, "forbidden_condition", "link-local"),
            (r#"{"tcp": "10.0.0.1:22"}"#, "forbidden_condition", "private"),
            (r#"{"file": "/etc/passwd"}"#, "forbidden_condition", "until.files"),
            (r#"{"process": 1}"#, "forbidden_condition", "until.processes"),
            (r#"{"command": ["true"]}"#, "forbidden_condition", "until.commands"),
            (r#"{"http": "localhost:3000"}"#, "invalid_argument", "http://"),
            (r#"{"http": "ftp://a.example/"}"#, "invalid_argument", "http://"),
            (r#"{"http": "http://me:pw@a.example/"}"#, "invalid_argument", "password"),
            (r#"{"http": "http://192.0.2.1/", "body_matches": "("}"#, "invalid_argument", "unclosed group"),
            (
                r#"{"http": "http://192.0.2.1/", "body_matches": "((a{100}){100}){100}"}"#,
                "invalid_argument",
                "too large",
            ),
            (r#"{"http": "http://192.0.2.1/", "body_matches": "(a)\\1"}"#, "invalid_argument", "backreferences"),
        ] {
            let value = serde_json::from_str(condition).expect("JSON");
            let parsed = reveille_core::condition::parse(&value).expect("understood").expect("asked for");
            let reject = strict.check(&parsed).await.expect_err(condition);
            assert_eq!(reject.code(), code, "{condition}: {reject}");
            assert!(reject.to_string().contains(why), "{condition}: {reject}");
        }
    }
}
