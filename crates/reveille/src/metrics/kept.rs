//! What the store holds, by the durable counters, and whether it works: set when somebody asks.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};
use reveille_core::{Status, batch::tally, reminder};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    status: &'static str,
}

type Gauges = Family<StateLabels, Gauge>;

pub struct KeptMetrics {
    timers: Gauges,
    reminders: Gauges,
    messages: Gauges,
    ready: Gauge,
}

impl KeptMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            timers: Family::default(),
            reminders: Family::default(),
            messages: Family::default(),
            ready: Gauge::default(),
        };
        let final_states = "; final states: how many there ever were";
        registry.register("timers", format!("Timers by state{final_states}"), metrics.timers.clone());
        registry.register("reminders", format!("Reminders by state{final_states}"), metrics.reminders.clone());
        registry.register("messages", format!("Messages by state{final_states}"), metrics.messages.clone());
        registry.register("ready", "1: the store takes changes and deadlines are kept", metrics.ready.clone());
        metrics
    }

    /// Brings the gauges to what the durable counters say.
    pub fn count(&self, tallies: &BTreeMap<String, i64>) {
        let count = |name: &str| tallies.get(name).copied().unwrap_or(0);
        let set = |gauges: &Gauges, status, value| {
            gauges.get_or_create(&StateLabels { status }).set(value);
        };
        for status in Status::ALL {
            set(&self.timers, status.as_str(), count(tally::timers(status)));
        }
        for status in reminder::Status::ALL {
            set(&self.reminders, status.as_str(), count(tally::reminders(status)));
        }
        let (delivered, withdrawn) = (count(tally::MESSAGES_DELIVERED), count(tally::MESSAGES_WITHDRAWN));
        set(&self.messages, "pending", count(tally::MESSAGES_CREATED) - delivered - withdrawn);
        set(&self.messages, "delivered", delivered);
        set(&self.messages, "withdrawn", withdrawn);
    }

    pub fn ready(&self, ready: bool) {
        self.ready.set(i64::from(ready));
    }
}
