//! What must hold for any bytes at all. The fuzzer in `fuzz/` searches for bytes for which it does not; `seeds.rs`
//! replays what is kept of them.

#![allow(dead_code, reason = "each fuzz target uses one of them")]

use crate::support::{Fixed, World, post};
use bytes::Bytes;
use http::HeaderValue;
use reveille_gateway::{Draft, Kind, Outline, Protocol, sse::Splitter};
use serde::{Deserialize, Deserializer, de};
use serde_json::{Value, json, value::RawValue};
use std::{collections::HashSet, fmt};

const LARGE: usize = 1 << 20;

/// A stream is the same frames and the same events however it is cut. The first byte says how.
pub fn stream(input: &[u8]) {
    let Some((seed, stream)) = input.split_first() else { return };
    let whole = Bytes::copy_from_slice(stream);
    let at_once = Split::of(std::slice::from_ref(&whole));
    assert_eq!(at_once.ends, naive_ends(stream));
    for chunks in [pieces(&whole, *seed), whole.chunks(1).map(Bytes::copy_from_slice).collect()] {
        let parted = Split::of(&chunks);
        assert_eq!(parted.bytes, stream);
        assert_eq!(parted.ends.len(), at_once.ends.len());
        for (one, other) in parted.ends.iter().zip(&at_once.ends) {
            // A line feed may have been parted from its return: then the frame ends one byte earlier.
            assert!(one == other || (one + 1 == *other && stream[*one] == b'\n'));
        }
        for protocol in Protocol::ALL {
            assert_eq!(parted.events(protocol), at_once.events(protocol));
        }
        stays_bounded(&chunks);
    }
}

fn stays_bounded(chunks: &[Bytes]) {
    const MAX: usize = 48;
    let (mut splitter, mut came, mut went) = (Splitter::new(MAX), 0, 0);
    for chunk in chunks {
        came += chunk.len();
        let Ok((block, _)) = splitter.push(chunk.clone()) else { return };
        went += block.len();
        assert!(came - went <= MAX);
    }
}

struct Split {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Split {
    fn of(chunks: &[Bytes]) -> Self {
        let mut splitter = Splitter::new(LARGE);
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for chunk in chunks {
            let (block, found) = splitter.push(chunk.clone()).expect("small");
            assert_eq!(found.last().copied().unwrap_or(0), block.len());
            ends.extend(found.iter().map(|end| end + bytes.len()));
            bytes.extend_from_slice(&block);
        }
        bytes.extend_from_slice(&splitter.finish());
        Self { bytes, ends }
    }

    /// The kinds of all frames, and what is known in the end.
    fn events(&self, protocol: Protocol) -> (Vec<Kind>, String) {
        let mut seen = Default::default();
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let frames = starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end]);
        let kinds = frames.map(|frame| protocol.read(frame, &mut seen)).collect();
        protocol.read(&self.bytes[self.ends.last().copied().unwrap_or(0)..], &mut seen);
        (kinds, format!("{seen:?}"))
    }
}

/// Where frames end, line by line.
fn naive_ends(stream: &[u8]) -> Vec<usize> {
    let (mut ends, mut at, mut line) = (Vec::new(), 0, 0);
    while at < stream.len() {
        let end = match &stream[at..] {
            [b'\r', b'\n', ..] => at + 2,
            [b'\r' | b'\n', ..] => at + 1,
            _ => {
                at += 1;
                continue;
            }
        };
        if at == line {
            ends.push(end);
        }
        (at, line) = (end, end);
    }
    ends
}

/// Pieces of all lengths up to 32, always the same ones for a seed.
fn pieces(whole: &Bytes, seed: u8) -> Vec<Bytes> {
    let (mut rest, mut state, mut pieces) = (whole.clone(), u32::from(seed), Vec::new());
    while !rest.is_empty() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let length = 1 + (state >> 27) as usize;
        pieces.push(rest.split_to(length.min(rest.len())));
    }
    pieces
}

