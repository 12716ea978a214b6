//! Any other path of these APIs (token counts, embeddings, files): unread, to the upstream that serves its kind.

use crate::{
    answer::{Answer, error},
    fault::Fault,
    gateway::{Gateway, deadline, uri},
    headers,
    models::family,
    opaque::Opaque,
    outline::Outline,
    protocol::Protocol,
    send::{Call, Route},
    vigil::Vigil,
};
use bytes::Bytes;
use http::{Response, request::Parts};
use http_body::Body;
use http_body_util::BodyExt;
use std::collections::VecDeque;
use tokio::time::Instant;

impl Gateway {
    pub(crate) async fn pass<B: Body<Data = Bytes>>(&self, parts: Parts, body: B) -> Answer {
        let path = parts.uri.path();
        let protocol = match path {
            _ if path.starts_with(Protocol::Messages.path()) => Protocol::Messages,
            _ if path.starts_with(Protocol::Responses.path()) => Protocol::Responses,
            _ => family(&parts.headers),
        };
        match self.try_pass(protocol, parts, body).await {
            Ok(answer) => answer,
            Err(fault) => error(protocol, &fault),
        }
    }

    async fn try_pass<B: Body<Data = Bytes>>(
        &self,
        protocol: Protocol,
        parts: Parts,
        body: B,
    ) -> Result<Answer, Fault> {
        let body = self.intake.read(&parts.headers, body).await?;
        let model = match parts.uri.path().strip_prefix("/v1/models/") {
            Some(model) => Some(model.to_owned()),
            None => {
                // What cannot be read is the upstream's to judge.
                let plain = self.intake.plain(&parts.headers, &body).await;
                plain.ok().and_then(|plain| Outline::model_of(&plain))
            }
        };
        let route = match model {
            Some(model) => self.routes.iter().find(|route| in_family(route, protocol) && route.upstream.knows(&model)),
            None => self.routes.iter().find(|route| in_family(route, protocol)),
        };
        let route = route.ok_or_else(|| Fault::NoUpstream(parts.uri.path().to_owned()))?;
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let limits = route.upstream.limits;
        let call = Call { protocol, method: parts.method, uri: uri(route, path)?, headers: parts.headers, body };
        let deadline = deadline(&limits, false, Instant::now());
        let response = route.send(call, deadline, self.settings.retries, &mut 0).await?;
        let (mut head, source) = response.into_parts();
        headers::to_client(&mut head.headers);
        let (vigil, upstream) = (Vigil::silence(&limits), route.upstream.name.clone());
        let opaque = Opaque { begun: VecDeque::new(), source, vigil, ledger: None, upstream, over: false };
        Ok(Response::from_parts(head, opaque.boxed_unsync()))
    }
}

fn in_family(route: &Route, protocol: Protocol) -> bool {
    let serves = |protocol| route.upstream.protocols.contains(&protocol);
    match protocol {
        Protocol::Messages => serves(Protocol::Messages),
        // One vendor's two APIs share everything else.
        Protocol::Chat | Protocol::Responses => serves(Protocol::Chat) || serves(Protocol::Responses),
    }
}
