//! The one task that writes. Group commit: whatever has queued up while the last group was made durable goes into the
//! next one, and each caller is answered only after the commit that holds its batch.

use super::{
    lane::{Fault, Lane},
    relay::Relay,
    write::{COMMIT, Rows},
};
use crate::{CommitError, Committed, StoreError};
use reveille_core::Batch;
use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tokio_postgres::error::SqlState;

/// Most batches in one statement; bounds the time a batch can wait for others' work.
const GROUP_BATCHES_MAX: usize = 512;
/// The database found that two nodes wait for each other, or was too busy to decide: tried again so often.
const TRIES_MAX: usize = 5;
/// Whose time is up so soon is not worth another wait. More than passes between two tries to connect, after the last of
/// which the wait is given up.
const SOON: Duration = Duration::from_millis(200);

pub type Answer = oneshot::Sender<Result<Arc<Committed>, CommitError>>;

pub enum Job {
    Commit(Box<Waiting>),
    Close { done: oneshot::Sender<()> },
}

/// A batch and who waits for it, until when.
pub struct Waiting {
    pub batch: Batch,
    pub answer: Answer,
    pub deadline: Instant,
}

pub struct Writer {
    pub lane: Lane,
    pub server: i64,
    pub node: i64,
    pub relay: Arc<Relay>,
}

impl Writer {
    pub async fn serve(self, mut jobs: mpsc::UnboundedReceiver<Job>) {
        let mut later: VecDeque<Waiting> = VecDeque::new();
        let mut closing = None;
        loop {
            if later.is_empty() && closing.is_none() {
                match jobs.recv().await {
                    Some(Job::Commit(waiting)) => later.push_back(*waiting),
                    Some(Job::Close { done }) => closing = Some(done),
                    None => break,
                }
            }
            while later.len() < GROUP_BATCHES_MAX
                && closing.is_none()
                && let Ok(job) = jobs.try_recv()
            {
                match job {
                    Job::Commit(waiting) => later.push_back(*waiting),
                    Job::Close { done } => closing = Some(done),
                }
            }
            if let Some(first) = deadline(&later) {
                match self.lane.ready(first).await {
                    Ok(()) => self.commit(one_of_each_session(&mut later)).await,
                    Err(error) => refuse(&mut later, &error),
                }
            } else if let Some(done) = closing {
                self.lane.close();
                let _ = done.send(());
                break;
            }
        }
    }

    /// Commits the group in one statement, or, if one of its batches cannot be written at all, each alone.
    async fn commit(&self, group: Vec<Waiting>) {
        self.relay.begins();
        let result = self.transact(&group).await;
        let error = match result {
            Ok(placed) => {
                self.answer(group, &placed);
                return self.relay.ends();
            }
            Err(error) => error,
        };
        self.relay.ends();
        if group.len() > 1 && matches!(error, CommitError::IdTaken | CommitError::Store(StoreError::Failed(_))) {
            for alone in group {
                Box::pin(self.commit(vec![alone])).await;
            }
            return;
        }
        for Waiting { answer, .. } in group {
            let _ = answer.send(Err(error.clone()));
        }
    }

    /// Of each batch that was written: which, its number among the commits, and its first history entry's.
    async fn transact(&self, group: &[Waiting]) -> Result<Vec<(usize, i64, i64)>, CommitError> {
        let told = self.relay.is_followed();
        let rows = Rows::of(group.iter().map(|one| &one.batch), told);
        let deadline = deadline(group).unwrap_or_else(Instant::now);
        let params = rows.params(&self.server, &self.node, &told);
        for _ in 0..TRIES_MAX {
            match self.lane.once(COMMIT, &params, deadline).await {
                Ok(found) => {
                    let placed = found.iter().map(|row| {
                        let idx: i64 = row.get(0);
                        (idx as usize - 1, row.get(1), row.get(2))
                    });
                    return Ok(placed.collect());
                }
                Err(Fault::Refused(error)) => match error.code() {
                    Some(code) if *code == SqlState::UNIQUE_VIOLATION => return Err(CommitError::IdTaken),
                    Some(code) if code.code().starts_with("40") => {}
                    _ => return Err(CommitError::Store(Fault::Refused(error).into())),
                },
                Err(Fault::Lost(why)) => {
                    let why = format!("{why}; whether the change was written is unknown");
                    return Err(StoreError::Unavailable(why).into());
                }
                Err(Fault::NotSent(error)) => return Err(error.into()),
            }
        }
        Err(StoreError::Unavailable("too many change the same at once".into()).into())
    }

    fn answer(&self, group: Vec<Waiting>, placed: &[(usize, i64, i64)]) {
        let mut placed = placed.iter().peekable();
        let (mut told, mut answers) = (Vec::new(), Vec::with_capacity(group.len()));
        for (place, Waiting { batch, answer, .. }) in group.into_iter().enumerate() {
            let result = match placed.next_if(|(written, ..)| *written == place) {
                None => Err(CommitError::Conflict),
                Some((_, num, first_seq)) => {
                    let committed = Arc::new(Committed { batch, first_seq: *first_seq, here: true });
                    told.push((*num, committed.clone()));
                    Ok(committed)
                }
            };
            answers.push((answer, result));
        }
        self.relay.written(told);
        for (answer, result) in answers {
            // A caller that went away has its change all the same.
            let _ = answer.send(result);
        }
    }
}

/// The next group: one statement changes a session once.
fn one_of_each_session(waiting: &mut VecDeque<Waiting>) -> Vec<Waiting> {
    let mut sessions = HashSet::new();
    let (mut group, mut rest) = (Vec::new(), VecDeque::new());
    for one in waiting.drain(..) {
        if group.len() < GROUP_BATCHES_MAX && sessions.insert(one.batch.session.id.clone()) {
            group.push(one);
        } else {
            rest.push_back(one);
        }
    }
    *waiting = rest;
    group
}

/// When the first of these has waited long enough.
fn deadline<'a>(waiting: impl IntoIterator<Item = &'a Waiting>) -> Option<Instant> {
    waiting.into_iter().map(|one| one.deadline).min()
}

/// There is no connection: all whose time is up are told so at once, and everybody, if waiting does not help.
fn refuse(waiting: &mut VecDeque<Waiting>, error: &StoreError) {
    let soon = Instant::now() + SOON;
    let (over, rest) = waiting.drain(..).partition::<VecDeque<_>, _>(|one| one.deadline <= soon || !error.passes());
    *waiting = rest;
    for Waiting { answer, .. } in over {
        let _ = answer.send(Err(error.clone().into()));
    }
}
