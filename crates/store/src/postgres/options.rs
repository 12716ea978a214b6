//! How the database is reached: the URL, and a few limits.

use super::tls::{self, Trust};
use crate::StoreError;
use std::{path::PathBuf, time::Duration};
use tokio_postgres::{
    Config,
    config::{SslMode, TargetSessionAttrs},
};
use tokio_postgres_rustls::MakeRustlsConnect;

#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// `postgres://user:password@host[,host]/database?sslmode=verify-full`
    pub url: String,
    /// Connections for reading, besides one for writing and one that listens.
    pub readers: usize,
    /// The database gives up on a statement that takes longer.
    pub statement_timeout: Duration,
    /// A request waits so long for a database that is away; then it is refused, to be tried again.
    pub wait: Duration,
    /// Nodes hear of each other by LISTEN and NOTIFY. Without, for databases that have no such thing, they look every
    /// `poll`.
    pub listen: bool,
    pub poll: Duration,
}

impl PostgresOptions {
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            readers: 4,
            statement_timeout: Duration::from_secs(10),
            wait: Duration::from_secs(10),
            listen: true,
            poll: Duration::from_millis(200),
        }
    }
}

/// A connection that is not made by then fails, and the next host is tried.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// A host that has vanished without a word is noticed after about this long.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Everything needed to connect.
#[derive(Clone)]
pub struct Target {
    pub config: Config,
    pub tls: MakeRustlsConnect,
    /// Sent on every new connection.
    pub settings: String,
}

impl PostgresOptions {
    /// Whether the URL can be understood; nothing is connected to.
    pub fn check(&self) -> Result<(), StoreError> {
        self.target().map(drop)
    }

    pub(super) fn target(&self) -> Result<Target, StoreError> {
        let (url, mode, roots) = split(&self.url)?;
        // The error never repeats the URL, which has a password in it.
        let bad = |error: tokio_postgres::Error| {
            let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            StoreError::BadUrl(why)
        };
        let mut config: Config = url.parse().map_err(bad)?;
        let verified = |name| Trust::Verified { roots: roots.clone(), name };
        let (mode, trust) = match mode.as_deref() {
            Some("disable") => (SslMode::Disable, Trust::Anyone),
            None | Some("prefer" | "allow") => (SslMode::Prefer, Trust::Anyone),
            // As PostgreSQL's own clients do: who names an authority wants it asked.
            Some("require") if roots.is_some() => (SslMode::Require, verified(false)),
            Some("require") => (SslMode::Require, Trust::Anyone),
            Some("verify-ca") => (SslMode::Require, verified(false)),
            Some("verify-full") => (SslMode::Require, verified(true)),
            Some(other) => {
                let known = "disable, prefer, require, verify-ca or verify-full";
                return Err(StoreError::BadUrl(format!("sslmode '{other}' is not known; use {known}")));
            }
        };
        config.ssl_mode(mode);
        // A standby is of no use: whichever of the hosts takes writes is meant.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        config.keepalives_idle(SILENCE_MAX / 2).keepalives_interval(SILENCE_MAX / 6).keepalives_retries(3);
        config.tcp_user_timeout(SILENCE_MAX);
        if config.get_application_name().is_none() {
            config.application_name("reveille");
        }
        Ok(Target { config, tls: tls::connector(&trust)?, settings: self.settings() })
    }

    fn settings(&self) -> String {
        let timeout = self.statement_timeout.as_millis();
        // Plans must not depend on statistics that are not there yet. Rows are what costs here, so that everything is
        // found by probing an index. Compiling plans costs more than running them. What is answered is durable, whatever
        // the database's default is.
        format!(
            "SET statement_timeout = {timeout}; SET lock_timeout = {timeout};
             SET idle_in_transaction_session_timeout = {timeout}; SET client_min_messages = warning; SET jit = off;
             SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_mergejoin = off; SET plan_cache_mode = force_generic_plan;
             SET seq_page_cost = 0.01; SET random_page_cost = 0.01; SET cpu_tuple_cost = 1; SET cpu_index_tuple_cost = 1;
             SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )
    }
}

type Split = (String, Option<String>, Option<PathBuf>);

/// The URL without what is read here: the mode and the file of certificates.
fn split(url: &str) -> Result<Split, StoreError> {
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(StoreError::BadUrl("must begin with postgres://".into()));
    }
    let Some((base, query)) = url.split_once('?') else { return Ok((url.to_owned(), None, None)) };
    let (mut mode, mut roots, mut rest) = (None, None, Vec::new());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sslmode", value)) => mode = Some(value.to_owned()),
            Some(("sslrootcert", value)) => roots = Some(PathBuf::from(value.replace("%2F", "/"))),
            _ => rest.push(pair),
        }
    }
    Ok((format!("{base}?{}", rest.join("&")), mode, roots))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_understood_or_refused_without_repeating_secrets() {
        let target = |url: &str| PostgresOptions::new(url).target().map(|target| target.config);
        let two = target("postgres://u:secret@a,b:5433/d?sslmode=require&connect_timeout=7").expect("valid");
        assert_eq!((two.get_hosts().len(), two.get_ssl_mode()), (2, SslMode::Require));
        assert_eq!(two.get_connect_timeout(), Some(&Duration::from_secs(7)));
        assert_eq!(two.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        for url in ["mysql://x", "postgres://u:secret@h/d?sslmode=maybe", "postgres://u:secret@h:port/d"] {
            let error = target(url).expect_err(url).to_string();
            assert!(error.starts_with("database_url: ") && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_missing_file_of_certificates_is_named() {
        let url = "postgres://h/d?sslmode=verify-full&sslrootcert=/nowhere/ca.pem";
        let error = PostgresOptions::new(url).target().err().expect("refused").to_string();
        assert!(error.contains("/nowhere/ca.pem"), "{error}");
    }
}
