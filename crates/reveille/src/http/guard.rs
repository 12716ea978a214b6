//! Who may speak to a server on one's own machine: not a web page of somebody else. A browser names the host it meant
//! (`Host`) and the page it comes from (`Origin`); both must be ours. This stops DNS rebinding and cross-site requests.

use super::problem::ApiError;
use axum::http::{HeaderMap, Request, StatusCode, header};
use std::net::IpAddr;

/// Host names this server answers to, besides those of the loopback.
#[derive(Clone, Debug, Default)]
pub struct AllowedHosts(Vec<String>);

impl AllowedHosts {
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().map(|name| name.to_ascii_lowercase()).collect())
    }

    fn allow(&self, authority: &str) -> bool {
        let host = host_of(authority).to_ascii_lowercase();
        let loopback = host == "localhost"
            || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        loopback || self.0.contains(&host)
    }
}

/// `name:port`, `[::1]:port` or either without a port.
fn host_of(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !host.ends_with(':') => host,
        _ => authority,
    }
}

/// Nothing, or the answer that refuses the request.
pub fn check<B>(hosts: &AllowedHosts, request: &Request<B>) -> Result<(), ApiError> {
    let refuse = |what: &str, value: &str| {
        let detail = format!(
            "{what} '{value}' is not one this server answers to; if it should be, add the name to `allowed_hosts`"
        );
        Err(ApiError::new(StatusCode::FORBIDDEN, "Forbidden", "foreign_host", detail))
    };
    let host = request.uri().host().or_else(|| text(request.headers(), header::HOST)).unwrap_or_default();
    if !hosts.allow(host) {
        return refuse("the host", host);
    }
    if let Some(origin) = text(request.headers(), header::ORIGIN) {
        let authority = origin.split_once("://").map_or("", |(_, authority)| authority);
        if !hosts.allow(authority) {
            return refuse("the origin", origin);
        }
    }
    Ok(())
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("(unreadable)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_allowed() {
        let hosts = AllowedHosts::new(["Clock.example".to_owned()]);
        for ours in
            ["localhost", "LOCALHOST:7383", "127.0.0.1:7383", "[::1]:7383", "[::1]", "127.8.0.1", "clock.example:80"]
        {
            assert!(hosts.allow(ours), "{ours}");
        }
        for foreign in
            ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example:7383", "10.0.0.1", "null", "::1:x"]
        {
            assert!(!hosts.allow(foreign), "{foreign}");
        }
    }
}
