//! Pages of other origins that the configuration allows (`allowed_hosts`), such as an app that embeds our elements. The
//! guard has refused all others before; here the browser is told so.

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header},
    response::{IntoResponse, Response},
};

const METHODS: &str = "GET, POST, PUT, DELETE";
const HEADERS: &str = "authorization, content-type, idempotency-key, last-event-id, x-reveille-token";
/// How long a browser need not ask again, in seconds.
const MAX_AGE: &str = "600";

/// The origin of a request that comes from another page than ours.
pub fn other_origin<B>(request: &Request<B>) -> Option<HeaderValue> {
    let origin = request.headers().get(header::ORIGIN)?;
    let host = request.headers().get(header::HOST).map(HeaderValue::as_bytes).unwrap_or_default();
    let named = origin.as_bytes().windows(3).position(|part| part == b"://").map(|at| &origin.as_bytes()[at + 3..]);
    named.is_none_or(|named| named != host).then(|| origin.clone())
}

/// The answer to a browser that asks whether it may ask.
pub fn preflight<B>(request: &Request<B>) -> Option<Response> {
    let asks =
        request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    asks.then(|| {
        let fixed = [
            (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS),
            (header::ACCESS_CONTROL_MAX_AGE, MAX_AGE),
        ];
        (StatusCode::NO_CONTENT, fixed).into_response()
    })
}

pub fn allow(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    headers.insert(HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("cross-origin"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_is_the_origin_of_the_host_that_was_asked() {
        let other = |origin: &str| {
            let request = Request::builder().header("host", "localhost:7383").header("origin", origin);
            other_origin(&request.body(()).expect("a request")).is_some()
        };
        assert!(!other("http://localhost:7383"));
        assert!(other("http://localhost:5173") && other("https://app.example") && other("null"));
        assert!(other_origin(&Request::new(())).is_none());
    }
}
