//! With which statuses each operation may refuse or fail, for the document: those of the door, which stands before every
//! route; those of what the operation takes; and its own. Schemathesis holds the server to it.

use utoipa::openapi::{
    Content, OpenApi, Ref, Response,
    path::{HttpMethod, Operation},
};

const INVALID: (u16, &str) = (400, "Something in the request is not valid; the problem says what");
const NO_TOKEN: (u16, &str) = (401, "A token is wanted, or another one");
const FORBIDDEN: (u16, &str) = (403, "Not for this token, host or page");
const MISSING: (u16, &str) = (404, "What is named does not exist");
const CONFLICT: (u16, &str) = (409, "It cannot be done as things are; the code says why");
const ELSEWHERE: (u16, &str) = (421, "Meant for another server, which no longer listens here");
const KEY_REUSED: (u16, &str) = (422, "The idempotency key was used for something else");
const TOO_FAST: (u16, &str) = (429, "Too many requests; come back after `Retry-After`");
const AWAY: (u16, &str) = (503, "Not now: the store does not answer, or there is too much to do");
const FULL: (u16, &str) = (507, "The disk is full");

/// Answered before any route is asked.
const DOOR: [(u16, &str); 4] = [INVALID, FORBIDDEN, ELSEWHERE, TOO_FAST];
/// Of operations that read a body.
const BODY: [(u16, &str); 2] = [(408, "The body did not arrive in time"), (413, "The body is too large")];
/// Of operations that ask a model.
const MODEL: [(u16, &str); 2] = [(500, "The turn broke off"), (502, "The model failed")];
/// Nobody needs a token for these.
const OPEN: [&str; 3] = ["/api/sign-in", "/healthz", "/readyz"];
/// These ask no store.
const STORELESS: [&str; 4] = ["/api/sign-in", "/api/tools", "/api/clock", "/healthz"];

/// What an operation refuses by itself.
fn own(method: &HttpMethod, path: &str) -> Vec<(u16, &'static str)> {
    use HttpMethod::{Delete, Get, Post, Put};
    match (method, path) {
        (Post, "/api/sessions/{session}/tools/{tool}") => vec![MISSING, CONFLICT, KEY_REUSED],
        (Post, "/api/timers" | "/api/reminders") => vec![CONFLICT, KEY_REUSED],
        (Post, "/api/timers/{id}/{action}" | "/api/reminders/{id}/cancel" | "/api/calls/{id}/replay") => {
            vec![MISSING, CONFLICT]
        }
        (Get, "/api/timers/{id}" | "/api/tasks/{id}" | "/api/sessions/{session}") => vec![MISSING],
        (Get, "/api/agents/{tenant}/{chatbot}") => vec![MISSING],
        (Delete, "/api/sessions/{session}" | "/api/sessions/{session}/quiet") => vec![MISSING],
        (Delete, "/api/tasks/{id}" | "/api/agents/{tenant}/{chatbot}") => vec![MISSING, CONFLICT],
        (Put, "/api/agents/{tenant}/{chatbot}") => vec![CONFLICT],
        (Post, "/api/agents/{tenant}/{chatbot}/sessions/{session}/query") => {
            [&[MISSING, CONFLICT][..], &MODEL].concat()
        }
        (Post, "/api/sessions/{session}/activity" | "/api/sessions/{session}/wake") => vec![MISSING, CONFLICT],
        (Post, "/api/sessions/{session}/inbox/commit" | "/api/sessions/{session}/inbox/release") => vec![CONFLICT],
        (Post, "/api/clock/advance") => vec![CONFLICT],
        (Post, "/api/sign-in") => vec![NO_TOKEN],
        (Get, "/api/sessions/{session}/socket") => vec![(426, "Only a WebSocket is served here")],
        _ => Vec::new(),
    }
}

fn all(method: &HttpMethod, path: &str, operation: &Operation) -> Vec<(u16, &'static str)> {
    let mut all = DOOR.to_vec();
    all.extend(own(method, path));
    all.extend((!OPEN.contains(&path)).then_some(NO_TOKEN));
    all.extend((!STORELESS.contains(&path)).then_some(AWAY));
    all.extend((*method != HttpMethod::Get && !STORELESS.contains(&path)).then_some(FULL));
    if operation.request_body.is_some() {
        all.extend(BODY);
    }
    all
}

/// Writes them into the document. Errors have one form.
pub fn document(document: &mut OpenApi) {
    let content = Content::new(Some(Ref::from_schema_name("Problem")));
    for (path, item) in &mut document.paths.paths {
        let methods = [
            (HttpMethod::Get, &mut item.get),
            (HttpMethod::Put, &mut item.put),
            (HttpMethod::Post, &mut item.post),
            (HttpMethod::Delete, &mut item.delete),
        ];
        for (method, operation) in methods {
            let Some(operation) = operation else { continue };
            for (status, what) in all(&method, path, operation) {
                operation.responses.responses.entry(status.to_string()).or_insert_with(|| {
                    let problem = Response::builder().description(what);
                    problem.content("application/problem+json", content.clone()).build().into()
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    /// A range would let every answer pass.
    #[test]
    fn every_status_is_named() {
        let document: serde_json::Value = serde_json::from_str(&crate::http::openapi()).expect("JSON");
        for (path, methods) in document["paths"].as_object().expect("an object") {
            for (method, operation) in methods.as_object().expect("an object") {
                let statuses = operation["responses"].as_object().expect("an object").keys();
                let named = statuses.clone().all(|status| status.parse::<u16>().is_ok());
                assert!(named, "{method} {path}: {:?}", statuses.collect::<Vec<_>>());
                assert!(operation["responses"].get("403").is_some(), "{method} {path} is behind the door");
            }
        }
    }
}
