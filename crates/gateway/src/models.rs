//! `GET /v1/models`: the lists of all upstreams as one, each entry as its upstream wrote it.

use crate::{
    answer::{Answer, answer},
    fault::Fault,
    gateway::{Gateway, refuse},
    headers,
    limits::Limit,
    pass::in_family,
    protocol::Protocol,
    report::Outcome,
    send::{Call, Route},
};
use bytes::Bytes;
use futures_util::future::join_all;
use http::{HeaderMap, HeaderValue, Method, Response, header, request::Parts};
use http_body_util::{BodyExt, Full, Limited};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{collections::HashSet, fmt, time::Duration};

/// A list larger than this is not a list of models.
const LIST_BYTES_MAX: usize = 4 * 1024 * 1024;
/// An upstream that takes longer than this to list its models is left out.
const LIST_WAIT: Duration = Duration::from_secs(10);

/// An upstream's models, each as it wrote it.
type Listed = Vec<(String, Box<RawValue>)>;

/// Why there is no list.
enum Unlisted {
    /// The upstream said something else.
    Said(Response<Bytes>),
    Failed(Fault),
}

#[derive(Deserialize)]
struct List {
    data: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
}

impl Gateway {
    pub(crate) async fn models(&self, parts: Parts) -> Answer {
        let protocol = family(&parts.headers);
        let mut ledger = self.open_passed(protocol, &parts);
        // The client's own key is for one vendor, and of that vendor's for one upstream.
        let own = self.routes.iter().position(|route| in_family(route, protocol) && route.upstream.key.is_none());
        let asked = self.routes.iter().enumerate();
        let mut lists = join_all(asked.map(|(place, route)| self.list(route, &parts, Some(place) == own))).await;
        for (route, list) in self.routes.iter().zip(&lists) {
            if let Err(unlisted) = list {
                ledger.left_out(&route.upstream.name, &unlisted.to_string());
            }
        }
        if !lists.is_empty() && lists.iter().all(Result::is_err) {
            // What the client can do something about.
            match lists.swap_remove(own.unwrap_or(0)) {
                Err(Unlisted::Failed(fault)) => return refuse(fault, ledger),
                Err(Unlisted::Said(response)) => {
                    ledger.report.status = response.status();
                    ledger.end(Outcome::Complete);
                    return response.map(|body| Full::new(body).map_err(|never| match never {}).boxed_unsync());
                }
                Ok(_) => {}
            }
        }
        ledger.end(Outcome::Complete);
        joined(lists.into_iter().flatten().flatten())
    }

    /// What this upstream has and would be asked for.
    async fn list(&self, route: &Route, parts: &Parts, own_key: bool) -> Result<Listed, Unlisted> {
        let upstream = &route.upstream;
        let broken = |why: String| Fault::Broken { upstream: upstream.name.clone(), why };
        let protocol = upstream.protocols.first().copied().unwrap_or(Protocol::Chat);
        let mut headers = parts.headers.clone();
        headers.remove(header::ACCEPT_ENCODING);
        if !own_key {
            headers::drop_keys(&mut headers);
        }
        if protocol == Protocol::Messages {
            headers.entry("anthropic-version").or_insert(HeaderValue::from_static("2023-06-01"));
        }
        let path = parts.uri.path_and_query().map_or("/v1/models", |path| path.as_str());
        let uri = upstream.uri(path).map_err(|error| broken(error.to_string()))?;
        let call =
            Call { protocol, method: Method::GET, uri, headers, body: Bytes::new(), connect: upstream.limits.connect };
        let reading = async {
            let (mut head, body) = route.send(call, None, 0, &mut 0).await?.into_parts();
            let body = Limited::new(body, LIST_BYTES_MAX).collect().await.map_err(|error| broken(error.to_string()))?;
            headers::to_client(&mut head.headers);
            head.headers.remove(header::CONTENT_LENGTH);
            Ok::<_, Fault>(Response::from_parts(head, body.to_bytes()))
        };
        let after = upstream.limits.first_byte.map_or(LIST_WAIT, |limit| limit.min(LIST_WAIT));
        let late = Fault::Limit { limit: Limit::FirstByte, after };
        let response = tokio::time::timeout(after, reading).await.map_err(|_| late)??;
        if !response.status().is_success() {
            return Err(Unlisted::Said(response));
        }
        let list: List = serde_json::from_slice(response.body()).map_err(|error| broken(error.to_string()))?;
        let named = list.data.into_iter().filter_map(|entry| {
            let Entry { id } = serde_json::from_str(entry.get()).ok()?;
            upstream.knows(&id).then_some((id, entry))
        });
        Ok(named.collect())
    }
}

/// One list of all, each model once.
fn joined(lists: impl Iterator<Item = (String, Box<RawValue>)>) -> Answer {
    let (mut ids, mut entries, mut known) = (Vec::new(), Vec::new(), HashSet::new());
    for (id, entry) in lists {
        if known.insert(id.clone()) {
            ids.push(id);
            entries.push(entry);
        }
    }
    let body = serde_json::json!({
        "object": "list", "data": entries, "has_more": false, "first_id": ids.first(), "last_id": ids.last(),
    });
    answer(body.to_string().into())
}

impl From<Fault> for Unlisted {
    fn from(fault: Fault) -> Self {
        Unlisted::Failed(fault)
    }
}

impl fmt::Display for Unlisted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unlisted::Said(response) => write!(f, "it answered {}", response.status()),
            Unlisted::Failed(fault) => fault.fmt(f),
        }
    }
}

/// Whose client it is, which says whose errors it understands and whose key it brings.
pub(crate) fn family(headers: &HeaderMap) -> Protocol {
    match headers.contains_key("anthropic-version") || headers.contains_key("x-api-key") {
        true => Protocol::Messages,
        false => Protocol::Chat,
    }
}
