//! Wake commands: when a message has no live channel, a command from the configuration brings its agent back.
//!
//! One task hears of commits and of clients that leave, sleeps to the next thing to look at, and starts attempts. With no
//! rules it hears of nothing, until there are some. What is pending is found again at every start; a command that was running when the process
//! died is waited for if it still runs, and run again if not (`left`).

pub mod attempt;
mod left;
mod plan;
pub(crate) mod process;
mod rule;
mod tried;

pub use plan::Verdict;
pub use rule::WakeRule;
pub(crate) use rule::glob;

use crate::{config::Token, engine::Engine};
use attempt::Attempt;
use plan::Plan;
use reveille_core::{MessageWrite, Millis, Session, SessionId, Timestamp};
use reveille_store::{Committed, Feed, News, SessionFilter, StoreError};
use std::{collections::HashMap, sync::Arc};
use tokio::{
    sync::watch,
    task::{Id, JoinError, JoinSet},
};
use tokio_util::sync::CancellationToken;

/// Sessions read at a time while looking for pending messages at the start.
const PAGE: usize = 500;
/// After a failure of the store: how long until the next try.
const RETRY: Millis = Millis::from_secs(1);

/// The rules and what their commands are told.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Of several that serve a session, the first is meant.
    pub list: Vec<(String, WakeRule)>,
    pub concurrency: usize,
    /// Base URL of this server.
    pub server: String,
    /// What opens that server, for the agent's own calls.
    pub token: Option<Token>,
}

impl Rules {
    /// The rule for a session of this name, whose agent runs in this kind of program.
    pub fn serving(&self, session: &SessionId, client: Option<&str>) -> Option<usize> {
        self.list.iter().position(|(_, rule)| rule.serves(session, client))
    }
}

/// Runs until `stop` is cancelled; commands that are running then are ended.
pub async fn run(engine: Arc<Engine>, stop: CancellationToken) {
    let (freed, mut changes) = (engine.presence().freed(), engine.wake_rules_changes());
    let rules = changes.borrow_and_update().clone();
    let mut watcher = Watcher {
        looked_at: engine.now(),
        plan: Plan::default(),
        running: JoinSet::new(),
        sessions: HashMap::new(),
        stop: stop.clone(),
        engine,
        rules,
    };
    stop.run_until_cancelled(watcher.run(freed, changes)).await;
    while watcher.running.join_next().await.is_some() {}
}

struct Watcher {
    engine: Arc<Engine>,
    rules: Arc<Rules>,
    stop: CancellationToken,
    plan: Plan,
    running: JoinSet<Verdict>,
    sessions: HashMap<Id, SessionId>,
    looked_at: Timestamp,
}

impl Watcher {
    async fn run(&mut self, mut freed: watch::Receiver<u64>, mut changes: watch::Receiver<Arc<Rules>>) {
        loop {
            let mut feed = (!self.rules.list.is_empty()).then(|| self.engine.store().feed());
            if feed.is_some() {
                self.find_pending_again().await;
            }
            if !self.follow(feed.as_mut(), &mut freed, &mut changes).await {
                return;
            }
            self.rules = changes.borrow_and_update().clone();
            self.plan.forget_rules();
        }
    }

    /// Until the rules change; `false`: everything is over.
    async fn follow(
        &mut self,
        mut feed: Option<&mut Feed>,
        freed: &mut watch::Receiver<u64>,
        changes: &mut watch::Receiver<Arc<Rules>>,
    ) -> bool {
        loop {
            self.begin_attempts();
            let alarm = self.engine.clock().sleep_until(self.wake_at());
            let news = async {
                match &mut feed {
                    Some(feed) => feed.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(ended) = self.running.join_next_with_id() => self.ended(ended),
                changed = changes.changed() => return changed.is_ok(),
                news = news => match news {
                    Some(News::Missed) => self.find_pending_again().await,
                    Some(news) => news.commits().iter().for_each(|committed| self.learn(committed)),
                    None => return false, // the store is closed
                },
                changed = freed.changed() => match changed {
                    Ok(()) => self.free(),
                    Err(_) => return false,
                },
                () = alarm => {}
            }
        }
    }

    async fn find_pending_again(&mut self) {
        while let Err(error) = self.find_pending().await {
            tracing::warn!(%error, "pending messages cannot be read; trying again");
            self.engine.clock().sleep(RETRY).await;
        }
    }

    /// Messages from before this process, newest sessions first.
    async fn find_pending(&mut self) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let filter = SessionFilter { undelivered: true, after, limit: PAGE };
            let page = self.engine.store().sessions(filter).await?;
            page.iter().for_each(|(_, session)| self.consider(session, false));
            match page.last() {
                Some((last, _)) if page.len() == PAGE => after = Some(*last),
                _ => return Ok(()),
            }
        }
    }

    fn learn(&mut self, committed: &Committed) {
        let (messages, history) = (&committed.batch.messages, &committed.batch.history);
        let asked = history.iter().any(|entry| entry.event == attempt::ASKED);
        if asked || !messages.is_empty() {
            let new = asked || messages.iter().any(|write| matches!(write, MessageWrite::Insert(_)));
            self.consider(&committed.batch.session, new);
        }
    }

    fn consider(&mut self, session: &Session, new: bool) {
        if self.plan.is_settled(session) {
            return;
        }
        if let Some(rule) = self.rules.serving(&session.id, session.client.as_deref()) {
            let grace = self.rules.list[rule].1.grace.0;
            self.plan.waits(&session.id, rule, grace, new, self.engine.now());
        }
    }

    fn begin_attempts(&mut self) {
        let now = self.engine.now();
        if now < self.looked_at {
            self.plan.clock_set_back(now);
        }
        self.looked_at = now;
        while self.running.len() < self.rules.concurrency {
            let Some((session, rule, failures)) = self.plan.begin(now) else { return };
            let (engine, rules, stop) = (self.engine.clone(), self.rules.clone(), self.stop.clone());
            let attempt = Attempt { engine, rules, rule, session: session.clone(), failures, stop };
            let handle = self.running.spawn(attempt.run());
            self.sessions.insert(handle.id(), session);
        }
    }

    /// With no place free, what is due waits for an attempt to end, which wakes this task anyway.
    fn wake_at(&self) -> Timestamp {
        let next = self.plan.next().filter(|_| self.running.len() < self.rules.concurrency);
        next.unwrap_or(Timestamp::from_millis(i64::MAX))
    }

    fn ended(&mut self, ended: Result<(Id, Verdict), JoinError>) {
        let now = self.engine.now();
        let (id, verdict) = ended.unwrap_or_else(|error| {
            tracing::error!(%error, "an attempt to wake an agent failed; trying again");
            (error.id(), Verdict::Failed)
        });
        if let Some(session) = self.sessions.remove(&id) {
            self.plan.ended(&session, verdict, now);
        }
        // It may have become free while that was found out.
        self.free();
    }

    fn free(&mut self) {
        let presence = self.engine.presence();
        self.plan.free(|session| presence.is_held(session), self.engine.now());
    }
}
