//! The wire between a node and the database, which can be cut: what is sent then is neither refused nor lost, it arrives when
//! the wire is whole again. Nobody is told, as with a switch that fails.

use std::io;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};

/// Ends with its test.
pub struct Wire {
    pub port: u16,
    cut: watch::Sender<bool>,
}

impl Wire {
    /// To a port of this machine.
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (cut, whole) = watch::channel(false);
        let wire = Self { port: listener.local_addr().unwrap().port(), cut };
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(join(near, port, whole.clone()));
            }
        });
        wire
    }

    pub fn cut(&self) {
        self.cut.send_replace(true);
    }

    pub fn mend(&self) {
        self.cut.send_replace(false);
    }
}

async fn join(near: TcpStream, port: u16, mut whole: watch::Receiver<bool>) -> io::Result<()> {
    passing(&mut whole).await;
    let far = TcpStream::connect(("127.0.0.1", port)).await?;
    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
    // Where one direction has ended, the other is of no use.
    tokio::select! {
        ended = pump(near_in, far_out, whole.clone()) => ended,
        ended = pump(far_in, near_out, whole) => ended,
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut whole: watch::Receiver<bool>) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = from.read(&mut buffer).await?;
        passing(&mut whole).await;
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..read]).await?;
    }
}

async fn passing(whole: &mut watch::Receiver<bool>) {
    let _ = whole.wait_for(|cut| !cut).await;
}
