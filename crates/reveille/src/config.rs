//! Configuration: defaults, then the file, then the environment, then flags. A key that is not known is an error, so
//! that a misspelt one is not silently without effect.

pub mod gateway;
mod token;
mod until;

pub use token::Token;
pub use until::UntilConfig;

use crate::{
    access::TokenFile,
    agents::{self, AgentConfig, executor, hidden},
    clock_stage::check_tools,
    wake::{Rules, WakeRule},
};
use gateway::GatewayConfig;
use reveille_core::{Limits, Millis, Quiet, duration};
use reveille_store::PostgresOptions;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{
    borrow::Cow,
    collections::BTreeMap,
    env, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};
use toml::{Table, Value};

pub const DEFAULT_LISTEN: &str = "127.0.0.1:7383";
const DATABASE: &str = "reveille.db";
/// Where a running server leaves its address, so that commands find it whatever port it has.
const ADDRESS: &str = "address";
const TOKENS: &str = "tokens.toml";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub listen: SocketAddr,
    /// Where everything is kept; the XDG data directory unless given.
    pub data_dir: PathBuf,
    /// Which server to be; made once and kept in the database unless given.
    pub server_id: Option<String>,
    /// What this node of a server on PostgreSQL is called: its files, processes and commands are looked at by the node of
    /// this name alone. Made of the machine's name and the data directory unless given.
    pub node: Option<String>,
    /// PostgreSQL instead of SQLite in the data directory.
    pub database_url: Option<String>,
    pub database: DatabaseConfig,
    /// Host names besides the loopback's that requests may be addressed to.
    pub allowed_hosts: Vec<String>,
    /// A file with the token that every request has to bring; the variable REVEILLE_TOKEN goes over it.
    pub token_file: Option<PathBuf>,
    /// The token itself: only from there. Without one, whoever reaches the server may use it.
    #[serde(skip)]
    pub token: Option<Token>,
    /// A file of further tokens, by their hashes, with what each allows; `tokens.toml` in the data directory unless given.
    pub tokens_file: Option<PathBuf>,
    /// The dashboard's files, for work on them, instead of those in the binary.
    pub ui_dir: Option<PathBuf>,
    /// Ended timers, delivered messages and history are kept this long.
    pub retention: Length,
    /// Wake commands that run at once, of all rules together.
    pub wake_concurrency: usize,
    pub limits: LimitsConfig,
    pub gateway: GatewayConfig,
    pub stats: StatsConfig,
    pub mcp: McpConfig,
    /// Commands that wake an agent nobody else can reach, by name. Of several that match, the first by name is meant.
    pub wake: BTreeMap<String, WakeRule>,
    /// Agents of the operator; see also `agents.dir`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agent: Vec<AgentConfig>,
    pub agents: AgentsConfig,
    /// What timers may wait for.
    pub until: UntilConfig,
    /// Quiet hours of all sessions that have none of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet: Option<Quiet>,
    /// The file this was read from, if there was one.
    #[serde(skip)]
    pub source: Option<PathBuf>,
    /// By flag only: take any free port if the one of `listen` is somebody else's.
    #[serde(skip)]
    pub any_port: bool,
}

/// Limits towards PostgreSQL; the URL is all that it needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DatabaseConfig {
    /// Connections for reading; there are four more.
    pub readers: usize,
    /// The database gives up on a statement that takes longer.
    pub statement_timeout: Length,
    /// A request waits so long for a database that is away; then it is refused, to be tried again.
    pub wait: Length,
    /// Hear of other nodes by LISTEN and NOTIFY. Where the database has no such thing: look every `poll`.
    pub listen: bool,
    pub poll: Length,
}

