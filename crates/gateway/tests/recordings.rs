//! Answers as the vendors publish them, every kind of event they know, through the gateway: the same bytes for any
//! chunking, and what is noted of them is right. Checked against the types of the official SDKs when they were written.

mod support;

use bytes::Bytes;
use proptest::prelude::*;
use reveille_gateway::{Finish, Kind, Protocol, sse, sse::Splitter};
use std::collections::BTreeSet;
use support::{Fixed, World, request};

struct Recording {
    name: &'static str,
    protocol: Protocol,
    text: &'static str,
    outcome: &'static str,
    finish: Option<Finish>,
    /// Input and output tokens.
    usage: Option<(u64, u64)>,
}

macro_rules! recordings {
    ($($protocol:ident $name:literal $outcome:literal $finish:expr, $usage:expr;)*) => {
        [$(Recording {
            name: $name,
            protocol: Protocol::$protocol,
            text: include_str!(concat!("golden/", $name, ".sse")),
            outcome: $outcome,
            finish: $finish,
            usage: $usage,
        }),*]
    };
}

const ALL: [Recording; 20] = recordings! {
    Chat "chat" "complete" Some(Finish::ToolCalls), Some((19, 10));
    Chat "chat-choices" "complete" Some(Finish::Length), Some((31, 22));
    Chat "chat-tools" "complete" Some(Finish::ToolCalls), Some((31, 22));
    Chat "chat-audio" "complete" Some(Finish::Stop), Some((31, 22));
    Chat "chat-reasoning" "complete" Some(Finish::Other), Some((31, 22));
    Chat "chat-function-call" "complete" Some(Finish::ToolCalls), None;
    Chat "chat-error" "upstream_error" None, None;
    Responses "responses" "complete" Some(Finish::ToolCalls), Some((37, 11));
    Responses "responses-tools" "complete" Some(Finish::ToolCalls), Some((812, 97));
    Responses "responses-incomplete" "complete" Some(Finish::Length), Some((812, 97));
    Responses "responses-failed" "upstream_error" None, None;
    Responses "responses-error" "upstream_error" None, None;
    Messages "messages" "complete" Some(Finish::ToolCalls), Some((25, 89));
    Messages "messages-text" "complete" Some(Finish::Stop), Some((2679, 510));
    Messages "messages-tools" "complete" Some(Finish::ToolCalls), Some((2679, 510));
    Messages "messages-pause" "complete" Some(Finish::Other), Some((2679, 510));
    Messages "messages-refusal" "complete" Some(Finish::Other), Some((2679, 510));
    Messages "messages-stop-sequence" "complete" Some(Finish::Stop), Some((2679, 510));
    Messages "messages-length" "complete" Some(Finish::Length), Some((2679, 510));
    Messages "messages-error" "upstream_error" None, Some((2679, 3));
};

