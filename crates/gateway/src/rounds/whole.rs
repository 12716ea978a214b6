//! The same for answers that come in one piece: they are held back until the turn is over, and put together.

use super::{
    Again, add,
    heard::Heard,
    pause, shown,
    weave::{Round, merge},
};
use crate::{
    fault::Fault,
    protocol::{Protocol, Seen, Waiting},
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
    let protocol = again.protocol();
    let (mut bytes, mut rounds) = (first.clone(), Vec::new());
    loop {
        let mut seen = Seen { begun: true, ended: true, waiting: Waiting::Silent, ..Seen::default() };
        protocol.read_whole(&bytes, &mut seen);
        ledger.report.usage = add(ledger.report.usage, seen.usage);
        // Most answers have no call of ours and are not continued: they are not read any further.
        let (mut value, mut heard) = (None, None);
        let mut look = || {
            let (read, heard) = look_into(protocol, &bytes)?;
            value = Some(read);
            Some(heard)
        };
        if !rounds.is_empty() || protocol == Protocol::Responses || again.served.mentioned(&bytes) {
            heard = look();
            let Some(heard) = &heard else { return Ok(bytes) };
            again.sort(heard, &mut seen);
            seen.answer_id = heard.id();
        }
        let owing = !seen.calls.is_empty() && seen.client_calls.is_empty();
        let untouched = rounds.is_empty() && seen.calls.is_empty();
        let mut seen_calls = Vec::new();
        let next = match pause::decide(visits, &seen, again, &mut heard, bytes.len(), &mut look).await {
            Next::End => None,
            Next::Continue(more) => {
                let Some(heard) = heard.or_else(look) else { return Ok(bytes) };
                seen_calls = shown::of(&heard, &more.results, protocol, &again.served);
                let asked = next(again, &heard, &more, ledger).await;
                if let Err(fault) = &asked {
                    visits.on_unanswered(fault).await;
                }
                Some(asked)
            }
        };
        rounds.extend(value.map(|answer| Round { answer, shown: seen_calls }));
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

/// An answer as a document, and what is said in it; `None`: it is none.
fn look_into(protocol: Protocol, bytes: &Bytes) -> Option<(Value, Heard)> {
    let value = serde_json::from_slice(bytes).ok()?;
    let heard = Heard::whole(protocol, &value)?;
    Some((value, heard))
}

async fn next(again: &mut Again, heard: &Heard, more: &More, ledger: &mut Ledger) -> Result<Bytes, Fault> {
    let began = Instant::now();
    let asked = again.ask(heard, more).await;
    (ledger.report.rounds, ledger.report.attempts) = (again.rounds, ledger.report.attempts + again.take_attempts());
    let mut vigil = Vigil::whole(&again.limits, began);
    let upstream = || again.route.upstream.name.clone();
    match read(&mut asked?.into_body(), &mut vigil, ledger, BYTES_MAX).await? {
        Read::All(bytes) if look_into(again.protocol(), &bytes).is_some() => Ok(bytes),
        Read::All(_) => {
            Err(Fault::Broken { upstream: upstream(), why: "asked again within the turn, it gave no answer".into() })
        }
        Read::Part(_) => Err(Fault::EventTooLarge { upstream: upstream(), max: BYTES_MAX }),
    }
}
