//! What each client needs and where it keeps it. One function per client; nothing is read or written here.

use super::{super::show::quoted, edit::Edit};
use clap::ValueEnum;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SetupClient {
    ClaudeCode,
    Codex,
    Opencode,
    Gemini,
    Cursor,
    Cline,
}

impl SetupClient {
    /// The command that starts it; Cline lives in an editor.
    pub fn program(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
            Self::Gemini => "gemini",
            Self::Cursor => "cursor-agent",
            Self::Cline => "cline",
        }
    }
}

/// Where things are on this machine.
pub struct Place<'a> {
    /// How hooks and clients call this program.
    pub program: &'a str,
    /// What they have to add to be understood as this call was: `--data-dir` and the like.
    pub options: &'a [String],
    /// Speak to the server at this URL instead of starting `reveille mcp`.
    pub http: Option<&'a str>,
    /// Below the working directory instead of the user's home.
    pub project: bool,
    pub variable: &'a dyn Fn(&str) -> Option<PathBuf>,
    pub exists: &'a dyn Fn(&Path) -> bool,
}

pub struct Piece {
    pub path: PathBuf,
    pub what: &'static str,
    pub edits: Vec<Edit>,
}

pub struct Setup {
    pub pieces: Vec<Piece>,
    /// What resumes a session of this client, for `reveille.toml`.
    pub wake: Option<Wake>,
    pub note: Option<&'static str>,
}

pub struct Wake {
    pub client: &'static str,
    pub command: Vec<&'static str>,
    /// Variables of the command.
    pub env: &'static [(&'static str, &'static str)],
}

/// Claude Code gives a hook that waits in the background as long as it is told to: twenty days, since it counts in
/// milliseconds and more than 2³¹ of them would be none. A little less for us, so that the server knows what is too far.
const REWAKE_SECONDS: u64 = 20 * 86_400;
const REWAKE: &str = "rewake --timeout 479h";

/// A woken agent has nobody to hear of a task that ends later, and would wait for it to its own end.
const HEADLESS: &[(&str, &str)] = &[("CLAUDE_CODE_DISABLE_MCP_TASKS", "1")];

/// Fields of an entry that only a program has, and those that only an address has.
const OF_PROGRAMS: &[&str] = &["type", "command", "args", "env", "env_vars", "cwd", "environment"];
const OF_ADDRESSES: &[&str] =
    &["type", "url", "httpUrl", "headers", "http_headers", "env_http_headers", "bearer_token_env_var"];

const NAMELESS: &str = "This client tells neither its tools nor its model which conversation a call belongs to, so that no hook \
    or wake command could find it again: messages wait for its next tool call.";

pub fn setup(client: SetupClient, place: &Place<'_>) -> anyhow::Result<Setup> {
    Ok(match client {
        SetupClient::ClaudeCode => claude_code(place),
        SetupClient::Codex => codex(place),
        SetupClient::Opencode => opencode(place),
        SetupClient::Gemini => gemini(place),
        SetupClient::Cursor => cursor(place),
        SetupClient::Cline if place.project => {
            anyhow::bail!("Cline keeps its servers for the user only; leave out --project")
        }
        SetupClient::Cline => cline(place),
    })
}

