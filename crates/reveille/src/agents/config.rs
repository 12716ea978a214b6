//! An agent as people write it, in TOML or JSON. Only the form; whether it makes sense is asked in `check`.

use super::model::Protocol;
use crate::config::Length;
use reveille_core::{Millis, Quiet, session_timer::Reset};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use utoipa::ToSchema;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentConfig {
    #[serde(alias = "tenant_id", skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    #[serde(alias = "chatbot_id", skip_serializing_if = "Option::is_none")]
    pub chatbot: Option<String>,
    /// What answers `query`; a model that the gateway knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How that is spoken to: `chat` unless given, `responses` or `messages`.
    pub protocol: Protocol,
    /// Longest answer of the model, in tokens. Unless given: 8192 in `messages`, which wants a bound; else the model's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    #[serde(alias = "system", skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolConfig>,
    /// Tools that are called side by side, and whose results nobody is told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub system_actions: Vec<String>,
    /// Tools that are called one after the other, and whose results enter the context. Those in neither list are too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agent_actions: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub timers: Vec<TimerConfig>,
    /// Who is told of what timers do and agents say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub webhooks: Vec<WebhookConfig>,
    pub limits: AgentLimits,
    /// Quiet hours of its sessions: `zone`, `from`, `to` and perhaps `days`, or a list of such. What is due within them waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub quiet: Option<Quiet>,
}

impl AgentConfig {
    /// Every text that is a secret, or refers to one.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let endpoints = self.tools.iter().filter_map(|tool| tool.endpoint.as_ref());
        let headers = endpoints.flat_map(|endpoint| endpoint.headers.values());
        headers.chain(self.webhooks.iter().map(|webhook| &webhook.secret)).map(String::as_str)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolConfig {
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Where it is called. `close_conversation` needs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointConfig>,
    /// JSON Schema of its arguments.
    #[serde(default, alias = "input_schema", skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Value>,
    /// Calling it ends the session. `close_conversation` always does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closes_session: bool,
}

/// A URL alone stands for a POST to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct EndpointConfig {
    /// `{session}`, `{tenant}` and `{chatbot}` stand for those of the call.
    pub url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// `${NAME}` stands for an environment variable, `${file:PATH}` for a file's content.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// For the whole call, 10 seconds unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub timeout: Option<Length>,
}

impl<'de> Deserialize<'de> for EndpointConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Whole {
            url: String,
            #[serde(default)]
            method: Option<String>,
            #[serde(default)]
            headers: BTreeMap<String, String>,
            #[serde(default, alias = "timeout_seconds")]
            timeout: Option<Length>,
        }
        match Value::deserialize(deserializer)? {
            Value::String(url) => Ok(Self { url, ..Self::default() }),
            value => {
                let Whole { url, method, headers, timeout } =
                    serde_json::from_value(value).map_err(serde::de::Error::custom)?;
                Ok(Self { url, method, headers, timeout })
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TimerConfig {
    #[schema(example = "idle_reminder")]
    pub timer_id: String,
    /// Seconds of silence, or text such as "5m".
    #[serde(default = "delay_default", serialize_with = "seconds")]
    #[schema(value_type = f64, example = 300)]
    pub delay_seconds: Length,
    /// 0: no limit.
    #[serde(default = "once")]
    pub max_triggers: u32,
    #[schema(example = "generate_response")]
    pub tool_name: String,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub tool_params: Map<String, Value>,
    /// What `generate_response` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// `session`: `max_triggers` counts over the session's life. `on_message`: again whenever the user returns.
    #[serde(default)]
    #[schema(value_type = String, example = "session")]
    pub reset: Reset,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookConfig {
    pub url: String,
    /// `whsec_…`, or `${NAME}` for an environment variable that holds it. It is never shown again.
    pub secret: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentLimits {
    /// Messages of the conversation that a turn is given, latest ones.
    pub context_messages: usize,
    /// How often one turn may go back to the model with results of tools.
    pub tool_rounds: u32,
    /// How long a second turn of the same session waits for the first; zero: it is refused at once, with 409.
    #[serde(serialize_with = "seconds", deserialize_with = "or_zero")]
    #[schema(value_type = f64)]
    pub turn_wait_seconds: Length,
    /// A turn of `query` that takes longer is cut off: models that call tools for ever end here.
    #[serde(serialize_with = "seconds")]
    #[schema(value_type = f64)]
    pub turn_seconds: Length,
}

impl Default for AgentLimits {
    fn default() -> Self {
        Self {
            context_messages: 50,
            tool_rounds: 8,
            turn_wait_seconds: Length(Millis::from_secs(60)),
            turn_seconds: Length(Millis::from_secs(3600)),
        }
    }
}

fn delay_default() -> Length {
    Length(Millis::from_secs(300))
}

fn once() -> u32 {
    1
}

/// A length that may be none at all.
fn or_zero<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Length, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let zero = value.as_f64() == Some(0.0) || ["0", "0s"].iter().any(|zero| value == *zero);
    match zero {
        true => Ok(Length(Millis::ZERO)),
        false => Length::deserialize(value).map_err(serde::de::Error::custom),
    }
}

fn seconds<S: serde::Serializer>(length: &Length, serializer: S) -> Result<S::Ok, S::Error> {
    reveille_core::history::seconds(length.0).serialize(serializer)
}
