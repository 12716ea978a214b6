//! The example with reqwest, against a server that is slow and alive, and one that falls silent.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[allow(dead_code, reason = "its `main` is for people")]
#[path = "../examples/reqwest.rs"]
mod reqwest_example;

use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

const SILENCE_MAX: Duration = Duration::from_millis(500);

/// Sends so many chunks of ten bytes, each after a fifth of the limit, and ends properly or not at all.
async fn server(chunks: usize, ends: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 1024];
        assert!(stream.read(&mut request).await.unwrap() > 0);
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
        for _ in 0..chunks {
            tokio::time::sleep(SILENCE_MAX / 5).await;
            stream.write_all(b"a\r\n0123456789\r\n").await.unwrap();
        }
        if ends {
            stream.write_all(b"0\r\n\r\n").await.unwrap();
        }
        let _ = stream.read(&mut request).await;
    });
    url
}

#[tokio::test]
async fn a_live_download_may_take_longer_than_the_limit() {
    // Ten chunks take twice as long as may pass in silence.
    assert_eq!(reqwest_example::read(&server(10, true).await, SILENCE_MAX).await.unwrap(), 100);
}

#[tokio::test]
async fn a_silent_one_ends() {
    let error = reqwest_example::read(&server(2, false).await, SILENCE_MAX).await.unwrap_err();
    assert_eq!(error.to_string(), "idle timeout after 500 ms of inactivity");
}
