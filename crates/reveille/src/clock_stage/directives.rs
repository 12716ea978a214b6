//! The user's orders in the middle of a text: taken out of everything that goes upstream, carried out once.

use super::{memory::Fingerprint, visit::ClockVisit};
use crate::engine::EngineError;
use reveille_core::{Call, Command, Directive, SessionId, Thread, directive};
use reveille_gateway::{Draft, Fault, Protocol};

/// What stands in place of a text that was nothing but a directive, since no model takes an empty one. The same whatever
/// became of it: prompt caches are keyed by it.
const NOTHING_ELSE: &str = "[A directive to the gateway.]";
/// How a directive begins in JSON. Some writers escape the angle bracket, as `\u003c` or `\u003C`.
const MARKS: [&[u8]; 2] = [b"<**", b"\\u003"];

/// The orders of the newest turn, and what the message they stand in is known by.
pub struct Orders {
    said: Vec<String>,
    directives: Vec<Directive>,
    /// Others that cannot be read.
    malformed: usize,
}

/// Takes all directives out, wherever they stand; those in the user's words of the newest turn are to be carried out.
pub fn take_out(draft: &mut Draft) -> Option<Orders> {
    if !MARKS.iter().any(|mark| draft.mentions(mark)) {
        return None;
    }
    for (range, text) in draft.others_texts(&MARKS) {
        if let Some(stripped) = directive::strip(&text) {
            draft.replace(range, &json(&stripped.text));
        }
    }
    let texts = draft.user_texts();
    let (mut directives, mut malformed, mut newest) = (Vec::new(), 0, Vec::new());
    for (place, text) in texts.iter().enumerate() {
        let Some(stripped) = directive::strip(&text.text) else { continue };
        draft.replace(text.range.clone(), &json(&stripped.text));
        if text.newest {
            directives.extend(stripped.directives);
            malformed += stripped.malformed;
            newest.push(place);
        }
    }
    if newest.is_empty() {
        return None;
    }
    // Said again in so many words it is meant again; sent again it is not.
    let mut said = Vec::new();
    for place in newest {
        let times = texts.iter().filter(|text| text.text == texts[place].text).count();
        said.extend([texts[place].text.clone(), times.to_string()]);
    }
    said.extend(draft.outline.ids.previous_response_id.clone());
    Some(Orders { said, directives, malformed })
}

fn json(left: &str) -> String {
    serde_json::Value::from(if left.trim().is_empty() { NOTHING_ELSE } else { left }).to_string()
}

impl ClockVisit {
    /// Words that are no part of the conversation give no orders: a title is made of what the user said before.
    pub(super) fn pass_over(&self, orders: &Orders) {
        let (request, session, count) = (&self.request, &self.session, orders.directives.len());
        if count > 0 {
            tracing::info!(target: "reveille::clock", request, ?session, count, "directives in a call that gives no orders");
        }
    }

    /// Carries the orders out. A user who believes that it was done must not be wrong.
    pub(super) async fn obey(&mut self, orders: Orders) -> Result<(), Fault> {
        if orders.malformed > 0 {
            let (request, session, count) = (&self.request, &self.session, orders.malformed);
            tracing::warn!(target: "reveille::clock", request, ?session, count, "directives that cannot be read");
        }
        if orders.directives.is_empty() {
            return Ok(());
        }
        let failed = |why: String| Fault::Refused(format!("a directive could not be carried out: {why}"));
        match self.session.clone() {
            Some(session) => self.carry_out(&session, &orders).await.map_err(|error| failed(error.to_string())),
            // Its session is named by the answer.
            None if self.protocol == Protocol::Responses && self.keeps => {
                self.orders = Some(orders);
                Ok(())
            }
            None => Err(failed(self.no_session())),
        }
    }

    /// Unless they were.
    pub(super) async fn carry_out(&self, session: &SessionId, orders: &Orders) -> Result<(), EngineError> {
        let engine = &self.desk.engine;
        let mut said: Vec<&[u8]> = orders.said.iter().map(String::as_bytes).collect();
        // A conversation that its upstream keeps is not sent along: the same words may be those of another turn.
        let turn = self.conversation.then(|| self.desk.memory.attempt(session, self.fingerprint(), engine.now()));
        said.extend(turn.as_ref().map(String::as_bytes));
        let by = Fingerprint::of(&said).to_hex();
        if let Some(known) = engine.glance(session).await?.thread {
            let held = || self.desk.memory.was_held(session, || self.fingerprint());
            if known.was_directed(&by, engine.now()) || (known.directed_by.as_ref() == Some(&by) && held()) {
                return Ok(());
            }
        }
        let directives = orders.directives.clone();
        // First, so that a crash in between leads to clearing twice rather than never.
        if directives.contains(&Directive::ClearReminders) {
            engine.execute(session, Call::new(Command::ClearReminders)).await?;
        }
        tracing::info!(target: "reveille::clock", %session, directives = directives.len(), "directives");
        let direct = Command::Direct { thread: Thread::id_of(session), by, directives };
        engine.execute(session, Call::new(direct)).await.map(drop)
    }
}
