//! An agent as it is run: its configuration, found to make sense. Whatever does not names the field and says what is
//! allowed there.

use super::{
    config::{AgentConfig, EndpointConfig, TimerConfig, ToolConfig},
    schema::Schema,
    secret::{self, Allowed},
    signature::Signer,
};
use http::{HeaderName, HeaderValue, Method};
use reveille_core::{
    AgentId, Limits, Millis,
    session_timer::{Action, CLOSE_CONVERSATION, GENERATE_RESPONSE, Spec},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};
use url::Url;

/// What a timer says that has no message of its own, as the original has it.
const MESSAGE_DEFAULT: &str = "您好，请问还在吗？";
const TIMEOUT_DEFAULT: Millis = Millis::from_secs(10);
/// An attempt must end well before it would be taken for lost.
const TIMEOUT_MAX: Millis = Millis::from_secs(120);
/// A timer that fires again and again does so at most this often: every firing is a commit and a call.
const REPEATED_DELAY_MIN: Millis = Millis::from_secs(1);
/// A turn's context is in memory, and in the model's window.
const CONTEXT_MESSAGES_MAX: usize = 1000;
const TOOLS_MAX: usize = 128;
const WEBHOOKS_MAX: usize = 10;

/// A field that does not make sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {why}")]
pub struct Invalid {
    pub field: String,
    pub why: String,
}

impl Invalid {
    pub fn new(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self { field: field.into(), why: why.into() }
    }
}

/// Who wrote it, and so what it may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The operator, in a file.
    File,
    /// Anybody who may use the API.
    Api,
}

#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    pub origin: Origin,
    pub secrets: Allowed<'a>,
    pub timers_max: usize,
    pub limits: &'a Limits,
}

#[derive(Debug)]
pub struct Agent {
    pub id: AgentId,
    pub origin: Origin,
    pub config: AgentConfig,
    pub tools: BTreeMap<String, Tool>,
    /// For the sessions that begin from now on.
    pub specs: Vec<Spec>,
    pub webhooks: Vec<(Arc<str>, Signer)>,
    /// What may be a mistake, and does no harm.
    pub warnings: Vec<String>,
}

#[derive(Debug)]
pub struct Tool {
    pub description: String,
    pub endpoint: Option<Endpoint>,
    pub schema: Option<Schema>,
    pub parameters: Value,
    /// A system action.
    pub silent: bool,
    pub closes: bool,
}

#[derive(Debug)]
pub struct Endpoint {
    pub method: Method,
    /// With places for the session and the agent.
    pub url: String,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub timeout: Millis,
}

impl Agent {
    pub fn new(id: AgentId, config: AgentConfig, rules: Rules<'_>) -> Result<Self, Invalid> {
        let tools = tools(&config, rules)?;
        let webhooks = webhooks(&config, rules)?;
        let notify: Vec<Arc<str>> = webhooks.iter().map(|(url, _)| url.clone()).collect();
        let specs = specs(&config, &tools, &notify, rules)?;
        if !(1..=CONTEXT_MESSAGES_MAX).contains(&config.limits.context_messages) {
            let why = format!("must be from 1 to {CONTEXT_MESSAGES_MAX}");
            return Err(Invalid::new("limits.context_messages", why));
        }
        if config.max_tokens == Some(0) {
            return Err(Invalid::new("max_tokens", "must be at least 1"));
        }
        if config.model.as_deref().is_some_and(|model| model.trim().is_empty()) {
            return Err(Invalid::new("model", "is empty; name a model that the gateway knows, or leave it out"));
        }
        let warnings = warnings(&config);
        Ok(Self { id, origin: rules.origin, config, tools, specs, webhooks, warnings })
    }
}

/// Actions that are listed and not defined: misspelt, or left from another agent. Timers that say what nobody wrote.
pub fn warnings(config: &AgentConfig) -> Vec<String> {
    let built_in = [GENERATE_RESPONSE, CLOSE_CONVERSATION];
    let known = |name: &str| built_in.contains(&name) || config.tools.iter().any(|tool| tool.name == name);
    let lists = [("system_actions", &config.system_actions), ("agent_actions", &config.agent_actions)];
    let unknown = lists.into_iter().flat_map(|(list, names)| {
        let names = names.iter().filter(|name| !known(name));
        names.map(move |name| format!("`{list}` has '{name}', which is not in `tools`: it has no effect"))
    });
    let speechless = config.timers.iter().filter(|timer| {
        timer.tool_name == GENERATE_RESPONSE && timer.message.is_none() && !timer.tool_params.contains_key("message")
    });
    let default = speechless.map(|timer| {
        format!(
            "timer '{}' has no `message`: it says '{MESSAGE_DEFAULT}', in whatever language its users speak",
            timer.timer_id
        )
    });
    unknown.chain(default).collect()
}

