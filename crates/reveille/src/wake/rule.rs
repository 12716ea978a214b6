//! One wake rule of the configuration: which sessions it serves and the command it runs. Never through a shell.

use crate::{config::Length, mcp::FRESH_PREFIX};
use reveille_core::{Millis, SessionId};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::PathBuf};

/// Name of a rule, in bytes: it is part of the channel that the history shows.
const NAME_BYTES_MAX: usize = 50;

const SHELLS: [&str; 4] = ["sh", "bash", "zsh", "dash"];

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WakeRule {
    /// Sessions whose name or kind of client this fits; `*` stands for anything, `?` for one character.
    #[serde(rename = "match")]
    pub matches: String,
    /// Program and arguments. `{session}`, `{message}`, `{cwd}` and `{server}` are replaced; the message is on stdin as well.
    pub command: Vec<String>,
    /// Where it is run; else where the agent's hooks ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// A message waits this long for a live client before the command is run.
    #[serde(default = "grace")]
    pub grace: Length,
    /// The command and all it started is killed after this.
    #[serde(default = "timeout")]
    pub timeout: Length,
    /// How often a command that failed is tried again.
    #[serde(default = "retries")]
    pub retries: u32,
    /// Commands per session and hour.
    #[serde(default = "per_hour")]
    pub per_hour: u32,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

fn grace() -> Length {
    Length(Millis::from_secs(10))
}

fn timeout() -> Length {
    Length(Millis::from_secs(3600))
}

fn retries() -> u32 {
    3
}

fn per_hour() -> u32 {
    12
}

/// What the placeholders stand for.
#[derive(Clone, Copy, Debug)]
pub struct Filling<'a> {
    pub session: &'a str,
    pub message: &'a str,
    pub server: &'a str,
    pub cwd: &'a str,
}

impl WakeRule {
    /// What is wrong with it: the field (as it follows the rule's own path) and why.
    pub fn check(&self, name: &str) -> Result<(), (&'static str, String)> {
        let wrong = |field, why: &str| Err((field, why.to_owned()));
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(fits) {
            return wrong("", "the name of a rule is at most 50 letters, digits or `-_.`");
        }
        if self.matches.trim().is_empty() {
            return wrong(".match", "must not be empty; `*` matches every session");
        }
        if self.command.first().is_none_or(|program| program.trim().is_empty()) {
            return wrong(".command", "must name a program");
        }
        if self.command.iter().any(|part| part.contains('\0')) {
            return wrong(".command", "must not contain NUL characters");
        }
        if self.command[0].contains('{') {
            return wrong(".command", "the program itself must be written out; placeholders are for arguments");
        }
        if self
            .script()
            .is_some_and(|script| ["{message}", "{session}", "{cwd}"].iter().any(|name| script.contains(name)))
        {
            let why = "`{message}`, `{session}` and `{cwd}` must not be part of a shell's script, which would run what they say; \
                       read the message from stdin, or write \"$1\" and give the placeholder as an argument after `sh`: \
                       [\"sh\", \"-c\", \"agent \\\"$1\\\"\", \"sh\", \"{message}\"]";
            return wrong(".command", why);
        }
        if self.per_hour == 0 {
            return wrong(".per_hour", "must be at least 1; remove the rule to switch it off");
        }
        if self.env.iter().any(|(key, value)| key.is_empty() || key.contains(['=', '\0']) || value.contains('\0')) {
            return wrong(".env", "names must not be empty or contain `=`; nothing may contain NUL characters");
        }
        Ok(())
    }

    /// The script of a shell, if that is what is run.
    fn script(&self) -> Option<&str> {
        let is_shell = |part: &String| SHELLS.contains(&part.rsplit('/').next().unwrap_or(part));
        let after = &self.command[self.command.iter().position(is_shell)? + 1..];
        let is_c = |part: &String| part.starts_with('-') && !part.starts_with("--") && part.contains('c');
        let after = &after[after.iter().position(is_c)? + 1..];
        after.iter().find(|part| !part.starts_with('-')).map(String::as_str)
    }

    /// The message is in the arguments.
    pub fn gives_message(&self) -> bool {
        self.command.iter().any(|part| part.contains("{message}"))
    }

    /// Whether its command could be run for a session of this name.
    fn takes(&self, session: &SessionId) -> bool {
        self.arguments(Filling { session: session.as_str(), message: "", server: "", cwd: "." }).is_ok()
    }

    pub fn serves(&self, session: &SessionId, client: Option<&str>) -> bool {
        // A name that was made for a connection means nothing to the client: it cannot resume what it does not know.
        let client = client.filter(|_| !session.as_str().starts_with(FRESH_PREFIX));
        let named = glob(&self.matches, session.as_str()) || client.is_some_and(|client| glob(&self.matches, client));
        named && self.takes(session)
    }

