//! Which headers cross the gateway: all but those that belong to one connection, to us, or to a key we replace.

use http::{HeaderMap, HeaderName, HeaderValue, header};

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

/// Headers on their way back. The length stays: what is relayed whole has it, and a relay that changes it removes it.
pub fn to_client(headers: &mut HeaderMap) {
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

/// Puts a configured key in place of the client's own.
pub fn set_key(headers: &mut HeaderMap, name: HeaderName, value: &HeaderValue) {
    headers.remove(header::AUTHORIZATION);
    headers.remove("x-api-key");
    headers.remove(header::COOKIE);
    headers.insert(name, value.clone());
}

pub fn is_event_stream(headers: &HeaderMap) -> bool {
    // A compressed stream cannot be read; it is relayed as it is.
    !headers.contains_key(header::CONTENT_ENCODING)
        && headers
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().to_ascii_lowercase().starts_with(b"text/event-stream"))
}
