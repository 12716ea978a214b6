//! The `[gateway]` section: upstreams, and the limits of calls to them.

use super::{ConfigError, Length};
use http::uri::PathAndQuery;
use reveille_core::Millis;
use reveille_gateway::{ApiKey, IdleCounts, Limits, Override, Protocol, Settings, Upstream};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{env, fs, path::PathBuf, time::Duration};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GatewayConfig {
    pub connect_timeout: Wait,
    pub first_byte_timeout: Wait,
    pub idle_timeout: Wait,
    /// Whole answers.
    pub total_timeout: Wait,
    /// Streams; ends live ones too, so it is off unless set.
    pub total_timeout_stream: Wait,
    pub idle_counts: Counts,
    pub retries: u32,
    pub max_body_bytes: usize,
    /// All request bodies in memory together.
    pub max_bodies_bytes: usize,
    /// Everything that held turns keep, together.
    pub max_held_bytes: usize,
    pub max_event_bytes: usize,
    /// Tools that requests gain, and whose calls are answered here; for reminders, as are the keys below.
    pub tools: Vec<String>,
    /// Calls of them that a turn may make in a row.
    pub max_rounds: u32,
    /// Reminders that one response may be continued with; then it ends, and the next waits for a request.
    pub max_continuations: u32,
    /// Shown to clients, where their protocol has a form for it.
    pub show_calls: bool,
    pub hold: bool,
    pub max_hold: Wait,
    pub max_hold_whole: Wait,
    /// A reminder may be told this long before it is due.
    pub due_window: Length,
    /// Undelivered this long after it was due, a reminder is missed.
    pub retention: Length,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<OverrideConfig>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub upstream: Vec<UpstreamConfig>,
}

/// Limits for some models or agents; the first entry that fits is taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OverrideConfig {
    pub models: Vec<String>,
    pub agents: Vec<String>,
    #[serde(flatten)]
    pub limits: OwnLimits,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpstreamConfig {
    pub name: String,
    pub base_url: String,
    /// In place of `/v1`, where the vendor has another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    pub protocols: Vec<String>,
    #[serde(default)]
    pub models: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_file: Option<PathBuf>,
    #[serde(flatten)]
    pub limits: OwnLimits,
}

/// What goes over the section's own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OwnLimits {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_timeout: Option<Wait>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_timeout: Option<Wait>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Wait>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_timeout: Option<Wait>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_timeout_stream: Option<Wait>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_counts: Option<Counts>,
}

/// A duration that may be zero, which means without limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait(pub Duration);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Counts {
    /// Every chunk, keep-alives too.
    #[default]
    Anything,
    /// Only what the model says.
    Content,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        let (limits, settings) = (Limits::default(), Settings::default());
        let reminders = reveille_core::Limits::default();
        let wait = |limit: Option<Duration>| Wait(limit.unwrap_or_default());
        Self {
            connect_timeout: wait(limits.connect),
            first_byte_timeout: wait(limits.first_byte),
            idle_timeout: wait(limits.idle),
            total_timeout: wait(limits.total),
            total_timeout_stream: wait(limits.total_stream),
            idle_counts: Counts::Anything,
            retries: settings.retries,
            max_body_bytes: settings.body_bytes_max,
            max_bodies_bytes: settings.bodies_bytes_max,
            max_held_bytes: settings.held_bytes_max,
            max_event_bytes: settings.event_bytes_max,
            tools: vec!["clock".into()],
            max_rounds: 8,
            max_continuations: 100,
            show_calls: false,
            hold: true,
            max_hold: Wait(Duration::ZERO),
            max_hold_whole: Wait(Duration::from_secs(240)),
            due_window: Length(reminders.due_window),
            retention: Length(reminders.reminder_retention),
            limits: Vec::new(),
            upstream: Vec::new(),
        }
    }
}