fn claude_code(place: &Place<'_>) -> Setup {
    let own = (place.variable)("CLAUDE_CONFIG_DIR");
    let (servers, settings) = match place.project {
        true => (PathBuf::from(".mcp.json"), PathBuf::from(".claude/settings.json")),
        false => (
            own.clone().unwrap_or_else(|| place.home()).join(".claude.json"),
            own.unwrap_or_else(|| place.home().join(".claude")).join("settings.json"),
        ),
    };
    let server = place.server(
        vec!["mcpServers", "reveille"],
        json!({"type": "stdio"}),
        |url| json!({"type": "http", "url": url}),
    );
    let rewake = |event| {
        let more = json!({"asyncRewake": true, "timeout": REWAKE_SECONDS});
        place.hook("claude-code", event, REWAKE, more)
    };
    // Over stdio the tools know the session by themselves.
    let told = |stdio, http| if place.http.is_some() { http } else { stdio };
    let hooks = vec![
        place.hook_for("mcp__reveille__.*", "claude-code", "PreToolUse", "tool"),
        place.hook("claude-code", "Stop", "stop", json!({})),
        rewake("Stop"),
        place.hook("claude-code", "UserPromptSubmit", told("prompt", "prompt --tell-session"), json!({})),
        place.hook("claude-code", "SessionStart", told("start", "start --tell-session"), json!({})),
        rewake("SessionStart"),
    ];
    Setup {
        pieces: vec![
            Piece { path: servers, what: "the tools", edits: server },
            Piece { path: settings, what: "hooks", edits: hooks },
        ],
        wake: place.wake("claude-code", vec!["claude", "-p", "--resume", "{session}"], HEADLESS),
        note: None,
    }
}

fn codex(place: &Place<'_>) -> Setup {
    let home = match place.project {
        true => PathBuf::from(".codex"),
        false => (place.variable)("CODEX_HOME").unwrap_or_else(|| place.home().join(".codex")),
    };
    let servers = place.server(vec!["mcp_servers", "reveille"], json!({}), |url| json!({"url": url}));
    let hooks = [("Stop", "stop"), ("UserPromptSubmit", "prompt"), ("SessionStart", "start")];
    let hooks = hooks.map(|(event, word)| place.hook("codex", event, word, json!({}))).into();
    Setup {
        pieces: vec![
            Piece { path: home.join("config.toml"), what: "the tools", edits: servers },
            Piece { path: home.join("hooks.json"), what: "hooks", edits: hooks },
        ],
        // It is asked to go on where it was; whether that is under version control is settled.
        wake: place.wake("codex", vec!["codex", "exec", "resume", "--skip-git-repo-check", "{session}", "-"], &[]),
        note: Some("Codex runs new hooks only after you have trusted them: start it and type /hooks."),
    }
}

fn opencode(place: &Place<'_>) -> Setup {
    let directory = match place.project {
        true => PathBuf::new(),
        false => {
            let config = (place.variable)("XDG_CONFIG_HOME").unwrap_or_else(|| place.home().join(".config"));
            config.join("opencode")
        }
    };
    let commented = directory.join("opencode.jsonc");
    let path = if (place.exists)(&commented) { commented } else { directory.join("opencode.json") };
    let server = match place.http {
        Some(url) => json!({"type": "remote", "url": url, "enabled": true}),
        None => {
            let command: Vec<String> = [place.program.to_owned()].into_iter().chain(place.arguments()).collect();
            json!({"type": "local", "command": command, "enabled": true})
        }
    };
    let edits = place.instead(vec!["mcp", "reveille"], server);
    Setup { pieces: vec![Piece { path, what: "the tools", edits }], wake: None, note: Some(NAMELESS) }
}

fn gemini(place: &Place<'_>) -> Setup {
    let path = place.below(".gemini/settings.json");
    let mut edits = place.server(vec!["mcpServers", "reveille"], json!({}), |url| json!({"httpUrl": url}));
    for (event, word) in [("AfterAgent", "stop"), ("BeforeAgent", "prompt"), ("SessionStart", "start")] {
        edits.push(place.hook("gemini", event, word, json!({"name": format!("reveille-{word}")})));
    }
    Setup {
        pieces: vec![Piece { path, what: "the tools and hooks", edits }],
        wake: place.wake("gemini", vec!["gemini", "--resume", "{session}", "-p", "{message}"], &[]),
        note: None,
    }
}

fn cursor(place: &Place<'_>) -> Setup {
    let edits = place.server(vec!["mcpServers", "reveille"], json!({}), |url| json!({"url": url}));
    Setup {
        pieces: vec![Piece { path: place.below(".cursor/mcp.json"), what: "the tools", edits }],
        wake: None,
        note: Some(NAMELESS),
    }
}

