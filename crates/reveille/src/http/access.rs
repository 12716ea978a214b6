//! Who may use a server that has a token: whoever sends it with each request, and the page that was given it once and
//! has a cookie since. The cookie is signed with the token and says how long it is good for, so nothing is kept here, it
//! survives restarts, and a new token ends it.
//!
//! Whether a request comes from a page of somebody else is asked before ([`super::guard`]). What each caller may do is
//! one question with one answer today; scopes will be further kinds of [`Caller`].

use super::problem::ApiError;
use crate::{
    clock::{Clock, SystemClock},
    config::Token,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use reveille_core::{Millis, Timestamp};
use ring::hmac;
use std::sync::Arc;

/// For requests whose `Authorization` is meant for somebody else, such as a model provider.
const TOKEN_HEADER: HeaderName = HeaderName::from_static("x-reveille-token");
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// A page that is not opened for this long has to ask again.
const COOKIE_LIFE: Millis = Millis::from_secs(30 * 24 * 3600);

/// Who sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// There is no token: everybody who reaches the server is its owner.
    Anybody,
    /// Has the token.
    Owner,
    /// Has nothing; sees only what is for all.
    Stranger,
}

/// Without a token unless one is given.
pub struct Access {
    clock: Arc<dyn Clock>,
    lock: Option<Lock>,
}

struct Lock {
    key: hmac::Key,
    /// Of the token itself: comparing signatures takes the same time whatever is sent.
    signature: hmac::Tag,
    /// Cookies do not know of ports, so every token has a cookie of its own name.
    cookie: String,
}

impl Default for Access {
    fn default() -> Self {
        Self::new(None, Arc::new(SystemClock))
    }
}

impl Access {
    pub fn new(token: Option<&Token>, clock: Arc<dyn Clock>) -> Self {
        let lock = token.map(|token| {
            let key = hmac::Key::new(hmac::HMAC_SHA256, token.expose().as_bytes());
            let name = hex(&hmac::sign(&key, b"name of the cookie").as_ref()[..4]);
            Lock { signature: hmac::sign(&key, token.expose().as_bytes()), cookie: format!("reveille_{name}"), key }
        });
        Self { clock, lock }
    }

    pub fn wants_token(&self) -> bool {
        self.lock.is_some()
    }

    /// Who this is, or the answer that refuses the request. What gave the right is taken out: nothing behind this sees
    /// it, least of all a model provider.
    pub fn admit<B>(&self, request: &mut Request<B>) -> Result<Caller, ApiError> {
        let Some(lock) = &self.lock else { return Ok(Caller::Anybody) };
        let changes = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        let headers = request.headers_mut();
        let carriers: Vec<HeaderName> = lock.carried_by(headers).collect();
        if !carriers.is_empty() {
            carriers.iter().chain([&header::COOKIE]).for_each(|name| drop(headers.remove(name)));
            return Ok(Caller::Owner);
        }
        // A browser sends the cookie whoever asks it to. It names the page that asks, and the guard has looked at that.
        let says_where_from = headers.contains_key(header::ORIGIN);
        if lock.good_until(headers).is_some_and(|until| until > self.clock.now()) && (!changes || says_where_from) {
            headers.remove(header::COOKIE);
            return Ok(Caller::Owner);
        }
        if is_for_all(request.uri().path()) {
            return Ok(Caller::Stranger);
        }
        let detail = "this server wants its token: send it as `Authorization: Bearer …`; the command line takes it from \
                      REVEILLE_TOKEN or the configured `token_file`";
        Err(ApiError::new(StatusCode::UNAUTHORIZED, "Not signed in", "unauthorized", detail))
    }

    pub fn knows(&self, token: &str) -> bool {
        self.lock.as_ref().is_some_and(|lock| lock.opens(token.trim().as_bytes()))
    }

    /// The `Set-Cookie` for a page that has shown the token. `secure`: it was opened by https.
    pub fn cookie(&self, secure: bool) -> Option<HeaderValue> {
        let lock = self.lock.as_ref()?;
        let until = self.clock.now().plus(COOKIE_LIFE);
        self.set_cookie(&format!("{}.{}", until.as_millis(), lock.sign(until)), COOKIE_LIFE, secure)
    }

    pub fn no_cookie(&self) -> Option<HeaderValue> {
        self.set_cookie("", Millis::ZERO, false)
    }

    fn set_cookie(&self, value: &str, life: Millis, secure: bool) -> Option<HeaderValue> {
        let name = &self.lock.as_ref()?.cookie;
        let secure = if secure { "; Secure" } else { "" };
        let text = format!("{name}={value}; Path=/; Max-Age={life}; HttpOnly; SameSite=Strict{secure}");
        HeaderValue::try_from(text).ok()
    }
}

impl Lock {
    fn opens(&self, token: &[u8]) -> bool {
        hmac::verify(&self.key, token, self.signature.as_ref()).is_ok()
    }

    /// The headers that have the token in them: some clients send it in more than one.
    fn carried_by(&self, headers: &HeaderMap) -> impl Iterator<Item = HeaderName> {
        let fits = move |name: &HeaderName| {
            headers.get_all(name).iter().any(|value| {
                let value = value.as_bytes();
                self.opens(bearer(value).unwrap_or(value))
            })
        };
        [header::AUTHORIZATION, TOKEN_HEADER, API_KEY].into_iter().filter(fits)
    }

