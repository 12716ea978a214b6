//! The agents there are: those of the operator's files, kept in memory, and those that came by the API, kept in the
//! store. What is made of the latter is a cache; an agent that falls out of it is made again, and no timer notices.

use super::{
    check::{Agent, Invalid, Origin, Rules},
    config::AgentConfig,
    secret::Allowed,
};
use lru::LruCache;
use reveille_core::{AgentId, Limits, Reject, Timestamp};
use reveille_store::{Store, StoreError, StoredAgent};
use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

pub struct Registry {
    store: Arc<dyn Store>,
    settings: Settings,
    files: RwLock<Files>,
    cache: Mutex<LruCache<AgentId, (String, Arc<Agent>)>>,
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub limits: Limits,
    pub timers_max: usize,
    /// Environment variables that agents from the API may refer to, as patterns.
    pub api_secrets: Vec<String>,
    /// Agents from the API that are kept ready.
    pub cache: NonZeroUsize,
}

#[derive(Default)]
struct Files {
    agents: BTreeMap<AgentId, Arc<Agent>>,
    problem: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error(transparent)]
    Reject(#[from] Reject),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Invalid(#[from] Invalid),
    #[error("agent '{0}' is defined in the operator's files; change it there")]
    OfFile(AgentId),
}

/// What files define, each agent with the place it was found at.
pub fn of_files(
    configs: Vec<(String, AgentConfig)>,
    rules: Rules<'_>,
) -> Result<BTreeMap<AgentId, Arc<Agent>>, Invalid> {
    let mut agents = BTreeMap::new();
    for (place, config) in configs {
        let named = |field: &str, part: &Option<String>| {
            part.clone().ok_or_else(|| Invalid::new(format!("{place}.{field}"), "is missing"))
        };
        let (tenant, chatbot) = (named("tenant", &config.tenant)?, named("chatbot", &config.chatbot)?);
        let wrong = |why: String| Invalid::new(format!("{place}.tenant"), why);
        let id = AgentId::of(&tenant, &chatbot).map_err(|reject| wrong(reject.to_string()))?;
        let agent = Agent::new(id.clone(), config, rules);
        let agent = agent.map_err(|invalid| Invalid::new(format!("{place}.{}", invalid.field), invalid.why))?;
        if agents.insert(id.clone(), Arc::new(agent)).is_some() {
            return Err(wrong(format!("'{id}' is defined twice")));
        }
    }
    Ok(agents)
}

impl Registry {
    pub fn new(store: Arc<dyn Store>, settings: Settings) -> Self {
        let cache = Mutex::new(LruCache::new(settings.cache));
        Self { store, settings, files: RwLock::default(), cache }
    }

    /// What the files define now: all of it, or, if any of it makes no sense, what they defined before.
    pub fn load(&self, configs: Vec<(String, AgentConfig)>) -> Result<usize, Invalid> {
        let agents = of_files(configs, self.rules(Origin::File))?;
        let count = agents.len();
        *self.files.write().unwrap_or_else(PoisonError::into_inner) = Files { agents, problem: None };
        Ok(count)
    }

    /// The files could not be read, and what they defined before goes on.
    pub fn keeps_last(&self, problem: String) {
        self.files.write().unwrap_or_else(PoisonError::into_inner).problem = Some(problem);
    }

    /// Why the files as they are now are not in force.
    pub fn problem(&self) -> Option<String> {
        self.files.read().unwrap_or_else(PoisonError::into_inner).problem.clone()
    }

    pub async fn get(&self, id: &AgentId) -> Result<Option<Arc<Agent>>, AgentError> {
        if let Some(agent) = self.of_file(id) {
            return Ok(Some(agent));
        }
        let Some(stored) = self.store.agent(id).await? else { return Ok(None) };
        if let Some((body, agent)) = self.cache.lock().unwrap_or_else(PoisonError::into_inner).get(id)
            && *body == stored.body
        {
            return Ok(Some(agent.clone()));
        }
        let config = serde_json::from_str(&stored.body).map_err(|error| Invalid::new("agent", error.to_string()))?;
        let agent = Arc::new(Agent::new(id.clone(), config, self.rules(Origin::Api))?);
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).put(id.clone(), (stored.body, agent.clone()));
        Ok(Some(agent))
    }

    /// Whether it is new.
    pub async fn put(&self, id: &AgentId, config: AgentConfig, now: Timestamp) -> Result<bool, AgentError> {
        if self.of_file(id).is_some() {
            return Err(AgentError::OfFile(id.clone()));
        }
        let body = serde_json::to_string(&config).map_err(|error| Invalid::new("agent", error.to_string()))?;
        Agent::new(id.clone(), config, self.rules(Origin::Api))?;
        Ok(!self.store.set_agent(id, Some(StoredAgent { body, changed_at: now })).await?)
    }

    /// Whether it was there. Its sessions go on.
    pub async fn remove(&self, id: &AgentId) -> Result<bool, AgentError> {
        if self.of_file(id).is_some() {
            return Err(AgentError::OfFile(id.clone()));
        }
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).pop(id);
        Ok(self.store.set_agent(id, None).await?)
    }

    /// All, by name, and where each comes from.
    pub async fn list(&self) -> Result<Vec<(AgentId, Origin)>, StoreError> {
        let of_files: Vec<AgentId> =
            self.files.read().unwrap_or_else(PoisonError::into_inner).agents.keys().cloned().collect();
        let stored = self.store.agents().await?.into_iter().map(|(id, _)| id).filter(|id| !of_files.contains(id));
        let mut all: Vec<(AgentId, Origin)> = stored.map(|id| (id, Origin::Api)).collect();
        all.extend(of_files.into_iter().map(|id| (id, Origin::File)));
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(all)
    }

    fn of_file(&self, id: &AgentId) -> Option<Arc<Agent>> {
        self.files.read().unwrap_or_else(PoisonError::into_inner).agents.get(id).cloned()
    }

    fn rules(&self, origin: Origin) -> Rules<'_> {
        let secrets = match origin {
            Origin::File => Allowed::All,
            Origin::Api => Allowed::Named(&self.settings.api_secrets),
        };
        Rules { origin, secrets, timers_max: self.settings.timers_max, limits: &self.settings.limits }
    }
}
