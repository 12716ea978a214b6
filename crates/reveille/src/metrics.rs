//! What the process counts since its start, for Prometheus and for the lateness figures of `/api/stats`.

mod kept;

pub use kept::KeptMetrics;

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use reveille_core::{
    AgentId, Millis,
    batch::tally,
    call::{End, Report, What},
    session_timer,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ToolLabels {
    pub tool: &'static str,
    /// An outcome (`completed`, `timeout`, …) or the code of an error.
    pub result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LookLabels {
    kind: &'static str,
    /// `met` or `not_yet`.
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WakeLabels {
    rule: String,
    /// `started`, `succeeded`, `failed` or `given_up`.
    event: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct GatewayLabels {
    pub protocol: &'static str,
    pub upstream: String,
    /// `complete`, `client_gone` or the code of an error.
    pub outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct LimitLabels {
    pub limit: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct TokenLabels {
    pub upstream: String,
    pub direction: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ContinuedLabels {
    /// `tool`, `stop_message` or `reminder`.
    pub why: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct StageLabels {
    /// `clock` or `session`.
    pub stage: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct AgentLabels {
    pub agent: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct StatusLabels {
    pub agent: String,
    pub status: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CallLabels {
    pub agent: String,
    /// `tool` or `webhook`.
    pub kind: &'static str,
    /// `done`, `failed` (it may be tried again), `refused` or `postponed`.
    pub outcome: &'static str,
}

/// What timers do for agents' sessions, and the calls that come of it.
pub struct AgentMetrics {
    /// From the durable counters, see [`AgentMetrics::count`].
    session_timers: Family<StatusLabels, Gauge>,
    /// Set by whoever asks for the figures.
    pub files_not_in_force: Gauge,
    pub triggered: Family<AgentLabels, Counter>,
    pub latency: Family<AgentLabels, Histogram, fn() -> Histogram>,
    pub calls: Family<CallLabels, Counter>,
    pub call_seconds: Family<AgentLabels, Histogram, fn() -> Histogram>,
}

fn late_seconds() -> Histogram {
    Histogram::new([0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 60.0, 3600.0])
}

fn call_seconds() -> Histogram {
    Histogram::new([0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0])
}

impl AgentMetrics {
    fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            session_timers: Family::default(),
            files_not_in_force: Gauge::default(),
            triggered: Family::default(),
            latency: Family::new_with_constructor(late_seconds),
            calls: Family::default(),
            call_seconds: Family::new_with_constructor(call_seconds),
        };
        registry.register(
            "session_timers",
            "Session timers by state; final states: how many there ever were",
            metrics.session_timers.clone(),
        );
        registry.register(
            "agent_files_not_in_force",
            "Operators' files of agents that make no sense as they are now; what they had before is in force",
            metrics.files_not_in_force.clone(),
        );
        registry.register("session_timers_triggered", "Session timers that fired, by agent", metrics.triggered.clone());
        registry.register(
            "session_timer_latency_seconds",
            "Time from a session timer's deadline to its durable firing",
            metrics.latency.clone(),
        );
        registry.register("agent_calls", "Attempts to call tools and webhooks", metrics.calls.clone());
        registry.register("agent_call_seconds", "How long these took", metrics.call_seconds.clone());
        metrics
    }
}

impl AgentMetrics {
    /// Brings the gauges to what the durable counters say.
    pub fn count(&self, tallies: &BTreeMap<String, i64>) {
        for status in session_timer::Status::ALL {
            let prefix = format!("{} ", tally::session_timers(status));
            for (name, value) in tallies.range(prefix.clone()..) {
                let Some(agent) = name.strip_prefix(&prefix) else { break };
                let labels = StatusLabels { agent: agent.to_owned(), status: status.as_str() };
                self.session_timers.get_or_create(&labels).set(*value);
            }
        }
    }
}

/// Calls through the gateway.
pub struct GatewayMetrics {
    pub requests: Family<GatewayLabels, Counter>,
    pub limits: Family<LimitLabels, Counter>,
    pub tokens: Family<TokenLabels, Counter>,
    pub chunks: Counter,
    pub bytes: Counter,
    pub first_byte: Histogram,
    /// Turns that wait for a reminder.
    pub holds: Gauge,
    /// Messages put into requests.
    pub injected: Counter,
    pub continued: Family<ContinuedLabels, Counter>,
    /// Calls that went on without the store.
    pub unprepared: Family<StageLabels, Counter>,
}

impl GatewayMetrics {
    fn register(registry: &mut Registry) -> Self {
        let seconds = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
        let metrics = Self {
            requests: Family::default(),
            limits: Family::default(),
            tokens: Family::default(),
            chunks: Counter::default(),
            bytes: Counter::default(),
            first_byte: Histogram::new(seconds),
            holds: Gauge::default(),
            injected: Counter::default(),
            continued: Family::default(),
            unprepared: Family::default(),
        };
        registry.register(
            "gateway_requests",
            "Model calls, by protocol, upstream and outcome",
            metrics.requests.clone(),
        );
        registry.register("gateway_limits", "Calls that a limit ended", metrics.limits.clone());
        registry.register("gateway_tokens", "Tokens that upstreams counted", metrics.tokens.clone());
        registry.register("gateway_chunks", "Chunks that upstreams sent", metrics.chunks.clone());
        registry.register("gateway_bytes", "Bytes that upstreams sent", metrics.bytes.clone());
        registry.register("gateway_holds", "Turns held for a reminder now", metrics.holds.clone());
        registry.register("gateway_injected", "Messages put into requests", metrics.injected.clone());
        registry.register("gateway_continued", "Turns that went on upstream, by why", metrics.continued.clone());
        registry.register(
            "gateway_unprepared",
            "Model calls that went on without reminders or session timers, because the store did not answer",
            metrics.unprepared.clone(),
        );
        registry.register(
            "gateway_first_byte_seconds",
            "Time to the first byte of an answer",
            metrics.first_byte.clone(),
        );
        metrics
    }
}

pub struct Metrics {
    registry: Registry,
    lateness: Histogram,
    late: Percentiles,
    pub fired: Counter,
    pub fire_failures: Counter,
    pub store_failures: Counter,
    pub tools: Family<ToolLabels, Counter>,
    pub standing_by: Gauge,
    pub conditions: Gauge,
    looks: Family<LookLabels, Counter>,
    wakes: Family<WakeLabels, Counter>,
    pub waking: Gauge,
    pub event_followers: Gauge,
    pub gateway: GatewayMetrics,
    pub agents: AgentMetrics,
    pub kept: KeptMetrics,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("reveille");
        let late_seconds = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 60.0, 3600.0];
        let metrics = Self {
            lateness: Histogram::new(late_seconds),
            late: Percentiles::default(),
            fired: Counter::default(),
            fire_failures: Counter::default(),
            store_failures: Counter::default(),
            tools: Family::default(),
            standing_by: Gauge::default(),
            conditions: Gauge::default(),
            looks: Family::default(),
            wakes: Family::default(),
            waking: Gauge::default(),
            event_followers: Gauge::default(),
            gateway: GatewayMetrics::register(&mut registry),
            agents: AgentMetrics::register(&mut registry),
            kept: KeptMetrics::register(&mut registry),
            registry: Registry::default(),
        };
        registry.register("lateness_seconds", "Time from a deadline to its durable firing", metrics.lateness.clone());
        registry.register("deadlines_fired", "Deadlines that were acted on", metrics.fired.clone());
        registry.register("fire_failures", "Deadlines that had to be tried again", metrics.fire_failures.clone());
        registry.register("store_failures", "Changes that could not be written", metrics.store_failures.clone());
        registry.register("tool_calls", "Tool calls, by tool and result", metrics.tools.clone());
        registry.register("standing_by", "Calls that stand by now", metrics.standing_by.clone());
        registry.register("conditions", "Conditions that timers wait for now", metrics.conditions.clone());
        registry.register("condition_looks", "Looks at conditions, by kind and result", metrics.looks.clone());
        registry.register("wake_commands", "Wake commands, by rule and what became of them", metrics.wakes.clone());
        registry.register("wake_commands_running", "Wake commands that run now", metrics.waking.clone());
        registry.register("event_followers", "Clients that follow events now", metrics.event_followers.clone());
        Self { registry, ..metrics }
    }
}

impl Metrics {
    pub fn fired(&self, late: Millis) {
        self.fired.inc();
        self.lateness.observe(late.get() as f64 / 1000.0);
        self.late.observe(late);
    }

    pub fn session_timer_fired(&self, agent: &AgentId, late: Millis) {
        let labels = AgentLabels { agent: agent.to_string() };
        self.agents.triggered.get_or_create(&labels).inc();
        self.agents.latency.get_or_create(&labels).observe(late.get() as f64 / 1000.0);
    }

    /// A tool that a model asked for.
    pub fn tool_called(&self, agent: &AgentId, report: &Report) {
        self.attempted(agent, "tool", report);
    }

    pub fn called(&self, agent: &AgentId, what: &What, report: &Report) {
        self.attempted(agent, if matches!(what, What::Tool { .. }) { "tool" } else { "webhook" }, report);
    }

    fn attempted(&self, agent: &AgentId, kind: &'static str, report: &Report) {
        let agent = agent.to_string();
        let outcome = match report.end {
            End::Done { .. } => "done",
            End::Failed { .. } => "failed",
            End::Refused { .. } => "refused",
            End::Postponed { .. } => "postponed",
        };
        self.agents.calls.get_or_create(&CallLabels { agent: agent.clone(), kind, outcome }).inc();
        if matches!(report.end, End::Postponed { .. }) {
            return;
        }
        let took = report.took.get() as f64 / 1000.0;
        self.agents.call_seconds.get_or_create(&AgentLabels { agent }).observe(took);
    }

    pub fn looked(&self, kind: &'static str, result: &'static str) {
        self.looks.get_or_create(&LookLabels { kind, result }).inc();
    }

    pub fn wake(&self, rule: &str, event: &'static str) {
        self.wakes.get_or_create(&WakeLabels { rule: rule.to_owned(), event }).inc();
    }

    pub fn tool(&self, tool: &'static str, result: &'static str) {
        self.tools.get_or_create(&ToolLabels { tool, result }).inc();
    }

    /// Lateness in milliseconds that this share of firings stayed within; `None` before the first.
    pub fn lateness(&self, share: f64) -> Option<u64> {
        self.late.at(share)
    }

    /// How many firings were within each of [`SPREAD_MS`], and how many above all.
    pub fn lateness_spread(&self) -> Vec<(Option<u64>, u64)> {
        self.late.spread()
    }

    pub fn render(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string cannot fail");
        text
    }
}

/// Counts by size: exact up to 16 ms, within an eighth beyond. Constant memory.
struct Percentiles([AtomicU64; BUCKETS]);

/// Bounds that people think in; each is the end of a bucket.
const SPREAD_MS: [u64; 8] = [1, 3, 7, 15, 63, 255, 1023, 8191];
const BUCKETS: usize = 16 + 8 * 40;

impl Default for Percentiles {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Percentiles {
    fn observe(&self, late: Millis) {
        self.0[bucket(late.get())].fetch_add(1, Ordering::Relaxed);
    }

    fn spread(&self) -> Vec<(Option<u64>, u64)> {
        let mut shares: Vec<(Option<u64>, u64)> =
            SPREAD_MS.into_iter().map(Some).chain([None]).map(|within| (within, 0)).collect();
        for (bucket, count) in self.0.iter().enumerate() {
            let place = SPREAD_MS.partition_point(|within| *within < upper_bound(bucket));
            shares[place].1 += count.load(Ordering::Relaxed);
        }
        shares
    }

    fn at(&self, share: f64) -> Option<u64> {
        let counts: Vec<u64> = self.0.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        if total == 0 {
            return None;
        }
        let wanted = ((total as f64 * share).ceil() as u64).clamp(1, total);
        let mut seen = 0;
        let found = counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        found.map(upper_bound)
    }
}

fn bucket(ms: u64) -> usize {
    if ms < 16 {
        return ms as usize;
    }
    let octave = ms.ilog2() as usize;
    let eighth = (ms >> (octave - 3) & 7) as usize;
    (16 + (octave - 4) * 8 + eighth).min(BUCKETS - 1)
}

/// The largest value a bucket holds.
fn upper_bound(bucket: usize) -> u64 {
    if bucket < 16 {
        return bucket as u64;
    }
    let (octave, eighth) = ((bucket - 16) / 8 + 4, (bucket - 16) as u64 % 8);
    ((9 + eighth) << (octave - 3)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_exact_when_small_and_close_when_large() {
        let late = Percentiles::default();
        assert_eq!(late.at(0.5), None);
        (1..=100).for_each(|ms| late.observe(Millis::new(ms)));
        assert_eq!(late.at(0.01), Some(1));
        assert_eq!(late.at(0.10), Some(10));
        assert!((50..=56).contains(&late.at(0.50).expect("observed")));
        assert!((99..=112).contains(&late.at(0.99).expect("observed")));
        let spread = late.spread();
        assert_eq!(spread.iter().map(|(_, count)| count).sum::<u64>(), 100);
        assert_eq!(spread[..4], [(Some(1), 1), (Some(3), 2), (Some(7), 4), (Some(15), 8)]);
        assert_eq!((spread[4], spread[8]), ((Some(63), 48), (None, 0)));
    }

    #[test]
    fn every_value_lies_within_its_bucket() {
        for ms in (0..5000).chain([1 << 20, (1 << 30) + 12345, u64::MAX]) {
            let bound = upper_bound(bucket(ms));
            assert!(bound >= ms || bucket(ms) == BUCKETS - 1, "{ms}");
            assert!(bucket(ms) == 0 || upper_bound(bucket(ms) - 1) < ms, "{ms}");
        }
    }
}