fn cut(bytes: &Bytes, cuts: &[prop::sample::Index]) -> Vec<Bytes> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).chain([0, bytes.len()]).collect();
    places.sort_unstable();
    places.dedup();
    places.windows(2).map(|pair| bytes.slice(pair[0]..pair[1])).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_recording_is_relayed_as_it_came(
        which in 0..ALL.len(),
        ending in prop::sample::select(vec!["\n", "\r\n", "\r"]),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
    ) {
        let recording = &ALL[which];
        let text = Bytes::from(recording.text.replace('\n', ending));
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let chunk = |chunk: Bytes| Bytes::from([format!("{:x}\r\n", chunk.len()).as_bytes(), &chunk, b"\r\n"].concat());
        let pieces = [Bytes::from(head)].into_iter().chain(cut(&text, &cuts).into_iter().map(chunk));
        let world = World::dialling(Fixed(pieces.chain([Bytes::from("0\r\n\r\n")]).collect()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let (_, body) = runtime.block_on(world.ask(request(recording.protocol, &serde_json::json!({}), true)));
        prop_assert_eq!(body.as_bytes(), &text[..]);
        let report = world.reports.all().pop().expect("one report");
        prop_assert_eq!(report.outcome.name(), recording.outcome);
        let usage = report.usage.map(|usage| (usage.input_tokens, usage.output_tokens));
        prop_assert_eq!(usage, recording.usage);
    }
}

/// Every frame with what it is taken for.
fn frames(recording: &Recording) -> (Vec<(&'static [u8], Kind)>, reveille_gateway::Seen) {
    let mut splitter = Splitter::new(1 << 20);
    let (_, ends) = splitter.push(Bytes::from_static(recording.text.as_bytes())).expect("small");
    let (mut seen, mut start, mut all) = (Default::default(), 0, Vec::new());
    for &end in ends {
        let frame = &recording.text.as_bytes()[start..end];
        all.push((frame, recording.protocol.read(frame, &mut seen)));
        start = end;
    }
    (all, seen)
}

#[test]
fn every_recording_ends_as_it_says() {
    for recording in &ALL {
        let (frames, seen) = frames(recording);
        assert_eq!(seen.finish, recording.finish, "{}", recording.name);
        assert_eq!(seen.failed, recording.outcome == "upstream_error", "{}", recording.name);
        let last = frames.last().expect("frames").1;
        assert_eq!(last, if seen.failed { Kind::Error } else { Kind::End }, "{}", recording.name);
        let ends = frames.iter().filter(|(_, kind)| matches!(kind, Kind::End | Kind::Error)).count();
        assert_eq!(ends, 1, "{}", recording.name);
    }
}

fn seen_events(protocol: Protocol) -> BTreeSet<String> {
    let name = |frame| Some(String::from_utf8_lossy(sse::field(frame, b"event")?).into_owned());
    let own = ALL.iter().filter(|recording| recording.protocol == protocol);
    own.flat_map(|recording| frames(recording).0).filter_map(|(frame, _)| name(frame)).collect()
}

/// All of `ResponseStreamEvent` of the official SDK, and the heartbeat that is in no document.
const RESPONSES: &str = "
    error keepalive response.audio.delta response.audio.done response.audio.transcript.delta
    response.audio.transcript.done response.code_interpreter_call.completed response.code_interpreter_call.in_progress
    response.code_interpreter_call.interpreting response.code_interpreter_call_code.delta
    response.code_interpreter_call_code.done response.completed response.content_part.added response.content_part.done
    response.created response.custom_tool_call_input.delta response.custom_tool_call_input.done response.failed
    response.file_search_call.completed response.file_search_call.in_progress response.file_search_call.searching
    response.function_call_arguments.delta response.function_call_arguments.done
    response.image_generation_call.completed response.image_generation_call.generating
    response.image_generation_call.in_progress response.image_generation_call.partial_image response.in_progress
    response.incomplete response.mcp_call.completed response.mcp_call.failed response.mcp_call.in_progress
    response.mcp_call_arguments.delta response.mcp_call_arguments.done response.mcp_list_tools.completed
    response.mcp_list_tools.failed response.mcp_list_tools.in_progress response.output_item.added
    response.output_item.done response.output_text.annotation.added response.output_text.delta
    response.output_text.done response.queued response.reasoning_summary_part.added
    response.reasoning_summary_part.done response.reasoning_summary_text.delta response.reasoning_summary_text.done
    response.reasoning_text.delta response.reasoning_text.done response.refusal.delta response.refusal.done
    response.web_search_call.completed response.web_search_call.in_progress response.web_search_call.searching";

const MESSAGES: &str =
    "message_start content_block_start content_block_delta content_block_stop message_delta message_stop ping error";

/// What else must occur somewhere, as it is written on the wire.
const PARTS: [(Protocol, &str); 3] = [
    (
        Protocol::Chat,
        r#""role":"assistant" "content":" "refusal":"I "tool_calls":[ "index":1,"id":"call_ "function_call":{ "audio":{ "logprobs":{ "reasoning_content": "finish_reason":"stop" "finish_reason":"length" "finish_reason":"tool_calls" "finish_reason":"content_filter" "finish_reason":"function_call" "choices":[],"usage":{ "error":{ [DONE]"#,
    ),
    (
        Protocol::Responses,
        r#""type":"function_call" "type":"custom_tool_call" "type":"reasoning" "type":"web_search_call" "type":"file_search_call" "type":"code_interpreter_call" "type":"mcp_call" "type":"mcp_list_tools" "type":"image_generation_call" "type":"refusal" "type":"url_citation""#,
    ),
    (
        Protocol::Messages,
        r#"text_delta input_json_delta thinking_delta signature_delta citations_delta redacted_thinking server_tool_use web_search_tool_result code_execution_tool_result "tool_use" "pause_turn" "refusal" "stop_sequence" "max_tokens" "end_turn""#,
    ),
];

#[test]
fn every_kind_of_event_occurs() {
    for (protocol, names) in [(Protocol::Responses, RESPONSES), (Protocol::Messages, MESSAGES)] {
        let (seen, wanted) = (seen_events(protocol), names.split_whitespace().map(str::to_owned));
        let missing: Vec<_> = wanted.filter(|name| !seen.contains(name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
    for (protocol, parts) in PARTS {
        let own = ALL.iter().filter(|recording| recording.protocol == protocol);
        let text: String = own.map(|recording| recording.text).collect();
        for part in parts.split_whitespace() {
            assert!(text.contains(part), "{part} is in no recording");
        }
    }
}
