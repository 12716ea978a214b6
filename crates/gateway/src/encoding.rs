//! Compressed request bodies, read within the bound of plain ones. What cannot be read cannot be routed, so a body is
//! decoded even when it goes upstream as it came.

use crate::{budget::Charge, fault::Fault};
use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use bytes::{Bytes, BytesMut};
use flate2::bufread::{DeflateDecoder, GzDecoder, ZlibDecoder};
use http::{HeaderMap, header};
use ruzstd::decoding::StreamingDecoder;
use std::io::{self, Read};

/// What the gateway can read, in the words of `accept-encoding`.
pub const KNOWN: &str = "gzip, deflate, br, zstd";
/// Nobody compresses twice but to hide something; more layers than this are refused.
const LAYERS_MAX: usize = 2;
/// Decoded in one go; between two pieces others get their turn.
const PIECE_BYTES: usize = 64 * 1024;
/// The window that RFC 9659 allows for zstd on the web. A larger one is memory set aside on the client's word.
const ZSTD_WINDOW_MAX: u64 = 8 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// The body without its encodings; the same bytes if it has none.
pub async fn plain(headers: &HeaderMap, sent: Bytes, max: usize, charge: &mut Charge) -> Result<Bytes, Fault> {
    if !headers.contains_key(header::CONTENT_ENCODING) {
        return Ok(sent);
    }
    let mut body = sent;
    // Listed in the order in which they were put on.
    for encoding in named(headers)?.into_iter().rev() {
        body = decode(encoding, &body, max, charge).await?;
    }
    Ok(body)
}

fn named(headers: &HeaderMap) -> Result<Vec<Encoding>, Fault> {
    let values = headers.get_all(header::CONTENT_ENCODING);
    let lines: Vec<String> =
        values.iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
    let all = lines.join(", ");
    let unsupported = || Fault::Encoding(all.chars().take(100).collect());
    let mut encodings = Vec::new();
    for name in all.split(',').map(|name| name.trim().to_ascii_lowercase()) {
        match &*name {
            "gzip" | "x-gzip" => encodings.push(Encoding::Gzip),
            "deflate" => encodings.push(Encoding::Deflate),
            "br" => encodings.push(Encoding::Brotli),
            "zstd" => encodings.push(Encoding::Zstd),
            "identity" | "" => {}
            _ => return Err(unsupported()),
        }
    }
    match encodings.len() <= LAYERS_MAX {
        true => Ok(encodings),
        false => Err(unsupported()),
    }
}

async fn decode(encoding: Encoding, mut sent: &[u8], max: usize, charge: &mut Charge) -> Result<Bytes, Fault> {
    let broken = |error: io::Error| Fault::Undecodable { encoding: encoding.name(), why: error.to_string() };
    let mut decoder = encoding.open(&mut sent).map_err(broken)?;
    let mut plain = BytesMut::new();
    loop {
        let begun = plain.len();
        plain.resize(begun + PIECE_BYTES, 0);
        let read = decoder.read(&mut plain[begun..]).map_err(broken)?;
        plain.truncate(begun + read);
        if plain.len() > max {
            return Err(Fault::BodyTooLarge(max));
        }
        if read == 0 {
            break;
        }
        charge.grow(read).await?;
        tokio::task::yield_now().await;
    }
    drop(decoder);
    match sent.is_empty() {
        true => Ok(plain.freeze()),
        false => Err(broken(io::Error::other("something follows its end"))),
    }
}

impl Encoding {
    fn name(self) -> &'static str {
        match self {
            Encoding::Gzip => "gzip",
            Encoding::Deflate => "deflate",
            Encoding::Brotli => "br",
            Encoding::Zstd => "zstd",
        }
    }

    fn open<'a>(self, sent: &'a mut &[u8]) -> io::Result<Box<dyn Read + Send + 'a>> {
        Ok(match self {
            // One member: each further one would cost a decoder's memory anew for a few bytes.
            Encoding::Gzip => Box::new(GzDecoder::new(sent)),
            // By the standard it has zlib's head; some clients leave it out.
            Encoding::Deflate if has_zlib_head(sent) => Box::new(ZlibDecoder::new(sent)),
            Encoding::Deflate => Box::new(DeflateDecoder::new(sent)),
            Encoding::Brotli => Box::new(Brotli::new(sent)),
            Encoding::Zstd => {
                Box::new(StreamingDecoder::new_with_max_window_size(sent, ZSTD_WINDOW_MAX).map_err(io::Error::other)?)
            }
        })
    }
}

/// The crate's own reader takes windows of up to a gigabyte, and hides what follows the end.
struct Brotli<'a, 'b> {
    sent: &'a mut &'b [u8],
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
}

impl<'a, 'b> Brotli<'a, 'b> {
    fn new(sent: &'a mut &'b [u8]) -> Self {
        let [bytes, numbers, codes] = std::array::from_fn(|_| StandardAlloc::default());
        Self { sent, state: BrotliState::new_strict(bytes, numbers, codes) }
    }
}

impl Read for Brotli<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (mut left, mut taken, mut room, mut written) = (self.sent.len(), 0, buffer.len(), 0);
        let result = BrotliDecompressStream(
            &mut left,
            &mut taken,
            self.sent,
            &mut room,
            &mut written,
            buffer,
            &mut 0,
            &mut self.state,
        );
        *self.sent = &self.sent[taken..];
        match result {
            BrotliResult::ResultSuccess | BrotliResult::NeedsMoreOutput => Ok(written),
            BrotliResult::NeedsMoreInput => Err(io::ErrorKind::UnexpectedEof.into()),
            BrotliResult::ResultFailure => Err(io::Error::other(format!("{:?}", self.state.error_code))),
        }
    }
}

/// RFC 1950: method 8, and a check that makes the two bytes a multiple of 31.
fn has_zlib_head(sent: &[u8]) -> bool {
    matches!(sent, [first, second, ..] if first & 0x0f == 8 && u16::from_be_bytes([*first, *second]) % 31 == 0)
}
