//! The one path of every call: read → route → stages → send → relay.

use crate::{
    dial::Dial,
    draft::Draft,
    fault::Fault,
    headers,
    limits::{Limit, Limits},
    models::family,
    opaque::Opaque,
    outline::Outline,
    protocol::{Protocol, Seen},
    relay::{self, Relay},
    report::{Ledger, Observer, Outcome},
    send::{Call, Deadline, Route},
    session::SessionHint,
    stage::{Stage, Turn, Visits},
    upstream::{Override, Upstream},
    vigil::Vigil,
    whole::{self, Read, Whole},
};
use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Method, Request, Response, StatusCode, header, request::Parts, response};
use http_body::Body;
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use idle_timeout::{BodyError, IdleBody};
use std::{collections::VecDeque, pin::pin, sync::Arc, time::Duration};
use tokio::time::Instant;

/// A client that sends half a body must not hold its place for ever.
const BODY_IDLE: Duration = Duration::from_secs(30);
/// What is set aside before a body's bytes have come, whatever its head promises.
const BODY_RESERVE_MAX: usize = 1024 * 1024;
/// Whole answers up to this are held until they are whole; larger ones pass through.
const WHOLE_BYTES_MAX: usize = 1024 * 1024;

pub type Answer = Response<UnsyncBoxBody<Bytes, Fault>>;

#[derive(Debug)]
pub struct Settings {
    pub upstreams: Vec<Upstream>,
    /// The first that applies goes over the upstream's limits.
    pub overrides: Vec<Override>,
    pub body_bytes_max: usize,
    /// A single event of a stream; a larger one ends it.
    pub event_bytes_max: usize,
    /// Tries after the first, before any answer.
    pub retries: u32,
}

impl Default for Settings {
    fn default() -> Self {
        const MIB: usize = 1024 * 1024;
        Self {
            upstreams: Vec::new(),
            overrides: Vec::new(),
            body_bytes_max: 32 * MIB,
            event_bytes_max: 32 * MIB,
            retries: 2,
        }
    }
}

pub struct Gateway {
    pub(crate) routes: Vec<Route>,
    settings: Settings,
    stages: Vec<Box<dyn Stage>>,
    observer: Option<Arc<dyn Observer>>,
}

impl Gateway {
    pub fn new(mut settings: Settings, dial: Arc<dyn Dial>) -> Self {
        let upstreams = std::mem::take(&mut settings.upstreams);
        let routes = upstreams.into_iter().map(|upstream| Route::new(upstream, dial.clone())).collect();
        Self { routes, settings, stages: Vec::new(), observer: None }
    }

    pub fn stage(mut self, stage: impl Stage + 'static) -> Self {
        self.stages.push(Box::new(stage));
        self
    }

