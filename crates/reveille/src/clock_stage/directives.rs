//! The user's orders in the middle of a text: taken out of everything that goes upstream, carried out once.

use super::{Desk, memory::Fingerprint};
use crate::engine::EngineError;
use reveille_core::{Call, Command, Directive, SessionId, Thread, directive};
use reveille_gateway::Draft;

/// What stands in place of a text that was nothing but a directive, since no model takes an empty one.
const NOTHING_ELSE: &str = "[A directive to the gateway, carried out.]";

/// The orders of the newest turn, and what the message they stand in is known by.
pub struct Orders {
    pub by: String,
    pub directives: Vec<Directive>,
}

/// Takes all directives out of the user's texts; those of the newest turn are to be carried out.
pub fn take_out(draft: &mut Draft) -> Option<Orders> {
    // Some JSON writers escape the angle bracket, as `\u003c` or `\u003C`.
    if !draft.mentions(b"<**") && !draft.mentions(b"\\u003") {
        return None;
    }
    let texts = draft.user_texts();
    let (mut directives, mut newest) = (Vec::new(), Vec::new());
    for (place, text) in texts.iter().enumerate() {
        let Some(stripped) = directive::strip(&text.text) else { continue };
        let left = if stripped.text.trim().is_empty() { NOTHING_ELSE } else { &stripped.text };
        draft.replace(text.range.clone(), &serde_json::Value::from(left).to_string());
        if text.newest {
            directives.extend(stripped.directives);
            newest.push(place);
        }
    }
    if directives.is_empty() {
        return None;
    }
    // Said again in so many words it is meant again; sent again it is not.
    let mut parts = Vec::new();
    for place in newest {
        let said = texts.iter().filter(|text| text.text == texts[place].text).count();
        parts.extend([texts[place].text.clone(), said.to_string()]);
    }
    parts.extend(draft.outline.ids.previous_response_id.clone());
    let parts: Vec<&[u8]> = parts.iter().map(String::as_bytes).collect();
    Some(Orders { by: Fingerprint::of(&parts).to_hex(), directives })
}

impl Desk {
    /// Carries the orders out, unless they were.
    pub async fn carry_out(&self, session: &SessionId, orders: Orders) -> Result<(), EngineError> {
        let Orders { by, directives } = orders;
        let known = self.engine.glance(session).await?.thread;
        if known.is_some_and(|thread| thread.directed_by.as_deref() == Some(&by)) {
            return Ok(());
        }
        // First, so that a crash in between leads to clearing twice rather than never.
        if directives.contains(&Directive::ClearReminders) {
            self.engine.execute(session, Call::new(Command::ClearReminders)).await?;
        }
        tracing::info!(target: "reveille::clock", %session, directives = directives.len(), "directives");
        let direct = Command::Direct { thread: Thread::id_of(session), by, directives };
        self.engine.execute(session, Call::new(direct)).await.map(drop)
    }
}
