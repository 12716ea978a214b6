//! The agents there are: those of the operator's files, kept in memory, and those that came by the API, kept in the
//! store. What is made of the latter is a cache; an agent that falls out of it is made again, and no timer notices.

use super::{
    check::{self, Agent, Invalid, Origin, Rules},
    config::AgentConfig,
    hidden,
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
    agents: BTreeMap<AgentId, OfFile>,
    problems: Vec<String>,
}

/// An agent, and the name of the file that it is from.
#[derive(Clone)]
struct OfFile {
    source: Arc<str>,
    agent: Arc<Agent>,
}

/// One file of the operator's, as it is now.
pub struct Source {
    pub name: Arc<str>,
    /// Each with its place in the file; or why it cannot be read.
    pub agents: Result<Vec<(String, AgentConfig)>, String>,
}

/// An agent of a list.
pub struct Listed {
    pub id: AgentId,
    pub origin: Origin,
    pub problem: Option<String>,
    pub warnings: Vec<String>,
}

/// An agent as it is configured, whether or not that makes sense.
pub struct Shown {
    pub origin: Origin,
    pub config: AgentConfig,
    pub problem: Option<String>,
    pub warnings: Vec<String>,
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

/// What one file defines. An agent that another file has is not its.
fn of_source(
    source: &Source,
    known: &BTreeMap<AgentId, OfFile>,
    rules: Rules<'_>,
) -> Result<BTreeMap<AgentId, OfFile>, Invalid> {
    let mut agents = BTreeMap::new();
    let configs = source.agents.as_ref().map_err(|why| Invalid::new(&*source.name, why))?;
    for (place, config) in configs {
        let named = |field: &str, part: &Option<String>| {
            part.clone().ok_or_else(|| Invalid::new(format!("{place}.{field}"), "is missing"))
        };
        let (tenant, chatbot) = (named("tenant", &config.tenant)?, named("chatbot", &config.chatbot)?);
        let wrong = |why: String| Invalid::new(format!("{place}.tenant"), why);
        let id = AgentId::of(&tenant, &chatbot).map_err(|reject| wrong(reject.to_string()))?;
        let agent = Agent::new(id.clone(), config.clone(), rules);
        let agent = agent.map_err(|invalid| Invalid::new(format!("{place}.{}", invalid.field), invalid.why))?;
        let made = OfFile { source: source.name.clone(), agent: Arc::new(agent) };
        if known.contains_key(&id) || agents.insert(id.clone(), made).is_some() {
            return Err(wrong(format!("'{id}' is defined twice")));
        }
    }
    Ok(agents)
}

/// Whether all of it makes sense.
pub fn check_all(sources: &[Source], rules: Rules<'_>) -> Result<(), Invalid> {
    all(sources, rules).map(drop)
}

fn all(sources: &[Source], rules: Rules<'_>) -> Result<BTreeMap<AgentId, OfFile>, Invalid> {
    let mut agents = BTreeMap::new();
    for source in sources {
        let made = of_source(source, &agents, rules)?;
        agents.extend(made);
    }
    Ok(agents)
}

impl Registry {
    pub fn new(store: Arc<dyn Store>, settings: Settings) -> Self {
        let cache = Mutex::new(LruCache::new(settings.cache));
        Self { store, settings, files: RwLock::default(), cache }
    }

    /// What the files define: all of it, or nothing, if any of it makes no sense. For a start.
    pub fn load(&self, sources: &[Source]) -> Result<(), Invalid> {
        let agents = all(sources, self.rules(Origin::File))?;
        *self.files.write().unwrap_or_else(PoisonError::into_inner) = Files { agents, problems: Vec::new() };
        Ok(())
    }

    /// What the files define now. Of a file that makes no sense, what it defined before; how many are in force, and what is
    /// wrong with the others.
    pub fn renew(&self, sources: &[Source]) -> (usize, Vec<String>) {
        let (mut agents, mut problems, mut stay) = (BTreeMap::new(), Vec::new(), Vec::new());
        for source in sources {
            match of_source(source, &agents, self.rules(Origin::File)) {
                Ok(made) => agents.extend(made),
                Err(invalid) => {
                    problems.push(invalid.to_string());
                    stay.push(&source.name);
                }
            }
        }
        let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
        for (id, kept) in files.agents.iter().filter(|(_, kept)| stay.contains(&&kept.source)) {
            agents.entry(id.clone()).or_insert_with(|| kept.clone());
        }
        let count = agents.len();
        *files = Files { agents, problems: problems.clone() };
        (count, problems)
    }

    /// Whether agents that are in force now are not among these.
    pub fn would_lose(&self, sources: &[Source]) -> bool {
        let here = |id: &AgentId, kept: &OfFile| {
            let (tenant, chatbot) = id.parts();
            let is = |part: &Option<String>, name: &str| part.as_deref() == Some(name);
            sources.iter().any(|source| match &source.agents {
                Ok(agents) => agents.iter().any(|(_, one)| is(&one.tenant, tenant) && is(&one.chatbot, chatbot)),
                Err(_) => source.name == kept.source,
            })
        };
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        files.agents.iter().any(|(id, kept)| !here(id, kept))
    }

