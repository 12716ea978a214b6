//! A request's body, read once for what routing needs. Values are kept as ranges of the body, so that a splice can be
//! made without writing anything else anew.

use crate::{fault::Fault, protocol::Protocol};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::{borrow::Cow, ops::Range};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outline {
    pub model: String,
    pub stream: bool,
    /// The array of tools, brackets included.
    pub tools: Option<Range<usize>>,
    pub tool_choice: Option<Range<usize>>,
    /// The conversation: an array, or for Responses perhaps a string.
    pub messages: Option<Range<usize>>,
    /// What stands before it: `system` of Messages, `instructions` of Responses.
    pub system: Option<Range<usize>>,
    /// Responses: the name of the answer before this one.
    pub previous_response: Option<Range<usize>>,
    /// The brace that closes the body.
    pub close: usize,
    /// Chat: how many answers are asked for.
    pub choices: Option<u64>,
    /// Responses: whether the upstream keeps the answer, and whether it makes it while nobody waits.
    pub store: Option<bool>,
    pub background: bool,
    /// The answer is to be one JSON document.
    pub structured: bool,
    pub ids: Ids,
}

/// What a body says about the conversation it belongs to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ids {
    /// Anthropic's `metadata.user_id`.
    pub user_id: Option<String>,
    pub prompt_cache_key: Option<String>,
    pub previous_response_id: Option<String>,
    pub conversation: Option<String>,
    /// OpenRouter's `session_id`.
    pub session_id: Option<String>,
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    stream: Option<&'a RawValue>,
    #[serde(borrow)]
    n: Option<&'a RawValue>,
    #[serde(borrow)]
    store: Option<&'a RawValue>,
    #[serde(borrow)]
    background: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_choice: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    messages: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    system: Option<&'a RawValue>,
    #[serde(borrow)]
    instructions: Option<&'a RawValue>,
    #[serde(borrow)]
    response_format: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    output_format: Option<&'a RawValue>,
    #[serde(borrow)]
    output_config: Option<&'a RawValue>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    conversation: Option<&'a RawValue>,
    #[serde(borrow)]
    previous_response_id: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt_cache_key: Option<&'a RawValue>,
    #[serde(borrow)]
    session_id: Option<&'a RawValue>,
}

impl Wire<'_> {
    fn ids(&self) -> Ids {
        Ids {
            user_id: self.metadata.and_then(user_id),
            prompt_cache_key: self.prompt_cache_key.and_then(plain),
            previous_response_id: self.previous_response_id.and_then(plain),
            conversation: self.conversation.and_then(conversation),
            session_id: self.session_id.and_then(plain),
        }
    }
}

impl Outline {
    pub fn read(protocol: Protocol, body: &[u8]) -> Result<Self, Fault> {
        let wire = wire(body)?;
        let model = wire.model.as_deref().filter(|model| !model.is_empty());
        let model = model.ok_or_else(|| Fault::NoModel("`model` is missing".into()))?.to_owned();
        let messages = match protocol {
            Protocol::Responses => wire.input,
            Protocol::Chat | Protocol::Messages => wire.messages,
        };
        let system = match protocol {
            Protocol::Responses => wire.instructions,
            Protocol::Messages => wire.system,
            Protocol::Chat => None,
        };
        let close = body.iter().rposition(|byte| *byte == b'}').unwrap_or_default();
        Ok(Self {
            model,
            stream: wire.stream.and_then(plain).unwrap_or(false),
            tools: wire.tools.map(|value| range(body, value)),
            tool_choice: wire.tool_choice.map(|value| range(body, value)),
            messages: messages.map(|value| range(body, value)),
            system: system.map(|value| range(body, value)),
            previous_response: wire.previous_response_id.map(|value| range(body, value)),
            close,
            choices: wire.n.and_then(plain),
            store: wire.store.and_then(plain),
            background: wire.background.and_then(plain).unwrap_or(false),
            structured: [wire.response_format, wire.text, wire.output_format, wire.output_config]
                .into_iter()
                .flatten()
                .any(is_structured),
            ids: wire.ids(),
        })
    }

    /// What is to be found of a body that is only passed on.
    pub fn lenient(body: &[u8]) -> Option<Self> {
        let wire = wire(body).ok()?;
        Some(Self { model: wire.model.as_deref().unwrap_or_default().to_owned(), ids: wire.ids(), ..Self::default() })
    }

    pub fn has_tools(&self, body: &[u8]) -> bool {
        self.tools.clone().is_some_and(|range| !is_empty_array(&body[range]))
    }
}

/// The value, `null` too: its place is where a list of ours goes.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

fn wire(body: &[u8]) -> Result<Wire<'_>, Fault> {
    // serde would fill the fields from a list, one by one.
    if body.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|byte| *byte != b'{') {
        serde_json::from_slice::<serde::de::IgnoredAny>(body).map_err(|error| Fault::InvalidJson(error.to_string()))?;
        return Err(Fault::NoModel("it is not an object".into()));
    }
    serde_json::from_slice(body).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => Fault::NoModel(error.to_string()),
        _ => Fault::InvalidJson(error.to_string()),
    })
}

/// `[ ]`, `null` or anything else without an element.
pub(crate) fn is_empty_array(value: &[u8]) -> bool {
    value.first() != Some(&b'[') || value[1..].iter().all(|byte| byte.is_ascii_whitespace() || *byte == b']')
}

/// A value of the kind it should be. Others are the upstream's to complain about.
fn plain<T: serde::de::DeserializeOwned>(value: &RawValue) -> Option<T> {
    serde_json::from_str(value.get()).ok()
}

pub(crate) fn range(body: &[u8], value: &RawValue) -> Range<usize> {
    let start = value.get().as_ptr().addr() - body.as_ptr().addr();
    start..start + value.get().len()
}

/// Each protocol says in its own place of which form an answer is to be.
fn is_structured(value: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Form {
        #[serde(rename = "type")]
        kind: Option<String>,
        format: Option<Box<Form>>,
    }
    fn is_json(form: &Form) -> bool {
        form.kind.as_deref().is_some_and(|kind| kind.starts_with("json")) || form.format.as_deref().is_some_and(is_json)
    }
    plain(value).as_ref().is_some_and(is_json)
}

fn user_id(metadata: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Metadata {
        user_id: Option<String>,
    }
    serde_json::from_str::<Metadata>(metadata.get()).ok()?.user_id
}

/// A text, or an object with an `id`.
fn conversation(value: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Conversation {
        Id(String),
        Object { id: String },
    }
    serde_json::from_str(value.get()).ok().map(|conversation| match conversation {
        Conversation::Id(id) | Conversation::Object { id } => id,
    })
}
