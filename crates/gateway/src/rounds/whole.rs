//! The same for answers that come in one piece: they are held back until the turn is over, and put together.

use super::{Again, add, heard::Heard, weave::merge};
use crate::{
    fault::Fault,
    protocol::{Protocol, Seen},
    report::Ledger,
    stage::{More, Next, Visits},
    vigil::Vigil,
    whole::{Read, read},
};
use bytes::Bytes;
use serde_json::Value;
use tokio::time::Instant;

/// A whole answer with stages may be as large as this; a larger one ends as an error.
pub(crate) const BYTES_MAX: usize = 16 * 1024 * 1024;

/// What the client gets in place of the first answer.
pub(crate) async fn turn(
    first: Bytes,
    visits: &mut Visits,
    again: &mut Again,
    ledger: &mut Ledger,
) -> Result<Bytes, Fault> {
    let protocol = again.draft.protocol;
    let (mut bytes, mut rounds) = (first.clone(), Vec::new());
    loop {
        let mut seen = Seen { begun: true, ended: true, ..Seen::default() };
        protocol.read_whole(&bytes, &mut seen);
        ledger.report.usage = add(ledger.report.usage, seen.usage);
        // Most answers have no call of ours and are not continued: they are not read any further.
        let mut answer = None;
        if !rounds.is_empty() || protocol == Protocol::Responses || again.served.mentioned(&bytes) {
            let Some(read) = Answer::read(protocol, &bytes) else { return Ok(bytes) };
            again.sort(&read.heard, &mut seen);
            seen.answer_id = read.heard.id();
            answer = Some(read);
        }
        let owing = !seen.calls.is_empty() && seen.client_calls.is_empty();
        let untouched = rounds.is_empty() && seen.calls.is_empty();
        let next = match visits.on_finish(&seen).await {
            Next::End => None,
            Next::Continue(more) => {
                let Some(read) = answer.take().or_else(|| Answer::read(protocol, &bytes)) else { return Ok(bytes) };
                let asked = next(again, &read.heard, &more, ledger).await;
                if asked.is_err() {
                    visits.on_unanswered();
                }
                answer = Some(read);
                Some(asked)
            }
        };
        rounds.extend(answer.map(|read| read.value));
        match next {
            Some(Ok(next)) => bytes = next,
            Some(Err(fault)) if owing => return Err(fault),
            // What was said so far is a complete answer; what was to be added was not.
            Some(Err(_)) | None if untouched => return Ok(first),
            Some(Err(_)) | None => break,
        }
    }
    Ok(merge(protocol, rounds, &again.served).to_string().into())
}

/// An answer that was looked into.
struct Answer {
    value: Value,
    heard: Heard,
}

impl Answer {
    /// `None`: it is none.
    fn read(protocol: Protocol, bytes: &Bytes) -> Option<Self> {
        let value = serde_json::from_slice(bytes).ok()?;
        let heard = Heard::whole(protocol, &value)?;
        Some(Self { value, heard })
    }
}

async fn next(again: &mut Again, heard: &Heard, more: &More, ledger: &mut Ledger) -> Result<Bytes, Fault> {
    let began = Instant::now();
    let asked = again.ask(heard, more).await;
    (ledger.report.rounds, ledger.report.attempts) = (again.rounds, ledger.report.attempts + again.take_attempts());
    let mut vigil = Vigil::whole(&again.limits, began);
    match read(&mut asked?.into_body(), &mut vigil, ledger, BYTES_MAX).await? {
        Read::All(bytes) => Ok(bytes),
        Read::Part(_) => Err(Fault::EventTooLarge { upstream: ledger.report.turn.upstream.clone(), max: BYTES_MAX }),
    }
}
