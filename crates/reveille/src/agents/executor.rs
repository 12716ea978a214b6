//! Makes calls: those that timers fired and webhooks that are to be told, as they are begun by the engine, and those a
//! model asks for, as it asks. One place for both, so that all of them keep the same bounds.

use super::{
    check::{Agent, Origin, Tool, fill},
    lines::{Lines, Place},
    registry::Registry,
    room::Room,
    signature::Signer,
};
use crate::{
    engine::{Begun, Engine},
    outgoing::{Answered, Carrier, Fault},
    reach::Reach,
};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::Full;
use reveille_core::{
    Call, Command, Millis, SessionId, Timestamp, ToolCall,
    call::{End, Report, What},
};
use serde_json::{Map, Value, json};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use url::Url;

/// Webhooks have this long to answer.
const WEBHOOK_TIMEOUT: Millis = Millis::from_secs(20);
/// An attempt is begun only if it ends so long before it would be taken for lost.
const MARGIN: Millis = Millis::from_secs(10);
/// Calls begun that wait for a place or run, at a few kilobytes each. Waiting here costs less than being given back, and who
/// waits is called as soon as there is a place. What finds no room is given back at once, to be begun later.
const BEGUN_MAX: usize = 10_000;
/// What is under way when the server stops has this long; then it is cut off, and made again at the next start.
const LAST_CALLS: Duration = Duration::from_secs(2);
/// Until a report that could not be written is tried again.
const RETRY: Millis = Millis::from_secs(1);
/// Longest result that enters the context, in characters.
const RESULT_CHARS_MAX: usize = 20_000;

pub struct Executor {
    engine: Arc<Engine>,
    agents: Arc<Registry>,
    outgoing: Arc<dyn Carrier>,
    settings: Settings,
    places: Arc<Semaphore>,
    hosts: Mutex<HashMap<String, Arc<Semaphore>>>,
    lines: Lines<Line>,
}

/// What is called one after the other, in the order in which it was begun: a session's actions of its agent, and what one
/// of its webhooks is told.
type Line = (SessionId, Option<Arc<str>>);

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Calls at once.
    pub concurrency: usize,
    /// Of these, to one host: one that hangs must not take all places.
    pub concurrency_per_host: usize,
    /// Whether agents from the API may reach this machine and its networks.
    pub allow_private: bool,
}

/// One tool to be called.
pub struct Asked<'a> {
    pub session: &'a SessionId,
    pub tool: &'a str,
    pub arguments: &'a Map<String, Value>,
    /// The same for every attempt.
    pub key: &'a str,
    /// The session timer that fired it.
    pub timer: Option<&'a str>,
}

impl Executor {
    pub fn new(engine: Arc<Engine>, agents: Arc<Registry>, outgoing: Arc<dyn Carrier>, settings: Settings) -> Self {
        Self {
            engine,
            agents,
            outgoing,
            places: Arc::new(Semaphore::new(settings.concurrency)),
            hosts: Mutex::default(),
            lines: Lines::default(),
            settings,
        }
    }

    /// Makes what the engine begins, until `stop` is cancelled.
    pub async fn run(self: Arc<Self>, mut begun: mpsc::UnboundedReceiver<Begun>, stop: CancellationToken) {
        let (room, mut running) = (Room::new(BEGUN_MAX), JoinSet::new());
        while let Some(Some(begun)) = stop.run_until_cancelled(begun.recv()).await {
            while running.try_join_next().is_some() {}
            let (executor, stop) = (self.clone(), stop.clone());
            // Whom it calls says whether there is room. Agents are in memory, and places in line are taken in order.
            let agent = self.agent(&begun.call).await;
            let host = agent.as_ref().map(|agent| host_of(agent, &begun.call.what)).unwrap_or_default();
            match room.enter(&host, self.engine.now()) {
                Ok(inside) => {
                    let place = self.place(&begun);
                    running.spawn(async move {
                        executor.make(begun, agent, place, stop).await;
                        drop(inside);
                    })
                }
                Err(after) => running.spawn(async move { executor.report(begun, postponed(Some(after))).await }),
            };
        }
        while running.join_next().await.is_some() {}
    }

