//! Which conversation a request belongs to, as far as it says so: our own header first, then what known clients send.

use crate::outline::Ids;
use http::HeaderMap;
use serde::Deserialize;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionHint {
    pub id: String,
    pub source: Source,
}

/// In an answer's extensions: what its request said of its conversation.
#[derive(Clone, Debug)]
pub struct Whose(pub Option<SessionHint>);

/// Who said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// `x-reveille-session`.
    Explicit,
    ClaudeCode,
    Codex,
    OpenCode,
    /// Another gateway's header or field.
    Other,
    /// OpenAI's `conversation`.
    Conversation,
    /// Not the conversation itself but the answer before this one; whoever kept that answer's id knows the session.
    PreviousResponse,
}

/// Longer ones are not ids.
const ID_CHARS_MAX: usize = 256;

/// Headers that name a session, in the order in which they are believed.
const HEADERS: &[(&str, Source)] = &[
    ("x-reveille-session", Source::Explicit),
    ("x-claude-code-session-id", Source::ClaudeCode),
    ("session-id", Source::Codex),
    ("session_id", Source::Codex),
    ("thread-id", Source::Codex),
    ("conversation_id", Source::Codex),
    ("x-session-affinity", Source::OpenCode),
    ("x-session-id", Source::OpenCode),
    ("x-litellm-session-id", Source::Other),
    ("x-bf-session-id", Source::Other),
    ("helicone-session-id", Source::Other),
];

/// Headers that mark the calls of sub-agents. They name their parent's session, or have one of their own for a while, but
/// nobody comes back to them: whoever started them waits for their answer.
const SUBAGENTS: &[&str] = &[
    "x-claude-code-agent-id",
    "x-claude-code-parent-agent-id",
    "x-openai-subagent",
    "x-codex-parent-thread-id",
    "x-parent-session-id",
];

/// Whether a sub-agent makes this call.
pub fn is_subagent(headers: &HeaderMap) -> bool {
    let named =
        |name: &&str| headers.get(*name).is_some_and(|value| !matches!(value.as_bytes(), b"" | b"0" | b"false"));
    SUBAGENTS.iter().any(named)
}

impl SessionHint {
    pub fn find(headers: &HeaderMap, ids: &Ids) -> Option<Self> {
        let by_header =
            || HEADERS.iter().find_map(|(name, source)| Self::new(headers.get(*name)?.to_str().ok()?, *source));
        let by_user = || Self::new(&claude_session(ids.user_id.as_deref()?)?, Source::ClaudeCode);
        let by_cache = || Self::new(ids.prompt_cache_key.as_deref()?, Source::Codex).filter(|_| is_codex(headers));
        // Our own header goes over everything; the others agree with the body where both are present.
        by_header()
            .or_else(by_user)
            .or_else(by_cache)
            .or_else(|| Self::new(ids.session_id.as_deref()?, Source::Other))
            .or_else(|| Self::new(ids.conversation.as_deref()?, Source::Conversation))
            .or_else(|| Self::new(ids.previous_response_id.as_deref()?, Source::PreviousResponse))
    }

    fn new(id: &str, source: Source) -> Option<Self> {
        let id = id.trim();
        let fits = !id.is_empty() && id.chars().count() <= ID_CHARS_MAX && !id.chars().any(char::is_control);
        fits.then(|| Self { id: id.to_owned(), source })
    }
}

/// Only Codex is known to put its session there; others share one key between all their users.
fn is_codex(headers: &HeaderMap) -> bool {
    let starts =
        |name| headers.get(name).and_then(|value| value.to_str().ok()).is_some_and(|text| text.starts_with("codex"));
    starts("originator") || starts("user-agent")
}

/// Claude Code's `metadata.user_id`: JSON in a text, or the older `user_…_account_…_session_…`.
fn claude_session(user_id: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct UserId {
        session_id: String,
    }
    if user_id.starts_with('{') {
        return serde_json::from_str::<UserId>(user_id).ok().map(|user| user.session_id);
    }
    let (_, session) = user_id.starts_with("user_").then(|| user_id.rsplit_once("_session_"))??;
    Some(session.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(headers: &[(&'static str, &str)], ids: Ids) -> Option<(String, Source)> {
        let map = headers.iter().map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()));
        SessionHint::find(&map.collect(), &ids).map(|hint| (hint.id, hint.source))
    }

    fn user(user_id: &str) -> Ids {
        Ids { user_id: Some(user_id.into()), ..Ids::default() }
    }

    #[test]
    fn every_known_client_is_recognised() {
        let cases = [
            (
                find(&[("x-claude-code-session-id", "a"), ("x-reveille-session", "b")], Ids::default()),
                "b",
                Source::Explicit,
            ),
            (find(&[("x-claude-code-session-id", "a")], user("{\"session_id\":\"a\"}")), "a", Source::ClaudeCode),
            (find(&[], user("{\"device_id\":\"d\",\"session_id\":\"s\"}")), "s", Source::ClaudeCode),
            (find(&[], user("user_1f_account_2e_session_3d-4")), "3d-4", Source::ClaudeCode),
            (find(&[("thread-id", "t"), ("session-id", "s")], Ids::default()), "s", Source::Codex),
            (find(&[("x-session-affinity", "ses_1")], Ids::default()), "ses_1", Source::OpenCode),
        ];
        for (found, id, source) in cases {
            assert_eq!(found, Some((id.to_owned(), source)));
        }
        let key =
            || Ids { prompt_cache_key: Some("k".into()), previous_response_id: Some("r".into()), ..Ids::default() };
        assert_eq!(find(&[("originator", "codex_cli_rs")], key()), Some(("k".into(), Source::Codex)));
        assert_eq!(find(&[], key()), Some(("r".into(), Source::PreviousResponse)));
        let conversation = Ids { conversation: Some("conv_1".into()), ..key() };
        assert_eq!(find(&[], conversation), Some(("conv_1".into(), Source::Conversation)));
    }

    #[test]
    fn sub_agents_are_known_by_their_headers() {
        let is = |name: &'static str, value: &str| {
            is_subagent(&HeaderMap::from_iter([(http::HeaderName::from_static(name), value.parse().unwrap())]))
        };
        assert!(is("x-claude-code-agent-id", "a1") && is("x-openai-subagent", "review"));
        assert!(is("x-codex-parent-thread-id", "t") && is("x-parent-session-id", "ses_1"));
        assert!(!is("x-openai-subagent", "false") && !is("x-claude-code-session-id", "s"));
    }

    #[test]
    fn what_is_not_an_id_is_none() {
        assert_eq!(find(&[("x-reveille-session", "  ")], Ids::default()), None);
        assert_eq!(find(&[], user("somebody")), None);
        assert_eq!(find(&[], user("{\"session_id\":1}")), None);
        assert_eq!(find(&[("session-id", &"x".repeat(300))], Ids::default()), None);
    }
}
