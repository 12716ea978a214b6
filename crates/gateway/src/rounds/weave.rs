//! Several streams as one: what a client sees of a turn with more than one round. Each protocol has its own way; what they
//! share is that a frame which needs no change passes as it came.

use super::{chat::Chunks, heard::Heard, messages::Blocks, responses::Items};
use crate::protocol::{Kind, Protocol};
use bytes::Bytes;
use memchr::memmem;
use serde_json::Value;
use std::sync::Arc;

pub(crate) trait Weave: Send {
    /// What becomes of a frame of the running round.
    fn take(&mut self, raw: &[u8], kind: Kind) -> Fate;

    /// Nothing was changed so far, so what closes the answer may pass as it came.
    fn is_plain(&self) -> bool;

    /// A sign of life of the kind that clients really count.
    fn alive(&mut self) -> Bytes;

    /// Another round follows instead of what would have closed the answer; what has to go out of that all the same.
    fn again(&mut self, closing: Vec<Bytes>, heard: &Heard) -> Vec<Bytes>;

    /// The end. `heard` is the last round, unless everything [is plain](Self::is_plain).
    fn close(&mut self, closing: Vec<Bytes>, heard: Option<&Heard>) -> Vec<Bytes>;

    /// The number of the last event that went out, where events have numbers.
    fn sequence(&self) -> Option<u64> {
        None
    }
}

#[derive(Debug)]
pub(crate) enum Fate {
    Pass,
    Replace(Bytes),
    Drop,
    /// It closes the answer, and waits until that is over.
    Close,
    CloseWith(Bytes),
}

/// The tools that a stage serves: the client sees no calls to them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Served(Arc<[String]>);

impl Served {
    pub fn new(names: &[String]) -> Self {
        Self(names.into())
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|known| known == name)
    }

    /// One of the names stands in these bytes as a JSON text. Cheap; what it finds is read properly afterwards.
    pub fn mentioned(&self, raw: &[u8]) -> bool {
        self.0.iter().any(|name| {
            let mut found = memmem::find_iter(raw, name.as_bytes());
            found.any(|at| at > 0 && raw[at - 1] == b'"' && raw.get(at + name.len()) == Some(&b'"'))
        })
    }
}

pub(crate) fn weave(protocol: Protocol, served: Served) -> Box<dyn Weave> {
    match protocol {
        Protocol::Chat => Box::new(Chunks::new(served)),
        Protocol::Responses => Box::new(Items::new(served)),
        Protocol::Messages => Box::new(Blocks::new(served)),
    }
}

/// Several whole answers as one, without the calls that the client is not to see.
pub(crate) fn merge(protocol: Protocol, rounds: Vec<Value>, served: &Served) -> Value {
    match protocol {
        Protocol::Chat => super::chat::merge(rounds, served),
        Protocol::Responses => super::responses::merge(rounds, served),
        Protocol::Messages => super::messages::merge(rounds, served),
    }
}
