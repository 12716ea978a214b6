//! A model provider that answers with the same bytes every time, and the smallest proxy that can stand before it: the
//! floor of every gateway.

use bytes::Bytes;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// Chunks of a stream, each written by itself.
pub const CHUNKS: usize = 100;
/// A request with this word in it gets one chunk, then silence.
pub const STALL: &str = "stall-please";
/// A request with this word in it gets its chunks without pauses.
pub const BURST: &str = "burst-please";

/// A request with this word in it gets one chunk, and the model says that it has stopped.
pub const STOP: &str = "stop-please";

pub async fn canned() -> anyhow::Result<()> {
    let listener = listen().await?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            let _ = answer(stream).await;
        });
    }
}

async fn listen() -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listens on http://{}", listener.local_addr()?);
    Ok(listener)
}

async fn answer(mut stream: TcpStream) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let whole = whole();
    let mut buffer = Vec::with_capacity(4096);
    loop {
        let end = loop {
            if let Some(end) = request_end(&buffer) {
                break end;
            }
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        };
        let has = |word: &str| memmem(&buffer[..end], word.as_bytes());
        let (stalls, streams, bursts, stops) = (has(STALL), has("\"stream\":true"), has(BURST), has(STOP));
        buffer.drain(..end);
        if !streams {
            stream.write_all(whole.as_bytes()).await?;
            continue;
        }
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            .await?;
        for number in 0..if stops { 1 } else { CHUNKS } {
            stream.write_all(chunk(number).as_bytes()).await?;
            if stalls {
                drop(buffer);
                let _ = stream.read_u8().await;
                return Ok(());
            }
            if !bursts {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        if stops {
            let frame =
                "data: {\"id\":\"chatcmpl-1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
            stream.write_all(format!("{:x}\r\n{frame}\r\n", frame.len()).as_bytes()).await?;
        }
        stream.write_all(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n").await?;
    }
}

fn request_end(buffer: &[u8]) -> Option<usize> {
    let head = buffer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&buffer[..head]).ok()?.to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    let end = head + length.unwrap_or(0);
    (buffer.len() >= end).then_some(end)
}

fn memmem(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

fn whole() -> String {
    let body = r#"{"id":"chatcmpl-1","object":"chat.completion","created":1800000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello, world"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}"#;
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn chunk(number: usize) -> String {
    let frame = format!(
        "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1800000000,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"word{number:03} \"}},\"finish_reason\":null}}]}}\n\n"
    );
    format!("{:x}\r\n{frame}\r\n", frame.len())
}

/// hyper's server, hyper-util's client, nothing between.
pub async fn pass_through(upstream: String) -> anyhow::Result<()> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Client<_, Incoming> = Client::builder(TokioExecutor::new()).build(connector);
    let listener = listen().await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (client, upstream) = (client.clone(), upstream.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            let uri = format!("http://{upstream}{}", request.uri().path());
            *request.uri_mut() = uri.parse().expect("an address");
            request.headers_mut().remove("host");
            client.request(request)
        });
        tokio::spawn(async move {
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// A request for a whole answer or a stream, with this much in it.
pub fn request(stream: bool, content: &str) -> Bytes {
    let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{content}"}}],"stream":{stream}}}"#);
    crate::load::post("/v1/chat/completions", &body).into()
}
