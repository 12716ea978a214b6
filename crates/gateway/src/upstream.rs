//! Where calls go: upstreams, what they serve, and whose limits apply.

use crate::{
    limits::{IdleCounts, Limits},
    protocol::Protocol,
};
use http::{HeaderName, HeaderValue, Uri, header};
use std::{fmt, time::Duration};

#[derive(Clone, Debug)]
pub struct Upstream {
    pub name: String,
    /// Scheme and authority, and a path to put before `/v1/…`.
    pub base: Uri,
    /// Stands in place of `/v1`, where the vendor has another path.
    pub path: Option<String>,
    pub protocols: Vec<Protocol>,
    /// Patterns with `*`; none means all.
    pub models: Vec<String>,
    /// Absent: the client's own key passes through.
    pub key: Option<ApiKey>,
    pub limits: Limits,
}

/// Never printed.
#[derive(Clone)]
pub struct ApiKey(HeaderValue, HeaderValue);

/// Limits for some models or agents. `None` leaves a limit as it is, zero switches it off.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Override {
    pub models: Vec<String>,
    pub agents: Vec<String>,
    pub connect: Option<Duration>,
    pub first_byte: Option<Duration>,
    pub idle: Option<Duration>,
    pub total: Option<Duration>,
    pub total_stream: Option<Duration>,
    pub idle_counts: Option<IdleCounts>,
}

impl Upstream {
    pub fn serves(&self, protocol: Protocol, model: &str) -> bool {
        self.protocols.contains(&protocol) && self.knows(model)
    }

    pub fn knows(&self, model: &str) -> bool {
        self.models.is_empty() || self.models.iter().any(|pattern| matches(pattern, model))
    }

    /// The address of a path here. `base` may end in `/v1`, as such addresses often do.
    pub fn uri(&self, path_and_query: &str) -> Result<Uri, http::Error> {
        let prefix = self.base.path().trim_end_matches('/');
        let path = match (&self.path, path_and_query.strip_prefix("/v1")) {
            (Some(path), Some(rest)) => format!("{prefix}{}{rest}", path.trim_end_matches('/')),
            _ => format!("{}{path_and_query}", prefix.trim_end_matches("/v1")),
        };
        let (scheme, authority) = (self.base.scheme_str().unwrap_or("https"), self.base.authority());
        Uri::builder()
            .scheme(scheme)
            .authority(authority.map_or("", |authority| authority.as_str()))
            .path_and_query(path)
            .build()
    }
}

impl ApiKey {
    pub fn new(key: &str) -> Result<Self, http::header::InvalidHeaderValue> {
        let secret = |text: &str| {
            let mut value = HeaderValue::from_str(text)?;
            value.set_sensitive(true);
            Ok(value)
        };
        Ok(Self(secret(&format!("Bearer {key}"))?, secret(key)?))
    }

    /// The header that carries it.
    pub(crate) fn header(&self, protocol: Protocol) -> (HeaderName, &HeaderValue) {
        match protocol {
            Protocol::Chat | Protocol::Responses => (header::AUTHORIZATION, &self.0),
            Protocol::Messages => (HeaderName::from_static("x-api-key"), &self.1),
        }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey")
    }
}

impl Override {
    pub fn applies(&self, model: &str, agent: Option<&str>) -> bool {
        let model_fits = self.models.is_empty() || self.models.iter().any(|pattern| matches(pattern, model));
        let agent_fits = self.agents.is_empty()
            || agent.is_some_and(|agent| self.agents.iter().any(|pattern| matches(pattern, agent)));
        model_fits && agent_fits
    }

    pub fn apply(&self, limits: &mut Limits) {
        let set = |limit: &mut Option<Duration>, value: Option<Duration>| {
            if let Some(value) = value {
                *limit = Some(value).filter(|value| !value.is_zero());
            }
        };
        set(&mut limits.connect, self.connect);
        set(&mut limits.first_byte, self.first_byte);
        set(&mut limits.idle, self.idle);
        set(&mut limits.total, self.total);
        set(&mut limits.total_stream, self.total_stream);
        limits.idle_counts = self.idle_counts.unwrap_or(limits.idle_counts);
    }
}

/// `*` stands for anything, also for nothing.
pub fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = name.find(part) else { return false };
        name = &name[at + part.len()..];
    }
    name.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name) in [
            ("gpt-*", "gpt-5"),
            ("*", ""),
            ("o*", "o3"),
            ("a*c*e", "abcde"),
            ("x", "x"),
            ("*-mini", "gpt-mini"),
            ("a*", "a"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("gpt-*", "gp"), ("x", "xy"), ("a*c*e", "aec"), ("*-mini", "mini"), ("ab*b", "ab")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn addresses() {
        for (base, path, expected) in [
            ("https://api.openai.com", None, "https://api.openai.com/v1/models?a=b"),
            ("https://api.openai.com/v1/", None, "https://api.openai.com/v1/models?a=b"),
            ("http://127.0.0.1:9/api/", None, "http://127.0.0.1:9/api/v1/models?a=b"),
            ("https://api.z.ai", Some("/api/paas/v4"), "https://api.z.ai/api/paas/v4/models?a=b"),
            ("https://api.z.ai/", Some("/v1beta/openai/"), "https://api.z.ai/v1beta/openai/models?a=b"),
            ("https://api.z.ai/x", Some(""), "https://api.z.ai/x/models?a=b"),
        ] {
            let upstream = Upstream {
                name: "x".into(),
                base: base.parse().unwrap(),
                path: path.map(str::to_owned),
                protocols: vec![],
                models: vec![],
                key: None,
                limits: Limits::default(),
            };
            assert_eq!(upstream.uri("/v1/models?a=b").unwrap().to_string(), expected);
        }
    }
}
