//! The rules of delivery: lease, then commit or release. The same for every channel and every kind of message.
//!
//! - A message nobody holds is pending; a lease that ran out holds nothing.
//! - Only the holder of a lease can commit it, and a committed message is never leased again.

use crate::{
    command::Ride,
    id::LeaseId,
    message::{Delivered, Lease, Message},
    reject::Reject,
    time::Timestamp,
};

/// The oldest free messages that fit, now held by `lease`.
pub fn lease(inbox: &[Message], lease: &Lease, ride: &Ride, now: Timestamp) -> Vec<Message> {
    let excludes = |message: &Message, prefix| match &message.lease {
        Some(other) => other.id.as_str().starts_with(prefix) && message.held_until(now).is_some(),
        None => false,
    };
    if ride.alone_among.is_some_and(|prefix| inbox.iter().any(|message| excludes(message, prefix))) {
        return Vec::new();
    }
    let mut chars = 0_usize;
    let mut fits = |message: &&Message| {
        let first = chars == 0;
        chars = chars.saturating_add(json_chars(&message.text)).saturating_add(SEPARATOR_CHARS);
        first || chars <= ride.chars_max
    };
    inbox
        .iter()
        .filter(|message| message.is_free(now))
        .take(ride.messages_max)
        .take_while(|message| fits(message))
        .map(|message| Message { lease: Some(lease.clone()), ..message.clone() })
        .collect()
}

/// Between two messages told together: an empty line, as JSON writes it.
const SEPARATOR_CHARS: usize = 4;

/// Characters of a text inside a JSON string. Texts hold no control characters but line breaks and tabs.
pub fn json_chars(text: &str) -> usize {
    text.chars().map(|c| if matches!(c, '"' | '\\') || c.is_control() { 2 } else { 1 }).sum()
}

/// Everything the lease holds, delivered. A lease that ran out still counts while nobody else has taken its messages:
/// they were told, and telling them again would be worse.
pub fn commit(inbox: &[Message], lease: &LeaseId, channel: &str, now: Timestamp) -> Result<Vec<Message>, Reject> {
    let delivered = Delivered { at: now, channel: channel.to_owned() };
    held(inbox, lease, |message| message.delivered = Some(delivered.clone()))
}

/// Everything the lease holds, held until then.
pub fn extend(inbox: &[Message], lease: &LeaseId, until: Timestamp) -> Result<Vec<Message>, Reject> {
    held(inbox, lease, |message| message.lease = Some(Lease { id: lease.clone(), until }))
}

pub fn release(inbox: &[Message], lease: &LeaseId) -> Result<Vec<Message>, Reject> {
    held(inbox, lease, |_| {})
}

fn held(inbox: &[Message], lease: &LeaseId, change: impl Fn(&mut Message)) -> Result<Vec<Message>, Reject> {
    let mut held: Vec<Message> = inbox.iter().filter(|message| message.is_leased_by(lease)).cloned().collect();
    if held.is_empty() {
        return Err(Reject::UnknownLease { lease: lease.clone() });
    }
    for message in &mut held {
        message.lease = None;
        change(message);
    }
    Ok(held)
}
