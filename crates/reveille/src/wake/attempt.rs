//! One attempt to wake one session: looks whether there is anything to tell and nobody else to tell it, leases the
//! messages, runs the command, and settles the lease by how it ended.

use super::{
    Rules, Verdict, WakeRule,
    left::{Left, State},
    process,
    rule::Filling,
};
use crate::engine::{Engine, EngineError};
use reveille_core::{
    Call, Command, LeaseId, Message, Millis, Needs, SessionId, Timestamp, command::Ride, history, session::SessionState,
};
use reveille_store::StoreError;
use serde_json::{Value, json};
use std::{path::PathBuf, sync::Arc};
use tokio_util::sync::CancellationToken;

/// A lease outlives its command by this much, so that nobody else takes the messages while it is being settled.
const LEASE_MARGIN: Millis = Millis::from_secs(30);
/// Told in one go; more wait for the next. As one argument of a program it must stay below 128 KiB.
const MESSAGES_MAX: usize = 20;
const CHARS_MAX: usize = 30_000;
/// A client at another node holds the session: how long until that is looked at again.
const HELD_ELSEWHERE: Millis = Millis::from_secs(2);
/// After a failure of the store: how long until the next try to settle.
const RETRY: Millis = Millis::from_secs(1);

/// By this the leases of commands are known, at every node.
const LEASE_PREFIX: &str = "wake_";

/// In the place of a command's words, which went to a process that died.
const FOLLOWED: &str = "(the server was killed meanwhile and started again; how it ended is not known)";
const LOST: &str = "(the server was killed meanwhile, and the command is gone; it is run again)";

pub const STARTED: &str = "wake.started";
pub const ENDED: &str = "wake.ended";
/// Somebody wants it tried once more, whatever was given up before.
pub const ASKED: &str = "wake.asked";
pub const GIVEN_UP: &str = "wake.given_up";

pub struct Attempt {
    pub engine: Arc<Engine>,
    pub rules: Arc<Rules>,
    pub rule: usize,
    pub session: SessionId,
    /// Attempts of this process that have failed before this one.
    pub failures: u32,
    pub stop: CancellationToken,
}

impl Attempt {
    pub async fn run(self) -> Verdict {
        match self.try_once().await {
            Ok(verdict) => verdict,
            Err(error) => {
                tracing::warn!(%error, session = %self.session, "an agent cannot be woken now; trying again");
                Verdict::Later(self.engine.now().plus(RETRY))
            }
        }
    }

    async fn try_once(&self) -> Result<Verdict, EngineError> {
        let failures = match self.look().await? {
            Ok(failures) => failures.max(self.failures),
            Err(verdict) => return Ok(verdict),
        };
        let (_, rule) = self.rule();
        let lease = LeaseId::new(format!("{LEASE_PREFIX}{}", self.engine.fresh_lease()));
        let length = rule.timeout.0.plus(LEASE_MARGIN);
        let ride = Ride {
            lease: lease.clone(),
            length,
            messages_max: MESSAGES_MAX,
            chars_max: CHARS_MAX,
            alone_among: Some(LEASE_PREFIX),
        };
        let leased = self.engine.lease(&self.session, ride, None).await?;
        if leased.is_empty() {
            return Ok(Verdict::Later(self.engine.now()));
        }
        let verdict = match self.look_again(&leased, failures).await {
            Ok(Ok(failures)) => return self.tell(lease, &leased, failures).await,
            Ok(Err(verdict)) => Ok(verdict),
            Err(error) => Err(error.into()),
        };
        self.settle(Command::ReleaseLease { lease }).await;
        verdict
    }

    /// Runs the command with what was leased for it.
    async fn tell(&self, lease: LeaseId, leased: &[Message], failures: u32) -> Result<Verdict, EngineError> {
        let (name, rule) = self.rule();
        let ids: Vec<&str> = leased.iter().map(|message| &*message.id).collect();
        let running = self.command(rule, leased).await;
        let process = running.as_ref().ok().and_then(|running| Left::found(running.id()?));
        let started =
            json!({"rule": name, "attempt": failures + 1, "messages": ids, "lease": lease, "process": process});
        // It is told nothing before that is written down: who wakes an agent must be able to say so after a crash.
        if let Err(error) = self.record(STARTED, started).await {
            self.settle(Command::ReleaseLease { lease }).await;
            return Err(error);
        }
        let began = self.engine.now();
        self.engine.metrics.wake(name, "started");
        let ended = match running {
            Ok(running) => {
                self.engine.metrics.waking.inc();
                let ended = running.end(self.time_over(rule.timeout.0)).await;
                self.engine.metrics.waking.dec();
                ended
            }
            Err(ended) => ended,
        };
        // Whatever an agent that has its message does not finish in time: to be told again would begin it anew.
        let given = ended.read || rule.gives_message();
        let told = ended.code == Some(0) || ended.killed && given && !self.stop.is_cancelled();
        // What was told is settled first, or it would be told again; what was not, last: whoever finds it free, at whichever
        // node, has to see how often that was tried.
        if told {
            self.close(lease.clone(), told).await;
        }
        let data = json!({
            "rule": name,
            "exit": ended.code,
            "killed": ended.killed,
            "told": told,
            "duration": history::seconds(self.engine.now().since(began)),
            "output": ended.output,
            "interrupted": !told && self.stop.is_cancelled(),
        });
        self.settle(Command::Record { event: ENDED, data }).await;
        self.engine.metrics.wake(name, if told { "succeeded" } else { "failed" });
        if told {
            return Ok(Verdict::Told);
        }
        let given_up = failures >= rule.retries && !self.stop.is_cancelled();
        if given_up {
            let data = json!({"rule": name, "attempts": failures + 1, "messages": ids});
            self.settle(Command::Record { event: GIVEN_UP, data }).await;
            self.engine.metrics.wake(name, "given_up");
            tracing::warn!(session = %self.session, rule = name, "an agent could not be woken; its message stays in the inbox");
        }
        self.close(lease, told).await;
        Ok(if given_up { Verdict::Nothing } else { Verdict::Failed })
    }

