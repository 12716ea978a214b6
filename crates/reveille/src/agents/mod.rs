//! Agents as they are configured, and what is done for their sessions: tools are called, webhooks told, turns run. When
//! any of it is to be done is decided in the core.

pub mod check;
pub mod config;
pub mod executor;
pub mod hidden;
mod lines;
pub mod model;
mod places;
pub mod query;
pub mod registry;
mod room;
mod schema;
mod secret;
mod signature;
mod stage;
pub mod turn;
pub mod view;
pub mod watch;

pub use check::{Agent, Invalid, Origin};
pub use config::AgentConfig;
pub use executor::Executor;
pub use registry::{AgentError, Registry};
pub use stage::{SessionStage, session_named};

use crate::{config::Config, engine::Engine, outgoing::Outgoing};
use reveille_core::{AgentId, Limits};
use std::{num::NonZeroUsize, sync::Arc};

/// Whether the operator's agents make sense; where not, and why.
pub fn check(config: &Config) -> Result<(), Invalid> {
    let found = watch::read(config).map_err(|error| Invalid::new("agents.dir", format!("{error:#}")))?;
    let (limits, timers_max) = (config.limits(), config.limits.session_timers_per_session);
    let rules = check::Rules { origin: Origin::File, secrets: secret::Allowed::All, timers_max, limits: &limits };
    registry::check_all(&found, rules)
}

/// Whether an agent that came by the API makes sense, as it is kept; what may be a mistake in it, or why it makes none.
pub fn check_stored(config: &Config, name: &str, body: &str) -> Result<Vec<String>, String> {
    let (limits, timers_max) = (config.limits(), config.limits.session_timers_per_session);
    let secrets = secret::Allowed::Named(&config.agents.api_secrets);
    let rules = check::Rules { origin: Origin::Api, secrets, timers_max, limits: &limits };
    let id = AgentId::parse(name).map_err(|reject| reject.to_string())?;
    let stored = serde_json::from_str(body).map_err(|error| error.to_string())?;
    Agent::new(id, stored, rules).map(|agent| agent.warnings).map_err(|invalid| invalid.to_string())
}

/// One agent of an operator's, by itself.
pub fn of_operator(id: AgentId, config: AgentConfig, timers_max: usize, limits: &Limits) -> Result<Agent, Invalid> {
    let rules = check::Rules { origin: Origin::File, secrets: secret::Allowed::All, timers_max, limits };
    Agent::new(id, config, rules)
}

/// The agents of this configuration, and what makes their calls.
pub fn open(config: &Config, engine: &Arc<Engine>) -> anyhow::Result<(Arc<Registry>, Arc<Executor>)> {
    let settings = registry::Settings {
        limits: engine.limits().clone(),
        timers_max: config.limits.session_timers_per_session,
        api_secrets: config.agents.api_secrets.clone(),
        cache: NonZeroUsize::new(config.agents.cache).unwrap_or(NonZeroUsize::MIN),
    };
    let registry = Arc::new(Registry::new(engine.store().clone(), settings));
    registry.load(&watch::read(config)?)?;
    let executor = Executor::new(engine.clone(), registry.clone(), Arc::new(Outgoing::default()), config.executor());
    Ok((registry, Arc::new(executor)))
}
