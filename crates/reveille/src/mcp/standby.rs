//! A call that stands by shows that it lives: progress at once, then every few seconds.

use super::Call;
use crate::tools::given;
use reveille_core::{Limits, Millis, duration};
use rmcp::{
    RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
    service::{Peer, RequestContext},
};
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior};

/// Often enough for clients that give up after ten seconds without a byte.
pub const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

/// The longest this call can stand by, if it can at all.
pub fn expected(call: &Call) -> Option<Millis> {
    let said = |name: &str| given(&call.arguments, name);
    if call.task || call.tool.name() != "timer" || said("mission").is_some() {
        return None;
    }
    let length = |name: &'static str| duration::parse(name, said(name)?, Limits::default().duration_max).ok();
    let asked = length("timeout_duration").into_iter().chain(length("total_duration")).min();
    Some(asked.unwrap_or(call.standby_max).min(call.standby_max))
}

/// Sends progress for as long as it is polled.
pub struct Progress {
    peer: Peer<RoleServer>,
    token: ProgressToken,
    length: Millis,
}

impl Progress {
    /// `None`: the client did not ask for it.
    pub fn of(context: &RequestContext<RoleServer>, length: Millis) -> Option<Self> {
        Some(Self { peer: context.peer.clone(), token: context.meta.get_progress_token()?, length })
    }

    pub async fn run(self) {
        let began = Instant::now();
        let mut ticks = tokio::time::interval(SIGN_OF_LIFE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = -1.0;
        loop {
            ticks.tick().await;
            let passed = began.elapsed().as_millis() as u64 / 1000;
            // Strictly more every time, as the protocol wants it, also where the clock was lazy.
            let progress = (passed as f64).max(last + 0.001);
            last = progress;
            if self.peer.notify_progress(self.note(progress, passed)).await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    fn note(&self, progress: f64, passed: u64) -> ProgressNotificationParam {
        let total = self.length.get().div_ceil(1000);
        let left = total.saturating_sub(passed);
        ProgressNotificationParam::new(self.token.clone(), progress)
            .with_total((total as f64).max(progress))
            .with_message(format!("standing by: {left} s of {total} s remain"))
    }
}
