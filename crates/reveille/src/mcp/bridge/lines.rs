//! Messages as lines of stdin and stdout. What is no message is answered too: a client may wait for it.

use super::super::message;
use rmcp::{
    RoleServer,
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::{Transport, async_rw::AsyncRwTransport},
};
use std::io;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader, Empty, Stdin, Stdout},
    sync::mpsc,
};

/// A line that is longer is not read in one piece, and is no message.
const LINE_BYTES_MAX: u64 = 16 * 1024 * 1024;
const BOM: &[u8] = b"\xef\xbb\xbf";

pub struct Lines {
    lines: mpsc::Receiver<Vec<u8>>,
    /// Writes only.
    out: AsyncRwTransport<RoleServer, Empty, Stdout>,
}

impl Lines {
    pub fn new(stdin: Stdin, stdout: Stdout) -> Self {
        let (sender, lines) = mpsc::channel(1);
        tokio::spawn(read(stdin, sender));
        Self { lines, out: AsyncRwTransport::new_server(tokio::io::empty(), stdout) }
    }
}

/// A task of its own: the SDK may stop waiting for a message in the middle of a line.
async fn read(stdin: Stdin, lines: mpsc::Sender<Vec<u8>>) {
    let mut stdin = BufReader::new(stdin);
    loop {
        let mut line = Vec::new();
        let read = (&mut stdin).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await;
        if !read.is_ok_and(|bytes| bytes > 0) || lines.send(line).await.is_err() {
            return;
        }
    }
}

impl Transport<RoleServer> for Lines {
    type Error = io::Error;

    fn send(&mut self, message: ServerJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.out.send(message)
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let line = self.lines.recv().await?;
            let line = line.strip_prefix(BOM).unwrap_or(&line).trim_ascii();
            if line.is_empty() {
                continue;
            }
            match message::read(line) {
                Ok((_, message)) => return Some(message),
                Err(fault) if fault.is_notification => {}
                Err(fault) => drop(tokio::spawn(self.out.send(ServerJsonRpcMessage::error(fault.error, fault.id)))),
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.out.close().await
    }
}