    pub fn observe(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Answers any request under `/v1/`.
    pub async fn handle<B: Body<Data = Bytes>>(&self, request: Request<B>) -> Answer {
        let (parts, body) = request.into_parts();
        let generates = Protocol::ALL.into_iter().find(|protocol| protocol.path() == parts.uri.path());
        match (generates, &parts.method) {
            (Some(protocol), &Method::POST) => self.generate(protocol, parts, body).await,
            (None, &Method::GET) if parts.uri.path() == "/v1/models" => self.models(parts).await,
            _ => self.pass(parts, body).await,
        }
    }

    async fn generate<B: Body<Data = Bytes>>(&self, protocol: Protocol, parts: Parts, body: B) -> Answer {
        let began = Instant::now();
        let agent = text(&parts, "x-reveille-agent");
        let turn = Turn {
            protocol,
            model: String::new(),
            upstream: String::new(),
            stream: false,
            session: None,
            agent,
            side: false,
        };
        let mut ledger = Ledger::new(turn, began, self.observer.clone());
        match self.try_generate(parts, body, began, &mut ledger).await {
            Ok(Begun { route, response, limits, visits }) => {
                ledger.report.status = response.status();
                let (mut head, source) = response.into_parts();
                headers::to_client(&mut head.headers);
                match ledger.report.turn.stream && headers::is_event_stream(&head.headers) {
                    true => self.stream(head, source, &limits, began, visits, ledger),
                    false => self.whole(head, source, route, &limits, began, visits, ledger).await,
                }
            }
            Err(fault) => refuse(fault, ledger),
        }
    }

    async fn try_generate<B: Body<Data = Bytes>>(
        &self,
        parts: Parts,
        body: B,
        began: Instant,
        ledger: &mut Ledger,
    ) -> Result<Begun<'_>, Fault> {
        let body = self.read(&parts, body).await?;
        let turn = &mut ledger.report.turn;
        let protocol = turn.protocol;
        if let Some(encoding) = text(&parts, "content-encoding").filter(|encoding| encoding != "identity") {
            return Err(Fault::Encoding(encoding));
        }
        let outline = Outline::read(protocol, &body)?;
        turn.model.clone_from(&outline.model);
        turn.stream = outline.stream;
        turn.session = SessionHint::find(&parts.headers, &outline.ids);
        turn.side = !outline.has_tools(&body);
        let route = self.route(protocol, &turn.model)?;
        turn.upstream.clone_from(&route.upstream.name);
        let limits = self.limits(route, turn);

        let mut visits = Visits::enter(&self.stages, turn);
        let mut draft = Draft::new(protocol, outline, body);
        visits.before_request(&mut draft).await?;

        let mut headers = parts.headers;
        // What is compressed cannot be read on its way.
        headers.remove(header::ACCEPT_ENCODING);
        let path = parts.uri.path_and_query().map_or(protocol.path(), |path| path.as_str());
        let call = Call { protocol, method: parts.method, uri: uri(route, path)?, headers, body: draft.body() };
        let deadline = deadline(&limits, ledger.report.turn.stream, began);
        let response = route.send(call, deadline, self.settings.retries, &mut ledger.report.attempts).await?;
        Ok(Begun { route, response, limits, visits })
    }

    fn stream(
        &self,
        mut head: response::Parts,
        source: Incoming,
        limits: &Limits,
        began: Instant,
        visits: Visits,
        ledger: Ledger,
    ) -> Answer {
        // The relay may have to add an error.
        head.headers.remove(header::CONTENT_LENGTH);
        let relay = Relay::new(relay::Parts {
            protocol: ledger.report.turn.protocol,
            source,
            vigil: Vigil::stream(limits, began),
            idle_counts: limits.idle_counts,
            visits,
            event_bytes_max: self.settings.event_bytes_max,
            ledger,
        });
        Response::from_parts(head, relay.boxed_unsync())
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one answer")]
    async fn whole(
        &self,
        head: response::Parts,
        mut source: Incoming,
        route: &Route,
        limits: &Limits,
        began: Instant,
        mut visits: Visits,
        mut ledger: Ledger,
    ) -> Answer {
        let mut vigil = Vigil::whole(limits, began);
        match whole::read(&mut source, &mut vigil, &mut ledger, WHOLE_BYTES_MAX).await {
            Ok(Read::All(bytes)) => {
                if head.status.is_success() {
                    let mut seen = Seen { begun: true, ended: true, ..Seen::default() };
                    ledger.report.turn.protocol.read_whole(&bytes, &mut seen);
                    ledger.report.usage = seen.usage;
                    visits.on_finish(&seen).await;
                } else {
                    // An error is not the answer the stages waited for.
                    visits = Visits::default();
                }
                Response::from_parts(head, Whole::new(bytes, visits, ledger).boxed())
            }
            Ok(Read::Part(begun)) => {
                visits.on_dispatch();
                let upstream = route.upstream.name.clone();
                let opaque = Opaque { begun, source, vigil, ledger: Some(ledger), upstream, over: false };
                Response::from_parts(head, opaque.boxed_unsync())
            }
            Err(fault) => refuse(fault, ledger),
        }
    }

    /// Any other path of these APIs, unread, to the upstream that serves its kind.
    async fn pass<B: Body<Data = Bytes>>(&self, parts: Parts, body: B) -> Answer {
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
        let body = self.read(&parts, body).await?;
        let in_path = || parts.uri.path().strip_prefix("/v1/models/").map(str::to_owned);
        let model = in_path().or_else(|| Outline::model_of(&body));
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

    fn route(&self, protocol: Protocol, model: &str) -> Result<&Route, Fault> {
        self.routes.iter().find(|route| route.upstream.serves(protocol, model)).ok_or_else(|| {
            let serving = self.routes.iter().filter(|route| route.upstream.protocols.contains(&protocol));
            let patterns: Vec<&str> =
                serving.flat_map(|route| route.upstream.models.iter().map(String::as_str)).collect();
            let known = match patterns.is_empty() {
                true => "no upstream is configured for it".to_owned(),
                false => format!("known are {}", patterns.join(", ")),
            };
            Fault::UnknownModel { model: model.chars().take(100).collect(), api: protocol.name(), known }
        })
    }

    fn limits(&self, route: &Route, turn: &Turn) -> Limits {
        let mut limits = route.upstream.limits;
        let over = self.settings.overrides.iter().find(|over| over.applies(&turn.model, turn.agent.as_deref()));
        if let Some(over) = over {
            over.apply(&mut limits);
        }
        limits
    }

    /// The request's body, within its bound.
    async fn read<B: Body<Data = Bytes>>(&self, parts: &Parts, body: B) -> Result<Bytes, Fault> {
        let max = self.settings.body_bytes_max;
        let length = text(parts, "content-length").and_then(|length| length.parse::<usize>().ok()).unwrap_or(0);
        if length > max {
            return Err(Fault::BodyTooLarge(max));
        }
        let mut body = pin!(IdleBody::new(body, BODY_IDLE));
        let mut read = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| match error {
                BodyError::Idle(idle) => Fault::BodySlow(idle.limit),
                BodyError::Source(_) => Fault::BodyBroken,
            })?;
            let Ok(data) = frame.into_data() else { continue };
            if read.len() + data.len() > max {
                return Err(Fault::BodyTooLarge(max));
            }
            if read.is_empty() && data.len() >= length {
                // Most bodies come in one piece and need no copy.
                match body.is_end_stream() {
                    true => return Ok(data),
                    false => read.reserve(data.len()),
                }
            }
            read.reserve(length.saturating_sub(read.len()).min(BODY_RESERVE_MAX).max(data.len()));
            read.extend_from_slice(&data);
        }
        Ok(read.freeze())
    }
}

