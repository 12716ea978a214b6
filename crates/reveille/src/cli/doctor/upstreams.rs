//! The providers behind the gateway: the key is there, and a connection with TLS comes about. Nothing is asked of them, and
//! no key is sent.

use super::finding::Finding;
use crate::config::{Config, gateway::UpstreamConfig};
use reveille_gateway::{Dial, Net};
use std::time::Duration;

const AREA: &str = "upstream";
const DIALLING_MAX: Duration = Duration::from_secs(10);

pub async fn look(config: &Config, offline: bool) -> Vec<Finding> {
    let upstreams = &config.gateway.upstream;
    if upstreams.is_empty() {
        let cure = "only the gateway needs one: docs/gateway.md shows how";
        return vec![Finding::note(AREA, "none is configured", cure)];
    }
    let mut findings = Vec::new();
    for upstream in upstreams {
        findings.push(match key(upstream) {
            Err(finding) => finding,
            Ok(key) if offline => Finding::ok(AREA, format!("{}: {key}; not dialled", upstream.name)),
            Ok(key) => reached(upstream, key).await,
        });
    }
    findings
}

/// In words, where the key comes from.
fn key(upstream: &UpstreamConfig) -> Result<&'static str, Finding> {
    match upstream.has_key() {
        Ok(true) => Ok("its key is there"),
        Ok(false) => Ok("clients bring their own keys"),
        Err(why) => {
            let cure = "set it where the server is started (for systemd: `Environment=` or `EnvironmentFile=`)";
            let judged = if upstream.api_key_env.is_some() { " (judged by this command's environment)" } else { "" };
            Err(Finding::problem(AREA, format!("{}: {why}{judged}", upstream.name), cure))
        }
    }
}

async fn reached(upstream: &UpstreamConfig, key: &str) -> Finding {
    let (name, url) = (&upstream.name, &upstream.base_url);
    let Ok(uri) = url.parse::<http::Uri>() else {
        return Finding::problem(AREA, format!("{name}: {url} is not an address"), "correct `base_url`");
    };
    let net = match uri.scheme_str() {
        Some("https") => Net::with_system_roots(),
        _ => Ok(Net::plain()),
    };
    let net = match net {
        Ok(net) => net,
        Err(error) => {
            let cure = "install the system's certificates (Debian: `ca-certificates`)";
            return Finding::problem(AREA, format!("{name}: no certificates to trust: {error}"), cure);
        }
    };
    let why = match tokio::time::timeout(DIALLING_MAX, net.dial(uri)).await {
        Ok(Ok(_)) => return Finding::ok(AREA, format!("{name}: {url} can be reached; {key}")),
        Ok(Err(error)) => words(error.as_ref()),
        Err(_) => format!("no connection within {} s", DIALLING_MAX.as_secs()),
    };
    let cure = "see that the address is right, and that this machine may go there (DNS, firewall, certificates)";
    Finding::problem(AREA, format!("{name}: {url} cannot be reached: {why}"), cure)
}

/// The error and what is behind it.
fn words(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut said: Vec<String> = causes.map(ToString::to_string).collect();
    said.dedup();
    said.join(": ")
}