impl Default for DatabaseConfig {
    fn default() -> Self {
        let options = PostgresOptions::new("");
        let length = |length: std::time::Duration| Length(Millis::new(length.as_millis() as u64));
        Self {
            readers: options.readers,
            statement_timeout: length(options.statement_timeout),
            wait: length(options.wait),
            listen: options.listen,
            poll: length(options.poll),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpConfig {
    /// The longest a call stands by for a client nothing is known about. Many give up after 60 seconds.
    pub standby_max: Length,
    /// The same for clients by the name they give themselves; goes over what is known about them.
    pub standby: BTreeMap<String, Length>,
}

/// What is the same for all agents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentsConfig {
    /// A directory of agents, one to a file, as JSON or TOML; beside this file, if it is not absolute. Its files are watched,
    /// as this one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// Whether tools and webhooks of agents from the API may be on this machine or a private network. Unless given: yes
    /// if this server itself listens on the loopback only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_private: Option<bool>,
    /// Environment variables that agents from the API may refer to, as patterns with `*`.
    pub api_secrets: Vec<String>,
    /// Calls of tools and webhooks at once.
    pub concurrency: usize,
    /// Of these, to one host.
    pub concurrency_per_host: usize,
    /// Agents from the API that are kept ready in memory.
    pub cache: usize,
    /// Turns of `query` at once, of all sessions; more are refused, to be asked again.
    pub turns: usize,
}

impl Default for AgentsConfig {
    fn default() -> Self {
        let (dir, allow_private, api_secrets) = (None, None, Vec::new());
        Self { dir, allow_private, api_secrets, concurrency: 50, concurrency_per_host: 16, cache: 256, turns: 256 }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsConfig {
    pub timers_per_session: u32,
    pub reminders_per_session: u32,
    /// With so many undelivered messages a session takes nothing new on.
    pub messages_per_session: u32,
    pub max_duration: Length,
    pub text_chars: usize,
    /// How long a delivery may take before its messages are free again.
    pub lease: Length,
    /// An agent with more timers than this is refused.
    pub session_timers_per_session: usize,
    /// A turn of an agent that is not answered within this is given up, and its session's timers run again.
    pub turn: Length,
    /// Attempts of a tool call that a timer fired.
    pub call_attempts: u32,
    /// Requests of one token, or of one address where there are no tokens; more are refused with 429. 0: no limit.
    pub requests_per_second: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StatsConfig {
    /// How often an agent would have asked instead of sleeping.
    pub poll_interval: Length,
}

/// A duration in the file: `"7d"`, `"30s"` or a number of seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length(pub Millis);

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: DEFAULT_LISTEN.parse().expect("a valid address"),
            data_dir: xdg("XDG_DATA_HOME", ".local/share").join("reveille"),
            server_id: None,
            node: None,
            database_url: None,
            database: DatabaseConfig::default(),
            allowed_hosts: Vec::new(),
            token_file: None,
            token: None,
            tokens_file: None,
            ui_dir: None,
            retention: Length(Millis::from_secs(7 * 24 * 3600)),
            wake_concurrency: 4,
            limits: LimitsConfig::default(),
            gateway: GatewayConfig::default(),
            stats: StatsConfig::default(),
            mcp: McpConfig::default(),
            any_port: false,
            agent: Vec::new(),
            agents: AgentsConfig::default(),
            until: UntilConfig::default(),
            quiet: None,
            source: None,
            wake: BTreeMap::new(),
        }
    }
}

impl Default for McpConfig {
    fn default() -> Self {
        Self { standby_max: Length(Millis::from_secs(50)), standby: BTreeMap::new() }
    }
}

impl Default for LimitsConfig {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            timers_per_session: limits.live_timers_max,
            reminders_per_session: limits.live_reminders_max,
            messages_per_session: limits.pending_messages_max,
            max_duration: Length(limits.duration_max),
            text_chars: limits.text_chars_max,
            lease: Length(limits.lease),
            session_timers_per_session: 10,
            turn: Length(limits.turn),
            call_attempts: limits.call_attempts_max,
            requests_per_second: 0,
        }
    }
}