fn cline(place: &Place<'_>) -> Setup {
    let root = (place.variable)("CLINE_DIR").unwrap_or_else(|| place.home().join(".cline"));
    let data = (place.variable)("CLINE_DATA_DIR").unwrap_or_else(|| root.join("data"));
    let now = data.join("settings/cline_mcp_settings.json");
    // Versions that know only VS Code's own storage.
    let then = ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json";
    let then = place.home().join(then);
    let path = if !(place.exists)(&now) && (place.exists)(&then) { then } else { now };
    let edits =
        place.server(vec!["mcpServers", "reveille"], json!({}), |url| json!({"type": "streamableHttp", "url": url}));
    Setup {
        pieces: vec![Piece { path, what: "the tools", edits }],
        wake: None,
        note: Some(
            "Cline has no hooks that can speak to the model and no way to resume a task from outside: messages wait for its next tool call.",
        ),
    }
}

impl Place<'_> {
    fn home(&self) -> PathBuf {
        (self.variable)("HOME").unwrap_or_default()
    }

    /// The same path in the project and at home.
    fn below(&self, path: &str) -> PathBuf {
        if self.project { PathBuf::from(path) } else { self.home().join(path) }
    }

    /// The entry of an MCP server: a program that is started, or an address.
    fn server(&self, path: Vec<&'static str>, mut program: Value, http: impl Fn(&str) -> Value) -> Vec<Edit> {
        if let Some(url) = self.http {
            return self.instead(path, http(url));
        }
        program["command"] = json!(self.program);
        program["args"] = json!(self.arguments());
        self.instead(path, program)
    }

    /// The entry, without what belongs to the other transport: clients refuse an entry that has both.
    fn instead(&self, path: Vec<&'static str>, fields: Value) -> Vec<Edit> {
        let other = if self.http.is_some() { OF_PROGRAMS } else { OF_ADDRESSES };
        let names = other.iter().copied().filter(|name| fields.get(name).is_none()).collect();
        vec![Edit::Without { path: path.clone(), names }, Edit::Fields { path, fields }]
    }

    /// Over HTTP nothing shows that a client is still open, and a command would resume what its window shows.
    fn wake(
        &self,
        client: &'static str,
        command: Vec<&'static str>,
        env: &'static [(&'static str, &'static str)],
    ) -> Option<Wake> {
        self.http.is_none().then_some(Wake { client, command, env })
    }

    fn arguments(&self) -> Vec<String> {
        ["mcp".to_owned()].into_iter().chain(self.options.iter().cloned()).collect()
    }

    fn command(&self, client: &str, words: &str) -> String {
        let options = self.options.iter().map(|option| format!(" {}", quoted(option)));
        format!("{} hook {client} {words}{}", quoted(self.program), options.collect::<String>())
    }

    /// One hook in the form that Claude Code has made common.
    fn hook(&self, client: &str, event: &'static str, words: &str, more: Value) -> Edit {
        let mut hook = json!({"type": "command", "command": self.command(client, words)});
        for (name, value) in more.as_object().into_iter().flatten() {
            hook[name] = value.clone();
        }
        let word = words.split(' ').next().unwrap_or(words);
        let mark = format!(" hook {client} {word}");
        Edit::Element { path: vec!["hooks", event], mark, element: json!({"hooks": [hook]}) }
    }
}

impl Place<'_> {
    /// The same for calls of tools of this name.
    fn hook_for(&self, tools: &str, client: &str, event: &'static str, words: &str) -> Edit {
        match self.hook(client, event, words, json!({})) {
            Edit::Element { path, mark, mut element } => {
                element["matcher"] = json!(tools);
                Edit::Element { path, mark, element }
            }
            edit => edit,
        }
    }
}
