//! A request that waits to be continued, perhaps for hours: packed, and counted apart from those on their way.

use crate::{
    budget::{Budget, Charge},
    draft::Draft,
    fault::Fault,
    outline::Outline,
    protocol::Protocol,
};
use bytes::Bytes;
use flate2::{Compression, bufread::DeflateDecoder, write::DeflateEncoder};
use std::io::{self, Read, Write};

/// Larger ones are packed where they delay nobody.
const INLINE_BYTES_MAX: usize = 256 * 1024;

/// The request of a turn.
pub(crate) enum Kept {
    Open(Box<Draft>),
    Shelved(Shelved),
    /// It is being packed; whoever asks meanwhile was dropped half-way.
    Moving,
}

pub(crate) struct Shelved {
    protocol: Protocol,
    packed: Vec<u8>,
    length: usize,
    served: Vec<String>,
    _charge: Charge,
}

/// There is no room on the shelf.
#[derive(Debug)]
pub(crate) struct Full;

impl Kept {
    /// Packs it. `beside` is what else of the turn waits with it, in bytes.
    pub async fn shelve(&mut self, budget: &Budget, beside: usize) -> Result<(), Full> {
        let Self::Open(draft) = self else { return Ok(()) };
        let (protocol, body) = (draft.protocol, draft.body());
        let served = draft.served().to_vec();
        let length = body.len();
        let packed = match length <= INLINE_BYTES_MAX {
            true => pack(&body).map_err(|_| Full)?,
            false => tokio::task::spawn_blocking(move || pack(&body)).await.ok().and_then(Result::ok).ok_or(Full)?,
        };
        let mut charge = budget.charge();
        match charge.try_grow(packed.len() + beside) {
            true => *self = Self::Shelved(Shelved { protocol, packed, length, served, _charge: charge }),
            false => return Err(Full),
        }
        Ok(())
    }

    /// As it was, with everything that was put into it.
    pub async fn open(&mut self) -> Result<&mut Draft, Fault> {
        if let Self::Shelved(_) = self
            && let Self::Shelved(shelved) = std::mem::replace(self, Self::Moving)
        {
            *self = Self::Open(Box::new(shelved.take_down().await?));
        }
        match self {
            Self::Open(draft) => Ok(draft),
            Self::Shelved(_) | Self::Moving => Err(lost()),
        }
    }
}

impl Shelved {
    async fn take_down(self) -> Result<Draft, Fault> {
        let Self { protocol, packed, length, served, _charge } = self;
        let body = match length <= INLINE_BYTES_MAX {
            true => unpack(&packed, length),
            false => tokio::task::spawn_blocking(move || unpack(&packed, length))
                .await
                .unwrap_or_else(|_| Err(io::ErrorKind::Other.into())),
        };
        let body = body.map_err(|_| lost())?;
        let outline = Outline::read(protocol, &body)?;
        Ok(Draft::new(protocol, outline, body).serving(served))
    }
}

fn lost() -> Fault {
    Fault::Refused("the request of this turn could not be unpacked".into())
}

fn pack(body: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body)?;
    let mut packed = encoder.finish()?;
    packed.shrink_to_fit();
    Ok(packed)
}

fn unpack(packed: &[u8], length: usize) -> io::Result<Bytes> {
    let mut body = Vec::with_capacity(length);
    DeflateDecoder::new(packed).read_to_end(&mut body)?;
    Ok(body.into())
}
