//! How long each client lets a call stand by. A client that gives up shows its model an error where a result was due, so
//! every limit stays clear of the client's own. The facts are from the clients' sources and documentation, 2026.

use crate::config::McpConfig;
use reveille_core::Millis;

struct Known {
    /// Beginning of the name the client gives itself, as [`slug`] writes it.
    name: &'static str,
    /// While progress notifications reach it.
    with_progress: Millis,
    /// When the call carries no progress token.
    without: Millis,
}

/// For clients that wait as long as there is progress: a working day.
const LONG: Millis = Millis::from_secs(12 * 3600);

const fn same(name: &'static str, seconds: u64) -> Known {
    Known { name, with_progress: Millis::from_secs(seconds), without: Millis::from_secs(seconds) }
}

const KNOWN: &[Known] = &[
    // 28 hours for a call, but 5 minutes of silence over HTTP (30 over stdio), which progress ends.
    Known { name: "claude-code", with_progress: LONG, without: Millis::from_secs(280) },
    // 300 seconds for the whole call; progress is only logged.
    same("codex", 280),
    // 600 seconds for the whole call; progress is shown and resets nothing.
    same("gemini-cli", 570),
    // 60 seconds (the SDK's), reset by progress.
    Known { name: "opencode", with_progress: LONG, without: Millis::from_secs(50) },
    // A fork of OpenCode.
    Known { name: "kilo", with_progress: LONG, without: Millis::from_secs(50) },
    // 300 seconds around the whole response.
    same("goose", 280),
    // 60 seconds each, progress resets nothing.
    same("cline", 50),
    same("roo", 50),
    same("cursor", 50),
];

/// The limits in force: what the configuration says goes over what is known.
#[derive(Clone, Debug)]
pub struct StandbyLimits {
    unknown: Millis,
    configured: Vec<(String, Millis)>,
}

impl StandbyLimits {
    pub fn new(config: &McpConfig) -> Self {
        let configured = config.standby.iter().map(|(name, length)| (slug(name), length.0)).collect();
        Self { unknown: config.standby_max.0, configured }
    }

    pub fn of(&self, client: Option<&str>, progress: bool) -> Millis {
        let Some(name) = client.map(slug) else { return self.unknown };
        if let Some((_, length)) = self.configured.iter().find(|(configured, _)| *configured == name) {
            return *length;
        }
        match KNOWN.iter().find(|known| name.starts_with(known.name)) {
            Some(known) if progress => known.with_progress,
            Some(known) => known.without,
            None => self.unknown,
        }
    }
}

/// A client's name in few characters, for comparing and for headers: `Roo Code` is `roo-code`.
pub fn slug(name: &str) -> String {
    const CHARACTERS_MAX: usize = 64;
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    name.trim().chars().take(CHARACTERS_MAX).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Length;

    #[test]
    fn every_client_gets_what_it_allows() {
        let mut config = McpConfig::default();
        config.standby.insert("My Client".into(), Length(Millis::from_secs(7)));
        config.standby.insert("goose".into(), Length(Millis::from_secs(9)));
        let limits = StandbyLimits::new(&config);
        for (client, progress, seconds) in [
            (None, true, 50),
            (Some("something-new"), true, 50),
            (Some("claude-code"), true, 43_200),
            (Some("claude-code"), false, 280),
            (Some("codex-mcp-client"), true, 280),
            (Some("gemini-cli-mcp-client"), true, 570),
            (Some("Cline"), true, 50),
            (Some("Roo Code"), true, 50),
            (Some("opencode"), false, 50),
            (Some("my client"), true, 7),
            (Some("goose"), true, 9),
        ] {
            assert_eq!(limits.of(client, progress), Millis::from_secs(seconds), "{client:?}");
        }
    }
}
