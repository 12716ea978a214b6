//! The one path of every call: read → route → stages → send → relay.

use crate::{
    answer::{Answer, error},
    budget::Budget,
    dial::Dial,
    draft::Draft,
    fault::Fault,
    flow::Flow,
    headers::{self, Coming},
    intake::Intake,
    limits::{Limit, Limits},
    models::family,
    opaque::Opaque,
    outline::Outline,
    pass,
    protocol::{Protocol, Seen},
    relay::{self, Relay},
    report::{Ledger, Observer, Outcome},
    rounds::{self, Again, Rounds},
    send::{Call, Deadline, Route},
    session::{self, Whose},
    stage::{Admitted, Alone, Stage, Turn, Visits},
    upstream::{Override, Upstream},
    vigil::Vigil,
    whole::{self, Read, Whole},
};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header, request::Parts, response};
use http_body::Body;
use http_body_util::BodyExt;
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::time::Instant;

/// Whole answers up to this are held until they are whole; larger ones pass through.
const WHOLE_BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug)]
pub struct Settings {
    pub upstreams: Vec<Upstream>,
    /// The first that applies goes over the upstream's limits.
    pub overrides: Vec<Override>,
    pub body_bytes_max: usize,
    /// All request bodies in memory together; more of them wait, and are then told to come back.
    pub bodies_bytes_max: usize,
    /// Everything that turns keep which wait to go on; more of them do not wait.
    pub held_bytes_max: usize,
    /// Calls that stages answer are shown as the protocols show those of a vendor's own tools.
    pub show_calls: bool,
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
            bodies_bytes_max: 256 * MIB,
            held_bytes_max: 256 * MIB,
            show_calls: false,
            event_bytes_max: 32 * MIB,
            retries: 2,
        }
    }
}

pub struct Gateway {
    pub(crate) routes: Vec<Arc<Route>>,
    pub(crate) settings: Settings,
    pub(crate) intake: Intake,
    held: Budget,
    pub(crate) stages: Vec<Box<dyn Stage>>,
    observer: Option<Arc<dyn Observer>>,
}

impl Gateway {
    pub fn new(mut settings: Settings, dial: Arc<dyn Dial>) -> Self {
        let upstreams = std::mem::take(&mut settings.upstreams);
        let routes = upstreams.into_iter().map(|upstream| Arc::new(Route::new(upstream, dial.clone()))).collect();
        let intake = Intake::new(settings.body_bytes_max, settings.bodies_bytes_max);
        let held = Budget::new(settings.held_bytes_max);
        Self { routes, settings, intake, held, stages: Vec::new(), observer: None }
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
        if pass::climbs(parts.uri.path()) {
            let fault = Fault::Refused("a path must not have `.` or `..` for a segment".into());
            return refuse(fault, self.open(family(&parts.headers), &parts, Instant::now()));
        }
        let generates = Protocol::ALL.into_iter().find(|protocol| protocol.path() == parts.uri.path());
        match (generates, &parts.method) {
            (Some(protocol), &Method::POST) => self.generate(protocol, parts, body).await,
            (None, &Method::GET) if parts.uri.path() == "/v1/models" => self.models(parts).await,
            _ => self.pass(parts, body).await,
        }
    }

    async fn generate<B: Body<Data = Bytes>>(&self, protocol: Protocol, parts: Parts, body: B) -> Answer {
        let began = Instant::now();
        let mut ledger = self.open(protocol, &parts, began);
        let begun = self.try_generate(parts, body, began, &mut ledger).await;
        let whose = Whose(ledger.report.turn.session.clone());
        let mut answer = match begun {
            Ok(mut begun) => {
                ledger.report.status = begun.head.status;
                headers::to_client(&mut begun.head.headers);
                match Coming::of(&begun.head.headers) {
                    _ if !ledger.report.turn.stream || !begun.head.status.is_success() => {
                        self.whole(begun, ledger).await
                    }
                    Coming::Events => self.stream(begun, ledger),
                    Coming::Whole => self.whole(begun, ledger).await,
                    Coming::Unread => unread(begun, ledger),
                }
            }
            Err(fault) => refuse(fault, ledger),
        };
        answer.extensions_mut().insert(whose);
        answer
    }