/// The client gets the upstream's bytes; if the answer was not complete, up to its last whole frame, and then an error.
pub fn relay(input: &[u8]) {
    let Some((seed, stream)) = input.split_first() else { return };
    let protocol = Protocol::ALL[usize::from(*seed) % 3];
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut answer = vec![Bytes::from(head)];
    for piece in pieces(&Bytes::copy_from_slice(stream), *seed) {
        answer.push([format!("{:x}\r\n", piece.len()).as_bytes(), &piece, b"\r\n"].concat().into());
    }
    answer.push(Bytes::from("0\r\n\r\n"));
    let world = World::dialling(Fixed(answer));
    let relayed = now(async {
        let call = post(protocol.path(), r#"{"model":"scripted","stream":true}"#);
        let answer = world.gateway.handle(call).await;
        http_body_util::BodyExt::collect(answer.into_body()).await.expect("whole").to_bytes()
    });
    match world.reports.outcomes()[..] {
        ["complete" | "upstream_error"] => assert_eq!(relayed, stream),
        ["upstream_incomplete"] => {
            let same = relayed.iter().zip(stream).take_while(|(one, other)| one == other).count();
            let whole = naive_ends(stream).last().copied().unwrap_or(0);
            assert!(same + 1 >= whole, "a whole frame is missing");
            let error = Split::of(&[relayed.slice(whole.min(same)..)]);
            assert!(error.events(protocol).1.contains("failed: true"), "{relayed:?}");
        }
        ref other => panic!("{other:?}"),
    }
}

/// Splices put in what they should, where they should, and leave every other byte alone. The first byte says which
/// protocol.
pub fn request(input: &[u8]) {
    let Some((pick, body)) = input.split_first() else { return };
    let protocol = Protocol::ALL[usize::from(*pick) % 3];
    let Ok(outline) = Outline::read(protocol, body) else { return };
    let body = Bytes::copy_from_slice(body);
    let mut draft = Draft::new(protocol, outline, body.clone());
    assert!(!draft.is_changed() && draft.body() == body);
    for number in 1..=2 {
        draft.append_tool(&format!("{{\"t\":{number}}}"));
        draft.append_message(&format!("{{\"m\":{number}}}"));
    }
    let spliced = draft.body();
    let Ok(before) = serde_json::from_slice::<Pairs>(&body) else { return };
    let after: Pairs = serde_json::from_slice(&spliced).expect("still JSON");
    let list = if protocol == Protocol::Responses { "input" } else { "messages" };
    assert_eq!(after.get("tools"), with(before.get("tools"), "t", false));
    assert_eq!(after.get(list), with(before.get(list), "m", true));
    let others = |pairs: &Pairs| -> Vec<(String, String)> {
        pairs.0.iter().filter(|(key, _)| key != "tools" && key != list).cloned().collect()
    };
    assert_eq!(others(&before), others(&after));
    for name in ["tools", list] {
        assert_eq!(after.0.iter().filter(|(key, _)| key == name).count(), 1, "{name} is there once");
    }
    takes_along(protocol, &body);
    if [before.get("tools"), before.get(list)].iter().all(|value| *value != Some(Value::Null)) {
        let mut came = spliced.iter();
        assert!(body.iter().all(|byte| came.any(|other| other == byte)), "a byte of the client's is gone");
    }
}

/// What takes the place of a part takes along whatever was to be changed inside it, in whichever order that is said.
fn takes_along(protocol: Protocol, body: &Bytes) {
    let outline = Outline::read(protocol, body).expect("as before");
    let mut draft = Draft::new(protocol, outline, body.clone());
    let inside = |draft: &mut Draft| {
        let texts = draft.others_texts(&[b""]).into_iter().map(|(range, _)| range);
        let ranges: Vec<_> = texts.chain(draft.user_texts().into_iter().map(|text| text.range)).collect();
        ranges.into_iter().for_each(|range| draft.replace(range, "\"\""));
    };
    inside(&mut draft);
    if let Some(whole) = draft.outline.messages.clone() {
        draft.replace(whole, "[]");
        inside(&mut draft);
        let _: Pairs = serde_json::from_slice(&draft.body()).expect("still JSON");
    }
}

/// A list with two more; what is no list and cannot become one is left to the upstream.
fn with(value: Option<Value>, key: &str, text_is_message: bool) -> Option<Value> {
    let added = [json!({key: 1}), json!({key: 2})];
    let mut list = match value {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(list)) => list,
        Some(Value::String(text)) if text_is_message => vec![json!({"role": "user", "content": text})],
        other => return other,
    };
    list.extend(added);
    Some(list.into())
}

/// A JSON object as it is written: order, doubled keys and the text of values.
struct Pairs(Vec<(String, String)>);

impl Pairs {
    fn get(&self, name: &str) -> Option<Value> {
        let (_, text) = self.0.iter().find(|(key, _)| key == name)?;
        Some(serde_json::from_str(text).unwrap_or_else(|_| json!(text)))
    }
}

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Pairs;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    pairs.push((key, value.get().to_owned()));
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

/// A compressed body is read, or refused with a reason; it never takes more than its bound. The first byte says as what.
pub fn encoded(input: &[u8]) {
    const ENCODINGS: [&str; 6] = ["gzip", "deflate", "br", "zstd", "gzip, zstd", "br, deflate"];
    let Some((pick, body)) = input.split_first() else { return };
    let encoding = ENCODINGS[usize::from(*pick) % ENCODINGS.len()];
    let world = World::with(|settings| settings.body_bytes_max = 64 * 1024);
    let mut call = post("/v1/responses", body.to_vec());
    call.headers_mut().insert("content-encoding", HeaderValue::from_static(encoding));
    let status = now(async { world.gateway.handle(call).await.status().as_u16() });
    let possible = HashSet::from([200, 400, 404, 413]);
    assert!(possible.contains(&status), "{status}");
    let sent = world.log.requests();
    assert!(sent.iter().all(|request| request.body == body));
    assert_eq!(sent.len(), usize::from(status == 200));
}

/// Without real time.
fn now<T>(run: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(run)
}
