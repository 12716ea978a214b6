//! A load generator that costs little: requests are bytes made before, answers are read by their length.

use anyhow::{Context, ensure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::Instant,
};

/// Sends `requests` on `connections` connections, each waiting for its answer before the next; requests per second.
pub async fn run(
    address: &str,
    connections: usize,
    requests: usize,
    request: impl Fn(usize, usize) -> Vec<u8> + Clone + Send + 'static,
) -> anyhow::Result<f64> {
    let each = requests / connections;
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for connection in 0..connections {
        let (address, request) = (address.to_owned(), request.clone());
        tasks.spawn(async move {
            let mut stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let mut buffer = vec![0; 64 * 1024];
            for number in 0..each {
                stream.write_all(&request(connection, number)).await?;
                answer(&mut stream, &mut buffer).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok((each * connections) as f64 / began.elapsed().as_secs_f64())
}

pub fn post(path: &str, body: &str) -> Vec<u8> {
    format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

pub fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes()
}

/// Reads one answer; its body.
pub async fn answer(stream: &mut TcpStream, buffer: &mut [u8]) -> anyhow::Result<String> {
    let mut filled = 0;
    loop {
        let read = stream.read(&mut buffer[filled..]).await?;
        ensure!(read > 0, "the server closed the connection");
        filled += read;
        let Some(head) = buffer[..filled].windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let text = std::str::from_utf8(&buffer[..head])?;
        ensure!(text.starts_with("HTTP/1.1 200"), "{}", String::from_utf8_lossy(&buffer[..filled]));
        let length = text
            .lines()
            .find_map(|line| line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length")))
            .context("no length")?;
        let end = head + 4 + length.1.trim().parse::<usize>()?;
        if filled >= end {
            return Ok(String::from_utf8_lossy(&buffer[head + 4..end]).into_owned());
        }
    }
}
