//! Text as PostgreSQL takes it. It has no place for the character NUL, so that is written as two others: what comes back
//! is exactly what was given, and different texts stay different.

use std::borrow::Cow;

/// A noncharacter, which text hardly ever holds; where it does, it is doubled up as well.
const ESCAPE: char = '\u{10FFFF}';

pub fn stored(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for char in text.chars() {
        match char {
            '\0' => out.extend([ESCAPE, '0']),
            ESCAPE => out.extend([ESCAPE, '1']),
            char => out.push(char),
        }
    }
    Cow::Owned(out)
}

pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            ESCAPE if chars.next() == Some('0') => out.push('\0'),
            char => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back() {
        for text in ["", "等待🙂", "a\0b", "\u{10FFFF}", "\u{10FFFF}0", "\0\u{10FFFF}1\0"] {
            assert!(!stored(text).contains('\0'));
            assert_eq!(plain(&stored(text)), text);
        }
        assert_ne!(stored("\0"), stored("\u{10FFFF}0"));
    }
}