    fn sign(&self, until: Timestamp) -> String {
        hex(hmac::sign(&self.key, format!("page until {}", until.as_millis()).as_bytes()).as_ref())
    }

    /// Until when the cookie among these is good, if there is one that we made.
    fn good_until(&self, headers: &HeaderMap) -> Option<Timestamp> {
        let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.filter(|(name, _)| *name == self.cookie).find_map(|(_, value)| {
            let (until, signature) = value.split_once('.')?;
            let until = Timestamp::from_millis(until.parse().ok()?);
            let said = format!("page until {}", until.as_millis());
            hmac::verify(&self.key, said.as_bytes(), &unhex(signature)?).ok().map(|()| until)
        })
    }
}

/// The page and its parts, the way to sign in, and what supervisors ask: nothing of anybody's is in them.
fn is_for_all(path: &str) -> bool {
    path.starts_with("/ui/") || matches!(path, "/" | "/favicon.ico" | "/api/sign-in" | "/healthz" | "/readyz")
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| rest.trim_ascii())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    const TOKEN: &str = "0123456789abcdef";

    fn access(clock: &ManualClock) -> Access {
        Access::new(Some(&Token::parse(TOKEN).expect("long enough")), Arc::new(clock.clone()))
    }

    fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> Request<()> {
        let request = headers.iter().fold(Request::builder(), |request, (name, value)| request.header(*name, *value));
        request.method(method).uri(path).body(()).expect("a request")
    }

    #[test]
    fn the_token_opens_by_any_of_its_headers_and_goes_no_further() {
        let access = access(&ManualClock::at(Timestamp::from_millis(0)));
        let bearer = format!("Bearer {TOKEN}");
        for (name, value) in [("authorization", bearer.as_str()), ("x-reveille-token", TOKEN), ("x-api-key", TOKEN)] {
            let mut asked = request("POST", "/v1/messages", &[(name, value), ("accept", "*/*")]);
            assert!(matches!(access.admit(&mut asked), Ok(Caller::Owner)), "{name}");
            assert!(!asked.headers().contains_key(name) && asked.headers().contains_key("accept"), "{name}");
        }
        let mut both =
            request("POST", "/v1/messages", &[("authorization", "Bearer theirs"), ("x-reveille-token", TOKEN)]);
        assert!(access.admit(&mut both).is_ok());
        assert_eq!(both.headers()["authorization"], "Bearer theirs");
        let sent = [("authorization", bearer.as_str()), ("x-api-key", TOKEN), ("cookie", "a=b")];
        let mut everywhere = request("POST", "/v1/messages", &sent);
        assert!(access.admit(&mut everywhere).is_ok());
        assert!(everywhere.headers().is_empty(), "{:?}", everywhere.headers());
    }

    #[test]
    fn strangers_see_the_page_and_nothing_else() {
        let access = access(&ManualClock::at(Timestamp::from_millis(0)));
        for (path, open) in [
            ("/", true),
            ("/ui/app.js", true),
            ("/healthz", true),
            ("/api/sign-in", true),
            ("/api/timers", false),
            ("/ui", false),
            ("/mcp", false),
            ("/v1/models", false),
            ("/metrics", false),
            ("/api/sign-in/../timers", false),
        ] {
            for headers in [&[][..], &[("authorization", "Bearer wrong")], &[("authorization", "Basic eA==")]] {
                let admitted = access.admit(&mut request("GET", path, headers));
                assert_eq!(admitted.ok(), open.then_some(Caller::Stranger), "{path} {headers:?}");
            }
        }
        let open = Access::new(None, Arc::new(ManualClock::at(Timestamp::from_millis(0))));
        assert!(matches!(open.admit(&mut request("GET", "/api/timers", &[])), Ok(Caller::Anybody)));
    }

    #[test]
    fn a_cookie_is_good_for_its_time_and_changes_nothing_without_an_origin() {
        let clock = ManualClock::at(Timestamp::from_millis(5));
        let access = access(&clock);
        let set = access.cookie(true).expect("there is a token").to_str().expect("text").to_owned();
        assert!(set.ends_with("; HttpOnly; SameSite=Strict; Secure"), "{set}");
        let cookie = set.split(';').next().expect("a pair").to_owned();
        let admitted =
            |method: &str, headers: &[(&str, &str)]| access.admit(&mut request(method, "/api/timers", headers)).ok();
        let other = format!("other=1; {cookie}");
        assert_eq!(admitted("GET", &[("cookie", &other)]), Some(Caller::Owner));
        assert_eq!(admitted("POST", &[("cookie", &cookie)]), None);
        assert_eq!(admitted("POST", &[("cookie", &cookie), ("origin", "http://localhost")]), Some(Caller::Owner));
        let (_, value) = cookie.split_once('=').expect("a pair");
        let later = cookie.replace(value.split_once('.').expect("signed").0, "99999999999999");
        assert_eq!(admitted("GET", &[("cookie", &later)]), None, "it says when it ends, and that is signed");
        clock.advance(COOKIE_LIFE);
        assert_eq!(admitted("GET", &[("cookie", &cookie)]), None);
    }
}