    /// How many attempts have failed, by any process; or why no command may be run at this moment.
    async fn look(&self) -> Result<Result<u32, Verdict>, StoreError> {
        if let Some(held) = self.held().await? {
            return Ok(Err(held));
        }
        let needs = Needs { inbox: true, ..Needs::default() };
        let state = self.engine.store().load(&self.session, needs).await?;
        let now = self.engine.now();
        if state.session.is_none_or(|session| session.state == SessionState::Closed) {
            return Ok(Err(Verdict::Nothing));
        }
        if state.inbox.iter().any(|message| message.held_until(now).is_some())
            && let Some(verdict) = self.left_behind(&state.inbox).await?
        {
            return Ok(Err(verdict));
        }
        if let Some(verdict) = other_command(&state.inbox, now) {
            return Ok(Err(verdict));
        }
        let free: Vec<&Message> = state.inbox.iter().filter(|message| message.is_free(now)).collect();
        if free.is_empty() || self.given_up(&free).await? {
            let leases = state.inbox.iter().filter_map(|message| message.lease.as_ref()).map(|lease| lease.until);
            let free_again = leases.filter(|until| *until > now).min();
            return Ok(Err(free_again.map_or(Verdict::Nothing, Verdict::Later)));
        }
        self.look_back(&free, now).await
    }

    /// Right before it begins, with the lease in hand: two programs must never write one conversation, so a client may not
    /// have come meanwhile; and another node may have tried the same messages and failed.
    async fn look_again(&self, leased: &[Message], failures: u32) -> Result<Result<u32, Verdict>, StoreError> {
        if let Some(held) = self.held().await? {
            return Ok(Err(held));
        }
        if self.engine.store().is_alone() {
            return Ok(Ok(failures));
        }
        let leased: Vec<&Message> = leased.iter().collect();
        if self.given_up(&leased).await? {
            return Ok(Err(Verdict::Nothing));
        }
        Ok(self.look_back(&leased, self.engine.now()).await?.map(|before| before.max(failures)))
    }

    /// How many attempts have failed for these messages; or until when the next has to wait.
    async fn look_back(&self, messages: &[&Message], now: Timestamp) -> Result<Result<u32, Verdict>, StoreError> {
        let (failures, not_before) = self.failed_before(messages, now).await?;
        let later = match not_before.filter(|at| *at > now) {
            Some(at) => Some(at),
            None => self.too_many(now).await?,
        };
        Ok(later.map_or(Ok(failures), |at| Err(Verdict::Later(at))))
    }

    /// A live client holds the session, here or at another node; nobody tells when one leaves that.
    async fn held(&self) -> Result<Option<Verdict>, StoreError> {
        if self.engine.presence().is_held(&self.session) {
            return Ok(Some(Verdict::Held));
        }
        let elsewhere = self.engine.store().is_held_elsewhere(&self.session).await?;
        Ok(elsewhere.then(|| Verdict::Later(self.engine.now().plus(HELD_ELSEWHERE))))
    }

