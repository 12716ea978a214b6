//! A download that may take as long as it likes, but may not fall silent: `IdleStream` around a response of reqwest.
//!
//!     cargo run -p idle-timeout --example reqwest -- http://127.0.0.1:7383/openapi.json 10

use futures_util::StreamExt;
use idle_timeout::IdleStream;
use std::{error::Error, time::Duration};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let url = words.next().ok_or("usage: reqwest URL [SECONDS OF SILENCE]")?;
    let seconds: f64 = words.next().as_deref().unwrap_or("30").parse()?;
    let bytes = read(&url, Duration::from_secs_f64(seconds)).await?;
    println!("{bytes} bytes");
    Ok(())
}

/// All bytes of the answer, counted as they come.
pub async fn read(url: &str, silence_max: Duration) -> Result<usize, Box<dyn Error>> {
    let response = reqwest::get(url).await?.error_for_status()?;
    // No limit on the whole: a live stream is never cut. Every chunk starts the silence anew.
    let mut chunks = IdleStream::new(Box::pin(response.bytes_stream()), silence_max);
    let mut bytes = 0;
    while let Some(chunk) = chunks.next().await {
        // The outer error is the silence, the inner one the connection.
        bytes += chunk??.len();
    }
    Ok(bytes)
}
