//! `GET /v1/models`: the lists of all upstreams as one, each entry as its upstream wrote it.

use crate::{
    answer::{Answer, answer, error},
    fault::Fault,
    gateway::Gateway,
    protocol::Protocol,
    send::{Call, Route},
};
use bytes::Bytes;
use futures_util::future::join_all;
use http::{HeaderMap, HeaderValue, Method, header, request::Parts};
use http_body_util::{BodyExt, Limited};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::HashSet;

/// A list larger than this is not a list of models.
const LIST_BYTES_MAX: usize = 4 * 1024 * 1024;

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
        let lists = join_all(self.routes.iter().map(|route| self.list(route, &parts))).await;
        if lists.iter().all(Result::is_err)
            && let Some(Err(fault)) = lists.first()
        {
            return error(family(&parts.headers), fault);
        }
        let (mut ids, mut entries) = (Vec::new(), Vec::new());
        let mut known = HashSet::new();
        for (id, entry) in lists.into_iter().flatten().flatten() {
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

    /// What this upstream has and would be asked for.
    async fn list(&self, route: &Route, parts: &Parts) -> Result<Vec<(String, Box<RawValue>)>, Fault> {
        let upstream = &route.upstream;
        let broken = |why: String| Fault::Broken { upstream: upstream.name.clone(), why };
        let protocol = upstream.protocols.first().copied().unwrap_or(Protocol::Chat);
        let mut headers = parts.headers.clone();
        headers.remove(header::ACCEPT_ENCODING);
        if protocol == Protocol::Messages {
            headers.entry("anthropic-version").or_insert(HeaderValue::from_static("2023-06-01"));
        }
        let path = parts.uri.path_and_query().map_or("/v1/models", |path| path.as_str());
        let uri = upstream.uri(path).map_err(|error| broken(error.to_string()))?;
        let call = Call { protocol, method: Method::GET, uri, headers, body: Bytes::new() };
        let reading = async {
            let response = route.send(call, None, 0, &mut 0).await?;
            if !response.status().is_success() {
                return Err(broken(format!("status {}", response.status())));
            }
            let body = Limited::new(response.into_body(), LIST_BYTES_MAX).collect().await;
            body.map(|body| body.to_bytes()).map_err(|error| broken(error.to_string()))
        };
        let limit = upstream.limits.first_byte.unwrap_or(std::time::Duration::MAX);
        let fault = Fault::Limit { limit: crate::Limit::FirstByte, after: limit };
        let body = tokio::time::timeout(limit, reading).await.map_err(|_| fault)??;
        let list: List = serde_json::from_slice(&body).map_err(|error| broken(error.to_string()))?;
        let named = list.data.into_iter().filter_map(|entry| {
            let Entry { id } = serde_json::from_str(entry.get()).ok()?;
            upstream.knows(&id).then_some((id, entry))
        });
        Ok(named.collect())
    }
}

/// Whose errors the client understands.
pub(crate) fn family(headers: &HeaderMap) -> Protocol {
    match headers.contains_key("anthropic-version") {
        true => Protocol::Messages,
        false => Protocol::Chat,
    }
}