impl GatewayConfig {
    /// As the gateway takes it, with the keys read from where the file says they are.
    pub fn settings(&self) -> Result<Settings, ConfigError> {
        // As sent and as decoded: less would keep one body waiting for room that never comes.
        if self.max_bodies_bytes / 2 < self.max_body_bytes {
            let why = format!("must be at least twice `max_body_bytes`, which is {}", self.max_body_bytes);
            return Err(ConfigError::Value { key: "gateway.max_bodies_bytes".into(), why });
        }
        let upstreams = self.upstream.iter().map(|upstream| self.upstream(upstream)).collect::<Result<_, _>>()?;
        let overrides = self.limits.iter().map(|over| Override {
            models: over.models.clone(),
            agents: over.agents.clone(),
            ..over.limits.overriding()
        });
        Ok(Settings {
            upstreams,
            overrides: overrides.collect(),
            body_bytes_max: self.max_body_bytes,
            bodies_bytes_max: self.max_bodies_bytes,
            held_bytes_max: self.max_held_bytes,
            show_calls: self.show_calls,
            event_bytes_max: self.max_event_bytes,
            retries: self.retries,
        })
    }

    fn upstream(&self, config: &UpstreamConfig) -> Result<Upstream, ConfigError> {
        let mistake = |why: String| ConfigError::Value {
            key: "gateway.upstream".into(),
            why: format!("`{}`: {why}", config.name),
        };
        let base: http::Uri = config.base_url.parse().map_err(|error| mistake(format!("`base_url`: {error}")))?;
        if base.authority().is_none() || !matches!(base.scheme_str(), Some("http" | "https")) {
            return Err(mistake("`base_url` must be such as \"https://api.openai.com\"".into()));
        }
        // It is shown wherever upstreams are.
        if base.authority().is_some_and(|authority| authority.as_str().contains('@')) || base.query().is_some() {
            let why = "must be without a user, password or query; a key belongs into `api_key_env` or `api_key_file`";
            return Err(mistake(format!("`base_url` {why}")));
        }
        let path = config.path.clone();
        let is_path = |path: &String| path.parse::<PathAndQuery>().is_ok_and(|parsed| parsed.path() == path);
        if path.as_ref().is_some_and(|path| !path.is_empty() && (!path.starts_with('/') || !is_path(path))) {
            return Err(mistake("`path` must be such as \"/v1beta/openai\"".into()));
        }
        let protocols = config.protocols.iter().map(|name| {
            Protocol::from_name(name)
                .ok_or_else(|| mistake(format!("`protocols`: '{name}' is none of chat, responses and messages")))
        });
        let protocols: Vec<Protocol> = protocols.collect::<Result<_, _>>()?;
        if protocols.is_empty() {
            return Err(mistake("`protocols` must name at least one of chat, responses and messages".into()));
        }
        let mut limits = self.limits();
        config.limits.overriding().apply(&mut limits);
        let key = config.key().map_err(mistake)?;
        Ok(Upstream { name: config.name.clone(), base, path, protocols, models: config.models.clone(), key, limits })
    }

    fn limits(&self) -> Limits {
        Limits {
            connect: self.connect_timeout.limit(),
            first_byte: self.first_byte_timeout.limit(),
            idle: self.idle_timeout.limit(),
            total: self.total_timeout.limit(),
            total_stream: self.total_timeout_stream.limit(),
            idle_counts: self.idle_counts.into(),
        }
    }
}

impl UpstreamConfig {
    /// Whether it has a key of its own, and that key is there.
    pub fn has_key(&self) -> Result<bool, String> {
        self.key().map(|key| key.is_some())
    }

    /// The configured key. That one is missing is said at the start, not at the first call.
    fn key(&self) -> Result<Option<ApiKey>, String> {
        let text = match (&self.api_key_env, &self.api_key_file) {
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => return Err("give `api_key_env` or `api_key_file`, not both".into()),
            (Some(name), None) => env::var(name)
                .map_err(|_| format!("the environment variable {name}, named by `api_key_env`, is not set"))?,
            (None, Some(path)) => fs::read_to_string(path)
                .map_err(|error| format!("`api_key_file` {} cannot be read: {error}", path.display()))?,
        };
        match text.trim() {
            "" => Err("the API key is empty".into()),
            key => ApiKey::new(key).map(Some).map_err(|_| "the API key cannot be sent in a header".into()),
        }
    }
}

