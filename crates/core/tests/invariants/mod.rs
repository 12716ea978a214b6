//! What must hold for any text at all, of what users and models write. The fuzzer in `fuzz/` searches for texts for which it
//! does not; `seeds.rs` replays what is kept of them, and changes them a little.

#![allow(dead_code, reason = "each fuzz target uses one of them")]

use reveille_core::{
    Millis,
    directive::{Directive, TIMES_MAX, strip},
    due, duration,
};
use serde_json::{Value, json};

const MAX: Millis = Millis::from_secs(366 * 24 * 3600);
/// What a refusal may repeat of what was sent.
const REFUSAL_BYTES_MAX: usize = 1500;

/// Nothing that looks like a directive is left, and every order makes sense.
pub fn directive(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let Some(stripped) = strip(&text) else { return };
    assert!(strip(&stripped.text).is_none(), "left: {:?}", stripped.text);
    assert!(stripped.text.len() < text.len());
    assert!(!stripped.directives.is_empty() || stripped.malformed > 0);
    for directive in stripped.directives {
        if let Directive::Arm { text, times } = directive {
            assert!(!text.trim().is_empty() && (1..=TIMES_MAX).contains(&times), "{text:?} {times}");
        }
    }
}

/// A duration is within its bounds, and means the same when written as we write it.
pub fn length(input: &[u8]) {
    for value in values(input) {
        match duration::parse("total_duration", &value, MAX) {
            Ok(length) => {
                assert!(!length.is_zero() && length <= MAX, "{value}");
                let again = duration::parse("total_duration", &json!(length.to_string()), MAX);
                assert_eq!(again, Ok(length), "{value}");
            }
            Err(reject) => {
                assert!(["invalid_duration", "duration_too_long"].contains(&reject.code()), "{value}: {reject}");
                assert!(reject.to_string().len() < REFUSAL_BYTES_MAX, "{reject}");
            }
        }
    }
}

/// An instant means the same when written as we write it.
pub fn instant(input: &[u8]) {
    for value in values(input) {
        match due::parse(&value) {
            Ok(at) => assert_eq!(due::parse(&json!(at.to_iso())), Ok(at), "{value}"),
            Err(reject) => {
                assert_eq!(reject.code(), "invalid_due_at", "{value}");
                assert!(reject.to_string().len() < REFUSAL_BYTES_MAX, "{reject}");
            }
        }
    }
}

/// As a text, and as the JSON that it may be.
fn values(input: &[u8]) -> impl Iterator<Item = Value> {
    let text = Value::String(String::from_utf8_lossy(input).into_owned());
    [Some(text), serde_json::from_slice(input).ok()].into_iter().flatten()
}