fn tools(config: &AgentConfig, rules: Rules<'_>) -> Result<BTreeMap<String, Tool>, Invalid> {
    if config.tools.len() > TOOLS_MAX {
        return Err(Invalid::new("tools", format!("has {}; at most {TOOLS_MAX} are allowed", config.tools.len())));
    }
    let (system, agent) = (&config.system_actions, &config.agent_actions);
    if let Some(both) = system.iter().find(|name| agent.contains(name)) {
        return Err(Invalid::new("agent_actions", format!("has '{both}', which is in `system_actions` too")));
    }
    let mut tools = BTreeMap::new();
    for (number, tool) in config.tools.iter().enumerate() {
        let at = |field: &str| format!("tools[{number}].{field}");
        check_name(&at("name"), &tool.name, "`_` or `-`")?;
        if tool.name == GENERATE_RESPONSE {
            return Err(Invalid::new(at("name"), "is built in and needs no definition"));
        }
        let endpoint = tool.endpoint.as_ref().map(|endpoint| check_endpoint(&at("endpoint"), endpoint, rules));
        if endpoint.is_none() && tool.name != CLOSE_CONVERSATION {
            return Err(Invalid::new(at("endpoint"), "is missing: where the tool is called, {\"url\": \"https://…\"}"));
        }
        let made = check_tool(&at("parameters"), tool, endpoint.transpose()?, system.contains(&tool.name))?;
        if tools.insert(tool.name.clone(), made).is_some() {
            return Err(Invalid::new(at("name"), format!("'{}' is defined twice", tool.name)));
        }
    }
    Ok(tools)
}

fn check_tool(field: &str, tool: &ToolConfig, endpoint: Option<Endpoint>, silent: bool) -> Result<Tool, Invalid> {
    let schema = match &tool.parameters {
        None => None,
        Some(schema @ Value::Object(_)) => {
            let read = Schema::new(schema);
            Some(read.map_err(|why| Invalid::new(field, format!("is not a JSON Schema: {why}")))?)
        }
        Some(_) => return Err(Invalid::new(field, "must be a JSON Schema, an object")),
    };
    Ok(Tool {
        description: tool.description.clone(),
        endpoint,
        schema,
        parameters: tool.parameters.clone().unwrap_or_else(|| serde_json::json!({"type": "object", "properties": {}})),
        silent,
        closes: tool.closes_session || tool.name == CLOSE_CONVERSATION,
    })
}

/// `marks`: what may be in it besides letters and digits; in names of tools as the models' APIs allow it.
fn check_name(field: &str, name: &str, marks: &str) -> Result<(), Invalid> {
    let fits = |c: char| c.is_ascii_alphanumeric() || (matches!(c, '_' | '-' | '.') && marks.contains(c));
    if name.is_empty() || name.len() > 64 || !name.chars().all(fits) {
        return Err(Invalid::new(field, format!("'{name}' is not 1 to 64 letters, digits, {marks}")));
    }
    Ok(())
}

fn check_endpoint(field: &str, endpoint: &EndpointConfig, rules: Rules<'_>) -> Result<Endpoint, Invalid> {
    let at = |name: &str| format!("{field}.{name}");
    check_url(&at("url"), &endpoint.url)?;
    let name = endpoint.method.as_deref().unwrap_or("POST").to_ascii_uppercase();
    let method = match name.as_str() {
        "GET" | "POST" | "PUT" | "PATCH" | "DELETE" => Method::from_bytes(name.as_bytes()),
        _ => return Err(Invalid::new(at("method"), format!("'{name}' is not one of: GET, POST, PUT, PATCH, DELETE"))),
    };
    let method = method.map_err(|_| Invalid::new(at("method"), "is not a method"))?;
    let mut headers = Vec::new();
    for (name, text) in &endpoint.headers {
        let at = format!("{field}.headers.{name}");
        let header: HeaderName = name.parse().map_err(|_| Invalid::new(&at, "is not a header's name"))?;
        check_header(&at, &header, rules.origin)?;
        let value = secret::resolve(&at, text, rules.secrets)?;
        let value: HeaderValue = value.parse().map_err(|_| Invalid::new(&at, "has characters no header may have"))?;
        headers.push((header, value));
    }
    let timeout = endpoint.timeout.map_or(TIMEOUT_DEFAULT, |timeout| timeout.0);
    if timeout > TIMEOUT_MAX {
        return Err(Invalid::new(at("timeout"), format!("is longer than {TIMEOUT_MAX} seconds")));
    }
    Ok(Endpoint { method, url: endpoint.url.clone(), headers, timeout })
}

