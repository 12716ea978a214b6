//! The relay is the identity: for every recording, cut into whatever chunks.

mod support;

use bytes::Bytes;
use proptest::prelude::*;
use reveille_gateway::{Protocol, sse::Splitter};
use support::{Fixed, Onlooker, World, request, text};

const CHAT: &str = include_str!("golden/chat.sse");
const RESPONSES: &str = include_str!("golden/responses.sse");
const MESSAGES: &str = include_str!("golden/messages.sse");

fn recordings() -> impl Strategy<Value = (Protocol, String)> {
    let recordings = [(Protocol::Chat, CHAT), (Protocol::Responses, RESPONSES), (Protocol::Messages, MESSAGES)];
    let endings = ["\n", "\r\n", "\r"];
    (0..recordings.len(), 0..endings.len()).prop_map(move |(which, ending)| {
        let (protocol, text) = recordings[which];
        (protocol, text.replace('\n', endings[ending]))
    })
}

/// Cuts at these places.
fn cut(bytes: &Bytes, cuts: &[prop::sample::Index]) -> Vec<Bytes> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).chain([0, bytes.len()]).collect();
    places.sort_unstable();
    places.windows(2).map(|pair| bytes.slice(pair[0]..pair[1])).collect()
}

/// A chunked answer of HTTP/1.1 with exactly these chunks.
fn chunked(chunks: &[Bytes]) -> Vec<Bytes> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut pieces = vec![Bytes::from(head)];
    for chunk in chunks.iter().filter(|chunk| !chunk.is_empty()) {
        pieces.push([format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat().into());
    }
    pieces.push(Bytes::from("0\r\n\r\n"));
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_chunks_the_client_gets_the_same_bytes(
        (protocol, recording) in recordings(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
        staged in any::<bool>(),
    ) {
        let recording = Bytes::from(recording);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let relayed = runtime.block_on(async {
            let mut world = World::dialling(Fixed(chunked(&cut(&recording, &cuts))));
            if staged {
                world.gateway = world.gateway.stage(Onlooker);
            }
            let (_, body) = world.ask(request(protocol, &serde_json::json!({}), true)).await;
            assert_eq!(world.reports.outcomes(), ["complete"]);
            let usage = world.reports.all()[0].usage.expect("the recording has it");
            assert!(usage.input_tokens > 0 && usage.output_tokens > 0);
            body
        });
        prop_assert_eq!(relayed.as_bytes(), &recording[..]);
    }

    /// Any bytes at all: nothing is lost, added or moved, and frames do not depend on how they came.
    #[test]
    fn the_splitter_keeps_every_byte_and_finds_the_same_frames(
        text in "[a:\\n\\r \u{e9}]{0,200}",
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let whole = Bytes::from(text);
        let split = |chunks: &[Bytes]| {
            let mut splitter = Splitter::new(1 << 20);
            let (mut bytes, mut ends) = (Vec::new(), Vec::new());
            for chunk in chunks {
                let (block, found) = splitter.push(chunk.clone()).expect("small");
                ends.extend(found.iter().map(|end| end + bytes.len()));
                assert_eq!(found.last().copied().unwrap_or(0), block.len());
                bytes.extend_from_slice(&block);
            }
            bytes.extend_from_slice(&splitter.finish());
            (bytes, ends)
        };
        let (bytes, ends) = split(&cut(&whole, &cuts));
        prop_assert_eq!(&bytes[..], &whole[..]);
        // A line feed may have been parted from its return: then the frame ends one byte earlier.
        let at_once = split(std::slice::from_ref(&whole)).1;
        prop_assert_eq!(ends.len(), at_once.len());
        for (one, other) in ends.iter().zip(&at_once) {
            prop_assert!(one == other || (one + 1 == *other && whole[*one] == b'\n'));
        }
    }

    /// Nonsense instead of JSON or events breaks nothing.
    #[test]
    fn nonsense_is_relayed_and_then_called_incomplete(garbage in prop::collection::vec(any::<u8>(), 0..400)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        runtime.block_on(async {
            for protocol in Protocol::ALL {
                let world = World::dialling(Fixed(chunked(&[Bytes::from(garbage.clone())])));
                let answer = world.gateway.handle(request(protocol, &serde_json::json!({}), true)).await;
                let body = http_body_util::BodyExt::collect(answer.into_body()).await.expect("whole").to_bytes();
                assert!(body.ends_with(b"\n\n"));
                assert_eq!(world.reports.outcomes(), ["upstream_incomplete"]);
            }
        });
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_without_end_is_cut_at_its_bound() {
    for world in World::both_with(|settings| settings.event_bytes_max = 10_000) {
        let whole = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n";
        let script = serde_json::json!({"steps": [{"raw": format!("{whole}data: {}", "x".repeat(50_000))}, "stall"]});
        let body = text(world.send(Protocol::Chat, &script, true).await).await;
        assert!(body.contains("an event larger than 10000 bytes") && body.len() < 1000, "{body}");
        assert!(body.starts_with(whole), "what came before it is whole: {body}");
    }
}

/// Some servers leave out the names of events, and write the type wherever they like.
#[tokio::test(start_paused = true)]
async fn events_are_known_by_their_type_wherever_it_stands() {
    for (protocol, recording) in [(Protocol::Responses, RESPONSES), (Protocol::Messages, MESSAGES)] {
        let data = |frame: &str| frame.lines().filter_map(|line| line.strip_prefix("data:")).collect::<String>();
        let frames = recording.split_terminator("\n\n").map(data).filter(|data| !data.is_empty());
        let last = frames.map(|data| {
            let mut data: serde_json::Value = serde_json::from_str(&data).expect("JSON");
            let kind = data.as_object_mut().expect("an object").shift_remove("type").expect("a type");
            data["type"] = kind;
            format!("data: {data}\n\n")
        });
        let recording: String = last.collect();
        for staged in [false, true] {
            let mut world = World::dialling(Fixed(chunked(&[recording.clone().into()])));
            if staged {
                world.gateway = world.gateway.stage(Onlooker);
            }
            let (_, body) = world.ask(request(protocol, &serde_json::json!({}), true)).await;
            assert_eq!(body, recording);
            assert_eq!(world.reports.outcomes(), ["complete"]);
            assert!(world.reports.all()[0].usage.is_some_and(|usage| usage.output_tokens > 0));
        }
    }
}
