//! Several streams as one: what a client sees of a turn with more than one round. Each protocol has its own way; what they
//! share is that a frame which needs no change passes as it came.

use super::{chat::Chunks, heard::Heard, messages::Blocks, responses::Items};
use crate::{
    protocol::{Kind, Protocol},
    stage::ToolResult,
};
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

    /// All known clients go by it for as long as it takes.
    fn lasts(&self) -> bool {
        true
    }

    /// It may be long until the answer is over: what the client need not wait for of the frames that close it. They close it
    /// without that afterwards.
    fn release(&mut self, _closing: &mut [Bytes]) -> Vec<Bytes> {
        Vec::new()
    }

    /// Another round follows instead of what would have closed the answer; what has to go out of that all the same.
    /// `results` are those of the round's calls that were answered here.
    fn again(&mut self, closing: Vec<Bytes>, heard: &Heard, results: &[ToolResult]) -> Vec<Bytes>;

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

/// The tools that a stage serves. The client sees nothing of calls to them, or sees them as calls of the server's own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Served {
    names: Arc<[String]>,
    pub shown: bool,
}

impl Served {
    pub fn new(names: &[String], shown: bool) -> Self {
        Self { names: names.into(), shown }
    }

    pub fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// One of the names stands in these bytes as a JSON text. Cheap; what it finds is read properly afterwards.
    pub fn mentioned(&self, raw: &[u8]) -> bool {
        self.names.iter().any(|name| {
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

/// A whole answer, and in its protocol's own form what is shown of the calls in it.
pub(crate) struct Round {
    pub answer: Value,
    pub shown: Vec<Value>,
}

/// Several whole answers as one, without the calls that the client is not to see.
pub(crate) fn merge(protocol: Protocol, rounds: Vec<Round>, served: &Served) -> Value {
    match protocol {
        Protocol::Chat => super::chat::merge(rounds, served),
        Protocol::Responses => super::responses::merge(rounds, served),
        Protocol::Messages => super::messages::merge(rounds, served),
    }
}
