//! HTTP/1.1 by hand.

use crate::{
    Upstream,
    script::{Script, Step},
    wire::{Protocol, Writer},
};
use serde_json::{Value, json};
use std::{io, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf},
    time::sleep,
};

#[derive(Clone, Debug)]
pub struct Recorded {
    pub method: String,
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Recorded {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The connection may be used again.
    Whole,
    /// It is to be closed.
    Broken,
    /// It is to be closed without a word.
    Reset,
    /// The other side went first.
    Abandoned,
}

struct Link<'a, T> {
    reader: ReadHalf<T>,
    writer: WriteHalf<T>,
    upstream: &'a Upstream,
}

/// How the connection is to end.
pub async fn serve<T: AsyncRead + AsyncWrite + Unpin + Send>(io: T, upstream: &Upstream) -> io::Result<End> {
    let (reader, writer) = tokio::io::split(io);
    let mut link = Link { reader, writer, upstream };
    let mut buffer = Vec::new();
    let mut end = End::Whole;
    while end == End::Whole
        && let Some(request) = link.request(&mut buffer).await?
    {
        if !upstream.forgets {
            upstream.log.record(request.clone());
        }
        end = link.answer(&request).await.unwrap_or(End::Abandoned);
    }
    match end {
        End::Abandoned => upstream.log.abandoned.send_modify(|count| *count += 1),
        End::Reset => return Ok(end),
        End::Whole | End::Broken => {}
    }
    link.writer.shutdown().await.map(|()| end)
}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Link<'_, T> {
    async fn request(&mut self, buffer: &mut Vec<u8>) -> io::Result<Option<Recorded>> {
        loop {
            if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
                buffer.drain(..end + 4);
                let mut lines = head.split("\r\n");
                let mut first = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
                let headers: Vec<_> = lines
                    .filter_map(|line| line.split_once(':'))
                    .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
                    .collect();
                let (method, path) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
                let mut request = Recorded { method, path, headers, body: Vec::new() };
                let length = request.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
                while buffer.len() < length {
                    if self.reader.read_buf(buffer).await? == 0 {
                        return Ok(None);
                    }
                }
                request.body = buffer.drain(..length).collect();
                return Ok(Some(request));
            }
            if self.reader.read_buf(buffer).await? == 0 {
                return Ok(None);
            }
        }
    }

    async fn answer(&mut self, request: &Recorded) -> io::Result<End> {
        let path = request.path.split('?').next().unwrap_or_default();
        let Some(protocol) = Protocol::of(path).filter(|_| request.method == "POST") else {
            return self.other(request, path).await;
        };
        let body: Value = match serde_json::from_slice(&request.body) {
            Ok(body) => body,
            // Nothing here unfolds it; a greeting will do.
            Err(_) if request.header("content-encoding").is_some() => Value::Null,
            Err(error) => return self.json(400, &[], &protocol.error(400, &error.to_string())).await,
        };
        let (script, text, answers) =
            match Script::find(request.header("x-script"), &body, |body| self.upstream.improvise(body)) {
                Ok(found) => found,
                Err(why) => return self.json(400, &[], &protocol.error(400, &why)).await,
            };
        if script.head_after > 0 && !self.wait(script.head_after).await? {
            return Ok(End::Abandoned);
        }
        let used_up = script.times.is_some_and(|times| self.upstream.log.runs(&text) >= times);
        if let Some(status) = script.status.filter(|_| !used_up) {
            let error = script.body.clone().unwrap_or_else(|| protocol.error(status, "as the script says"));
            return self.json(status, &script.headers, &error).await;
        }
        let model = body["model"].as_str().unwrap_or("scripted").to_owned();
        let include_usage = body["stream_options"]["include_usage"].as_bool().unwrap_or(false);
        let answers = if self.upstream.forgets { self.upstream.log.number() } else { answers };
        let writer = Writer::new(protocol, model, include_usage, answers);
        match body["stream"].as_bool() {
            Some(true) => self.stream(&script, writer).await,
            _ => self.whole(&script, writer).await,
        }
    }

    async fn whole(&mut self, script: &Script, mut writer: Writer) -> io::Result<End> {
        for step in &script.steps {
            match step {
                Step::Wait(ms) => {
                    if !self.wait(*ms).await? {
                        return Ok(End::Abandoned);
                    }
                }
                Step::Stall => return self.stall().await,
                Step::Cut => return Ok(End::Broken),
                Step::Reset => return Ok(End::Reset),
                step => writer.note(step),
            }
        }
        let body = script.body.clone().unwrap_or_else(|| writer.whole().to_string());
        let head = head(200, script.content_type.as_deref().unwrap_or("application/json"), &script.headers);
        let length = body.len() as i64 + script.lie;
        self.write(format!("{head}content-length: {length}\r\n\r\n{body}").as_bytes()).await?;
        Ok(if script.lie == 0 { End::Whole } else { End::Broken })
    }

    async fn stream(&mut self, script: &Script, mut writer: Writer) -> io::Result<End> {
        let kind = script.content_type.as_deref().unwrap_or("text/event-stream; charset=utf-8");
        let head = head(200, kind, &script.headers);
        self.write(format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes()).await?;
        for step in &script.steps {
            match step {
                Step::Wait(ms) => {
                    if !self.wait(*ms).await? {
                        return Ok(End::Abandoned);
                    }
                }
                Step::Repeat { text, times, every } => {
                    for _ in 0..*times {
                        if *every > 0 && !self.wait(*every).await? {
                            return Ok(End::Abandoned);
                        }
                        let frames = writer.frames(&Step::Text(text.clone()));
                        self.chunk(&frames).await?;
                    }
                }
                Step::Stall => return self.stall().await,
                Step::Cut => return Ok(End::Broken),
                Step::Reset => return Ok(End::Reset),
                Step::Close => {
                    self.write(b"0\r\n\r\n").await?;
                    return Ok(End::Whole);
                }
                step => {
                    let frames = writer.frames(step);
                    self.chunk(&frames).await?;
                }
            }
        }
        let closing = writer.close();
        self.chunk(&closing).await?;
        self.write(b"0\r\n\r\n").await?;
        Ok(End::Whole)
    }

    async fn other(&mut self, request: &Recorded, path: &str) -> io::Result<End> {
        let script = request.header("x-script").and_then(|script| serde_json::from_str::<Script>(script).ok());
        let wait = script.as_ref().map_or(0, |script| script.head_after);
        if wait > 0 && !self.wait(wait).await? {
            return Ok(End::Abandoned);
        }
        if let Some(Script { status: Some(status), headers, body, .. }) = script {
            return self.json(status, &headers, &body.unwrap_or_default()).await;
        }
        let body = match path {
            "/v1/models" => {
                let entry = |id: &String| json!({"id": id, "object": "model", "created": 1, "owned_by": "script"});
                json!({"object": "list", "data": self.upstream.models.iter().map(entry).collect::<Vec<_>>()})
            }
            "/v1/messages/count_tokens" => json!({"input_tokens": request.body.len()}),
            _ => json!({"method": request.method, "path": request.path, "bytes": request.body.len()}),
        };
        self.json(200, &[], &body.to_string()).await
    }

    async fn json(&mut self, status: u16, headers: &[(String, String)], body: &str) -> io::Result<End> {
        let head = head(status, "application/json", headers);
        self.write(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes()).await?;
        Ok(End::Whole)
    }

    /// False if the other side went meanwhile.
    async fn wait(&mut self, ms: u64) -> io::Result<bool> {
        tokio::select! {
            () = sleep(Duration::from_millis(ms)) => Ok(true),
            _ = self.reader.read_u8() => Ok(false),
        }
    }

    async fn stall(&mut self) -> io::Result<End> {
        let _ = self.reader.read_u8().await;
        Ok(End::Abandoned)
    }

    async fn chunk(&mut self, bytes: &str) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.write(format!("{:x}\r\n{bytes}\r\n", bytes.len()).as_bytes()).await
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write_all(bytes).await?;
        self.writer.flush().await?;
        self.upstream.log.written.send_modify(|count| *count += bytes.len() as u64);
        Ok(())
    }
}

fn head(status: u16, kind: &str, headers: &[(String, String)]) -> String {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let kind = if kind.is_empty() { String::new() } else { format!("content-type: {kind}\r\n") };
    format!("HTTP/1.1 {status} Scripted\r\n{kind}x-request-id: req_scripted\r\n{headers}")
}
