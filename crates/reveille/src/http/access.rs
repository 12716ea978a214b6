//! Who sends a request: whoever has a token in one of its headers, and the page that was given it once and has a cookie
//! since. The cookie holds a proof of the token and is signed with how long it is good for, so nothing is kept here, it
//! survives restarts, and a token that is revoked ends it.
//!
//! Whether a request comes from a page of somebody else is asked before ([`super::guard`]). What a caller may do is asked
//! after ([`super::permit`]).

use super::{cors, problem::ApiError};
use crate::{
    access::{Book, Pass, Proof, TokenFile},
    clock::{Clock, SystemClock},
    config::Token,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use reveille_core::{Millis, Timestamp};
use std::{
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// For requests whose `Authorization` is meant for somebody else, such as a model provider.
const TOKEN_HEADER: HeaderName = HeaderName::from_static("x-reveille-token");
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// A page that is not opened for this long has to ask again.
const COOKIE_LIFE: Millis = Millis::from_secs(30 * 24 * 3600);
/// The file of tokens is looked at this often at most, when somebody asks: so long may one live on that was revoked.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Who sent a request.
#[derive(Clone, Debug)]
pub enum Caller {
    /// There are no tokens: everybody who reaches the server is its owner.
    Anybody,
    /// Has a token.
    Known(Pass),
    /// Has nothing; sees only what is for all.
    Stranger,
}

/// Without a token unless one is given.
pub struct Access {
    clock: Arc<dyn Clock>,
    /// The operator's, which is in no file of ours.
    own: Option<Token>,
    file: Option<Followed>,
    book: RwLock<Arc<Book>>,
    /// Once there was a token, no one without gets in, whatever becomes of the file.
    locked: AtomicBool,
}

struct Followed {
    file: TokenFile,
    looked: Mutex<(Instant, Option<crate::access::Stamp>)>,
}

impl Default for Access {
    fn default() -> Self {
        let clock = Arc::new(SystemClock);
        let book = RwLock::new(Arc::new(Book::new(None, &[])));
        Self { clock, own: None, file: None, book, locked: AtomicBool::new(false) }
    }
}

impl Access {
    pub fn open(own: Option<Token>, file: TokenFile, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        // The stamp first: what is written in between is then read again.
        let stamp = file.stamp();
        let book = Book::new(own.as_ref(), &file.read()?);
        let locked = AtomicBool::new(!book.is_empty());
        let looked = Mutex::new((Instant::now(), stamp));
        Ok(Self { clock, own, file: Some(Followed { file, looked }), book: RwLock::new(Arc::new(book)), locked })
    }

    pub fn wants_token(&self) -> bool {
        self.locked.load(Ordering::Relaxed)
    }

    /// The tokens as they are now, or as of a second ago.
    fn book(&self) -> Arc<Book> {
        if let Some(file) = self.file.as_ref().and_then(Followed::changed) {
            match file.read() {
                Ok(entries) => {
                    let book = Book::new(self.own.as_ref(), &entries);
                    if !book.is_empty() {
                        self.locked.store(true, Ordering::Relaxed);
                    }
                    *self.book.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(book);
                }
                Err(error) => tracing::error!(%error, "the tokens cannot be read; those known before stay good"),
            }
        }
        self.book.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Who this is, or the answer that refuses the request. What gave the right is taken out: nothing behind this sees
    /// it, least of all a model provider.
    pub fn admit<B>(&self, request: &mut Request<B>) -> Result<Caller, ApiError> {
        let book = self.book();
        if !self.wants_token() {
            return Ok(Caller::Anybody);
        }
        let (pass, carriers) = carried_by(request.headers(), &book);
        if let Some(pass) = pass {
            let headers = request.headers_mut();
            carriers.iter().chain([&header::COOKIE]).for_each(|name| drop(headers.remove(name)));
            return Ok(Caller::Known(pass));
        }
        if let Some(pass) = self.by_cookie(request, &book) {
            request.headers_mut().remove(header::COOKIE);
            return Ok(Caller::Known(pass));
        }
        if is_for_all(request.uri().path()) {
            return Ok(Caller::Stranger);
        }
        let detail = "this server wants a token: send it as `Authorization: Bearer …`; the command line takes it from \
                      REVEILLE_TOKEN or the configured `token_file`";
        Err(ApiError::new(StatusCode::UNAUTHORIZED, "Not signed in", "unauthorized", detail))
    }

    /// By a cookie that a page of ours sends.
    fn by_cookie<B>(&self, request: &Request<B>, book: &Book) -> Option<Pass> {
        let (pass, until) = signed_in(request.headers(), book)?;
        (until > self.clock.now() && from_our_page(request)).then_some(pass)
    }

    pub fn knows(&self, token: &str) -> Option<Pass> {
        self.book().by_token(token.trim().as_bytes())
    }

    /// The `Set-Cookie` for a page that has shown its token. `secure`: it was opened by https.
    pub fn cookie(&self, pass: &Pass, secure: bool) -> Option<HeaderValue> {
        let until = self.clock.now().plus(COOKIE_LIFE);
        let value = format!("{}.{}.{}", until.as_millis(), pass.proof.expose(), pass.sign(&said(until)));
        set_cookie(pass, &value, COOKIE_LIFE, secure)
    }
}

impl Followed {
    /// The file, if it is another than before.
    fn changed(&self) -> Option<&TokenFile> {
        let mut looked = self.looked.try_lock().ok()?;
        if looked.0.elapsed() < LOOK_AGAIN {
            return None;
        }
        let (before, now) = (looked.1, self.file.stamp());
        *looked = (Instant::now(), now);
        (before != now).then_some(&self.file)
    }
}

pub fn no_cookie(pass: &Pass) -> Option<HeaderValue> {
    set_cookie(pass, "", Millis::ZERO, false)
}

fn set_cookie(pass: &Pass, value: &str, life: Millis, secure: bool) -> Option<HeaderValue> {
    let (name, secure) = (pass.cookie_name(), if secure { "; Secure" } else { "" });
    let text = format!("{name}={value}; Path=/; Max-Age={life}; HttpOnly; SameSite=Strict{secure}");
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The headers that have a token in them (some clients send it in more than one), and the first token.
fn carried_by(headers: &HeaderMap, book: &Book) -> (Option<Pass>, Vec<HeaderName>) {
    let mut found = None;
    let mut carriers = Vec::new();
    for name in [TOKEN_HEADER, header::AUTHORIZATION, API_KEY] {
        let mut passes = headers.get_all(&name).iter().filter_map(|value| {
            let value = value.as_bytes();
            book.by_token(bearer(value).unwrap_or(value))
        });
        if let Some(pass) = passes.next_back() {
            found.get_or_insert(pass);
            carriers.push(name);
        }
    }
    (found, carriers)
}

/// A browser sends a cookie whoever asks it to, and takes other ports of a host for the same site. It says which page
/// asks: only our own may use the cookie, not even one that may ask with a token.
fn from_our_page<B>(request: &Request<B>) -> bool {
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    let headers = request.headers();
    match headers.get("sec-fetch-site").map(HeaderValue::as_bytes) {
        Some(b"same-origin") => true,
        // Typed in by the user.
        Some(b"none") => !changes,
        Some(_) => false,
        // Plain http, or an old browser: the origin is all there is, and comes with every change.
        None if headers.contains_key(header::ORIGIN) => cors::other_origin(request).is_none(),
        None => !changes,
    }
}

fn said(until: Timestamp) -> String {
    format!("page until {}", until.as_millis())
}

/// The token whose cookie is among these, and until when that is good.
fn signed_in(headers: &HeaderMap, book: &Book) -> Option<(Pass, Timestamp)> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let ours = pairs.filter(|(name, _)| name.starts_with("reveille_"));
    ours.map(|(_, value)| value).find_map(|value| {
        let mut parts = value.split('.');
        let (until, proof, signature) = (parts.next()?.parse().ok()?, Proof::parse(parts.next()?)?, parts.next()?);
        let (pass, until) = (book.by_proof(proof)?, Timestamp::from_millis(until));
        pass.has_signed(&said(until), signature).then_some((pass, until))
    })
}

/// The page and its parts, the way to sign in, and what supervisors ask: nothing of anybody's is in them.
fn is_for_all(path: &str) -> bool {
    path.starts_with("/ui/") || matches!(path, "/" | "/favicon.ico" | "/api/sign-in" | "/healthz" | "/readyz")
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| rest.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        access::{Entry, Hash, Scope},
        clock::ManualClock,
    };
    use tempfile::TempDir;

    const TOKEN: &str = "0123456789abcdef";

    fn access(clock: &ManualClock) -> Access {
        let own = Token::parse(TOKEN).expect("long enough");
        let file = TokenFile { path: "not/there".into() };
        Access::open(Some(own), file, Arc::new(clock.clone())).expect("no file is no tokens")
    }

    /// One token of the file.
    fn filed(directory: &TempDir, name: &str) -> TokenFile {
        let file = TokenFile { path: directory.path().join("tokens.toml") };
        let hash = Hash::of(format!("rv_{name}_0123456789").as_bytes());
        let (tenants, sessions, created_at) = (Vec::new(), Vec::new(), String::new());
        file.add(Entry { name: name.into(), scope: Scope::Agent, tenants, sessions, created_at, hash }).expect("added");
        file
    }

    fn name(caller: Result<Caller, ApiError>) -> Option<String> {
        match caller.ok()? {
            Caller::Anybody => Some("anybody".into()),
            Caller::Stranger => Some("stranger".into()),
            Caller::Known(pass) => Some(pass.grant.name.clone()),
        }
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
            assert!(matches!(access.admit(&mut asked), Ok(Caller::Known(_))), "{name}");
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
                assert_eq!(name(admitted), open.then(|| "stranger".to_owned()), "{path} {headers:?}");
            }
        }
        let open = Access::default();
        assert!(matches!(open.admit(&mut request("GET", "/api/timers", &[])), Ok(Caller::Anybody)));
    }

    #[test]
    fn a_cookie_is_good_for_its_time_and_for_our_own_page() {
        let clock = ManualClock::at(Timestamp::from_millis(5));
        let access = access(&clock);
        let pass = access.knows(TOKEN).expect("known");
        let set = access.cookie(&pass, true).expect("a cookie").to_str().expect("text").to_owned();
        assert!(set.ends_with("; HttpOnly; SameSite=Strict; Secure") && !set.contains(TOKEN), "{set}");
        let cookie = set.split(';').next().expect("a pair").to_owned();
        let admitted = |method: &str, headers: &[(&str, &str)]| {
            let mut request = request(method, "/api/timers", headers);
            request.headers_mut().insert("host", HeaderValue::from_static("localhost:7383"));
            access.admit(&mut request).is_ok()
        };
        let other = format!("other=1; {cookie}");
        assert!(admitted("GET", &[("cookie", &other)]));
        for (headers, reads, changes) in [
            (&[][..], true, false),
            (&[("origin", "http://localhost:7383")], true, true),
            (&[("origin", "http://localhost:3000")], false, false),
            (&[("origin", "http://localhost:3000"), ("sec-fetch-site", "same-site")], false, false),
            (&[("sec-fetch-site", "none")], true, false),
            (&[("sec-fetch-site", "same-site")], false, false),
            // Behind a proxy that does not pass the name on, the browser's word counts.
            (&[("origin", "https://clock.example"), ("sec-fetch-site", "same-origin")], true, true),
        ] {
            let headers: Vec<_> = headers.iter().copied().chain([("cookie", cookie.as_str())]).collect();
            assert_eq!((admitted("GET", &headers), admitted("POST", &headers)), (reads, changes), "{headers:?}");
        }
        let (_, value) = cookie.split_once('=').expect("a pair");
        let (until, _) = value.split_once('.').expect("signed");
        let later = cookie.replace(until, "99999999999999");
        assert!(!admitted("GET", &[("cookie", &later)]), "it says when it ends, and that is signed");
        clock.advance(COOKIE_LIFE);
        assert!(!admitted("GET", &[("cookie", &cookie)]));
    }

    #[test]
    fn tokens_of_the_file_come_and_go_while_the_server_runs() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = filed(&directory, "first");
        let access = Access::open(None, file.clone(), Arc::new(SystemClock)).expect("readable");
        let asks = |token: &str| {
            let bearer = format!("Bearer rv_{token}_0123456789");
            name(access.admit(&mut request("GET", "/api/timers", &[("authorization", &bearer)])))
        };
        let look_again = || {
            let mut looked = access.file.as_ref().expect("followed").looked.lock().expect("free");
            looked.0 -= LOOK_AGAIN;
        };
        assert_eq!((asks("first").as_deref(), asks("second")), (Some("first"), None));
        filed(&directory, "second");
        look_again();
        assert_eq!(asks("second").as_deref(), Some("second"));
        file.remove("first").expect("removed");
        look_again();
        assert_eq!((asks("first"), asks("second").as_deref()), (None, Some("second")));
        std::fs::write(&file.path, "broken").expect("written");
        look_again();
        assert_eq!(asks("second").as_deref(), Some("second"), "the last good ones stay");
        std::fs::remove_file(&file.path).expect("removed");
        look_again();
        assert_eq!(asks("second"), None, "without tokens nobody gets in, rather than everybody");
    }
}
