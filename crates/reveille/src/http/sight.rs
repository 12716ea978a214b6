//! Which sessions a caller may see. The one place that asks whose a session is, for every door.

use super::{App, access::Caller, problem::ApiError};
use crate::{
    access::{Grant, Scope},
    engine::Engine,
};
use async_trait::async_trait;
use axum::{
    extract::FromRequestParts,
    http::{Extensions, StatusCode, request::Parts},
};
use reveille_core::{AgentId, Needs, SessionId};
use reveille_gateway::{Admission, Turn};
use reveille_store::StoreError;
use std::{collections::HashSet, convert::Infallible, sync::Arc};

/// Whether a session that is there is within the bounds.
pub async fn covers(engine: &Engine, grant: &Grant, session: &SessionId) -> Result<bool, StoreError> {
    look(engine, grant, session, false).await
}

/// The same, for a request that may begin it.
pub async fn covers_or_new(engine: &Engine, grant: &Grant, session: &SessionId) -> Result<bool, StoreError> {
    look(engine, grant, session, true).await
}

async fn look(engine: &Engine, grant: &Grant, session: &SessionId, or_new: bool) -> Result<bool, StoreError> {
    if !grant.may_name(session) || grant.tenants.is_empty() {
        return Ok(grant.may_name(session));
    }
    let found = engine.store().load(session, Needs::default()).await?.session;
    Ok(match found {
        Some(found) => grant.covers(session, found.agent.as_ref()),
        None => or_new,
    })
}

pub fn out_of_bounds(grant: &Grant) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, "Forbidden", "out_of_bounds", bounds(grant))
}

fn bounds(grant: &Grant) -> String {
    let list = |what: &str, names: &[String]| match names.is_empty() {
        true => String::new(),
        false => format!(" for {what} {}", names.join(", ")),
    };
    let (tenants, sessions) = (list("agents of", &grant.tenants), list("sessions named", &grant.sessions));
    format!("the token '{}' is{tenants}{sessions} only; what was asked for is not among these", grant.name)
}

/// What the caller of a request may see.
pub struct Sight {
    engine: Arc<Engine>,
    /// There if it has bounds.
    grant: Option<Arc<Grant>>,
    only_looks: bool,
    seen: HashSet<SessionId>,
}

impl FromRequestParts<App> for Sight {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        Ok(Self::new(app.engine.clone(), &parts.extensions))
    }
}

impl Sight {
    pub fn new(engine: Arc<Engine>, extensions: &Extensions) -> Self {
        let grant = match extensions.get::<Caller>() {
            Some(Caller::Known(pass)) => Some(pass.grant.clone()),
            _ => None,
        };
        let only_looks = grant.as_ref().is_some_and(|grant| grant.scope == Scope::ReadOnly);
        Self { engine, grant: grant.filter(|grant| grant.is_bound()), only_looks, seen: HashSet::new() }
    }

    pub fn only_looks(&self) -> bool {
        self.only_looks
    }

    pub fn has_bounds(&self) -> bool {
        self.grant.is_some()
    }

    pub async fn sees(&mut self, session: &SessionId) -> Result<bool, StoreError> {
        let Some(grant) = &self.grant else { return Ok(true) };
        if self.seen.contains(session) {
            return Ok(true);
        }
        let seen = covers(&self.engine, grant, session).await?;
        if seen {
            self.seen.insert(session.clone());
        }
        Ok(seen)
    }

    pub fn sees_agent(&self, agent: &AgentId) -> bool {
        self.grant.as_ref().is_none_or(|grant| grant.sessions.is_empty() && grant.may_serve(agent.parts().0))
    }

    /// A session that this request names.
    pub async fn demand(&mut self, session: &SessionId) -> Result<(), ApiError> {
        match (self.sees(session).await?, &self.grant) {
            (false, Some(grant)) => Err(out_of_bounds(grant)),
            _ => Ok(()),
        }
    }

    /// A session that this request names and may begin, for this agent.
    pub async fn demand_opening(&mut self, session: &SessionId, agent: Option<&AgentId>) -> Result<(), ApiError> {
        let Some(grant) = &self.grant else { return Ok(()) };
        let served = agent.is_none_or(|agent| grant.may_serve(agent.parts().0));
        let within = match agent {
            Some(_) => served && covers_or_new(&self.engine, grant, session).await?,
            None => covers(&self.engine, grant, session).await?,
        };
        if within { Ok(()) } else { Err(out_of_bounds(grant)) }
    }

    /// What concerns everybody.
    pub fn demand_all(&self) -> Result<(), ApiError> {
        self.grant.as_ref().map_or(Ok(()), |grant| Err(out_of_bounds(grant)))
    }

    /// The rows that may be seen.
    pub async fn only<T>(&mut self, rows: Vec<T>, session: impl Fn(&T) -> &SessionId) -> Result<Vec<T>, StoreError> {
        if !self.has_bounds() {
            return Ok(rows);
        }
        let mut kept = Vec::new();
        for row in rows {
            if self.sees(session(&row)).await? {
                kept.push(row);
            }
        }
        Ok(kept)
    }
}

/// Model calls of a token with bounds: their session is known only once the body is read.
pub struct ModelCalls {
    engine: Arc<Engine>,
    grant: Arc<Grant>,
}

impl ModelCalls {
    pub fn of(engine: &Arc<Engine>, extensions: &Extensions) -> Option<Self> {
        let Sight { engine, grant, .. } = Sight::new(engine.clone(), extensions);
        grant.map(|grant| Self { engine, grant })
    }
}

#[async_trait]
impl Admission for ModelCalls {
    async fn admit(&self, turn: &Turn) -> Result<(), String> {
        let refused = || format!("{}; name the session with x-reveille-session", bounds(&self.grant));
        let agent = turn.agent.as_deref().and_then(|agent| AgentId::parse(agent).ok());
        if agent.as_ref().is_some_and(|agent| !self.grant.may_serve(agent.parts().0)) {
            return Err(refused());
        }
        // An earlier answer may be anybody's, whatever session is named beside it.
        if turn.previous_response.is_some() {
            let instead = "send what was said instead of previous_response_id";
            return Err(format!("{}; {instead}", bounds(&self.grant)));
        }
        // Without a session there is nothing of anybody's to be seen.
        let named = turn.session.as_ref().map(|hint| &hint.id).into_iter().chain(&turn.conversation);
        for session in named.filter_map(|id| SessionId::parse(id).ok()) {
            let within = match agent {
                Some(_) => covers_or_new(&self.engine, &self.grant, &session).await,
                None => covers(&self.engine, &self.grant, &session).await,
            };
            match within {
                Ok(true) => {}
                Ok(false) => return Err(refused()),
                Err(error) => return Err(format!("whose session this is cannot be looked up: {error}")),
            }
        }
        Ok(())
    }

    fn admit_kept(&self) -> Result<(), String> {
        Err(format!("{}: what the upstream keeps is not told apart by session", bounds(&self.grant)))
    }
}
