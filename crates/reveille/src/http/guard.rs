//! Who may speak to a server on one's own machine: not a web page of somebody else. A browser names the host it meant
//! (`Host`) and the page it comes from (`Origin`); both must be ours. This stops DNS rebinding and cross-site requests.

use super::problem::ApiError;
use crate::address::SERVER_HEADER;
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use std::net::IpAddr;

#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// Host names this server answers to, besides those of the loopback. With a port: pages it takes requests from.
    hosts: Vec<String>,
    /// What clients that found this server by its address file call it.
    server: Option<String>,
}

impl Guard {
    pub fn new(hosts: impl IntoIterator<Item = String>, server: Option<String>) -> Self {
        Self { hosts: hosts.into_iter().map(|name| name.to_ascii_lowercase()).collect(), server }
    }

    fn allow(&self, authority: &str) -> bool {
        let host = split(authority).0.to_ascii_lowercase();
        host == "localhost" || ip(&host).is_some_and(|ip| ip.is_loopback()) || self.hosts.contains(&host)
    }

    /// A page from another port of this machine is somebody else's; a name may be that of a proxy with a port of its own.
    fn allow_origin(&self, origin: &str, host: &str) -> bool {
        let Some((scheme, authority)) = origin.split_once("://") else { return false };
        let (name, port) = split(authority);
        let (name, default) = (name.to_ascii_lowercase(), if scheme == "https" { "443" } else { "80" });
        let port = port.unwrap_or(default);
        let of_machine = name == "localhost" || ip(&name).is_some();
        let port_fits = !of_machine || port == split(host).1.unwrap_or("80");
        self.allow(authority) && port_fits || self.hosts.contains(&format!("{name}:{port}"))
    }

    /// Nothing, or the answer that refuses the request.
    pub fn check<B>(&self, request: &Request<B>) -> Result<(), ApiError> {
        let refuse = |what: &str, value: &str| {
            let detail = format!(
                "{what} '{value}' is not one this server answers to; if it should be, add it to `allowed_hosts`"
            );
            Err(ApiError::new(StatusCode::FORBIDDEN, "Forbidden", "foreign_host", detail))
        };
        // Whoever stands between may have looked at the other one.
        if request.headers().get_all(header::HOST).iter().count() > 1 {
            let detail = "the request names its host twice; send one `Host`";
            return Err(ApiError::new(StatusCode::BAD_REQUEST, "Bad request", "bad_request", detail));
        }
        let absolute = request.uri().authority().map(|authority| authority.as_str());
        let host = absolute.or_else(|| text(request.headers(), header::HOST)).unwrap_or_default();
        if !self.allow(host) {
            return refuse("the host", host);
        }
        if let Some(origin) = text(request.headers(), header::ORIGIN)
            && !self.allow_origin(origin, host)
        {
            return refuse("the origin", origin);
        }
        if !request.headers().contains_key(header::ORIGIN) && from_elsewhere(request) {
            return refuse("the page that asks", "of another site");
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

/// Browsers leave the origin out where a page only loads something (an image, a frame), but say that it is another's.
/// Whoever follows a link to a page of ours comes from elsewhere too, and may.
fn from_elsewhere<B>(request: &Request<B>) -> bool {
    let said = |name: &str| text(request.headers(), name);
    let follows_link = request.method() == Method::GET
        && said("sec-fetch-mode") == Some("navigate")
        && said("sec-fetch-dest") == Some("document");
    matches!(said("sec-fetch-site"), Some("cross-site" | "same-site")) && !follows_link
}

/// `name:port`, `[::1]:port` or either without a port.
fn split(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !host.ends_with(':') => {
            (host, Some(port))
        }
        _ => (authority, None),
    }
}

fn ip(host: &str) -> Option<IpAddr> {
    host.trim_matches(['[', ']']).parse().ok()
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

    #[test]
    fn what_another_page_loads_is_refused_but_links_are_followed() {
        let guard = Guard::default();
        let check = |headers: &[(&str, &str)]| {
            let request =
                headers.iter().fold(Request::builder(), |request, (name, value)| request.header(*name, *value));
            guard.check(&request.header("host", "localhost:7383").body(()).expect("a request")).is_ok()
        };
        for site in ["cross-site", "same-site"] {
            let link = [("sec-fetch-site", site), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
            let frame = [("sec-fetch-site", site), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
            let image = [("sec-fetch-site", site), ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")];
            assert!(check(&link) && !check(&frame) && !check(&image), "{site}");
        }
        assert!(check(&[("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "cors")]) && check(&[]));
    }

    #[test]
    fn a_request_has_one_host() {
        let request = |hosts: &[&str]| {
            let request = hosts.iter().fold(Request::builder(), |request, host| request.header("host", *host));
            Guard::default().check(&request.body(()).expect("a request")).map_err(|error| error.into_problem().status)
        };
        assert_eq!(request(&["localhost"]), Ok(()));
        assert_eq!(request(&["localhost", "evil.example"]), Err(400));
        assert_eq!(request(&["localhost", "localhost"]), Err(400));
    }

    #[test]
    fn a_page_of_another_port_is_not_ours() {
        let guard = Guard::new(["Clock.example", "127.0.0.1", "10.0.0.5", "localhost:9999"].map(Into::into), None);
        for (origin, host) in [
            ("http://localhost:7383", "127.0.0.1:7383"),
            ("http://127.0.0.1:7383", "localhost:7383"),
            ("http://[::1]:7383", "[::1]:7383"),
            ("http://10.0.0.5:7383", "10.0.0.5:7383"),
            ("http://localhost", "localhost"),
            ("http://localhost", "localhost:80"),
            ("https://clock.example", "clock.example"),
            ("https://clock.example:8443", "localhost:7383"),
            ("http://localhost:9999", "localhost:7383"),
        ] {
            assert!(guard.allow_origin(origin, host), "{origin} {host}");
        }
        for (origin, host) in [
            ("http://localhost:3000", "localhost:7383"),
            ("http://127.0.0.1:3000", "127.0.0.1:7383"),
            ("http://10.0.0.5:3000", "10.0.0.5:7383"),
            ("http://localhost", "localhost:7383"),
            ("https://localhost", "localhost"),
            ("http://127.0.0.1:9999", "localhost:7383"),
            ("http://evil.example:7383", "localhost:7383"),
            ("null", "localhost:7383"),
            ("", "localhost:7383"),
        ] {
            assert!(!guard.allow_origin(origin, host), "{origin} {host}");
        }
    }
}
