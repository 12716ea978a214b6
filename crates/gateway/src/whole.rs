//! Answers that come in one piece. They are held until they are whole, up to a bound, because until then a failure can
//! still be told with a status of its own.

use crate::{
    fault::Fault,
    report::{Ledger, Outcome},
    stage::Visits,
    vigil::Vigil,
};
use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use std::{
    collections::VecDeque,
    fmt::Display,
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
};

/// What was read of an answer.
pub(crate) enum Read {
    All(Bytes),
    /// Larger than the bound; the rest is still to come.
    Part(VecDeque<Bytes>),
}

/// Reads up to `max` bytes.
pub(crate) async fn read<S: Body<Data = Bytes, Error: Display> + Unpin>(
    source: &mut S,
    vigil: &mut Vigil,
    ledger: &mut Ledger,
    max: usize,
) -> Result<Read, Fault> {
    let (mut chunks, mut length) = (VecDeque::new(), 0);
    loop {
        let next = poll_fn(|cx| match Pin::new(&mut *source).poll_frame(cx) {
            Poll::Pending => vigil.poll_over(cx).map(Err),
            ready => ready.map(Ok),
        });
        match next.await? {
            Some(Ok(frame)) => {
                let Ok(data) = frame.into_data() else { continue };
                ledger.chunk(data.len());
                length += data.len();
                chunks.push_back(data);
                if length > max {
                    return Ok(Read::Part(chunks));
                }
            }
            Some(Err(error)) => {
                let upstream = ledger.report.turn.upstream.clone();
                return Err(Fault::Broken { upstream, why: error.to_string() });
            }
            None => return Ok(Read::All(join(chunks, length))),
        }
    }
}

fn join(mut chunks: VecDeque<Bytes>, length: usize) -> Bytes {
    if chunks.len() <= 1 {
        return chunks.pop_front().unwrap_or_default();
    }
    let mut joined = BytesMut::with_capacity(length);
    chunks.iter().for_each(|chunk| joined.extend_from_slice(chunk));
    joined.freeze()
}

/// The body of a whole answer.
pub(crate) struct Whole {
    bytes: Option<Bytes>,
    visits: Visits,
    ledger: Ledger,
}

impl Whole {
    pub fn new(bytes: Bytes, mut visits: Visits, mut ledger: Ledger) -> Self {
        if bytes.is_empty() {
            // Nobody asks for the bytes of an empty body.
            visits.on_dispatch();
            ledger.end(Outcome::Complete);
        }
        Self { bytes: Some(bytes), visits, ledger }
    }
}

impl Body for Whole {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        let bytes = self.bytes.take();
        if bytes.is_some() {
            self.visits.on_dispatch();
            self.ledger.end(Outcome::Complete);
        }
        Poll::Ready(bytes.filter(|bytes| !bytes.is_empty()).map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.as_ref().is_none_or(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
