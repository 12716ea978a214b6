//! Messages: each is made once, held by one at a time, the oldest first, and told once; and only what was told counts as
//! delivered.

use super::{Charges, Commit, Rest, Rule, sky::Sky};
use crate::trace::Process;
use reveille_core::{Lease, Message, MessageKind, MessageWrite, SessionId};
use std::{collections::BTreeMap, sync::Arc};

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Free,
    /// `taken`: since when, in the time of the run.
    Leased {
        lease: String,
        until: i64,
        taken: u64,
    },
    Delivered,
    Withdrawn,
}

struct Known {
    session: SessionId,
    number: u64,
    kind: MessageKind,
    state: State,
    expires: Option<i64>,
}

/// What became of an answer that carried a lease.
pub struct Carried {
    pub by: Process,
    pub told: bool,
    pub by_name: bool,
    pub at: u64,
}

#[derive(Default)]
pub struct Inbox {
    known: BTreeMap<String, Known>,
    carried: BTreeMap<String, Carried>,
    /// Requests to models, and whether they were answered.
    prompts: BTreeMap<u64, (Arc<str>, bool)>,
    /// When each was delivered.
    delivered: BTreeMap<String, u64>,
    made: u64,
}

fn leased(lease: &Lease, taken: u64) -> State {
    State::Leased { lease: lease.id.to_string(), until: lease.until.as_millis(), taken }
}

/// A text as it stands in a request.
fn written(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.trim_matches('"').to_owned()
}

impl Known {
    fn is_free(&self, at: i64) -> bool {
        let free = match &self.state {
            State::Free => true,
            State::Leased { until, .. } => *until <= at,
            State::Delivered | State::Withdrawn => false,
        };
        free && self.expires.is_none_or(|expires| expires > at)
    }

    fn is_pending(&self) -> bool {
        matches!(self.state, State::Free | State::Leased { .. })
    }
}

impl Inbox {
    /// An answer with this lease reached its client, or did not.
    pub fn delivery(&mut self, lease: &str, carried: Carried) {
        self.carried.insert(lease.to_owned(), carried);
    }

    /// Something is still held by it.
    pub fn is_open(&self, wanted: &str) -> bool {
        self.known.values().any(|known| matches!(&known.state, State::Leased { lease, .. } if lease == wanted))
    }

    pub fn prompted(&mut self, request: u64, body: &Arc<str>) {
        self.prompts.insert(request, (body.clone(), false));
    }

    pub fn spoke(&mut self, request: u64) {
        if let Some((_, spoke)) = self.prompts.get_mut(&request) {
            *spoke = true;
        }
    }

    pub fn pending(&self, session: &SessionId) -> usize {
        self.known.values().filter(|known| known.session == *session && known.is_pending()).count()
    }

    pub fn is_delivered(&self, id: &str) -> bool {
        self.known.get(id).is_some_and(|known| known.state == State::Delivered)
    }

    /// Whether it was delivered before then.
    pub fn was_delivered_by(&self, id: &str, then: u64) -> bool {
        self.delivered.get(id).is_some_and(|at| *at < then)
    }

    pub fn exists(&self, id: &str) -> bool {
        self.known.contains_key(id)
    }

    pub fn commit(&mut self, commit: &Commit<'_>, sky: &Sky, charges: &mut Charges) {
        self.in_order(commit, charges);
        for write in &commit.batch.messages {
            match write {
                MessageWrite::Insert(message) => self.made(commit, message, charges),
                MessageWrite::Update(message) => self.changed(commit, message, sky, charges),
                MessageWrite::Withdraw(message) => self.withdrawn(message, charges),
            }
        }
    }

    /// Of what a reply could take along, it takes the oldest.
    fn in_order(&self, commit: &Commit<'_>, charges: &mut Charges) {
        let written = |id: &str| commit.batch.messages.iter().any(|write| &*write.message().id == id);
        let mut newest = None;
        for write in &commit.batch.messages {
            let MessageWrite::Update(message) = write else { continue };
            let Some(known) = self.known.get(&*message.id) else { continue };
            let longer = |id: &str| matches!(&known.state, State::Leased { lease, .. } if lease == id);
            let taken = message.lease.as_ref().filter(|lease| known.is_free(commit.at) && !longer(lease.id.as_str()));
            // A task takes the message of its own timer, and only that.
            let Some(lease) = taken.filter(|lease| lease.id.as_str().len() < 20) else { continue };
            newest = newest.max(Some((known.number, lease.id.to_string())));
        }
        let Some((newest, lease)) = newest else { return };
        let session = &commit.batch.session.id;
        let skipped = self.known.iter().find(|(id, known)| {
            known.session == *session && known.number < newest && known.is_free(commit.at) && !written(id)
        });
        if let Some((id, _)) = skipped {
            charges.say(Rule::Order, format!("{lease} passed over {id}, which was older"));
        }
    }

