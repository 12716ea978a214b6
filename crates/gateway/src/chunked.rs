//! A chunked body (RFC 9112, 7.1) read straight from its connection. Nothing is kept while nothing comes: a stream may be silent for
//! hours. What comes in one read goes on in one piece, whatever chunks it was in.

use crate::{dial::Link, flow::Broke};
use bytes::{Bytes, BytesMut};
use hyper::rt::{Read, ReadBuf};
use memchr::memchr;
use std::{
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll, ready},
};

/// One read; on the stack, so it costs nothing between reads.
const READ_BYTES: usize = 16 * 1024;
/// A line between chunks: a size, its extensions, or a trailer. A longer one is an error.
const LINE_BYTES_MAX: usize = 8 * 1024;
/// Trailers all together; they are not passed on.
const TRAILER_BYTES_MAX: usize = 16 * 1024;

pub(crate) struct Chunked {
    link: Box<dyn Link>,
    /// Came with the head.
    ahead: BytesMut,
    decoder: Decoder,
}

impl Chunked {
    pub fn new(link: Box<dyn Link>, ahead: BytesMut) -> Self {
        Self { link, ahead, decoder: Decoder::default() }
    }

    pub fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broke>>> {
        loop {
            match self.decoder.at {
                At::End => return Poll::Ready(None),
                At::Broken(why) => return Poll::Ready(Some(Err(Broke::new(why)))),
                _ => {}
            }
            let data = match self.ahead.is_empty() {
                true => ready!(self.poll_read(cx)),
                false => Ok(self.decoder.decode(&std::mem::take(&mut self.ahead))),
            };
            match data {
                Ok(data) if data.is_empty() => {}
                data => return Poll::Ready(Some(data)),
            }
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, Broke>> {
        let mut room = [const { MaybeUninit::uninit() }; READ_BYTES];
        let mut read = ReadBuf::uninit(&mut room);
        if let Err(error) = ready!(Pin::new(&mut self.link).poll_read(cx, read.unfilled())) {
            self.decoder.at = At::Broken("the connection broke");
            return Poll::Ready(Err(Broke::new(error.to_string())));
        }
        if read.filled().is_empty() {
            self.decoder.at = At::Broken("the connection ended within the answer");
            return Poll::Ready(Ok(Bytes::new()));
        }
        Poll::Ready(Ok(self.decoder.decode(read.filled())))
    }

    pub fn is_over(&self) -> bool {
        matches!(self.decoder.at, At::End)
    }

    /// The connection, if the body is over and nothing came behind it.
    pub fn into_link(self) -> Option<Box<dyn Link>> {
        (self.is_over() && !self.decoder.beyond).then_some(self.link)
    }
}

#[derive(Debug, Default)]
struct Decoder {
    at: At,
    /// A line that is not whole yet.
    line: Vec<u8>,
    /// What trailers have taken.
    trailers: usize,
    /// More came than the body.
    beyond: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum At {
    #[default]
    Size,
    /// So much of a chunk is to come.
    Data(u64),
    /// The line end behind a chunk.
    DataEnd,
    Trailers,
    End,
    Broken(&'static str),
}

impl Decoder {
    /// All data in this. What breaks it, or ends it, is known afterwards.
    fn decode(&mut self, mut bytes: &[u8]) -> Bytes {
        let mut data = BytesMut::new();
        while !bytes.is_empty() {
            match self.at {
                At::Data(left) => {
                    let length = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    let (taken, rest) = bytes.split_at(length);
                    if data.is_empty() {
                        data.reserve(bytes.len());
                    }
                    data.extend_from_slice(taken);
                    bytes = rest;
                    let left = left - length as u64;
                    self.at = if left == 0 { At::DataEnd } else { At::Data(left) };
                }
                At::Size | At::DataEnd | At::Trailers => match memchr(b'\n', bytes) {
                    Some(end) => {
                        let (line, rest) = bytes.split_at(end + 1);
                        bytes = rest;
                        self.at = match self.line.is_empty() {
                            true => self.line(line),
                            false => {
                                let mut whole = std::mem::take(&mut self.line);
                                whole.extend_from_slice(line);
                                self.line(&whole)
                            }
                        };
                    }
                    None => {
                        self.line.extend_from_slice(bytes);
                        if self.line.len() > LINE_BYTES_MAX {
                            self.at = At::Broken("a line between chunks is too long");
                        }
                        break;
                    }
                },
                At::End => {
                    self.beyond = true;
                    break;
                }
                At::Broken(_) => break,
            }
        }
        data.freeze()
    }

    /// What follows a whole line.
    fn line(&mut self, line: &[u8]) -> At {
        match self.at {
            At::Size => match size(line) {
                Some(0) => At::Trailers,
                Some(size) => At::Data(size),
                None => At::Broken("a chunk has no valid size"),
            },
            At::DataEnd if line == b"\r\n" => At::Size,
            At::DataEnd => At::Broken("a chunk does not end where it should"),
            At::Trailers if line == b"\r\n" => At::End,
            At::Trailers => {
                self.trailers += line.len();
                match self.trailers > TRAILER_BYTES_MAX {
                    true => At::Broken("the trailers are too long"),
                    false => At::Trailers,
                }
            }
            other => other,
        }
    }
}

fn size(line: &[u8]) -> Option<u64> {
    if line.len() > LINE_BYTES_MAX || !line.first()?.is_ascii_hexdigit() {
        return None;
    }
    match httparse::parse_chunk_size(line) {
        Ok(httparse::Status::Complete((length, size))) if length == line.len() => Some(size),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(pieces: &[&[u8]]) -> (Vec<u8>, Decoder) {
        let mut decoder = Decoder::default();
        let data = pieces.iter().flat_map(|piece| decoder.decode(piece)).collect();
        (data, decoder)
    }

    #[test]
    fn however_it_is_cut_it_is_the_same() {
        let body = b"5\r\nhello\r\nA;name=value\r\n, \r\nworld\n\r\n1 \r\n!\r\n000\r\nx-sum: 1\r\n\r\n";
        for first in 0..body.len() {
            for second in first..body.len() {
                let (data, decoder) = decoded(&[&body[..first], &body[first..second], &body[second..]]);
                assert_eq!(data, b"hello, \r\nworld\n!", "{first} {second}");
                assert!(matches!(decoder.at, At::End) && !decoder.beyond, "{first} {second}");
            }
        }
    }

    #[test]
    fn what_is_no_chunk_breaks_it_after_what_came_before() {
        let long = format!("1;{}\r\n", "x".repeat(LINE_BYTES_MAX));
        let unended = "1;".to_owned() + &"x".repeat(LINE_BYTES_MAX);
        let trailers = "0\r\n".to_owned() + &"a: b\r\n".repeat(TRAILER_BYTES_MAX / 6 + 1);
        for rest in [
            "\r\n",
            "g\r\n",
            "-1\r\n",
            "1\n",
            " 1\r\n",
            "0x1\r\n",
            "11111111111111111\r\n",
            "1;a\nb\r\n",
            "1\r\nab\r\n",
            "1\r\na\n",
            &long,
            &unended,
            &trailers,
        ] {
            let (data, decoder) = decoded(&[b"2\r\nab\r\n", rest.as_bytes()]);
            assert!(data.starts_with(b"ab"), "{rest}");
            assert!(matches!(decoder.at, At::Broken(_)), "{rest}: {:?}", decoder.at);
        }
    }

    #[test]
    fn what_comes_behind_the_end_is_noticed_and_not_data() {
        let (data, decoder) = decoded(&[b"1\r\na\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n"]);
        assert_eq!(data, b"a");
        assert!(matches!(decoder.at, At::End) && decoder.beyond);
    }
}
