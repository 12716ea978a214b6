//! What a token gives the right to: what one may do (its scope), and to whose things (its bounds).

use crate::wake::glob;
use reveille_core::{AgentId, SessionId};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Everything.
    Operator,
    /// What an agent does in its session: tools, inbox, model calls, MCP.
    Agent,
    /// Looking only.
    ReadOnly,
}

/// What is done, as far as scopes tell it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing that is anybody's: signing in, the list of tools.
    Any,
    /// Looking at something of one session.
    LookAtSession,
    Look,
    /// What an agent does in its session.
    Use,
    Operate,
}

impl Scope {
    pub fn allows(self, act: Act) -> bool {
        match self {
            Scope::Operator => true,
            Scope::Agent => matches!(act, Act::Any | Act::LookAtSession | Act::Use),
            Scope::ReadOnly => matches!(act, Act::Any | Act::LookAtSession | Act::Look),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Scope::Operator => "operator",
            Scope::Agent => "agent",
            Scope::ReadOnly => "read-only",
        }
    }
}

/// The rights of one token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub name: String,
    pub scope: Scope,
    /// Only these tenants' agents and their sessions; all if empty.
    pub tenants: Vec<String>,
    /// Only sessions that match one of these patterns; all if empty.
    pub sessions: Vec<String>,
}

impl Grant {
    pub fn operator(name: &str) -> Self {
        Self { name: name.to_owned(), scope: Scope::Operator, tenants: Vec::new(), sessions: Vec::new() }
    }

    /// Some things are not for it, whatever its scope.
    pub fn is_bound(&self) -> bool {
        !self.tenants.is_empty() || !self.sessions.is_empty()
    }

    pub fn may_name(&self, session: &SessionId) -> bool {
        self.sessions.is_empty() || self.sessions.iter().any(|pattern| glob(pattern, session.as_str()))
    }

    pub fn may_serve(&self, tenant: &str) -> bool {
        self.tenants.is_empty() || self.tenants.iter().any(|own| own == tenant)
    }

    /// Whether a session is within the bounds, by its name and the agent it belongs to. One that belongs to no agent is no
    /// tenant's.
    pub fn covers(&self, session: &SessionId, agent: Option<&AgentId>) -> bool {
        let of_tenant = || agent.is_some_and(|agent| self.may_serve(agent.parts().0));
        self.may_name(session) && (self.tenants.is_empty() || of_tenant())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scope_allows_its_own() {
        let allowed = |scope: Scope| {
            [Act::Any, Act::LookAtSession, Act::Look, Act::Use, Act::Operate].map(|act| scope.allows(act))
        };
        assert_eq!(allowed(Scope::Operator), [true; 5]);
        assert_eq!(allowed(Scope::Agent), [true, true, false, true, false]);
        assert_eq!(allowed(Scope::ReadOnly), [true, true, true, false, false]);
    }

    #[test]
    fn bounds_keep_sessions_and_tenants_apart() {
        let (acme, other) = (AgentId::parse("acme:客服").ok(), AgentId::parse("other:x").ok());
        let session = |name: &str| SessionId::new(name);
        let tenant = Grant { tenants: vec!["acme".into()], ..Grant::operator("t") };
        assert!(tenant.covers(&session("s"), acme.as_ref()));
        assert!(!tenant.covers(&session("s"), other.as_ref()) && !tenant.covers(&session("s"), None));
        let named = Grant { sessions: vec!["claude-*".into(), "会话".into()], ..Grant::operator("s") };
        assert!(named.covers(&session("claude-1"), None) && named.covers(&session("会话"), other.as_ref()));
        assert!(!named.covers(&session("codex-1"), None));
        let both = Grant { sessions: named.sessions.clone(), ..tenant };
        assert!(both.covers(&session("claude-1"), acme.as_ref()));
        assert!(!both.covers(&session("claude-1"), None) && !both.covers(&session("x"), acme.as_ref()));
        let all = Grant::operator("o");
        assert!(!all.is_bound() && all.covers(&session("anything"), None));
    }
}