    /// Whose call it is; or what becomes of one that is nobody's.
    async fn agent(&self, call: &ToolCall) -> Result<Arc<Agent>, Report> {
        match self.agents.get(&call.agent).await {
            Ok(Some(agent)) => Ok(agent),
            Ok(None) => Err(refused("the agent does not exist any more")),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    /// Its place in line, if it has to stand in one.
    fn place(&self, Begun { session, call }: &Begun) -> Option<Place> {
        match &call.what {
            What::Tool { silent: true, .. } => None,
            What::Tool { .. } => Some(self.actions(session)),
            What::Webhook { url, .. } => Some(self.lines.join((session.clone(), Some(url.clone())))),
        }
    }

    /// The right to call agents' actions of this session.
    pub fn actions(&self, session: &SessionId) -> Place {
        self.lines.join((session.clone(), None))
    }

    async fn make(
        &self,
        begun: Begun,
        agent: Result<Arc<Agent>, Report>,
        place: Option<Place>,
        stop: CancellationToken,
    ) {
        let stopped = async {
            stop.cancelled().await;
            tokio::time::sleep(LAST_CALLS).await;
        };
        let under_way = self.engine.outside.waits(begun.call.id.as_str());
        let report = tokio::select! {
            biased;
            report = async {
                match agent {
                    Ok(agent) => self.attempt(&begun, &agent, place).await,
                    Err(report) => report,
                }
            } => report,
            // Whether it was made, nobody will know: it is made again under its key.
            () = stopped => postponed(Some(Millis::ZERO)),
        };
        drop(under_way);
        self.report(begun, report).await;
    }

    /// Tells the engine how it ended. A report that cannot be written is written later; if that is too late, the attempt
    /// counts as lost and is made again under the same key.
    async fn report(&self, Begun { session, call }: Begun, report: Report) {
        let lost_at = call.due().unwrap_or(self.engine.now());
        self.engine.metrics.called(&call.agent, &call.what, &report);
        let command = Command::CallEnded { id: call.id.clone(), attempt: call.attempts, report };
        while let Err(error) = self.engine.execute(&session, Call::new(command.clone())).await {
            tracing::warn!(%error, call = %call.id, "how a call ended cannot be written; trying again");
            if self.engine.now() >= lost_at {
                return;
            }
            self.engine.clock().sleep(RETRY).await;
        }
    }

    async fn attempt(&self, Begun { session, call }: &Begun, agent: &Agent, place: Option<Place>) -> Report {
        let until = call.due().unwrap_or(self.engine.now());
        let timeout = match &call.what {
            What::Tool { tool, .. } => timeout_of(agent, tool),
            What::Webhook { .. } => WEBHOOK_TIMEOUT,
        };
        let _turn = match place {
            Some(place) => match self.in_time(until, timeout, place).await {
                Some(turn) => Some(turn),
                None => return postponed(None),
            },
            None => None,
        };
        match &call.what {
            What::Tool { tool, arguments, timer_id, .. } => {
                let asked = Asked { session, tool, arguments, key: call.id.as_str(), timer: Some(timer_id) };
                self.tool(agent, &asked, until).await
            }
            What::Webhook { .. } => self.webhook(agent, session, call, until).await,
        }
    }

    /// Waits for something that an attempt needs before it is sent, as long as it can still end before it would be taken
    /// for lost: one that was never sent is given back, and costs nothing.
    async fn in_time<T>(&self, until: Timestamp, timeout: Millis, wait: impl Future<Output = T>) -> Option<T> {
        let (now, latest) = (self.engine.now(), until.minus(timeout).minus(MARGIN));
        if now > latest {
            return None;
        }
        tokio::select! {
            biased;
            found = wait => Some(found),
            () = self.engine.clock().sleep(latest.since(now)) => None,
        }
    }

    /// One attempt to call a tool. `until`: when it would be taken for lost.
    pub async fn tool(&self, agent: &Agent, asked: &Asked<'_>, until: Timestamp) -> Report {
        let Some(tool) = agent.tools.get(asked.tool) else {
            let names: Vec<&str> = agent.tools.keys().map(String::as_str).collect();
            return refused(format!("there is no tool '{}'; the tools are: {}", asked.tool, names.join(", ")));
        };
        if let Some(Err(why)) = tool.schema.as_ref().map(|schema| schema.check(&json!(asked.arguments))) {
            return refused(format!("the arguments do not fit: {why}"));
        }
        let Some(endpoint) = &tool.endpoint else { return done("closed") };
        let request = match tool_request(agent, tool, asked) {
            Ok(request) => request,
            Err(why) => return refused(why),
        };
        self.bounded(agent, asked.key, request, (endpoint.timeout, until), judged).await
    }

    async fn webhook(&self, agent: &Agent, session: &SessionId, call: &ToolCall, until: Timestamp) -> Report {
        let What::Webhook { event, data, .. } = &call.what else { return refused("it is no webhook") };
        let Some((url, signer)) = webhook_of(agent, &call.what) else {
            return refused("the agent has no such webhook any more");
        };
        // The same with every attempt: when it happened, not when it is told.
        let body = json!({
            "type": event, "timestamp": call.created_at.to_iso(), "agent": agent.id, "session": session,
            "seq": call.seq, "data": data,
        })
        .to_string();
        let (id, seconds) = (call.id.as_str(), self.engine.now().as_millis() / 1000);
        let (tenant, chatbot) = agent.id.parts();
        // As it is checked: with names and characters that only a URL may have.
        let url = match Url::parse(&fill(url, session.as_str(), tenant, chatbot)) {
            Ok(url) => url,
            Err(error) => return refused(error.to_string()),
        };
        let request = Request::builder()
            .method(Method::POST)
            .uri(url.as_str())
            .header(header::CONTENT_TYPE, "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", seconds)
            .header("webhook-signature", signer.sign(id, seconds, body.as_bytes()))
            .body(Full::new(Bytes::from(body)));
        match request {
            Ok(request) => self.bounded(agent, id, request, (WEBHOOK_TIMEOUT, until), heard).await,
            Err(error) => refused(error.to_string()),
        }
    }

    /// Waits for a place, then sends and waits for the answer.
    async fn bounded(
        &self,
        agent: &Agent,
        key: &str,
        request: Request<Full<Bytes>>,
        (timeout, until): (Millis, Timestamp),
        judge: impl FnOnce(Result<Answered, Fault>) -> Report,
    ) -> Report {
        let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        let Some(_places) = self.in_time(until, timeout, self.places(host)).await else {
            return postponed(None);
        };
        let now = self.engine.now();
        let reach = match agent.origin == Origin::File || self.settings.allow_private {
            true => Reach::Private,
            false => Reach::Public,
        };
        let _under_way = self.engine.outside.sent(key, now.plus(timeout), timeout);
        let sent = tokio::select! {
            biased;
            sent = self.outgoing.carry(request, reach) => sent,
            () = self.engine.clock().sleep(timeout) => {
                return Report { took: timeout, ..failed(format!("no answer within {timeout} seconds")) };
            }
        };
        Report { took: self.engine.now().since(now), ..judge(sent) }
    }

    async fn places(&self, host: String) -> (Option<OwnedSemaphorePermit>, Option<OwnedSemaphorePermit>) {
        let of_host = {
            let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
            // Hosts with nobody waiting or calling are forgotten now and then.
            if hosts.len() > 1000 {
                hosts.retain(|_, places| Arc::strong_count(places) > 1);
            }
            hosts.entry(host).or_insert_with(|| Arc::new(Semaphore::new(self.settings.concurrency_per_host))).clone()
        };
        // The host's first: whoever waits for a slow host keeps no place from the others.
        (of_host.acquire_owned().await.ok(), self.places.clone().acquire_owned().await.ok())
    }
}

/// Whom it calls; nobody, if it cannot be called.
fn host_of(agent: &Agent, what: &What) -> String {
    let endpoint = |tool: &str| agent.tools.get(tool).and_then(|tool| tool.endpoint.as_ref());
    let url = match what {
        What::Tool { tool, .. } => endpoint(tool).map(|endpoint| endpoint.url.as_str()),
        What::Webhook { .. } => webhook_of(agent, what).map(|(url, _)| &**url),
    };
    url.and_then(|url| Url::parse(url).ok()).map(|url| url.authority().to_owned()).unwrap_or_default()
}

/// The webhook as it is now. One that has moved is told where it is now what began before: its session keeps its timers as
/// they were configured, but nobody listens where it was. One that was removed is told nothing, nor is another in its place.
fn webhook_of<'a>(agent: &'a Agent, what: &What) -> Option<&'a (Arc<str>, Signer)> {
    let What::Webhook { url, place, others, .. } = what else { return None };
    let known = agent.webhooks.iter().find(|(known, _)| known == url);
    known.or_else(|| agent.webhooks.get((*place)?).filter(|(now, _)| !others.contains(now)))
}