impl OwnLimits {
    fn overriding(&self) -> Override {
        let wait = |wait: Option<Wait>| wait.map(|wait| wait.0);
        Override {
            connect: wait(self.connect_timeout),
            first_byte: wait(self.first_byte_timeout),
            idle: wait(self.idle_timeout),
            total: wait(self.total_timeout),
            total_stream: wait(self.total_timeout_stream),
            idle_counts: self.idle_counts.map(Into::into),
            ..Override::default()
        }
    }
}

impl From<Counts> for IdleCounts {
    fn from(counts: Counts) -> Self {
        match counts {
            Counts::Anything => IdleCounts::Anything,
            Counts::Content => IdleCounts::Content,
        }
    }
}

impl Wait {
    fn limit(self) -> Option<Duration> {
        Some(self.0).filter(|limit| !limit.is_zero())
    }
}

impl<'de> Deserialize<'de> for Wait {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        if value == 0 || ["0", "0s"].iter().any(|zero| value == *zero) {
            return Ok(Self(Duration::ZERO));
        }
        let length: Length = serde_json::from_value(value).map_err(serde::de::Error::custom)?;
        Ok(Self(Duration::from_millis(length.0.get())))
    }
}

impl Serialize for Wait {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Length(Millis::new(self.0.as_millis() as u64)).serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        idle_timeout = "90s"
        max_hold = "0s"
        [[upstream]]
        name = "openai"
        base_url = "https://api.openai.com"
        protocols = ["chat", "responses"]
        models = ["gpt-*", "o*"]
        total_timeout = "0s"
        connect_timeout = "3s"
        [[limits]]
        agents = ["acme:*"]
        idle_timeout = "5m"
        idle_counts = "content"
    "#;

    #[test]
    fn the_section_becomes_settings() {
        let config: GatewayConfig = toml::from_str(FILE).expect("valid");
        let settings = config.settings().expect("valid");
        let limits = settings.upstreams[0].limits;
        assert_eq!(limits.idle, Some(Duration::from_secs(90)));
        assert_eq!(limits.connect, Some(Duration::from_secs(3)));
        assert_eq!((limits.total, limits.total_stream), (None, None));
        assert_eq!(settings.overrides[0].idle, Some(Duration::from_secs(300)));
        let written = toml::to_string(&config).expect("representable");
        assert_eq!(toml::from_str::<GatewayConfig>(&written).expect("valid"), config);
    }

    #[test]
    fn mistakes_are_named() {
        for (change, word) in [
            ("https://api.openai.com -> api.openai.com", "base_url"),
            ("https:// -> ftp://", "base_url"),
            ("https:// -> https://user:geheim@", "without a user"),
            ("openai.com -> openai.com?key=geheim", "without a user"),
            ("connect_timeout -> path = \"v4\"\nconnect_timeout", "`path`"),
            ("connect_timeout -> path = \"/v4?a=b\"\nconnect_timeout", "`path`"),
            ("\"responses\" -> \"respones\"", "'respones' is none of"),
            ("[\"chat\", \"responses\"] -> []", "at least one"),
            ("connect_timeout = \"3s\" -> api_key_env = \"NO_SUCH_VARIABLE\"", "NO_SUCH_VARIABLE"),
            ("connect_timeout = \"3s\" -> api_key_file = \"/nowhere\"", "/nowhere"),
        ] {
            let (from, to) = change.split_once(" -> ").expect("a change");
            let config: GatewayConfig = toml::from_str(&FILE.replacen(from, to, 1)).expect("readable");
            let error = config.settings().expect_err(change).to_string();
            assert!(error.contains(word) && error.contains("openai") && !error.contains("geheim"), "{error}");
        }
        let small = GatewayConfig { max_bodies_bytes: 50_000_000, ..GatewayConfig::default() };
        let error = small.settings().expect_err("one body would not fit").to_string();
        assert!(error.contains("max_bodies_bytes") && error.contains("twice `max_body_bytes`"), "{error}");
        for wrong in
            ["idle_timout = 5", "[[upstream]]\nname = \"x\"", "[[limits]]\nmodel = [\"x\"]", "idle_timeout = \"soon\""]
        {
            assert!(toml::from_str::<GatewayConfig>(wrong).is_err(), "{wrong}");
        }
    }
}
