//! The dashboard: the files of `ui/`, as they are, from inside the binary. For work on them they are read from disk
//! (`ui_dir`).

use super::{App, problem};
use axum::{
    extract::{Path, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use ring::digest;
use rust_embed::RustEmbed;
use std::path::{Component, Path as FilePath};

/// Nothing from anywhere else, nothing inline; text can only ever become text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

#[derive(RustEmbed)]
#[folder = "../../ui"]
struct Files;

pub async fn index(state: State<App>, headers: HeaderMap) -> Response {
    answer(state, "index.html", &headers).unwrap_or_else(|| StatusCode::NOT_FOUND.into_response())
}

pub async fn icon(state: State<App>, headers: HeaderMap) -> Response {
    answer(state, "icon.svg", &headers).unwrap_or_else(|| StatusCode::NOT_FOUND.into_response())
}

pub async fn file(state: State<App>, Path(path): Path<String>, uri: Uri, headers: HeaderMap) -> Response {
    match answer(state, &path, &headers) {
        Some(response) => response,
        None => problem::not_found(uri).await.into_response(),
    }
}

fn answer(State(app): State<App>, path: &str, headers: &HeaderMap) -> Option<Response> {
    let kind = kind(path)?;
    let bytes = match &app.ui_dir {
        Some(directory) => Bytes::from(std::fs::read(inside(directory, path)?).ok()?),
        None => match Files::get(path)?.data {
            std::borrow::Cow::Borrowed(bytes) => Bytes::from_static(bytes),
            std::borrow::Cow::Owned(bytes) => Bytes::from(bytes),
        },
    };
    let tag = etag(&bytes)?;
    let fixed = [
        (header::CONTENT_TYPE, kind),
        // Asked for again every time, answered from the browser's copy while it is the same.
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    let is_known = headers.get_all(header::IF_NONE_MATCH).iter().any(|known| names(known, &tag));
    let mut response = match is_known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => bytes.into_response(),
    };
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response.headers_mut().insert(header::ETAG, tag);
    Some(response)
}

/// `None`: not the kind of file that is served.
fn kind(path: &str) -> Option<&'static str> {
    Some(match path.rsplit_once('.')?.1 {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "webmanifest" => "application/manifest+json",
        _ => return None,
    })
}

/// Nothing above the directory.
fn inside(directory: &FilePath, path: &str) -> Option<std::path::PathBuf> {
    let path = FilePath::new(path);
    path.components().all(|part| matches!(part, Component::Normal(_))).then(|| directory.join(path))
}

fn etag(bytes: &[u8]) -> Option<HeaderValue> {
    let digest = digest::digest(&digest::SHA256, bytes);
    let short: String = digest.as_ref().iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    HeaderValue::try_from(format!("\"{short}\"")).ok()
}

fn names(known: &HeaderValue, tag: &HeaderValue) -> bool {
    let (known, tag) = (known.to_str().unwrap_or_default(), tag.to_str().unwrap_or_default());
    known.split(',').any(|one| one.trim().trim_start_matches("W/") == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_has_a_kind() {
        for path in Files::iter() {
            assert!(kind(&path).is_some(), "{path}");
        }
        assert!(Files::get("index.html").is_some());
    }

    #[test]
    fn text_only_ever_becomes_text() {
        // The policy would refuse most of it in the browser; here it is found before.
        let parsers =
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "DOMParser"];
        let inline = ["<style", "style=", "<script>", "onclick=", "javascript:", "http-equiv"];
        for path in Files::iter() {
            let file = Files::get(&path).expect("it is in the list");
            let text = String::from_utf8_lossy(&file.data).into_owned();
            let forbidden = if path.ends_with(".html") { &inline[..] } else { &parsers[..] };
            let found = forbidden.iter().find(|word| !path.ends_with(".css") && text.contains(**word));
            assert_eq!(found, None, "{path}");
        }
    }

    #[test]
    fn nothing_outside_the_directory_is_read() {
        let directory = FilePath::new("ui");
        assert!(inside(directory, "pages/overview.js").is_some());
        for outside in ["../Cargo.toml", "/etc/passwd", "pages/../../x.js", "./x.js/.."] {
            assert!(inside(directory, outside).is_none(), "{outside}");
        }
    }
}
