//! The inbox for channels that deliver by themselves: lease, tell, then commit (or release).

use super::{
    App,
    body::{ClientKind, JsonBody, Segments, session},
    problem::ApiError,
    tools::is_place,
};
use crate::tools::MessageView;
use axum::{Json, extract::State};
use reveille_core::{Call, Command, LeaseId, Millis, Needs, Reject, Reply, SessionId, command::Ride, duration};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

const LEASED_MESSAGES_MAX: usize = 100;
const CHANNEL_BYTES_MAX: usize = 64;
/// Longest lease; a crashed channel must not hold messages for hours.
const LEASE_MAX: Millis = Millis::from_secs(3600);

#[derive(Serialize, ToSchema)]
pub struct Inbox {
    pub messages: Vec<MessageView>,
}

/// Messages not yet delivered. Reading is not delivering.
#[utoipa::path(get, path = "/api/sessions/{session}/inbox", tag = "inbox", params(("session" = String, Path)), responses(
    (status = 200, body = Inbox),
))]
pub async fn read(State(app): State<App>, Segments(name): Segments<String>) -> Result<Json<Inbox>, ApiError> {
    let needs = Needs { inbox: true, ..Needs::default() };
    let state = app.engine.store().load(&session(&name)?, needs).await?;
    Ok(Json(Inbox { messages: state.inbox.iter().map(MessageView::of).collect() }))
}

#[derive(Deserialize, ToSchema, Default)]
#[serde(default)]
pub struct LeaseBody {
    /// At most this many messages (up to 100).
    limit: Option<usize>,
    /// For how long: seconds, or text such as "1m"; 30 seconds unless given, an hour at most.
    duration: Value,
    /// At most this many characters of text, as JSON counts them; one message is given whatever its length.
    chars: Option<usize>,
    /// Who will deliver them, such as `hook:stop`; `inbox` unless given.
    channel: Option<String>,
    /// Where the agent works, for the command that may wake it later.
    cwd: Option<String>,
    /// Ask whether the agent has to be told how its session is called; see `introduce` of the answer.
    introduce: bool,
    /// Take nothing if a client or hook of this session can wake its agent: it will tell what there is.
    yield_to_waking: bool,
}

#[derive(Serialize, ToSchema)]
pub struct Leased {
    /// Absent when there was nothing to lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "lease_nq072rt887")]
    pub lease: Option<String>,
    /// When the messages are free again, unless committed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
    pub messages: Vec<MessageView>,
    /// Nothing is known of a session of this name, and this is the first time it was asked.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub introduce: bool,
}

/// Take pending messages for delivery. Nobody else gets them until the lease is released or runs out.
#[utoipa::path(
    post,
    path = "/api/sessions/{session}/inbox/lease",
    tag = "inbox",
    params(("session" = String, Path)),
    request_body(content = Option<LeaseBody>),
    responses((status = 200, body = Leased))
)]
pub async fn lease(
    State(app): State<App>,
    Segments(name): Segments<String>,
    ClientKind(client): ClientKind,
    body: JsonBody,
) -> Result<Json<Leased>, ApiError> {
    let body: LeaseBody = body.read()?;
    let length = match &body.duration {
        Value::Null => app.engine.limits().lease,
        given => duration::parse("duration", given, LEASE_MAX)?,
    };
    if body.limit == Some(0) {
        return Err(Reject::InvalidArgument { field: "limit".into(), why: "must be at least 1".into() }.into());
    }
    let messages_max = body.limit.unwrap_or(LEASED_MESSAGES_MAX).min(LEASED_MESSAGES_MAX);
    let session = session(&name)?;
    // That one of them wakes an idle agent is known by its presence.
    if channel(body.channel)?.starts_with("hook:") {
        app.engine.presence().hook_seen(&session, None, client.clone(), app.engine.now());
    }
    if let Some(cwd) = body.cwd.filter(|cwd| is_place(cwd)) {
        app.engine.presence().cwd_is(&session, cwd);
    }
    let introduce = body.introduce && {
        let known = app.engine.store().load(&session, Needs::default()).await?.session.is_some();
        !known && app.engine.presence().introduce(&session)
    };
    if body.yield_to_waking && app.engine.presence().reach(&session, Millis::ZERO, app.engine.now()).wakes_by_itself() {
        return Ok(Json(Leased { lease: None, expires_at: None, messages: Vec::new(), introduce }));
    }
    let lease = app.engine.fresh_lease();
    let ride = Ride {
        lease: lease.clone(),
        length,
        messages_max,
        chars_max: body.chars.unwrap_or(usize::MAX),
        alone_among: None,
    };
    let leased = app.engine.lease(&session, ride, client).await;
    let leased = leased.map_err(|error| ApiError::of(error, app.engine.now()))?;
    let until = leased.first().and_then(|message| message.lease.as_ref()).map(|lease| lease.until.as_millis());
    Ok(Json(Leased {
        lease: until.map(|_| lease.to_string()),
        expires_at: until,
        messages: leased.iter().map(MessageView::delivered).collect(),
        introduce,
    }))
}