fn tool_request(agent: &Agent, tool: &Tool, asked: &Asked<'_>) -> Result<Request<Full<Bytes>>, String> {
    let endpoint = tool.endpoint.as_ref().ok_or("the tool has no endpoint")?;
    let (tenant, chatbot) = agent.id.parts();
    let url = fill(&endpoint.url, asked.session.as_str(), tenant, chatbot);
    let mut url = Url::parse(&url).map_err(|error| error.to_string())?;
    let in_query = matches!(endpoint.method, Method::GET | Method::DELETE);
    if in_query {
        let mut query = url.query_pairs_mut();
        for (name, value) in asked.arguments {
            match value {
                Value::String(text) => query.append_pair(name, text),
                other => query.append_pair(name, &other.to_string()),
            };
        }
    }
    let body = if in_query { String::new() } else { json!(asked.arguments).to_string() };
    let uri = if asked.arguments.is_empty() { url.as_str().trim_end_matches('?') } else { url.as_str() };
    let mut request = Request::builder().method(&endpoint.method).uri(uri);
    if !in_query {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    let coded = |text: &str| HeaderValue::from_bytes(text.as_bytes()).map_err(|error| error.to_string());
    request = request
        .header("idempotency-key", asked.key)
        .header("x-reveille-session", coded(asked.session.as_str())?)
        .header("x-reveille-agent", coded(agent.id.as_str())?)
        .header("x-reveille-tool", asked.tool);
    if let Some(timer) = asked.timer {
        request = request.header("x-reveille-timer", timer);
    }
    let mut request = request.body(Full::new(Bytes::from(body))).map_err(|error| error.to_string())?;
    for (name, value) in &endpoint.headers {
        request.headers_mut().insert(name.clone(), value.clone());
    }
    Ok(request)
}

/// What an answer means for the call.
fn judged(sent: Result<Answered, Fault>) -> Report {
    let answered = match sent {
        Ok(answered) => answered,
        Err(fault @ Fault::Forbidden(_)) => return refused(fault.to_string()),
        Err(fault) => return failed(fault.to_string()),
    };
    let status = answered.status;
    let said = || answered.text.chars().take(200).collect::<String>();
    let end = match status {
        status if status.is_success() => End::Done { result: result(&answered) },
        status if status.is_redirection() => {
            End::Refused { error: format!("answered {status}; redirects are not followed, configure the final URL") }
        }
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => {
            End::Failed { error: format!("answered {status}"), retry_after: answered.retry_after }
        }
        status if status.is_server_error() => {
            End::Failed { error: format!("answered {status}: {}", said()), retry_after: answered.retry_after }
        }
        status => End::Refused { error: format!("answered {status}: {}", said()) },
    };
    Report { status: Some(status.as_u16()), took: Millis::ZERO, end }
}

/// The same for a webhook. Whoever is to be told may be just being deployed, or have lost a key: short of saying that it is
/// gone, or elsewhere, no answer means that telling it later would not help.
fn heard(sent: Result<Answered, Fault>) -> Report {
    let retry_after = sent.as_ref().ok().and_then(|answered| answered.retry_after);
    let report = judged(sent);
    let redirected = |status: u16| (300..400).contains(&status);
    match report {
        Report { status: Some(status), took, end: End::Refused { error } }
            if !redirected(status) && status != StatusCode::GONE =>
        {
            Report { status: Some(status), took, end: End::Failed { error, retry_after } }
        }
        report => report,
    }
}

fn result(answered: &Answered) -> String {
    let mut text: String = answered.text.chars().take(RESULT_CHARS_MAX).collect();
    if answered.cut || text.len() < answered.text.len() {
        text.push_str("\n[cut: the answer was longer]");
    }
    text
}

/// How long the tool may take, once it is called.
fn timeout_of(agent: &Agent, tool: &str) -> Millis {
    let endpoint = agent.tools.get(tool).and_then(|tool| tool.endpoint.as_ref());
    endpoint.map_or(Millis::ZERO, |endpoint| endpoint.timeout)
}

/// It is not made now.
fn postponed(after: Option<Millis>) -> Report {
    Report { status: None, took: Millis::ZERO, end: End::Postponed { after } }
}

fn done(result: &str) -> Report {
    Report { status: None, took: Millis::ZERO, end: End::Done { result: result.to_owned() } }
}

fn failed(error: impl Into<String>) -> Report {
    Report { status: None, took: Millis::ZERO, end: End::Failed { error: error.into(), retry_after: None } }
}

fn refused(error: impl Into<String>) -> Report {
    Report { status: None, took: Millis::ZERO, end: End::Refused { error: error.into() } }
}