impl Default for StatsConfig {
    fn default() -> Self {
        Self { poll_interval: Length(Limits::default().poll_interval) }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{path} cannot be read: {why}")]
    Unreadable { path: PathBuf, why: String },
    #[error("{path}: {why}")]
    Invalid { path: PathBuf, why: String },
    #[error("environment variable {name}: {why}")]
    Environment { name: String, why: String },
    #[error("`{key}`: {why}")]
    Value { key: Cow<'static, str>, why: String },
}

/// How the text of an environment variable becomes the key's value.
#[derive(Clone, Copy)]
enum Form {
    Text,
    /// A number or a truth value.
    Plain,
    /// Separated by commas.
    List,
    /// `name=value`, separated by commas.
    Pairs,
}

/// Every key, by its path. `REVEILLE_` and the path in capitals is its environment variable.
const KEYS: &[(&str, Form)] = &[
    ("listen", Form::Text),
    ("data_dir", Form::Text),
    ("server_id", Form::Text),
    ("node", Form::Text),
    ("database_url", Form::Text),
    ("database.readers", Form::Plain),
    ("database.statement_timeout", Form::Text),
    ("database.wait", Form::Text),
    ("database.listen", Form::Plain),
    ("database.poll", Form::Text),
    ("allowed_hosts", Form::List),
    ("token_file", Form::Text),
    ("tokens_file", Form::Text),
    ("ui_dir", Form::Text),
    ("retention", Form::Text),
    ("wake_concurrency", Form::Plain),
    ("limits.timers_per_session", Form::Plain),
    ("limits.reminders_per_session", Form::Plain),
    ("limits.messages_per_session", Form::Plain),
    ("limits.max_duration", Form::Text),
    ("limits.text_chars", Form::Plain),
    ("limits.lease", Form::Text),
    ("limits.session_timers_per_session", Form::Plain),
    ("limits.turn", Form::Text),
    ("limits.call_attempts", Form::Plain),
    ("limits.requests_per_second", Form::Plain),
    ("gateway.connect_timeout", Form::Text),
    ("gateway.first_byte_timeout", Form::Text),
    ("gateway.idle_timeout", Form::Text),
    ("gateway.total_timeout", Form::Text),
    ("gateway.total_timeout_stream", Form::Text),
    ("gateway.idle_counts", Form::Text),
    ("gateway.retries", Form::Plain),
    ("gateway.max_body_bytes", Form::Plain),
    ("gateway.max_bodies_bytes", Form::Plain),
    ("gateway.max_event_bytes", Form::Plain),
    ("gateway.max_held_bytes", Form::Plain),
    ("gateway.max_rounds", Form::Plain),
    ("gateway.max_continuations", Form::Plain),
    ("gateway.show_calls", Form::Plain),
    ("gateway.tools", Form::List),
    ("gateway.hold", Form::Plain),
    ("gateway.max_hold", Form::Text),
    ("gateway.max_hold_whole", Form::Text),
    ("gateway.due_window", Form::Text),
    ("gateway.retention", Form::Text),
    ("agents.dir", Form::Text),
    ("agents.allow_private", Form::Plain),
    ("agents.api_secrets", Form::List),
    ("agents.concurrency", Form::Plain),
    ("agents.concurrency_per_host", Form::Plain),
    ("agents.cache", Form::Plain),
    ("agents.turns", Form::Plain),
    ("until.allow_private", Form::Plain),
    ("until.files", Form::List),
    ("until.processes", Form::Plain),
    ("until.commands", Form::Plain),
    ("until.concurrency", Form::Plain),
    ("until.rate", Form::Plain),
    ("until.max_interval", Form::Text),
    ("stats.poll_interval", Form::Text),
    ("mcp.standby_max", Form::Text),
    ("mcp.standby", Form::Pairs),
];

impl Config {
    /// The file (the given one, else the one in the XDG configuration directory if it exists) and the environment.
    pub fn load(path: Option<&Path>) -> Result<Self, ConfigError> {
        let default = Self::default_path();
        let path = path.unwrap_or(&default);
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && path == default => String::new(),
            Err(error) => return Err(ConfigError::Unreadable { path: path.to_owned(), why: error.to_string() }),
        };
        let config = Self::parse(path, &text, |name| env::var(name).ok())?;
        Ok(Self { source: Some(path.to_owned()), ..config })
    }

    /// The environment alone, as far as it makes sense.
    pub fn without_file() -> Self {
        Self::parse(Path::new(""), "", |name| env::var(name).ok()).unwrap_or_default()
    }

    /// A file of this text, whatever the environment says.
    pub fn read(path: &Path, text: &str) -> Result<Self, ConfigError> {
        Self::parse(path, text, |_| None)
    }

    /// The file in the XDG configuration directory.
    pub fn default_path() -> PathBuf {
        xdg("XDG_CONFIG_HOME", ".config").join("reveille/reveille.toml")
    }

    fn parse(path: &Path, text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let invalid = |error: toml::de::Error| ConfigError::Invalid { path: path.to_owned(), why: error.to_string() };
        // Read once as it stands, so that an error points into the file.
        let _: Config = toml::from_str(text).map_err(invalid)?;
        let mut table: Table = toml::from_str(text).map_err(invalid)?;
        for (key, form) in KEYS {
            let name = format!("REVEILLE_{}", key.replace('.', "_").to_uppercase());
            let Some(text) = variable(&name).filter(|text| !text.is_empty()) else { continue };
            set(&mut table, key, value(&name, &text, *form)?);
            // Checked one by one, so that the error names the variable.
            if let Err(error) = table.clone().try_into::<Config>() {
                return Err(ConfigError::Environment { name, why: error.message().to_owned() });
            }
        }
        let mut config: Config = table.try_into().map_err(invalid)?;
        // Beside the file that names it, wherever the program was started.
        let file = config.token_file.as_ref().map(|file| path.parent().unwrap_or(Path::new("")).join(file));
        let beside = |file: PathBuf| path.parent().unwrap_or(Path::new("")).join(file);
        config.tokens_file = config.tokens_file.map(beside);
        config.agents.dir = config.agents.dir.map(beside);
        config.token = Token::find(variable(token::VARIABLE), file.as_deref())?;
        Ok(config)
    }

    /// What can only be said of the whole, after flags.
    pub fn check(&self) -> Result<(), ConfigError> {
        let value = |key, why: &str| Err(ConfigError::Value { key: Cow::Borrowed(key), why: why.to_owned() });
        if let Some(Err(error)) = self.postgres().map(|options| options.check()) {
            return value("database_url", error.to_string().trim_start_matches("database_url: "));
        }
        if self.database.readers == 0 {
            return value("database.readers", "must be at least 1");
        }
        if self.database.statement_timeout.0.is_zero() || self.database.poll.0.is_zero() {
            return value("database", "`statement_timeout` and `poll` must be longer than nothing");
        }
        let tokens = self.tokens();
        let entries =
            tokens.read().map_err(|error| ConfigError::Value { key: "tokens_file".into(), why: error.to_string() })?;
        if !self.listen.ip().is_loopback() && self.token.is_none() && entries.is_empty() {
            return value(
                "listen",
                "anybody who reaches this address could use the server; listen on 127.0.0.1, or give it a token \
                 (`reveille token new`, `token_file`, or the variable REVEILLE_TOKEN)",
            );
        }
        if self.server_id.as_ref().is_some_and(|id| id.trim().is_empty()) {
            return value("server_id", "must not be empty; leave it out to have one made");
        }
        if self.node.as_ref().is_some_and(|name| name.trim().is_empty()) {
            return value("node", "must not be empty; leave it out to have one made");
        }
        if self.limits.timers_per_session == 0 {
            return value("limits.timers_per_session", "must be at least 1");
        }
        if self.limits.reminders_per_session == 0 {
            return value("limits.reminders_per_session", "must be at least 1");
        }
        if self.limits.messages_per_session == 0 {
            return value("limits.messages_per_session", "must be at least 1");
        }
        for (key, value_of) in [
            ("agents.concurrency", self.agents.concurrency),
            ("agents.concurrency_per_host", self.agents.concurrency_per_host),
            ("agents.cache", self.agents.cache),
            ("agents.turns", self.agents.turns),
        ] {
            if value_of == 0 {
                return value(key, "must be at least 1");
            }
        }
        if self.limits.call_attempts == 0 {
            return value("limits.call_attempts", "must be at least 1");
        }
        self.check_wake()?;
        self.until.check()?;
        check_tools(&self.gateway.tools).map_err(|why| ConfigError::Value { key: "gateway.tools".into(), why })?;
        agents::check(self).map_err(|invalid| ConfigError::Value { key: invalid.field.into(), why: invalid.why })?;
        self.gateway.settings().map(drop)
    }

    pub fn check_wake(&self) -> Result<(), ConfigError> {
        if self.wake_concurrency == 0 {
            return Err(ConfigError::Value { key: "wake_concurrency".into(), why: "must be at least 1".into() });
        }
        for (name, rule) in &self.wake {
            let wrong = |(field, why)| ConfigError::Value { key: format!("wake.{name}{field}").into(), why };
            rule.check(name).map_err(wrong)?;
        }
        Ok(())
    }

    pub fn limits(&self) -> Limits {
        Limits {
            live_timers_max: self.limits.timers_per_session,
            live_reminders_max: self.limits.reminders_per_session,
            pending_messages_max: self.limits.messages_per_session,
            due_window: self.gateway.due_window.0,
            reminder_retention: self.gateway.retention.0,
            duration_max: self.limits.max_duration.0,
            text_chars_max: self.limits.text_chars,
            lease: self.limits.lease.0,
            turn: self.limits.turn.0,
            idle_session: self.retention.0,
            call_attempts_max: self.limits.call_attempts,
            poll_interval: self.stats.poll_interval.0,
            quiet: self.quiet.clone().map(Arc::new),
            ..Limits::default()
        }
    }

    pub fn executor(&self) -> executor::Settings {
        executor::Settings {
            concurrency: self.agents.concurrency,
            concurrency_per_host: self.agents.concurrency_per_host,
            allow_private: self.agents.allow_private.unwrap_or(self.listen.ip().is_loopback()),
        }
    }

    /// The wake commands, for a server that listens here.
    pub fn wake_rules(&self, address: SocketAddr) -> Rules {
        let list = self.wake.iter().map(|(name, rule)| (name.clone(), rule.clone())).collect();
        Rules {
            list,
            concurrency: self.wake_concurrency,
            server: format!("http://{address}"),
            token: self.token.clone(),
        }
    }

    /// How PostgreSQL is reached, if it is meant.
    pub fn postgres(&self) -> Option<PostgresOptions> {
        let database = &self.database;
        Some(PostgresOptions {
            url: self.database_url.clone()?,
            readers: database.readers,
            statement_timeout: database.statement_timeout.0.to_std(),
            wait: database.wait.0.to_std(),
            listen: database.listen,
            poll: database.poll.0.to_std(),
        })
    }

    /// To be shown: without passwords.
    pub fn hide_secrets(&mut self) {
        if let Some(url) = &self.database_url
            && let Some((scheme, rest)) = url.split_once("://")
            && let Some((login, place)) = rest.rsplit_once('@')
        {
            let user = login.split(':').next().unwrap_or_default();
            self.database_url = Some(format!("{scheme}://{user}:***@{place}"));
        }
        self.agent.iter_mut().for_each(hidden::hide);
        // What is given to others literally may be a secret.
        let given = self.wake.values_mut().flat_map(|rule| rule.env.values_mut());
        given.for_each(|value| *value = "***".into());
    }

    /// Where everything is kept, for people to read: never with a password.
    pub fn keeps(&self) -> String {
        match &self.database_url {
            Some(_) => "PostgreSQL".into(),
            None => self.data_dir.display().to_string(),
        }
    }

    pub fn database(&self) -> PathBuf {
        self.data_dir.join(DATABASE)
    }

    pub fn tokens(&self) -> TokenFile {
        TokenFile { path: self.tokens_file.clone().unwrap_or_else(|| self.data_dir.join(TOKENS)) }
    }

    pub fn address_file(&self) -> PathBuf {
        self.data_dir.join(ADDRESS)
    }
}

fn value(name: &str, text: &str, form: Form) -> Result<Value, ConfigError> {
    Ok(match form {
        Form::Text => Value::String(text.to_owned()),
        Form::List => Value::Array(text.split(',').map(|part| Value::String(part.trim().to_owned())).collect()),
        Form::Pairs => Value::Table(text.split(',').map(|part| pair(name, part)).collect::<Result<Table, _>>()?),
        Form::Plain => match text.parse::<i64>() {
            Ok(number) => Value::Integer(number),
            Err(_) => match text {
                "true" => Value::Boolean(true),
                "false" => Value::Boolean(false),
                _ => {
                    let why = format!("'{text}' is neither a number nor true or false");
                    return Err(ConfigError::Environment { name: name.to_owned(), why });
                }
            },
        },
    })
}

fn pair(name: &str, text: &str) -> Result<(String, Value), ConfigError> {
    match text.split_once('=') {
        Some((key, value)) => Ok((key.trim().to_owned(), Value::String(value.trim().to_owned()))),
        None => {
            let why = format!("'{text}' is not of the form name=value");
            Err(ConfigError::Environment { name: name.to_owned(), why })
        }
    }
}

fn set(table: &mut Table, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
        }
        Some((section, rest)) => {
            let section = table.entry(section.to_owned()).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(section) = section {
                set(section, rest, value);
            }
        }
    }
}