    /// The report of a call of which only the head is read.
    pub(crate) fn open(&self, protocol: Protocol, parts: &Parts, began: Instant) -> Ledger {
        let turn = Turn {
            id: format!("{:016x}", rand::random::<u64>()),
            protocol,
            model: String::new(),
            upstream: String::new(),
            stream: false,
            session: None,
            previous_response: None,
            conversation: None,
            agent: text(parts, "x-reveille-agent"),
            side: false,
            subagent: session::is_subagent(&parts.headers),
        };
        Ledger::new(turn, began, self.observer.clone())
    }

    async fn try_generate<B: Body<Data = Bytes>>(
        &self,
        parts: Parts,
        body: B,
        began: Instant,
        ledger: &mut Ledger,
    ) -> Result<Begun, Fault> {
        let sent = self.intake.read(&parts.headers, body).await?;
        let body = self.intake.plain(&parts.headers, &sent).await?;
        let turn = &mut ledger.report.turn;
        let protocol = turn.protocol;
        let outline = Outline::read(protocol, &body)?;
        turn.model.clone_from(&outline.model);
        turn.stream = outline.stream;
        turn.say_whose(&parts.headers, &outline.ids);
        turn.side = !outline.has_tools(&body);
        if let Some(Admitted(admission)) = parts.extensions.get::<Admitted>() {
            admission.admit(turn).await.map_err(Fault::Forbidden)?;
        }
        let route = self.route(protocol, &turn.model)?;
        turn.upstream.clone_from(&route.upstream.name);
        let limits = self.limits(route, turn);

        let mut visits = match parts.extensions.get::<Alone>() {
            Some(Alone) => Visits::default(),
            None => Visits::enter(&self.stages, turn),
        };
        let mut draft = Draft::new(protocol, outline, body);
        if !visits.is_empty() {
            draft.take_out_shown();
        }
        visits.before_request(&mut draft).await?;

        let mut headers = parts.headers;
        // What is compressed cannot be read on its way.
        headers.remove(header::ACCEPT_ENCODING);
        let body = match visits.is_empty() && !draft.is_changed() {
            true => sent,
            false => {
                headers.remove(header::CONTENT_ENCODING);
                draft.body()
            }
        };
        let path = parts.uri.path_and_query().map_or(protocol.path(), |path| path.as_str());
        let stream = ledger.report.turn.stream;
        let call =
            Call { protocol, method: parts.method, uri: uri(route, path)?, headers, body, connect: limits.connect };
        let mut again = (!visits.is_empty()).then(|| {
            let (call, retries) = (Call { body: Bytes::new(), ..call.clone() }, self.settings.retries);
            let show = self.settings.show_calls;
            Box::new(Again::new(draft, route.clone(), call, limits, retries, self.held.clone(), show))
        });
        let deadline = deadline(&limits, stream, began);
        let (retries, attempts) = (self.settings.retries, &mut ledger.report.attempts);
        let mut response = route.send(call, deadline, retries, attempts).await?;
        if let (true, Some(again)) = (refuses(response.status()), &mut again)
            && let Some(call) = again.without_told()
        {
            // It may be what was told that this upstream does not take where it stands; the call itself is worth more.
            visits.on_unanswered(&rounds::refusal(response, &route.upstream.name).await).await;
            response = route.send(call, deadline, retries, attempts).await?;
        }
        let (head, source) = response.into_parts();
        Ok(Begun { head, source, limits, visits, again, began })
    }

    fn stream(&self, begun: Begun, ledger: Ledger) -> Answer {
        let Begun { mut head, source, limits, visits, again, began } = begun;
        // An error may have to be added.
        head.headers.remove(header::CONTENT_LENGTH);
        let vigil = Vigil::stream(&limits, began);
        let event_bytes_max = self.settings.event_bytes_max;
        let body = match again {
            Some(again) => {
                Rounds::new(rounds::Parts { source, vigil, visits, again, event_bytes_max, ledger }).boxed_unsync()
            }
            None => Relay::new(relay::Parts {
                protocol: ledger.report.turn.protocol,
                source,
                vigil,
                idle_counts: limits.idle_counts,
                event_bytes_max,
                ledger,
            })
            .boxed_unsync(),
        };
        Response::from_parts(head, body)
    }

