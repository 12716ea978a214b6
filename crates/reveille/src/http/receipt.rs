//! Knowing that a reply was really written.
//!
//! A delivery is confirmed when the connection has handed all bytes of its response to the kernel, not when a handler
//! returned: between the two the client may be gone. The body reports that it was taken, the connection reports that
//! it flushed; confirmed is what was taken before a successful flush. Whatever is dropped before that is released.

use crate::engine::Delivery;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::rt::{Read, ReadBufCursor, Write};
use std::{
    convert::Infallible,
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

/// What one connection has taken from bodies and not yet flushed.
#[derive(Clone, Default)]
pub struct Receipts(Arc<Mutex<Vec<Arc<Delivery>>>>);

impl Receipts {
    pub fn taken(&self, deliveries: Vec<Arc<Delivery>>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(deliveries);
    }

    fn flushed(&self) {
        let deliveries = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        deliveries.iter().for_each(|delivery| delivery.confirm());
    }
}

/// A whole body that carries deliveries.
pub struct ReceiptBody {
    bytes: Option<Bytes>,
    deliveries: Vec<Arc<Delivery>>,
    receipts: Receipts,
}

impl ReceiptBody {
    pub fn new(bytes: Bytes, deliveries: Vec<Arc<Delivery>>, receipts: Receipts) -> Self {
        Self { bytes: Some(bytes), deliveries, receipts }
    }
}

impl Body for ReceiptBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = self.bytes.take();
        if bytes.is_some() {
            let deliveries = std::mem::take(&mut self.deliveries);
            self.receipts.taken(deliveries);
        }
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

/// A connection that reports its flushes.
pub struct Flushing<T> {
    io: T,
    receipts: Receipts,
}

impl<T> Flushing<T> {
    pub fn new(io: T, receipts: Receipts) -> Self {
        Self { io, receipts }
    }
}

impl<T: Read + Unpin> Read for Flushing<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<T: Write + Unpin> Write for Flushing<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        if let Poll::Ready(Ok(())) = flushed {
            self.receipts.flushed();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }
}