fn xdg(variable: &str, below_home: &str) -> PathBuf {
    match env::var_os(variable).filter(|path| !path.is_empty()) {
        Some(path) => path.into(),
        None => PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(below_home),
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const MAX: Millis = Millis::from_secs(100 * 366 * 24 * 3600);
        let value = serde_json::Value::deserialize(deserializer)?;
        duration::parse("duration", &value, MAX)
            .map(Length)
            .map_err(|reject| serde::de::Error::custom(reject.to_string().replace("`duration`: ", "")))
    }
}

impl Serialize for Length {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}s", self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
        let find = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string());
        Config::parse(Path::new("reveille.toml"), text, find).map_err(|error| error.to_string())
    }

    #[test]
    fn the_environment_goes_over_the_file_and_the_file_over_the_defaults() {
        let file = "retention = \"1d\"\n[limits]\ntimers_per_session = 7\nlease = 5\n";
        let config = parse(file, &[("REVEILLE_LIMITS_TIMERS_PER_SESSION", "9"), ("REVEILLE_LISTEN", "127.0.0.1:0")]);
        let config = config.expect("valid");
        assert_eq!(config.retention, Length(Millis::from_secs(86_400)));
        assert_eq!(config.limits.timers_per_session, 9);
        assert_eq!(config.limits.lease, Length(Millis::from_secs(5)));
        assert_eq!(config.listen.port(), 0);
        assert_eq!(config.limits.text_chars, Limits::default().text_chars_max);
    }

    #[test]
    fn clients_are_named_in_the_file_and_in_the_environment() {
        let file = "[mcp]\nstandby_max = \"40s\"\n[mcp.standby]\ncodex = \"4m\"\n";
        let lengths = |config: Config| {
            config.mcp.standby.into_iter().map(|(name, length)| (name, length.0.get() / 1000)).collect::<Vec<_>>()
        };
        assert_eq!(lengths(parse(file, &[]).expect("valid")), [("codex".to_owned(), 240)]);
        let both = parse(file, &[("REVEILLE_MCP_STANDBY", "codex=10, my client = 1m")]).expect("valid");
        assert_eq!(both.mcp.standby_max, Length(Millis::from_secs(40)));
        assert_eq!(lengths(both), [("codex".to_owned(), 10), ("my client".to_owned(), 60)]);
    }

    #[test]
    fn mistakes_are_named() {
        for (file, variables, expected) in [
            ("retentoin = \"1d\"", &[][..], "retentoin"),
            ("retention = \"soon\"", &[], "soon"),
            ("[limits]\ntimers_per_session = -1", &[], "timers_per_session"),
            ("listen = \"7383\"", &[], "listen"),
            ("listen", &[], "reveille.toml"),
            ("", &[("REVEILLE_RETENTION", "-5m")], "REVEILLE_RETENTION"),
            ("", &[("REVEILLE_LIMITS_TEXT_CHARS", "many")], "REVEILLE_LIMITS_TEXT_CHARS"),
            ("", &[("REVEILLE_MCP_STANDBY", "codex")], "name=value"),
            ("", &[("REVEILLE_MCP_STANDBY", "codex=soon")], "REVEILLE_MCP_STANDBY"),
        ] {
            let error = parse(file, variables).expect_err(file);
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn every_key_has_an_environment_variable() {
        let agents = AgentsConfig { dir: Some("x".into()), allow_private: Some(true), ..AgentsConfig::default() };
        let until = UntilConfig {
            allow_private: Some(true),
            files: Some(vec!["/x".into()]),
            processes: Some(true),
            ..UntilConfig::default()
        };
        let full = Config {
            until,
            server_id: Some("x".into()),
            node: Some("x".into()),
            database_url: Some("x".into()),
            token_file: Some("x".into()),
            tokens_file: Some("x".into()),
            ui_dir: Some("x".into()),
            agents,
            ..Config::default()
        };
        let mut paths = Vec::new();
        for (key, value) in Table::try_from(&full).expect("representable") {
            match value {
                Value::Table(section) => paths.extend(section.keys().map(|inner| format!("{key}.{inner}"))),
                _ => paths.push(key),
            }
        }
        let mut known: Vec<String> = KEYS.iter().map(|(key, _)| (*key).to_owned()).collect();
        paths.sort();
        known.sort();
        assert_eq!(known, paths);
    }

    #[test]
    fn agents_are_checked_with_the_rest() {
        let agent = |timer: &str| {
            format!("[[agent]]\ntenant = \"acme\"\nchatbot = \"客服\"\n[[agent.timers]]\ntimer_id = \"t\"\n{timer}\n")
        };
        let good = parse(&agent("tool_name = \"generate_response\"\ndelay_seconds = \"5m\""), &[]).expect("readable");
        assert!(good.check().is_ok());
        let bad = parse(&agent("tool_name = \"nobody\""), &[]).expect("readable").check().expect_err("no such tool");
        assert!(bad.to_string().contains("agent[0].timers[0].tool_name"), "{bad}");
        assert!(parse(&agent("tool = \"x\""), &[]).expect_err("unknown key").contains("tool_name"));
    }

    #[test]
    fn a_password_is_not_shown() {
        let shown = |url: &str| {
            let mut config = Config { database_url: Some(url.into()), ..Config::default() };
            config.hide_secrets();
            config.database_url.expect("still there")
        };
        assert_eq!(
            shown("postgres://me:p@ss:word@h1,h2:5433/d?sslmode=require"),
            "postgres://me:***@h1,h2:5433/d?sslmode=require"
        );
        assert_eq!(shown("postgres://localhost/d"), "postgres://localhost/d");
    }

    #[test]
    fn beyond_the_loopback_needs_a_word() {
        let open = Config { listen: "0.0.0.0:7383".parse().expect("valid"), ..Config::default() };
        assert!(open.check().is_err());
        assert!(Config { token: Token::parse("0123456789abcdef").ok(), ..open }.check().is_ok());
        assert!(Config::default().check().is_ok());
    }
}
