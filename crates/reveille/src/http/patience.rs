//! A client may read slowly, but not stop for ever: what it asked for, and whoever answers it, would be held as long.

use hyper::rt::{Read, ReadBufCursor, Write};
use idle_timeout::Watch;
use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

/// A client that takes nothing for this long of what is there for it loses its connection.
pub const STUCK_MAX: Duration = Duration::from_secs(10 * 60);

/// A connection whose writes come to an end.
pub struct Patient<T> {
    io: T,
    stuck: Watch,
}

impl<T> Patient<T> {
    pub fn new(io: T) -> Self {
        Self { io, stuck: Watch::new(STUCK_MAX) }
    }

    /// What came of a write, unless there was too long nothing.
    fn bounded<R>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if written.is_ready() {
            self.stuck.alive();
            return written;
        }
        self.stuck.poll_silent(cx).map(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: Read + Unpin> Read for Patient<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<T: Write + Unpin> Write for Patient<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.bounded(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        self.bounded(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.io).poll_shutdown(cx);
        self.bounded(cx, shut)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, slices);
        self.bounded(cx, written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper_util::rt::TokioIo;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        time::{Instant, sleep},
    };

    const LARGE: usize = 10_000;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_loses_its_connection_and_a_slow_one_does_not() {
        let (ours, mut theirs) = tokio::io::duplex(100);
        let mut ours = TokioIo::new(Patient::new(TokioIo::new(ours)));
        let reading = tokio::spawn(async move {
            let mut buffer = [0; 100];
            let mut read = 0;
            while read < LARGE {
                sleep(STUCK_MAX - Duration::from_secs(1)).await;
                read += theirs.read(&mut buffer).await.expect("open");
            }
            theirs
        });
        ours.write_all(&[7; LARGE]).await.expect("slow is not stuck");
        let theirs = reading.await.expect("no panic");
        // Nothing to write is nothing to wait for.
        sleep(3 * STUCK_MAX).await;
        let began = Instant::now();
        let error = ours.write_all(&[7; LARGE]).await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!((STUCK_MAX..STUCK_MAX + Duration::from_secs(1)).contains(&began.elapsed()), "{:?}", began.elapsed());
        drop(theirs);
    }
}