    /// The files could not even be listed, and what they defined before goes on.
    pub fn keeps_last(&self, problem: String) {
        self.files.write().unwrap_or_else(PoisonError::into_inner).problems = vec![problem];
    }

    /// Which files, as they are now, are not in force, and why.
    pub fn problems(&self) -> Vec<String> {
        self.files.read().unwrap_or_else(PoisonError::into_inner).problems.clone()
    }

    pub async fn get(&self, id: &AgentId) -> Result<Option<Arc<Agent>>, AgentError> {
        if let Some(agent) = self.of_file(id) {
            return Ok(Some(agent));
        }
        match self.store.agent(id).await? {
            Some(stored) => Ok(Some(self.made(id, &stored)?)),
            None => Ok(None),
        }
    }

    /// What is made of one that came by the API, made again only if it was changed.
    fn made(&self, id: &AgentId, stored: &StoredAgent) -> Result<Arc<Agent>, Invalid> {
        if let Some((body, agent)) = self.cache.lock().unwrap_or_else(PoisonError::into_inner).get(id)
            && *body == stored.body
        {
            return Ok(agent.clone());
        }
        let agent = Arc::new(Agent::new(id.clone(), read(stored)?, self.rules(Origin::Api))?);
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).put(id.clone(), (stored.body.clone(), agent.clone()));
        Ok(agent)
    }

    /// Its configuration, also when it makes no sense any more: an environment variable may be gone.
    pub async fn show(&self, id: &AgentId) -> Result<Option<Shown>, AgentError> {
        if let Some(agent) = self.of_file(id) {
            let (config, warnings) = (agent.config.clone(), agent.warnings.clone());
            return Ok(Some(Shown { origin: Origin::File, config, problem: None, warnings }));
        }
        let Some(stored) = self.store.agent(id).await? else { return Ok(None) };
        let config = read(&stored)?;
        let (problem, warnings) = (self.made(id, &stored).err(), check::warnings(&config));
        Ok(Some(Shown { origin: Origin::Api, config, problem: problem.map(|invalid| invalid.to_string()), warnings }))
    }

    /// Whether it is new, and what may be a mistake in it. Secrets that it hides are those that it had.
    pub async fn put(
        &self,
        id: &AgentId,
        mut config: AgentConfig,
        now: Timestamp,
    ) -> Result<(bool, Vec<String>), AgentError> {
        if self.of_file(id).is_some() {
            return Err(AgentError::OfFile(id.clone()));
        }
        let known = self.store.agent(id).await?.and_then(|stored| serde_json::from_str(&stored.body).ok());
        hidden::restore(&mut config, known.as_ref())?;
        let body = serde_json::to_string(&config).map_err(|error| Invalid::new("agent", error.to_string()))?;
        let warnings = Agent::new(id.clone(), config, self.rules(Origin::Api))?.warnings;
        let known = self.store.set_agent(id, Some(StoredAgent { body, changed_at: now })).await?;
        Ok((!known, warnings))
    }

    /// Whether it was there. Its sessions go on.
    pub async fn remove(&self, id: &AgentId) -> Result<bool, AgentError> {
        if self.of_file(id).is_some() {
            return Err(AgentError::OfFile(id.clone()));
        }
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).pop(id);
        Ok(self.store.set_agent(id, None).await?)
    }

    /// All, by name.
    pub async fn list(&self) -> Result<Vec<Listed>, StoreError> {
        let stored = self.store.agents().await?;
        let of_files: Vec<Arc<Agent>> = {
            let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
            files.agents.values().map(|kept| kept.agent.clone()).collect()
        };
        let stored = stored.into_iter().filter(|(id, _)| of_files.iter().all(|agent| agent.id != *id));
        let mut all: Vec<Listed> = stored
            .map(|(id, stored)| {
                let made = self.made(&id, &stored);
                let warnings = made.as_ref().map_or_else(|_| Vec::new(), |agent| agent.warnings.clone());
                Listed { id, origin: Origin::Api, problem: made.err().map(|invalid| invalid.to_string()), warnings }
            })
            .collect();
        all.extend(of_files.iter().map(|agent| {
            let (id, warnings) = (agent.id.clone(), agent.warnings.clone());
            Listed { id, origin: Origin::File, problem: None, warnings }
        }));
        all.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(all)
    }

    fn of_file(&self, id: &AgentId) -> Option<Arc<Agent>> {
        self.files.read().unwrap_or_else(PoisonError::into_inner).agents.get(id).map(|kept| kept.agent.clone())
    }

    fn rules(&self, origin: Origin) -> Rules<'_> {
        let secrets = match origin {
            Origin::File => Allowed::All,
            Origin::Api => Allowed::Named(&self.settings.api_secrets),
        };
        Rules { origin, secrets, timers_max: self.settings.timers_max, limits: &self.settings.limits }
    }
}

fn read(stored: &StoredAgent) -> Result<AgentConfig, Invalid> {
    serde_json::from_str(&stored.body).map_err(|error| Invalid::new("agent", error.to_string()))
}
