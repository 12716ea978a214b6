//! Text that agents write: reasons and missions. It is repeated into models' contexts, terminals and pages.

use crate::{limits::Limits, reject::Reject};

/// Checks one text argument. Empty means absent: models fill optional fields with `""`.
pub fn accept(field: &'static str, text: Option<String>, limits: &Limits) -> Result<Option<String>, Reject> {
    let Some(text) = text.filter(|text| !text.trim().is_empty()) else {
        return Ok(None);
    };
    let chars = text.chars().count();
    if chars > limits.text_chars_max {
        return Err(Reject::TextTooLong { field, chars, max: limits.text_chars_max });
    }
    if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
        return Err(Reject::ControlCharacters { field });
    }
    Ok(Some(text))
}

/// What somebody sent, short enough to be repeated in an error.
pub fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 60;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_kept_as_written_or_refused() {
        let limits = Limits { text_chars_max: 5, ..Limits::default() };
        let check = |text: &str| accept("reason", Some(text.to_owned()), &limits);
        assert_eq!(check("等待🙂\n"), Ok(Some("等待🙂\n".into())));
        assert_eq!(check("  "), Ok(None));
        assert_eq!(accept("reason", None, &limits), Ok(None));
        assert_eq!(check("六个字的原因").unwrap_err().code(), "text_too_long");
        assert_eq!(check("a\u{1b}[0m").unwrap_err().code(), "control_characters");
        assert_eq!(check("a\0").unwrap_err().code(), "control_characters");
    }
}
