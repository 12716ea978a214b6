//! What kind of program an agent runs in, by the name that program gives itself.

/// Longest name that is kept; what is longer is no name.
const BYTES_MAX: usize = 64;

/// A name fit to be kept and matched (`claude-code`); anything else is as good as none.
pub fn client_kind(name: Option<&str>) -> Option<String> {
    let name = name?.trim();
    if name.is_empty() || name.len() > BYTES_MAX || name.chars().any(char::is_control) {
        return None;
    }
    Some(name.to_lowercase().split_whitespace().collect::<Vec<_>>().join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_as_they_are_compared() {
        for (name, kind) in [
            (Some("claude-code"), Some("claude-code")),
            (Some(" Roo  Code "), Some("roo-code")),
            (Some(""), None),
            (Some("a\nb"), None),
            (Some("x".repeat(65).as_str()), None),
            (None, None),
        ] {
            assert_eq!(client_kind(name).as_deref(), kind, "{name:?}");
        }
    }
}
