//! The token that opens the server: a secret, so it comes from the environment or a file of its own and is never shown.

use super::ConfigError;
use std::{fmt, fs, path::Path};

pub const VARIABLE: &str = "REVEILLE_TOKEN";
/// Shorter ones could be guessed.
const CHARS_MIN: usize = 16;

#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// What the user of this shell says, for servers that no configuration of ours describes.
    pub fn from_environment() -> Option<Self> {
        std::env::var(VARIABLE).ok().and_then(|text| Self::parse(&text).ok())
    }

    /// The environment goes over the file, as everywhere.
    pub fn find(variable: Option<String>, file: Option<&Path>) -> Result<Option<Self>, ConfigError> {
        if let Some(text) = variable.filter(|text| !text.is_empty()) {
            let wrong = |why| ConfigError::Environment { name: VARIABLE.to_owned(), why };
            return Self::parse(&text).map(Some).map_err(wrong);
        }
        let Some(path) = file else { return Ok(None) };
        let unreadable = |why: String| ConfigError::Unreadable { path: path.to_owned(), why };
        let text = fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
        let invalid = |why| ConfigError::Invalid { path: path.to_owned(), why };
        Self::parse(&text).map(Some).map_err(invalid)
    }

    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.len() < CHARS_MIN || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!(
                "a token is at least {CHARS_MIN} visible ASCII characters without spaces; `openssl rand -hex 24` makes one"
            ));
        }
        Ok(Self(text.to_owned()))
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_goes_over_the_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("token");
        fs::write(&file, "from-the-file-0123\n").expect("written");
        let found = |variable: Option<&str>, file| Token::find(variable.map(str::to_owned), file);
        assert_eq!(found(None, None).expect("fine"), None);
        assert_eq!(found(None, Some(&file)).expect("fine").expect("found").expose(), "from-the-file-0123");
        let both = found(Some("from-the-environment"), Some(&file)).expect("fine").expect("found");
        assert_eq!(both.expose(), "from-the-environment");
        assert_eq!(format!("{both:?}"), "Token(…)");
    }

    #[test]
    fn weak_ones_are_refused() {
        for weak in ["short", "", "with spaces in between", "ünsichtbar-0123456789"] {
            assert!(Token::parse(weak).is_err(), "{weak}");
        }
        assert!(Token::find(Some("short".into()), None).is_err());
        assert!(Token::find(None, Some(Path::new("not/there"))).is_err());
    }
}
