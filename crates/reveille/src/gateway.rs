//! The gateway inside the server: its settings, and what is noted of each call. No content and no secrets.

use crate::{
    clock_stage::ClockStage,
    config::{ConfigError, gateway::GatewayConfig},
    engine::Engine,
    metrics::{GatewayLabels, LimitLabels, Metrics, TokenLabels},
};
use anyhow::Context;
use reveille_gateway::{Dial, Gateway, Net, Observer, Outcome, Report, Settings, Upstream};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub fn open(config: &GatewayConfig, engine: &Arc<Engine>, stop: CancellationToken) -> anyhow::Result<Gateway> {
    let settings = config.settings().map_err(|error: ConfigError| anyhow::anyhow!(error))?;
    let net = match settings.upstreams.iter().any(is_secure) {
        true => Net::with_system_roots().context("the system's certificates cannot be read")?,
        false => Net::plain(),
    };
    Ok(over(Arc::new(net), settings, config, engine, stop))
}

/// The same over connections of any kind.
pub fn over(
    dial: Arc<dyn Dial>,
    settings: Settings,
    config: &GatewayConfig,
    engine: &Arc<Engine>,
    stop: CancellationToken,
) -> Gateway {
    let gateway = Gateway::new(settings, dial).observe(Arc::new(Notes(engine.clone())));
    gateway.stage(ClockStage::new(config, engine, stop))
}

fn is_secure(upstream: &Upstream) -> bool {
    upstream.base.scheme_str() == Some("https")
}

/// One log line and the metrics.
struct Notes(Arc<Engine>);

impl Observer for Notes {
    fn finished(&self, report: &Report) {
        count(&self.0.metrics, report);
        let turn = &report.turn;
        let ms = |duration: std::time::Duration| duration.as_millis() as u64;
        let fault = match &report.outcome {
            Outcome::Failed(fault) => Some(cut(&fault.discreet())),
            Outcome::Complete | Outcome::Reported | Outcome::ClientGone => None,
        };
        let (input, output) = report.usage.map(|usage| (usage.input_tokens, usage.output_tokens)).unzip();
        tracing::info!(
            target: "reveille::gateway",
            request = turn.id,
            protocol = turn.protocol.name(),
            path = report.path.as_deref().map(cut),
            model = cut(&turn.model),
            upstream = turn.upstream,
            stream = turn.stream,
            subagent = turn.subagent,
            session = turn.session.as_ref().map(|session| session.id.as_str()),
            agent = turn.agent.as_deref().map(cut),
            status = report.status.as_u16(),
            outcome = report.outcome.name(),
            fault,
            limit = report.outcome.limit().map(|limit| limit.name()),
            first_byte_ms = report.first_byte.map(ms),
            took_ms = ms(report.took),
            attempts = report.attempts,
            rounds = report.rounds,
            chunks = report.chunks,
            bytes = report.bytes,
            input_tokens = input,
            output_tokens = output,
            "call"
        );
    }

    fn left_out(&self, upstream: &str, why: &str) {
        tracing::warn!(target: "reveille::gateway", upstream, why = cut(why), "left out of the list of models");
    }
}

/// What others wrote, on one line and no longer than this.
fn cut(text: &str) -> String {
    const CHARS_MAX: usize = 300;
    text.chars().take(CHARS_MAX).flat_map(char::escape_debug).collect()
}

fn count(metrics: &Metrics, report: &Report) {
    let (metrics, upstream) = (&metrics.gateway, &report.turn.upstream);
    let outcome = report.outcome.name();
    // What is only passed on has no protocol that anybody looked at.
    let protocol = if report.path.is_some() { "other" } else { report.turn.protocol.name() };
    let labels = GatewayLabels { protocol, upstream: upstream.clone(), outcome };
    metrics.requests.get_or_create(&labels).inc();
    metrics.chunks.inc_by(report.chunks);
    metrics.bytes.inc_by(report.bytes);
    if let Some(limit) = report.outcome.limit() {
        metrics.limits.get_or_create(&LimitLabels { limit: limit.name() }).inc();
    }
    if let Some(first_byte) = report.first_byte.filter(|_| report.path.is_none()) {
        metrics.first_byte.observe(first_byte.as_secs_f64());
    }
    if let Some(usage) = report.usage {
        for (direction, tokens) in [("input", usage.input_tokens), ("output", usage.output_tokens)] {
            metrics.tokens.get_or_create(&TokenLabels { upstream: upstream.clone(), direction }).inc_by(tokens);
        }
    }
}