    /// The arguments with everything filled in. A value must not turn into an option of the program: sessions are
    /// named by whoever calls.
    pub fn arguments(&self, filling: Filling<'_>) -> Result<Vec<String>, String> {
        let fill = |template: &String| {
            let filled = fill(template, filling);
            if template.starts_with('{') && filled.starts_with('-') {
                return Err(format!("the argument for {template} would begin with '-' and be taken for an option"));
            }
            Ok(filled)
        };
        self.command[1..].iter().map(fill).collect()
    }
}

/// Replaces each placeholder once, in one pass: what is filled in is not looked at again.
fn fill(template: &str, filling: Filling<'_>) -> String {
    let (mut filled, mut rest) = (String::with_capacity(template.len()), template);
    while let Some(open) = rest.find('{') {
        filled.push_str(&rest[..open]);
        rest = &rest[open..];
        let names = [
            ("{session}", filling.session),
            ("{message}", filling.message),
            ("{server}", filling.server),
            ("{cwd}", filling.cwd),
        ];
        let found = names.into_iter().find(|(name, _)| rest.starts_with(name));
        let (name, value) = found.unwrap_or(("{", "{"));
        filled.push_str(value);
        rest = &rest[name.len()..];
    }
    filled + rest
}

/// `*` is any run of characters, `?` exactly one. Linear but for the last star, which is tried again further on.
pub fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => (p, t) = (p + 1, t + 1),
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    (p, t) = (at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("*", "anything", true),
            ("claude-*", "claude-code", true),
            ("claude-*", "claude", false),
            ("?", "会", true),
            ("?", "", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b-c-", false),
            ("codex", "codex", true),
            ("codex", "Codex", false),
            ("*[x]", "a[x]", true),
        ] {
            assert_eq!(glob(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn placeholders_are_filled_in_once() {
        let filling = Filling { session: "s-1", message: "do {session} {x}", server: "http://h", cwd: "/w" };
        for (template, filled) in [
            ("--resume={session}", "--resume=s-1"),
            ("{message}", "do {session} {x}"),
            ("{server}/api/{session}", "http://h/api/s-1"),
            ("{unknown} {", "{unknown} {"),
            ("-C{cwd}", "-C/w"),
            ("", ""),
        ] {
            assert_eq!(fill(template, filling), filled);
        }
    }

    #[test]
    fn a_session_its_client_does_not_know_is_served_by_name_only() {
        let rule = |matches: &str| -> WakeRule {
            toml::from_str(&format!("match = '{matches}'\ncommand = ['x']")).expect("valid")
        };
        for (matches, session, serves) in
            [("gemini*", "mcp_x", false), ("gemini*", "some-uuid", true), ("mcp_*", "mcp_x", true)]
        {
            assert_eq!(
                rule(matches).serves(&SessionId::new(session), Some("gemini-cli")),
                serves,
                "{matches} {session}"
            );
        }
    }

    #[test]
    fn a_session_name_never_becomes_an_option() {
        let rule: WakeRule =
            toml::from_str("match = '*'\ncommand = ['agent', '--resume', '{session}']").expect("valid");
        let filling = |session| Filling { session, message: "m", server: "u", cwd: "." };
        assert_eq!(rule.arguments(filling("abc")).expect("fine"), ["--resume", "abc"]);
        assert!(rule.arguments(filling("--dangerous")).is_err());
        let serves = |session| rule.serves(&SessionId::new(session), None);
        assert!(serves("abc") && !serves("--dangerous"), "nothing is promised that would be given up");
    }

    #[test]
    fn mistakes_are_named() {
        for (text, field) in [
            ("match = ''\ncommand = ['x']", ".match"),
            ("match = '*'\ncommand = []", ".command"),
            ("match = '*'\ncommand = ['']", ".command"),
            ("match = '*'\ncommand = ['{message}']", ".command"),
            ("match = '*'\ncommand = ['sh', '-c', 'x {message}']", ".command"),
            ("match = '*'\ncommand = ['/usr/bin/env', '/bin/bash', '-l', '-ec', 'x {session}']", ".command"),
            ("match = '*'\ncommand = ['x']\nper_hour = 0", ".per_hour"),
            ("match = '*'\ncommand = ['x']\nenv = { 'a=b' = 'c' }", ".env"),
        ] {
            let rule: WakeRule = toml::from_str(text).expect("the form is right");
            assert_eq!(rule.check("name").expect_err(text).0, field);
        }
        let rule: WakeRule = toml::from_str("match = '*'\ncommand = ['x']").expect("valid");
        assert_eq!(rule.check("name"), Ok(()));
        assert!(rule.check("a b").is_err());
        let fine = r#"match = '*'
            command = ['sh', '-c', 'x "$1"', 'sh', '{message}']"#;
        let rule: WakeRule = toml::from_str(fine).expect("valid");
        assert_eq!(rule.check("name"), Ok(()));
    }
}
