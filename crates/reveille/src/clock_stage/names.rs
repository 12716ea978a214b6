//! Conversations that only their upstream keeps: clients name the answer before (`previous_response_id`), and nothing else.
//! Which session that is, and what the upstream calls the answer, is known in memory; for sessions of which anything is kept
//! it is kept with them.

use super::visit::{ClockVisit, put};
use crate::engine::EngineError;
use reveille_core::{Call, Command, SessionId, Thread, thread::Aside};
use reveille_gateway::{Draft, Protocol, Seen, ToolResult};

impl ClockVisit {
    /// Finds the session by the answer before this one, and calls that answer what the upstream calls it. Whether anything is
    /// known of it.
    pub(super) async fn find(&mut self, draft: &mut Draft) -> bool {
        if self.protocol != Protocol::Responses || self.previous.is_empty() {
            return false;
        }
        let known = self.session.clone().or_else(|| self.desk.memory.session_of(&self.previous));
        let answer = self.desk.engine.if_ready("clock", self.look_up(known.as_ref())).await.flatten();
        if let Some((_, thread)) = &answer {
            if let Some((shown, upstream)) = &thread.alias {
                draft.rename_previous(shown, upstream);
            }
            let owed = thread.asides.iter().flat_map(|aside| put(aside).answered);
            let owed: Vec<ToolResult> = owed.map(|(_, result)| result).collect();
            draft.answer_first(&owed);
        }
        // An answer of a conversation that is not known is as good a name for it as any.
        let found = answer.map(|(session, _)| session);
        let is_known = known.is_some() || found.is_some();
        self.session = known.or(found).or_else(|| SessionId::parse(&self.previous).ok());
        is_known
    }

    /// A call that is left alone may still go on from answers in which calls of ours are hidden. Whether it is to be followed
    /// to its end: then the next call finds the session by its answer, and what was owed is owed no more.
    pub(super) async fn mend(&mut self, draft: &mut Draft) -> bool {
        if self.protocol != Protocol::Responses || !self.kept_upstream() {
            return false;
        }
        let is_known = self.find(draft).await;
        if let Some(session) = self.session.clone() {
            let engine = self.desk.engine.clone();
            let glance = engine.if_ready("clock", engine.glance(&session)).await;
            if let Some(thread) = glance.and_then(|glance| glance.thread) {
                self.put_back(draft, &thread);
            }
        }
        self.passive = true;
        !self.settled.is_empty() || (is_known && self.by_answer && !self.subagent)
    }

    /// The upstream has the conversation, and the request only what is new.
    pub(super) fn kept_upstream(&self) -> bool {
        self.conversation || !self.previous.is_empty()
    }

    /// Puts calls of ours back where the client knows nothing of them. One whose place is gone, because the client names its
    /// own calls anew, is to be told in words, once.
    pub(super) fn put_back(&mut self, draft: &mut Draft, thread: &Thread) -> Option<String> {
        let mut lost = None;
        for aside in &thread.asides {
            let back = put(aside);
            let there = match aside.anchor.is_empty() {
                false => draft.put_back(&back),
                true if self.conversation => {
                    let results: Vec<ToolResult> = back.answered.into_iter().map(|(_, result)| result).collect();
                    draft.answer_first(&results);
                    self.settled.push(String::new());
                    true
                }
                true => true,
            };
            lost = (!there).then_some(aside);
        }
        let lost = lost.filter(|_| !self.kept_upstream() && draft.ends_with_results())?;
        self.settled.push(lost.anchor.clone());
        let told = lost
            .answered
            .iter()
            .map(|one| format!("[{} was called with {} and has answered {}]", one.tool, one.arguments, one.result));
        Some(told.collect::<Vec<_>>().join("\n"))
    }

    /// The model has answered: what was put before it, or told it, once, is known to it.
    pub(super) async fn settle(&mut self) -> Result<(), EngineError> {
        let Some(session) = self.session.clone() else { return Ok(()) };
        for anchor in std::mem::take(&mut self.settled) {
            let forget = Command::ForgetAside { thread: Thread::id_of(&session), anchor };
            self.desk.engine.execute(&session, Call::new(forget)).await?;
        }
        Ok(())
    }

    async fn look_up(&self, known: Option<&SessionId>) -> Result<Option<(SessionId, Thread)>, EngineError> {
        let engine = &self.desk.engine;
        // Nothing is kept of most sessions.
        if let Some(session) = known
            && engine.glance(session).await?.session.is_none()
        {
            return Ok(None);
        }
        let answer = engine.answer(&self.previous).await?;
        Ok(answer.filter(|(session, _)| known.is_none_or(|known| known == session)))
    }

    /// Whose answer this is. A conversation that only its upstream keeps is known by its first answer.
    pub(super) fn remember(&mut self, seen: &Seen) {
        let keeps = self.protocol == Protocol::Responses && self.keeps;
        let Some(answer) = seen.answer_id.as_ref().filter(|_| keeps && self.shown.is_none()) else { return };
        if self.session.is_none() {
            self.session = SessionId::parse(answer).ok();
            self.by_answer = true;
        }
        if let Some(session) = &self.session {
            self.desk.memory.answered(answer, session);
            self.shown = Some(answer.clone());
        }
    }

    /// The turn is over: its answer is kept under the client's name for it, where anything depends on that.
    pub(super) async fn name(&mut self, session: &SessionId, seen: &Seen) -> Result<(), EngineError> {
        let (Some(shown), Some(upstream)) = (self.shown.clone(), seen.answer_id.clone()) else { return Ok(()) };
        let mut owed = std::mem::take(&mut self.owed);
        if self.conversation && !owed.is_empty() {
            // The next call names the conversation, not this answer.
            let aside = Aside { anchor: String::new(), answered: std::mem::take(&mut owed) };
            let command = Command::SetAside { thread: Thread::id_of(session), aside };
            self.desk.engine.execute(session, Call::new(command)).await?;
        }
        let renamed = shown != upstream || !owed.is_empty();
        let leads_here = self.by_answer && session.as_str() != shown;
        let matters = renamed || leads_here && self.desk.engine.glance(session).await?.session.is_some();
        if !matters {
            return Ok(());
        }
        let command = Command::NameAnswer { answer: Thread::id_of_answer(&shown), shown, upstream, owed };
        self.desk.engine.execute(session, Call::new(command)).await.map(drop)
    }
}