    fn made(&mut self, commit: &Commit<'_>, message: &Message, charges: &mut Charges) {
        self.made += 1;
        let state = match &message.lease {
            Some(lease) => leased(lease, charges.now),
            None => State::Free,
        };
        let known = Known {
            session: commit.batch.session.id.clone(),
            number: self.made,
            kind: message.kind,
            state,
            expires: message.expires_at.map(|at| at.as_millis()),
        };
        let new = self.known.insert(message.id.to_string(), known).is_none();
        charges.unless(new, Rule::Twice, || format!("{} was made twice", message.id));
    }

    fn changed(&mut self, commit: &Commit<'_>, message: &Message, sky: &Sky, charges: &mut Charges) {
        let id = &*message.id;
        let Some(known) = self.known.get_mut(id) else {
            return charges.say(Rule::Lost, format!("{id} was changed and never made"));
        };
        if !known.is_pending() {
            return charges.say(Rule::Twice, format!("{id} was changed when it was {:?}", known.state));
        }
        let (held, taken) = match &known.state {
            State::Leased { lease, taken, .. } => (Some(lease.clone()), *taken),
            _ => (None, charges.now),
        };
        let carried = held.as_ref().and_then(|lease| self.carried.get(lease));
        if let Some(delivered) = &message.delivered {
            let prompted = |text: &str| self.prompts.values().any(|(body, spoke)| *spoke && body.contains(text));
            let text = written(&message.text);
            let told = match delivered.channel.as_str() {
                "gateway" => prompted(&text),
                // The result of a call that a model made is a document in a text.
                _ => carried.is_some_and(|carried| carried.told) || prompted(&written(&text)),
            };
            charges.unless(told, Rule::Lost, || format!("{id} counts as delivered by {held:?}, which told nobody"));
            known.state = State::Delivered;
            self.delivered.insert(id.to_owned(), charges.now);
            return;
        }
        let Some(lease) = &message.lease else {
            charges.unless(held.is_some(), Rule::Wrong, || format!("{id} was given back by nobody"));
            charges.unless(!carried.is_some_and(|carried| carried.told), Rule::Twice, || {
                format!("{id} was told by {held:?} and then given back")
            });
            known.state = State::Free;
            return;
        };
        let own = held.as_deref() == Some(lease.id.as_str());
        charges.unless(own || known.is_free(commit.at), Rule::Twice, || {
            format!("{id} was taken by {} while it was {:?} at {}", lease.id, known.state, commit.at)
        });
        if let Some(carried) = carried.filter(|carried| carried.told && !carried.by_name && !own) {
            charges.unless(!sky.was_fair_since(taken.min(carried.at)), Rule::Twice, || {
                format!("{id} was told by {held:?} at {:?}, and {} takes it to tell it again", carried.by, lease.id)
            });
        }
        known.state = leased(lease, charges.now);
    }

    fn withdrawn(&mut self, message: &Message, charges: &mut Charges) {
        let Some(known) = self.known.get_mut(&*message.id) else {
            return charges.say(Rule::Wrong, format!("{} was withdrawn and never made", message.id));
        };
        charges.unless(known.is_pending(), Rule::Wrong, || format!("{} was withdrawn after its end", message.id));
        charges.unless(known.kind == MessageKind::ReminderDue, Rule::Lost, || format!("{} was withdrawn", message.id));
        known.state = State::Withdrawn;
    }

    pub fn end(&self, rest: &Rest, charges: &mut Charges) {
        for (id, known) in self.known.iter().filter(|(_, known)| known.is_pending()) {
            charges.say(Rule::Lost, format!("{id} was never told: {:?}", known.state));
        }
        for (session, message) in &rest.inbox {
            charges.say(Rule::Lost, format!("{} is left in the inbox of {session}", message.id));
        }
    }
}
