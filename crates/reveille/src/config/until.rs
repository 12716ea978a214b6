//! What timers may wait for, and how much is spent on looking.

use super::{Config, ConfigError, Length};
use crate::{
    probe::{Rules, Settings},
    reach::Reach,
};
use reveille_core::Millis;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::Arc,
};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UntilConfig {
    /// Whether HTTP and TCP may lead to this machine and private networks. Unless given: yes if this server itself
    /// listens on the loopback only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_private: Option<bool>,
    /// Directories whose files may be watched, with all below them. Unless given: everything if this server listens on the
    /// loopback only, nothing otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<PathBuf>>,
    /// Whether processes of this machine may be watched; unless given, as above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<bool>,
    /// Whether commands may be run, as the user this server runs as.
    pub commands: bool,
    /// Looks at once.
    pub concurrency: usize,
    /// Looks in a second, at all conditions together.
    pub rate: u64,
    /// From one look at a condition to the next, at the longest.
    pub max_interval: Length,
}

impl Default for UntilConfig {
    fn default() -> Self {
        let settings = Settings::default();
        Self {
            allow_private: None,
            files: None,
            processes: None,
            commands: settings.rules.commands,
            concurrency: settings.concurrency,
            rate: settings.rate,
            max_interval: Length(settings.interval_max),
        }
    }
}

impl UntilConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let value = |key: &'static str, why: String| Err(ConfigError::Value { key: key.into(), why });
        if self.concurrency == 0 || self.rate == 0 {
            return value("until", "`concurrency` and `rate` must be at least 1".into());
        }
        if self.max_interval.0 < Millis::from_secs(1) {
            return value("until.max_interval", "must be at least 1s".into());
        }
        match self.files.iter().flatten().find(|directory| !directory.is_absolute()) {
            Some(relative) => {
                value("until.files", format!("'{}' is relative; write the whole path", relative.display()))
            }
            None => Ok(()),
        }
    }
}

impl Config {
    pub fn probe(&self) -> Settings {
        let (until, alone) = (&self.until, self.listen.ip().is_loopback());
        let rules = Rules {
            reach: if until.allow_private.unwrap_or(alone) { Reach::Private } else { Reach::Public },
            files: until.files.clone().or_else(|| (!alone).then(Vec::new)),
            own: self.own_places(),
            processes: until.processes.unwrap_or(alone),
            commands: until.commands,
        };
        // With SQLite there is one node, whatever it is called.
        let node = self.database_url.as_ref().map(|_| self.node());
        Settings { rules, concurrency: until.concurrency, rate: until.rate, interval_max: until.max_interval.0, node }
    }

    /// What is this server's own: nobody who may wait for a file is to read it that way.
    fn own_places(&self) -> Vec<PathBuf> {
        let keys = self.gateway.upstream.iter().filter_map(|upstream| upstream.api_key_file.clone());
        let beside = |file: &PathBuf| self.source.as_deref().and_then(Path::parent).map(|place| place.join(file));
        let token = self.token_file.as_ref().map(|file| beside(file).unwrap_or_else(|| file.clone()));
        let named = [self.source.clone(), token, self.agents.dir.clone()].into_iter().flatten();
        [self.data_dir.clone(), self.tokens().path].into_iter().chain(named).chain(keys).collect()
    }

    /// The given name, else one that is the same for the same data directory on the same machine, after every restart.
    fn node(&self) -> Arc<str> {
        if let Some(given) = &self.node {
            return given.trim().into();
        }
        let told = fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| env::var("HOSTNAME").ok());
        let host = told.as_deref().map_or("host", str::trim).to_owned();
        let directory = self.data_dir.canonicalize().unwrap_or_else(|_| self.data_dir.clone());
        let hash = Sha256::digest(directory.as_os_str().as_encoded_bytes());
        let hash: String = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        format!("{host}/{hash}").into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_looked_at_depends_on_who_may_ask() {
        let rules = |listen: &str, until: UntilConfig| {
            let config = Config { listen: listen.parse().expect("an address"), until, ..Config::default() };
            let rules = config.probe().rules;
            (rules.reach, rules.files, rules.processes, rules.commands)
        };
        let (near, far) = ("127.0.0.1:0", "0.0.0.0:0");
        assert_eq!(rules(near, UntilConfig::default()), (Reach::Private, None, true, false));
        assert_eq!(rules(far, UntilConfig::default()), (Reach::Public, Some(vec![]), false, false));
        let open = UntilConfig {
            allow_private: Some(true),
            files: Some(vec!["/srv".into()]),
            processes: Some(true),
            commands: true,
            ..UntilConfig::default()
        };
        assert_eq!(rules(far, open), (Reach::Private, Some(vec!["/srv".into()]), true, true));
    }

    #[test]
    fn what_is_the_servers_own_is_known() {
        let text = "data_dir = \"/srv/data\"\ntoken_file = \"word\"\ntokens_file = \"tokens\"\n[agents]\ndir = \"agents\"\n\
                    [[gateway.upstream]]\nname = \"a\"\nbase_url = \"https://a.example\"\nprotocols = [\"chat\"]\n\
                    api_key_file = \"/run/key\"\n";
        let file = PathBuf::from("/etc/reveille/reveille.toml");
        let own = |text: &str| {
            let config: Config = toml::from_str(text).expect("valid");
            Config { source: Some(file.clone()), ..config }.probe().rules.own
        };
        let found = own(text);
        for place in ["/srv/data", "/etc/reveille/reveille.toml", "/etc/reveille/word", "/run/key"] {
            assert!(found.contains(&place.into()), "{place}: {found:?}");
        }
        assert!(found.contains(&"tokens".into()) && found.contains(&"agents".into()), "{found:?}");
    }

    #[test]
    fn only_nodes_have_names() {
        let alone = Config::default();
        assert_eq!(alone.probe().node, None);
        let node = |dir: &str| {
            let config =
                Config { database_url: Some("postgres://x".into()), data_dir: dir.into(), ..Config::default() };
            config.probe().node.expect("named")
        };
        assert_eq!(node("/srv/a"), node("/srv/a"));
        assert_ne!(node("/srv/a"), node("/srv/b"));
        let url = Some("postgres://x".to_owned());
        let given = Config { database_url: url, node: Some("worker-1".into()), ..Config::default() };
        assert_eq!(given.probe().node.as_deref(), Some("worker-1"), "wherever it runs");
        assert!(Config { node: Some(" ".into()), ..Config::default() }.check().is_err());
    }

    #[test]
    fn mistakes_are_named() {
        let relative = UntilConfig { files: Some(vec!["srv".into()]), ..UntilConfig::default() };
        assert!(relative.check().expect_err("relative").to_string().contains("until.files"));
        assert!(UntilConfig { rate: 0, ..UntilConfig::default() }.check().is_err());
        assert!(UntilConfig { max_interval: Length(Millis::new(5)), ..UntilConfig::default() }.check().is_err());
    }
}
