//! Which headers cross the gateway: all but those that belong to one connection, to us, or to a key we replace.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use memchr::memmem;

/// Of one connection (RFC 9110, 7.6.1), whether or not `Connection` names them.
const HOP_BY_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Set anew for the upstream, or meant for us.
const OURS: [HeaderName; 8] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::PROXY_AUTHORIZATION,
    header::PROXY_AUTHENTICATE,
    HeaderName::from_static("x-reveille-session"),
    HeaderName::from_static("x-reveille-agent"),
    HeaderName::from_static("x-reveille-token"),
];

/// Headers on their way upstream.
pub fn to_upstream(headers: &mut HeaderMap) {
    drop_hop_by_hop(headers);
    OURS.iter().for_each(|name| drop(headers.remove(name)));
}

/// Headers on their way back. The length stays where it is that of the body: what is relayed whole has it, and a relay that
/// changes it removes it. Beside another way to tell the end it says nothing (RFC 9112, 6.3), and would lie to the client.
pub fn to_client(headers: &mut HeaderMap) {
    if headers.contains_key(header::TRANSFER_ENCODING) {
        headers.remove(header::CONTENT_LENGTH);
    }
    drop_hop_by_hop(headers);
    headers.remove(header::PROXY_AUTHENTICATE);
}

fn drop_hop_by_hop(headers: &mut HeaderMap) {
    if headers.contains_key(header::CONNECTION) {
        let named: Vec<HeaderName> = headers
            .get_all(header::CONNECTION)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .filter_map(|name| name.trim().parse().ok())
            .collect();
        named.iter().for_each(|name| drop(headers.remove(name)));
    }
    HOP_BY_HOP.iter().for_each(|name| drop(headers.remove(name)));
}

/// What a client proves itself by, at any vendor.
const KEYS: [HeaderName; 4] =
    [header::AUTHORIZATION, HeaderName::from_static("x-api-key"), HeaderName::from_static("api-key"), header::COOKIE];

/// Takes out the client's own keys.
pub fn drop_keys(headers: &mut HeaderMap) {
    KEYS.iter().for_each(|name| drop(headers.remove(name)));
}

/// Puts a configured key in place of the client's own.
pub fn set_key(headers: &mut HeaderMap, name: HeaderName, value: &HeaderValue) {
    drop_keys(headers);
    headers.insert(name, value.clone());
}

/// How a successful answer to a call for a stream comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coming {
    /// As events.
    Events,
    /// In one piece all the same.
    Whole,
    /// As something that cannot be read on its way: compressed, or of another kind.
    Unread,
}

impl Coming {
    pub fn of(headers: &HeaderMap) -> Self {
        let kind = headers.get(header::CONTENT_TYPE).map(|kind| kind.as_bytes().to_ascii_lowercase());
        match kind.as_deref() {
            _ if headers.contains_key(header::CONTENT_ENCODING) => Coming::Unread,
            // What was asked for, if nothing else is said.
            None => Coming::Events,
            Some(kind) if kind.starts_with(b"text/event-stream") => Coming::Events,
            Some(kind) if memmem::find(kind, b"json").is_some() => Coming::Whole,
            Some(_) => Coming::Unread,
        }
    }
}