/// Where a request ends, and how the connection goes on, is said by the client alone: whoever could say otherwise could
/// write a second request behind the first. Whom it is for, the URL says; only an operator may say otherwise.
fn check_header(field: &str, name: &HeaderName, origin: Origin) -> Result<(), Invalid> {
    const FRAMING: [&str; 9] = [
        "connection",
        "content-length",
        "expect",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    if FRAMING.contains(&name.as_str()) {
        return Err(Invalid::new(field, "is set by the connection itself; leave it out"));
    }
    if origin == Origin::Api && name == http::header::HOST {
        return Err(Invalid::new(field, "is the URL's; leave it out"));
    }
    Ok(())
}

/// Whom it calls is fixed; only the rest of the URL may depend on the session.
fn check_url(field: &str, url: &str) -> Result<(), Invalid> {
    let shown = "must be an http:// or https:// URL with a host, without a user or password";
    let host_end = url.find("://").map(|at| at + 3).and_then(|at| Some(at + url[at..].find(['/', '?', '#'])?));
    if url[..host_end.unwrap_or(url.len())].contains(['{', '}']) {
        return Err(Invalid::new(field, "may have {session}, {tenant} and {chatbot} after the host only"));
    }
    let filled = fill(url, "s", "t", "c");
    if filled.contains("${") {
        return Err(Invalid::new(
            field,
            "has `${`, which stands for a secret; those go into `headers`, or are written out",
        ));
    }
    if filled.contains(['{', '}']) {
        let why =
            "has braces around something else than {session}, {tenant} or {chatbot}; a brace itself is %7B or %7D";
        return Err(Invalid::new(field, why));
    }
    let parsed = Url::parse(&filled).map_err(|_| Invalid::new(field, shown))?;
    let plain = parsed.username().is_empty() && parsed.password().is_none() && parsed.has_host();
    if !matches!(parsed.scheme(), "http" | "https") || !plain {
        return Err(Invalid::new(field, shown));
    }
    Ok(())
}

/// The URL of one call.
pub fn fill(url: &str, session: &str, tenant: &str, chatbot: &str) -> String {
    let coded =
        |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20");
    url.replace("{session}", &coded(session)).replace("{tenant}", &coded(tenant)).replace("{chatbot}", &coded(chatbot))
}

fn webhooks(config: &AgentConfig, rules: Rules<'_>) -> Result<Vec<(Arc<str>, Signer)>, Invalid> {
    if config.webhooks.len() > WEBHOOKS_MAX {
        return Err(Invalid::new("webhooks", format!("has {}; at most {WEBHOOKS_MAX}", config.webhooks.len())));
    }
    let mut known = HashSet::new();
    let mut made = Vec::new();
    for (number, webhook) in config.webhooks.iter().enumerate() {
        let at = |field: &str| format!("webhooks[{number}].{field}");
        check_url(&at("url"), &webhook.url)?;
        if !known.insert(&webhook.url) {
            return Err(Invalid::new(at("url"), "is there twice"));
        }
        // Files are copied and committed; a secret has no place there.
        if rules.origin == Origin::File && !webhook.secret.contains("${") {
            return Err(Invalid::new(at("secret"), "must be a reference: ${NAME} or ${file:PATH}"));
        }
        let secret = secret::resolve(&at("secret"), &webhook.secret, rules.secrets)?;
        let signer = Signer::new(&secret).map_err(|why| Invalid::new(at("secret"), why))?;
        made.push((webhook.url.as_str().into(), signer));
    }
    Ok(made)
}

fn specs(
    config: &AgentConfig,
    tools: &BTreeMap<String, Tool>,
    notify: &[Arc<str>],
    rules: Rules<'_>,
) -> Result<Vec<Spec>, Invalid> {
    if config.timers.len() > rules.timers_max {
        let why = format!("has {}; at most {} run in a session", config.timers.len(), rules.timers_max);
        return Err(Invalid::new("timers", why));
    }
    let mut known = HashSet::new();
    let mut specs = Vec::new();
    for (number, timer) in config.timers.iter().enumerate() {
        let at = |field: &str| format!("timers[{number}].{field}");
        check_name(&at("timer_id"), &timer.timer_id, "`_`, `-` or `.`")?;
        if !known.insert(&timer.timer_id) {
            return Err(Invalid::new(at("timer_id"), format!("'{}' is there twice", timer.timer_id)));
        }
        if timer.delay_seconds.0 > rules.limits.duration_max {
            let why = format!("is longer than {} seconds", rules.limits.duration_max);
            return Err(Invalid::new(at("delay_seconds"), why));
        }
        if timer.max_triggers != 1 && timer.delay_seconds.0 < REPEATED_DELAY_MIN {
            let why = format!("is shorter than {REPEATED_DELAY_MIN} second, and it fires more than once");
            return Err(Invalid::new(at("delay_seconds"), why));
        }
        specs.push(Spec {
            timer_id: timer.timer_id.clone(),
            delay: timer.delay_seconds.0,
            max_triggers: timer.max_triggers,
            reset: timer.reset,
            action: action(&at, timer, tools, rules.limits)?,
            notify: notify.to_vec(),
        });
    }
    Ok(specs)
}

fn action(
    at: &dyn Fn(&str) -> String,
    timer: &TimerConfig,
    tools: &BTreeMap<String, Tool>,
    limits: &Limits,
) -> Result<Action, Invalid> {
    let params = &timer.tool_params;
    if timer.tool_name == GENERATE_RESPONSE {
        let text = match (params.get("message"), &timer.message) {
            (Some(Value::String(text)), None) => text,
            (None, message) => message.as_deref().unwrap_or(MESSAGE_DEFAULT),
            (Some(_), None) => return Err(Invalid::new(at("tool_params.message"), "must be a text")),
            (Some(_), Some(_)) => return Err(Invalid::new(at("message"), "is there twice, in `tool_params` too")),
        };
        if let Some(other) = params.keys().find(|name| *name != "message") {
            return Err(Invalid::new(
                at("tool_params"),
                format!("has `{other}`; {GENERATE_RESPONSE} takes `message` alone"),
            ));
        }
        let text = reveille_core::text::accept("message", Some(text.to_owned()), limits);
        let text = text.map_err(|reject| Invalid::new(at("message"), reject.to_string()))?;
        return match text {
            Some(text) => Ok(Action::Say { text }),
            None => Err(Invalid::new(at("message"), "is empty")),
        };
    }
    let tool = tools.get(&timer.tool_name);
    if timer.message.is_some() && (tool.is_some() || timer.tool_name == CLOSE_CONVERSATION) {
        return Err(Invalid::new(at("message"), format!("goes with {GENERATE_RESPONSE} alone; use `tool_params`")));
    }
    let nobody_is_told = tool.map_or(timer.tool_name == CLOSE_CONVERSATION, |tool| tool.endpoint.is_none());
    if nobody_is_told && !params.is_empty() {
        let why =
            format!("go nowhere: {CLOSE_CONVERSATION} has no endpoint here; leave them out, or give it one in `tools`");
        return Err(Invalid::new(at("tool_params"), why));
    }
    match tool {
        None if timer.tool_name == CLOSE_CONVERSATION => Ok(Action::Close),
        None => {
            let built_in =
                [GENERATE_RESPONSE, CLOSE_CONVERSATION].into_iter().filter(|name| !tools.contains_key(*name));
            let names: Vec<&str> = tools.keys().map(String::as_str).chain(built_in).collect();
            let why = format!("'{}' is not one of the agent's tools: {}", timer.tool_name, names.join(", "));
            Err(Invalid::new(at("tool_name"), why))
        }
        Some(tool) if tool.endpoint.is_none() => Ok(Action::Close),
        Some(tool) => {
            let arguments = Value::Object(params.clone());
            if let Some(Err(why)) = tool.schema.as_ref().map(|schema| schema.check(&arguments)) {
                return Err(Invalid::new(at("tool_params"), format!("do not fit the tool's parameters: {why}")));
            }
            Ok(Action::Call {
                tool: timer.tool_name.clone(),
                arguments: params.clone(),
                silent: tool.silent,
                closes: tool.closes,
            })
        }
    }
}
