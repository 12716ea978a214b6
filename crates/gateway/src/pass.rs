//! Any other path of these APIs (token counts, embeddings, files): as it came, to the upstream that serves its kind.

use crate::{
    answer::Answer,
    draft::Draft,
    fault::Fault,
    flow::Flow,
    gateway::{Gateway, deadline, refuse, uri},
    headers,
    models::family,
    opaque::Opaque,
    outline::Outline,
    protocol::Protocol,
    report::{Ledger, Outcome},
    send::{Call, Route},
    stage::Admitted,
    vigil::Vigil,
};
use bytes::Bytes;
use http::{Method, Response, header, request::Parts};
use http_body::Body;
use http_body_util::BodyExt;
use std::collections::VecDeque;
use tokio::time::Instant;

/// What is asked at these paths is answered and forgotten. Everywhere else are things that the upstream keeps, for whoever
/// knows their ids, or lists.
const KEEP_NOTHING: [&str; 12] = [
    "/v1/audio/speech",
    "/v1/audio/transcriptions",
    "/v1/audio/translations",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/images/edits",
    "/v1/images/generations",
    "/v1/images/variations",
    "/v1/messages/count_tokens",
    "/v1/moderations",
    "/v1/responses/compact",
    "/v1/responses/input_tokens",
];
/// What a report says of a path; the rest may be as long as the client likes.
const PATH_CHARS_MAX: usize = 100;

impl Gateway {
    pub(crate) async fn pass<B: Body<Data = Bytes>>(&self, parts: Parts, body: B) -> Answer {
        let path = parts.uri.path();
        let protocol = match path {
            _ if path.starts_with(Protocol::Messages.path()) => Protocol::Messages,
            _ if path.starts_with(Protocol::Responses.path()) => Protocol::Responses,
            _ => family(&parts.headers),
        };
        let mut ledger = self.open_passed(protocol, &parts);
        match self.try_pass(protocol, parts, body, &mut ledger).await {
            Ok((response, vigil)) => {
                let (mut head, source) = response.into_parts();
                headers::to_client(&mut head.headers);
                ledger.report.status = head.status;
                if source.is_end_stream() {
                    // Nobody asks for the bytes of an empty body.
                    ledger.end(Outcome::Complete);
                }
                Response::from_parts(head, Opaque::new(VecDeque::new(), source, vigil, ledger).boxed_unsync())
            }
            Err(fault) => refuse(fault, ledger),
        }
    }

    /// The report of a call that is only passed on.
    pub(crate) fn open_passed(&self, protocol: Protocol, parts: &Parts) -> Ledger {
        let mut ledger = self.open(protocol, parts, Instant::now());
        ledger.report.path = Some(parts.uri.path().chars().take(PATH_CHARS_MAX).collect());
        ledger
    }

    async fn try_pass<B: Body<Data = Bytes>>(
        &self,
        protocol: Protocol,
        parts: Parts,
        body: B,
        ledger: &mut Ledger,
    ) -> Result<(Response<Flow>, Vigil), Fault> {
        let admitted = parts.extensions.get::<Admitted>();
        if let Some(Admitted(admission)) = admitted.filter(|_| !keeps_nothing(&parts)) {
            admission.admit_kept().map_err(Fault::Forbidden)?;
        }
        let body = self.intake.read(&parts.headers, body).await?;
        // What cannot be read is the upstream's to judge.
        let plain = self.intake.plain(&parts.headers, &body).await.ok();
        let outline = plain.as_deref().and_then(Outline::lenient).unwrap_or_default();
        let turn = &mut ledger.report.turn;
        turn.say_whose(&parts.headers, &outline.ids);
        if let Some(Admitted(admission)) = admitted {
            admission.admit(turn).await.map_err(Fault::Forbidden)?;
        }
        turn.model = match parts.uri.path().strip_prefix("/v1/models/") {
            Some(model) => model.to_owned(),
            None => outline.model,
        };
        let serves = |route: &Route| turn.model.is_empty() || route.upstream.knows(&turn.model);
        let route = self.routes.iter().find(|route| in_family(route, protocol) && serves(route));
        let route = route.ok_or_else(|| Fault::NoUpstream(parts.uri.path().to_owned()))?;
        turn.upstream.clone_from(&route.upstream.name);
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let limits = self.limits(route, turn);
        let mut headers = parts.headers;
        let clean = plain.filter(|_| path.starts_with(protocol.path())).and_then(|plain| self.clean(protocol, plain));
        if clean.is_some() {
            headers.remove(header::CONTENT_ENCODING);
        }
        let body = clean.unwrap_or(body);
        let call =
            Call { protocol, method: parts.method, uri: uri(route, path)?, headers, body, connect: limits.connect };
        let deadline = deadline(&limits, false, Instant::now());
        let response = route.send(call, deadline, self.settings.retries, &mut ledger.report.attempts).await?;
        Ok((response, Vigil::silence(&limits)))
    }

    /// The body without what is not meant for the upstream, if there is any of that in it.
    fn clean(&self, protocol: Protocol, plain: Bytes) -> Option<Bytes> {
        let outline = Outline::read(protocol, &plain).ok()?;
        let mut draft = Draft::new(protocol, outline, plain);
        draft.take_out_shown();
        self.stages.iter().for_each(|stage| stage.clean(&mut draft));
        draft.is_changed().then(|| draft.body())
    }
}

pub(crate) fn in_family(route: &Route, protocol: Protocol) -> bool {
    let serves = |protocol| route.upstream.protocols.contains(&protocol);
    match protocol {
        Protocol::Messages => serves(Protocol::Messages),
        // One vendor's two APIs share everything else.
        Protocol::Chat | Protocol::Responses => serves(Protocol::Chat) || serves(Protocol::Responses),
    }
}

fn keeps_nothing(parts: &Parts) -> bool {
    let path = parts.uri.path();
    match parts.method {
        Method::POST => KEEP_NOTHING.contains(&path),
        // Models are everybody's.
        Method::GET => path.strip_prefix("/v1/models/").is_some_and(|model| !model.is_empty()),
        _ => false,
    }
}

/// The path leaves the place that it seems to be at, once somebody takes it literally: also with its dots or slashes encoded.
pub(crate) fn climbs(path: &str) -> bool {
    let plain = path.to_ascii_lowercase().replace("%2e", ".").replace("%2f", "/").replace("%5c", "/");
    plain.split(['/', '\\']).any(|segment| matches!(segment, "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_climb() {
        for path in [
            "/v1/./x",
            "/v1/x/..",
            "/v1/%2e%2E/x",
            "/v1/a/.%2e/b",
            "/v1/models/..%2fx",
            "/v1/a%5C..%5Cb",
            "/v1/a\\..\\b",
        ] {
            assert!(climbs(path), "{path}");
        }
        for path in ["/v1/models/gpt-4.1", "/v1/files/..x", "/v1/a...b/c", "/v1/models/org%2Fmodel.v1", "/v1/"] {
            assert!(!climbs(path), "{path}");
        }
    }
}
