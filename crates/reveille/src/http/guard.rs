//! Who may speak to a server on one's own machine: not a web page of somebody else. A browser names the host it meant
//! (`Host`) and the page it comes from (`Origin`); both must be ours. This stops DNS rebinding and cross-site requests.

use super::problem::ApiError;
use crate::address::SERVER_HEADER;
use axum::http::{HeaderMap, Request, StatusCode, header};
use std::net::IpAddr;

#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// Host names this server answers to, besides those of the loopback.
    hosts: Vec<String>,
    /// What clients that found this server by its address file call it.
    server: Option<String>,
}

impl Guard {
    pub fn new(hosts: impl IntoIterator<Item = String>, server: Option<String>) -> Self {
        Self { hosts: hosts.into_iter().map(|name| name.to_ascii_lowercase()).collect(), server }
    }

    fn allow(&self, authority: &str) -> bool {
        let host = host_of(authority).to_ascii_lowercase();
        let loopback = host == "localhost"
            || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        loopback || self.hosts.contains(&host)
    }

    /// Nothing, or the answer that refuses the request.
    pub fn check<B>(&self, request: &Request<B>) -> Result<(), ApiError> {
        let refuse = |what: &str, value: &str| {
            let detail = format!(
                "{what} '{value}' is not one this server answers to; if it should be, add the name to `allowed_hosts`"
            );
            Err(ApiError::new(StatusCode::FORBIDDEN, "Forbidden", "foreign_host", detail))
        };
        let host = request.uri().host().or_else(|| text(request.headers(), header::HOST)).unwrap_or_default();
        if !self.allow(host) {
            return refuse("the host", host);
        }
        if let Some(origin) = text(request.headers(), header::ORIGIN) {
            let authority = origin.split_once("://").map_or("", |(_, authority)| authority);
            if !self.allow(authority) {
                return refuse("the origin", origin);
            }
        }
        if let Some(meant) = text(request.headers(), SERVER_HEADER)
            && self.server.as_deref() != Some(meant)
        {
            let detail = "this is another server than the one the request is meant for, which no longer listens here";
            return Err(ApiError::new(StatusCode::MISDIRECTED_REQUEST, "Another server", "another_server", detail));
        }
        Ok(())
    }
}

/// `name:port`, `[::1]:port` or either without a port.
fn host_of(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !host.ends_with(':') => host,
        _ => authority,
    }
}

fn text(headers: &HeaderMap, name: impl header::AsHeaderName) -> Option<&str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("(unreadable)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_allowed() {
        let guard = Guard::new(["Clock.example".to_owned()], None);
        for ours in
            ["localhost", "LOCALHOST:7383", "127.0.0.1:7383", "[::1]:7383", "[::1]", "127.8.0.1", "clock.example:80"]
        {
            assert!(guard.allow(ours), "{ours}");
        }
        for foreign in
            ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example:7383", "10.0.0.1", "null", "::1:x"]
        {
            assert!(!guard.allow(foreign), "{foreign}");
        }
    }
}