/// An answer that has begun.
struct Begun<'a> {
    route: &'a Route,
    response: Response<Incoming>,
    limits: Limits,
    visits: Visits,
}

fn in_family(route: &Route, protocol: Protocol) -> bool {
    let serves = |protocol| route.upstream.protocols.contains(&protocol);
    match protocol {
        Protocol::Messages => serves(Protocol::Messages),
        // One vendor's two APIs share everything else.
        Protocol::Chat | Protocol::Responses => serves(Protocol::Chat) || serves(Protocol::Responses),
    }
}

/// Until when the head of the answer must be there.
fn deadline(limits: &Limits, stream: bool, began: Instant) -> Deadline {
    let ends = |limit, after: Option<Duration>| Some((began.checked_add(after?)?, limit, after?));
    match stream {
        true => [ends(Limit::FirstByte, limits.first_byte), ends(Limit::Total, limits.total_stream)]
            .into_iter()
            .flatten()
            .min_by_key(|(end, ..)| *end),
        false => ends(Limit::Total, limits.total),
    }
}

fn uri(route: &Route, path: &str) -> Result<http::Uri, Fault> {
    route.upstream.uri(path).map_err(|error| Fault::Refused(error.to_string()))
}

fn text(parts: &Parts, name: &str) -> Option<String> {
    parts.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

fn refuse(fault: Fault, mut ledger: Ledger) -> Answer {
    ledger.report.status = fault.status();
    let answer = error(ledger.report.turn.protocol, &fault);
    ledger.end(Outcome::Failed(fault));
    answer
}

/// A fault as the answer.
pub(crate) fn error(protocol: Protocol, fault: &Fault) -> Answer {
    let mut answer = answer(protocol.error_body(fault));
    *answer.status_mut() = fault.status();
    if fault.status() == StatusCode::PAYLOAD_TOO_LARGE || fault.status() == StatusCode::REQUEST_TIMEOUT {
        // The rest of the body is not read.
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

pub(crate) fn answer(body: Bytes) -> Answer {
    let mut answer = Response::new(http_body_util::Full::new(body).map_err(|never| match never {}).boxed_unsync());
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}
