//! The inbox: what enters it, leaves it, and travels with a reply.

use super::{Draft, Reply};
use crate::{
    batch::{MessageWrite, tally},
    command::Ride,
    history::SubjectKind,
    id::LeaseId,
    inbox,
    message::{Lease, Message},
    reject::Reject,
    time::Millis,
};
use serde_json::{Map, json};

impl Draft<'_> {
    pub(super) fn tell(&mut self, message: Message) {
        self.messages.push(MessageWrite::Insert(message));
        self.session.pending_messages += 1;
        self.count(tally::MESSAGES_CREATED, 1);
    }

    /// Everything taken on leaves a message one day.
    pub(super) fn inbox_has_room(&self) -> Result<(), Reject> {
        let max = self.limits.pending_messages_max;
        if self.session.pending_messages >= max { Err(Reject::InboxFull { max }) } else { Ok(()) }
    }

    /// It is not to be told any more. Whoever holds it finds out when it wants to commit.
    pub(super) fn withdraw(&mut self, message: Message) {
        self.note(SubjectKind::Message, &message.id, "message.withdrawn", Map::new());
        self.messages.push(MessageWrite::Withdraw(message));
        self.session.pending_messages = self.session.pending_messages.saturating_sub(1);
        self.count(tally::MESSAGES_WITHDRAWN, 1);
    }

    /// A lease that ran out is as good as new while nobody else has taken its messages.
    pub(super) fn extend_lease(&mut self, lease: &LeaseId, length: Millis) -> Result<Reply, Reject> {
        let extended = inbox::extend(&self.state.inbox, lease, self.now.plus(length))?;
        let count = extended.len();
        self.messages.extend(extended.into_iter().map(MessageWrite::Update));
        Ok(Reply::Settled(count))
    }

    pub(super) fn commit_lease(&mut self, lease: &LeaseId, channel: &str) -> Result<Reply, Reject> {
        let delivered = inbox::commit(&self.state.inbox, lease, channel, self.now)?;
        for message in &delivered {
            let data =
                Map::from_iter([("channel".to_owned(), json!(channel)), ("text".to_owned(), json!(message.text))]);
            self.note(SubjectKind::Message, &message.id, "message.delivered", data);
            self.source_delivered(message, channel);
        }
        self.count(tally::MESSAGES_DELIVERED, delivered.len() as i64);
        let count = delivered.len();
        self.session.pending_messages = self.session.pending_messages.saturating_sub(count as u32);
        self.messages.extend(delivered.into_iter().map(MessageWrite::Update));
        Ok(Reply::Settled(count))
    }

    pub(super) fn release_lease(&mut self, lease: &LeaseId) -> Result<Reply, Reject> {
        let released = inbox::release(&self.state.inbox, lease)?;
        let count = released.len();
        for message in released {
            if !self.source_given_up(&message) {
                self.messages.push(MessageWrite::Update(message));
            }
        }
        Ok(Reply::Settled(count))
    }

    /// A commit that was decided on the version before this one does not happen: a lease that is not there will not be.
    pub(super) fn abandon_lease(&mut self, lease: &LeaseId) -> Result<Reply, Reject> {
        match self.release_lease(lease) {
            Err(Reject::UnknownLease { .. }) if self.state.session.is_some() => {
                self.fenced = true;
                Ok(Reply::Settled(0))
            }
            released => released,
        }
    }

    pub(super) fn take_along(&mut self, ride: &Ride) -> Vec<Message> {
        let lease = Lease { id: ride.lease.clone(), until: self.now.plus(ride.length) };
        // What this very decision has delivered or released is not to be taken up again by it.
        let written = |message: &&Message| self.messages.iter().any(|write| write.message().id == message.id);
        let untouched: Vec<Message> = self.state.inbox.iter().filter(|message| !written(message)).cloned().collect();
        let riding = inbox::lease(&untouched, &lease, ride, self.now);
        self.messages.extend(riding.iter().cloned().map(MessageWrite::Update));
        riding
    }
}
