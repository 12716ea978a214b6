//! Lets hyper read the head of an answer and nothing behind it, until it is clear who reads the rest.
//!
//! hyper keeps a read and a write buffer for every connection, and a channel for every body. That is little for an answer that comes
//! at once, and most of what a stream takes that is open for hours; so a stream is read without it ([`chunked`](crate::chunked)).

use crate::dial::Link;
use bytes::{Buf, BytesMut};
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use std::{
    io,
    mem::MaybeUninit,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    task::{Context, Poll, ready},
};

/// One read while a head is waited for.
const READ_BYTES: usize = 8 * 1024;

/// Let through up to the end of a head.
const HEAD: u8 = 0;
/// A head was let through, and nothing more.
const SHUT: u8 = 1;
/// Let through whatever comes.
const OPEN: u8 = 2;

/// What hyper reads and writes by.
pub(crate) struct Gate {
    link: Box<dyn Link>,
    latch: Arc<Latch>,
    /// Came with a head, and is not let through.
    behind: BytesMut,
    /// The line being read has nothing in it yet.
    line_empty: bool,
}

/// The gate's handle, for whoever drives the connection.
#[derive(Default)]
pub(crate) struct Latch {
    lets: AtomicU8,
    /// Something was to be written, and is not known to be gone.
    writing: AtomicBool,
}

impl Latch {
    /// A head is to come.
    pub fn head(&self) {
        self.lets.store(HEAD, Ordering::Relaxed);
    }

    pub fn open(&self) {
        self.lets.store(OPEN, Ordering::Relaxed);
    }

    pub fn is_shut(&self) -> bool {
        self.lets.load(Ordering::Relaxed) == SHUT
    }

    /// All that hyper had to write is written: it flushes only then.
    pub fn has_written(&self) -> bool {
        !self.writing.load(Ordering::Relaxed)
    }
}

impl Gate {
    pub fn new(link: Box<dyn Link>) -> (Self, Arc<Latch>) {
        let latch = Arc::new(Latch::default());
        (Self { link, latch: latch.clone(), behind: BytesMut::new(), line_empty: false }, latch)
    }

    /// The connection, and what came behind the head.
    pub fn into_parts(self) -> (Box<dyn Link>, BytesMut) {
        (self.link, self.behind)
    }

    /// How much of this belongs to the head; the gate is shut behind its end. A head ends with an empty line. One that begins
    /// with such a line ends too early here: then nothing is answered, and the gate is opened again.
    fn head_in(&mut self, bytes: &[u8]) -> usize {
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                b'\n' if self.line_empty => {
                    self.line_empty = false;
                    self.latch.lets.store(SHUT, Ordering::Relaxed);
                    return at + 1;
                }
                b'\n' => self.line_empty = true,
                b'\r' => {}
                _ => self.line_empty = false,
            }
        }
        bytes.len()
    }
}

impl Read for Gate {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, mut to: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let lets = this.latch.lets.load(Ordering::Relaxed);
        if lets == SHUT {
            // Whoever shut it drives on.
            return Poll::Pending;
        }
        if this.behind.is_empty() {
            if lets == OPEN {
                return Pin::new(&mut this.link).poll_read(cx, to);
            }
            let mut room = [const { MaybeUninit::uninit() }; READ_BYTES];
            let length = room.len().min(to.remaining());
            let mut read = ReadBuf::uninit(&mut room[..length]);
            ready!(Pin::new(&mut this.link).poll_read(cx, read.unfilled()))?;
            let end = this.head_in(read.filled());
            to.put_slice(&read.filled()[..end]);
            this.behind.extend_from_slice(&read.filled()[end..]);
            return Poll::Ready(Ok(()));
        }
        let behind = std::mem::take(&mut this.behind);
        let length = behind.len().min(to.remaining());
        let end = if lets == OPEN { length } else { this.head_in(&behind[..length]) };
        this.behind = behind;
        to.put_slice(&this.behind[..end]);
        this.behind.advance(end);
        if this.behind.is_empty() {
            // Gives its room back.
            this.behind = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl Write for Gate {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.latch.writing.store(true, Ordering::Relaxed);
        Pin::new(&mut self.link).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.link).poll_flush(cx);
        if let Poll::Ready(Ok(())) = flushed {
            self.latch.writing.store(false, Ordering::Relaxed);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.link).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.link.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.latch.writing.store(true, Ordering::Relaxed);
        Pin::new(&mut self.link).poll_write_vectored(cx, slices)
    }
}