#[derive(Deserialize, ToSchema, Default)]
#[serde(default)]
pub struct SettleBody {
    #[schema(example = "lease_nq072rt887")]
    lease: String,
    /// By which way they were delivered, such as `hook:stop`; `inbox` unless given.
    channel: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub struct Settled {
    /// How many messages the lease held.
    pub messages: usize,
}

/// The leased messages were delivered; they are never shown again.
#[utoipa::path(
    post,
    path = "/api/sessions/{session}/inbox/commit",
    tag = "inbox",
    params(("session" = String, Path)),
    request_body(content = SettleBody),
    responses((status = 200, body = Settled))
)]
pub async fn commit(
    State(app): State<App>,
    Segments(name): Segments<String>,
    body: JsonBody,
) -> Result<Json<Settled>, ApiError> {
    let (lease, channel) = settled(body)?;
    settle(&app, &session(&name)?, Command::CommitLease { lease, channel }).await
}

/// The leased messages could not be delivered; they are pending again.
#[utoipa::path(
    post,
    path = "/api/sessions/{session}/inbox/release",
    tag = "inbox",
    params(("session" = String, Path)),
    request_body(content = SettleBody),
    responses((status = 200, body = Settled))
)]
pub async fn release(
    State(app): State<App>,
    Segments(name): Segments<String>,
    body: JsonBody,
) -> Result<Json<Settled>, ApiError> {
    let (lease, _) = settled(body)?;
    settle(&app, &session(&name)?, Command::ReleaseLease { lease }).await
}

fn settled(body: JsonBody) -> Result<(LeaseId, String), ApiError> {
    let SettleBody { lease, channel: given } = body.read()?;
    if lease.is_empty() {
        let hint = "the `lease` that …/inbox/lease answered with";
        return Err(Reject::MissingArgument { field: "lease", hint }.into());
    }
    Ok((LeaseId::new(lease), channel(given)?))
}

/// The name of a way out, as the history keeps it.
fn channel(given: Option<String>) -> Result<String, ApiError> {
    let Some(name) = given else { return Ok("inbox".into()) };
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '-' | '_' | '.');
    if name.is_empty() || name.len() > CHANNEL_BYTES_MAX || !name.chars().all(fits) {
        let why = format!("must be 1 to {CHANNEL_BYTES_MAX} letters, digits or `:-_.`");
        return Err(Reject::InvalidArgument { field: "channel".into(), why }.into());
    }
    Ok(name)
}

async fn settle(app: &App, session: &SessionId, command: Command) -> Result<Json<Settled>, ApiError> {
    let done = app.engine.execute(session, Call::new(command)).await;
    match done.map_err(|error| ApiError::of(error, app.engine.now()))?.reply {
        Reply::Settled(messages) => Ok(Json(Settled { messages })),
        _ => unreachable!("settling a lease answers how much it held"),
    }
}
