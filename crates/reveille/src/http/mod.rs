//! The HTTP door. Handlers translate: a request becomes a command or a query, a result becomes JSON. Nothing is decided
//! here.

pub mod access;
mod activity;
mod agents;
pub(crate) mod body;
mod calls;
mod clock;
mod cors;
mod deliveries;
mod events;
mod gateway;
pub mod guard;
mod health;
mod history;
mod hours;
mod inbox;
mod items;
pub mod pace;
mod patience;
mod permit;
pub mod presence;
pub(crate) mod problem;
mod prompt;
mod query;
mod quiet;
pub(crate) mod receipt;
mod refusals;
mod reminders;
pub mod serve;
mod sessions;
pub(crate) mod sight;
mod sign_in;
mod socket;
mod stats;
mod stop;
mod tasks;
mod timers;
pub(crate) mod tools;
mod ui;

use crate::{
    agents::{Executor, Registry, query::Turns},
    engine::Engine,
    mcp::{self, StandbyLimits},
};
use access::Access;
use axum::{Router, routing::get};
use reveille_core::Timestamp;
use reveille_gateway::Gateway;
use std::{path::PathBuf, sync::Arc};
use tokio_util::sync::CancellationToken;
use utoipa::{
    OpenApi,
    openapi::{RefOr, Schema},
};
use utoipa_axum::{router::OpenApiRouter, routes};

/// What every handler is given.
#[derive(Clone)]
pub struct App {
    pub engine: Arc<Engine>,
    /// Cancelled when the server stops: stand-bys are answered, event streams end.
    pub stop: CancellationToken,
    pub started_at: Timestamp,
    /// How long calls over MCP may stand by.
    pub standby_limits: StandbyLimits,
    pub gateway: Arc<Gateway>,
    pub agents: Arc<Registry>,
    pub executor: Arc<Executor>,
    pub turns: Arc<Turns>,
    pub access: Arc<Access>,
    /// The dashboard's files on disk, instead of those in the binary.
    pub ui_dir: Option<PathBuf>,
}

#[derive(OpenApi)]
#[openapi(info(
    title = "Reveille",
    description = "The clock for AI agents. Durations are seconds (or text such as \"5m\"), instants are milliseconds \
                   since 1970. Errors are RFC 9457 problems with a stable `code`."
))]
struct Document;

/// All routes and the document that describes them, from one list.
fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(tools::call))
        .routes(routes!(tools::list))
        .routes(routes!(timers::list, timers::create))
        .routes(routes!(timers::read))
        .routes(routes!(timers::act))
        .routes(routes!(stop::stop))
        .routes(routes!(reminders::list, reminders::create))
        .routes(routes!(reminders::cancel))
        .routes(routes!(tasks::read, tasks::cancel))
        .routes(routes!(sessions::list))
        .routes(routes!(sessions::read, sessions::close))
        .routes(routes!(quiet::read, quiet::put, quiet::remove))
        .routes(routes!(activity::report))
        .routes(routes!(agents::list))
        .routes(routes!(agents::read, agents::put, agents::remove))
        .routes(routes!(query::query))
        .routes(routes!(socket::follow))
        .routes(routes!(calls::list))
        .routes(routes!(calls::replay))
        .routes(routes!(calls::replay_all))
        .routes(routes!(calls::timers))
        .routes(routes!(inbox::read))
        .routes(routes!(inbox::lease))
        .routes(routes!(inbox::commit))
        .routes(routes!(inbox::release))
        .routes(routes!(presence::hold))
        .routes(routes!(events::follow))
        .routes(routes!(history::read))
        .routes(routes!(stats::read))
        .routes(routes!(hours::read))
        .routes(routes!(deliveries::list))
        .routes(routes!(deliveries::wake))
        .routes(routes!(clock::read))
        .routes(routes!(clock::advance))
        .routes(routes!(sign_in::read, sign_in::enter, sign_in::leave))
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(health::metrics))
}

/// With the statuses of refusals. What is said of an agent has fields besides those that may
/// be set, so its schema cannot exclude others.
fn completed(mut document: utoipa::openapi::OpenApi) -> utoipa::openapi::OpenApi {
    let schemas = document.components.as_mut().map(|components| &mut components.schemas);
    if let Some(RefOr::T(Schema::Object(agent))) = schemas.and_then(|schemas| schemas.get_mut("AgentConfig")) {
        agent.additional_properties = None;
    }
    refusals::document(&mut document);
    document
}

/// The OpenAPI document, as checked in at `api/openapi.json`.
pub fn openapi() -> String {
    let mut text = completed(routes().into_openapi()).to_pretty_json().expect("the document is representable as JSON");
    text.push('\n');
    text
}

pub fn router(app: App) -> Router {
    let (router, _) = routes().split_for_parts();
    let mcp = mcp::http::route(mcp::http::handler(&app));
    router
        .route("/mcp", mcp)
        .route("/openapi.json", get(health::openapi))
        .route("/", get(ui::index))
        .route("/favicon.ico", get(ui::icon))
        .route("/ui/{*path}", get(ui::file))
        // The vendors' own APIs, described by the vendors.
        .route("/v1/{*path}", axum::routing::any(gateway::relay))
        .fallback(problem::not_found)
        .method_not_allowed_fallback(problem::method_not_allowed)
        .with_state(app)
}