    async fn whole(&self, begun: Begun, mut ledger: Ledger) -> Answer {
        let Begun { mut head, mut source, limits, mut visits, again, began } = begun;
        let mut vigil = Vigil::whole(&limits, began);
        let max = if again.is_some() { rounds::whole::BYTES_MAX } else { WHOLE_BYTES_MAX };
        match whole::read(&mut source, &mut vigil, &mut ledger, max).await {
            Ok(Read::All(bytes)) => {
                // What is at hand has a length of its own.
                head.headers.remove(header::CONTENT_LENGTH);
                let bytes = match again {
                    Some(mut again) if head.status.is_success() => {
                        // Boxed: calls without stages should not carry its size.
                        match Box::pin(rounds::whole::turn(bytes, &mut visits, &mut again, &mut ledger)).await {
                            Ok(bytes) => bytes,
                            Err(fault) => return refuse(fault, ledger),
                        }
                    }
                    _ => {
                        // An error is not the answer the stages waited for.
                        visits = Visits::default();
                        if head.status.is_success() {
                            let mut seen = Seen::default();
                            ledger.report.turn.protocol.read_whole(&bytes, &mut seen);
                            ledger.report.usage = seen.usage;
                        }
                        bytes
                    }
                };
                Response::from_parts(head, Whole::new(bytes, visits, ledger).boxed_unsync())
            }
            Ok(Read::Part(begun)) => {
                visits.on_dispatch();
                Response::from_parts(head, Opaque::new(begun, source, vigil, ledger).boxed_unsync())
            }
            Err(fault) => refuse(fault, ledger),
        }
    }

    fn route(&self, protocol: Protocol, model: &str) -> Result<&Arc<Route>, Fault> {
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

    pub(crate) fn limits(&self, route: &Route, turn: &Turn) -> Limits {
        let mut limits = route.upstream.limits;
        let over = self.settings.overrides.iter().find(|over| over.applies(&turn.model, turn.agent.as_deref()));
        if let Some(over) = over {
            over.apply(&mut limits);
        }
        limits
    }
}

/// An answer that has begun.
struct Begun {
    head: response::Parts,
    source: Flow,
    limits: Limits,
    visits: Visits,
    /// There if stages take part.
    again: Option<Box<Again>>,
    began: Instant,
}

/// The request itself is not taken.
fn refuses(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY)
}

/// Until when the head of the answer must be there.
pub(crate) fn deadline(limits: &Limits, stream: bool, began: Instant) -> Deadline {
    let ends = |limit, after: Option<Duration>| Some((began.checked_add(after?)?, limit, after?));
    match stream {
        true => [ends(Limit::FirstByte, limits.first_byte), ends(Limit::Total, limits.total_stream)]
            .into_iter()
            .flatten()
            .min_by_key(|(end, ..)| *end),
        false => ends(Limit::Total, limits.total),
    }
}

pub(crate) fn uri(route: &Route, path: &str) -> Result<http::Uri, Fault> {
    route.upstream.uri(path).map_err(|error| Fault::Refused(error.to_string()))
}

fn text(parts: &Parts, name: &str) -> Option<String> {
    parts.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// A stream that nobody can look into passes as it comes.
fn unread(begun: Begun, ledger: Ledger) -> Answer {
    let Begun { head, source, limits, mut visits, began, .. } = begun;
    visits.on_dispatch();
    let vigil = Vigil::stream(&limits, began);
    Response::from_parts(head, Opaque::new(VecDeque::new(), source, vigil, ledger).boxed_unsync())
}

pub(crate) fn refuse(fault: Fault, mut ledger: Ledger) -> Answer {
    ledger.report.status = fault.status();
    let answer = error(ledger.report.turn.protocol, &fault);
    ledger.end(Outcome::Failed(fault));
    answer
}