    /// A command that another process has started, which died before the command ended.
    async fn left_behind(&self, inbox: &[Message]) -> Result<Option<Verdict>, StoreError> {
        let Some(started) = self.recorded(STARTED, 1).await?.pop() else { return Ok(None) };
        if self.recorded(ENDED, 1).await?.first().is_some_and(|ended| ended.seq > started.seq) {
            return Ok(None);
        }
        let data = &started.entry.data;
        let lease = LeaseId::new(data["lease"].as_str().unwrap_or_default());
        let Ok(left) = serde_json::from_value::<Left>(data["process"].clone()) else { return Ok(None) };
        if !inbox.iter().any(|message| message.is_leased_by(&lease)) {
            return Ok(None);
        }
        let (_, rule) = self.rule();
        let told = match left.state() {
            State::Unknown => return Ok(None),
            State::Gone => false,
            State::Alive => {
                tracing::info!(session = %self.session, pid = left.pid, "an agent woken before goes on");
                let left_over = started.entry.at.plus(rule.timeout.0).since(self.engine.now());
                let length = left_over.plus(LEASE_MARGIN);
                self.settle(Command::ExtendLease { lease: lease.clone(), length }).await;
                left.ends(self.time_over(left_over)).await;
                if self.stop.is_cancelled() {
                    return Ok(Some(Verdict::Held)); // the next process finds it again
                }
                left.kill();
                true
            }
        };
        // It had its message, as far as anybody knows: to be told again would begin it anew.
        self.settle(match told {
            true => {
                Command::CommitLease { lease, channel: format!("wake:{}", data["rule"].as_str().unwrap_or_default()) }
            }
            false => Command::ReleaseLease { lease },
        })
        .await;
        let data = json!({
            "rule": data["rule"],
            "exit": null,
            "killed": false,
            "told": told,
            "duration": history::seconds(self.engine.now().since(started.entry.at)),
            "output": if told { FOLLOWED } else { LOST },
            "interrupted": !told,
        });
        self.settle(Command::Record { event: ENDED, data }).await;
        Ok(Some(if told { Verdict::Told } else { Verdict::Later(self.engine.now()) }))
    }

    /// The command's time is over, or the server stops.
    async fn time_over(&self, length: Millis) {
        tokio::select! {
            biased;
            () = self.engine.clock().sleep(length) => {}
            () = self.stop.cancelled() => {}
        }
    }

    async fn command(&self, rule: &WakeRule, leased: &[Message]) -> Result<process::Running, process::Ended> {
        let message = leased.iter().map(|message| message.text.as_str()).collect::<Vec<_>>().join("\n\n");
        let cwd = match &rule.cwd {
            Some(cwd) => Some(cwd.clone()),
            None => self.workplace().await,
        };
        let shown = cwd.as_ref().map_or(".".into(), |cwd| cwd.to_string_lossy());
        let filling =
            Filling { session: self.session.as_str(), message: &message, server: &self.rules.server, cwd: &shown };
        let arguments = match rule.arguments(filling) {
            Ok(arguments) => arguments,
            Err(output) => return Err(process::Ended::failed(output)),
        };
        let own = [("REVEILLE_SESSION", self.session.as_str()), ("REVEILLE_URL", &self.rules.server)];
        let token = self.rules.token.as_ref().map(|token| ("REVEILLE_TOKEN", token.expose()));
        let own = own.into_iter().chain(token).map(|(name, value)| (name.to_owned(), value.to_owned()));
        let env = rule.env.clone().into_iter().chain(own).collect();
        let (program, cwd, gated) = (&*rule.command[0], cwd.as_deref(), rule.gives_message());
        process::Running::start(process::Order { program, arguments, cwd, env, stdin: message, gated })
    }

    /// Where the agent worked last, if that is still there.
    async fn workplace(&self) -> Option<PathBuf> {
        let kept = self.engine.store().load(&self.session, Needs::default()).await.ok();
        let kept = kept.and_then(|state| state.session).and_then(|session| session.cwd);
        let cwd = PathBuf::from(self.engine.presence().cwd_seen(&self.session).or(kept)?);
        cwd.is_dir().then_some(cwd)
    }

    /// What was told is committed however long it takes, or it would be told again.
    async fn close(&self, lease: LeaseId, told: bool) {
        let (name, _) = self.rule();
        self.settle(match told {
            true => Command::CommitLease { lease, channel: format!("wake:{name}") },
            false => Command::ReleaseLease { lease },
        })
        .await;
    }

    async fn settle(&self, command: Command) {
        loop {
            match self.engine.execute(&self.session, Call::new(command.clone())).await {
                // A refusal: the lease ran out and somebody else has the messages.
                Ok(_) | Err(EngineError::Reject(_)) => return,
                Err(_) if self.stop.is_cancelled() => return,
                Err(_) => self.engine.clock().sleep(RETRY).await,
            }
        }
    }

    async fn record(&self, event: &'static str, data: Value) -> Result<(), EngineError> {
        self.engine.execute(&self.session, Call::new(Command::Record { event, data })).await.map(|_| ())
    }

    pub(super) fn rule(&self) -> (&str, &WakeRule) {
        let (name, rule) = &self.rules.list[self.rule];
        (name, rule)
    }
}

/// Another command is under way in this session, or about to begin: until when that may last.
fn other_command(inbox: &[Message], now: Timestamp) -> Option<Verdict> {
    let leases = inbox.iter().filter_map(|message| message.lease.as_ref());
    let others = leases.filter(|lease| lease.id.as_str().starts_with(LEASE_PREFIX));
    others.map(|lease| lease.until).filter(|until| *until > now).max().map(Verdict::Later)
}
