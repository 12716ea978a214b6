//! An agent's client: the official SDK's, in both eras of the protocol and over both transports.

use super::{World, within};
use rmcp::{
    ClientHandler, RoleClient, ServiceError,
    model::{
        CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, Implementation,
        ProgressNotificationParam, ProtocolVersion, RequestMetaObject,
    },
    service::{ClientLifecycleMode, ClientServiceExt, NotificationContext, RunningService},
    transport::{
        StreamableHttpClientTransport, async_rw::AsyncRwTransport,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::Value;
use std::{collections::HashMap, process::Stdio, sync::Arc};
use tokio::{
    process::{Child, Command},
    sync::watch,
    task::JoinHandle,
};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Era {
    /// `initialize` first.
    Legacy,
    /// 2026-07-28.
    Modern,
}

pub const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

#[derive(Clone)]
pub struct Agent {
    pub client: Arc<RunningService<RoleClient, Listener>>,
    child: Arc<std::sync::Mutex<Option<Child>>>,
}

/// What the client hears besides answers.
pub struct Listener {
    name: String,
    pub progress: watch::Sender<Vec<ProgressNotificationParam>>,
}

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(ClientCapabilities::default(), Implementation::new(self.name.clone(), "1.0.0"))
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.progress.send_modify(|all| all.push(progress));
    }
}

fn mode(era: Era) -> ClientLifecycleMode {
    match era {
        Era::Legacy => ClientLifecycleMode::Initialize,
        Era::Modern => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
    }
}

fn listener(name: &str) -> Listener {
    Listener { name: name.to_owned(), progress: watch::Sender::default() }
}

impl Agent {
    /// Over HTTP, as a client of this name; in this session, if it is named.
    pub async fn http(url: &str, era: Era, name: &str, session: Option<&str>) -> Self {
        let mut headers = HashMap::new();
        if let Some(session) = session {
            headers.insert("x-reveille-session".parse().unwrap(), session.parse().unwrap());
        }
        let config = StreamableHttpClientTransportConfig::with_uri(format!("{url}/mcp")).custom_headers(headers);
        let transport = StreamableHttpClientTransport::with_client(super::client(), config);
        let client = within("the client connects", listener(name).serve_with_lifecycle(transport, mode(era))).await;
        Self { client: Arc::new(client.unwrap()), child: Arc::default() }
    }

    /// Over the stdio of this command.
    pub async fn stdio(mut command: Command, era: Era, name: &str) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let transport = AsyncRwTransport::new_client(stdout, stdin);
        let client = within("the client connects", listener(name).serve_with_lifecycle(transport, mode(era))).await;
        Self { client: Arc::new(client.unwrap()), child: Arc::new(std::sync::Mutex::new(Some(child))) }
    }

    /// One call; `meta` goes along.
    pub async fn send(&self, tool: &str, arguments: Value, meta: Value) -> Result<CallToolResult, ServiceError> {
        let mut params = CallToolRequestParams::new(tool.to_owned());
        params.arguments = arguments.as_object().cloned();
        if let Value::Object(meta) = meta {
            params.meta = Some(RequestMetaObject::from(meta));
        }
        self.client.call_tool(params).await
    }

    pub async fn call(&self, tool: &str, arguments: Value) -> CallToolResult {
        let sent = within(tool, self.send(tool, arguments.clone(), Value::Null)).await;
        sent.unwrap_or_else(|error| panic!("{tool} {arguments}: {error}"))
    }

    /// A call that is carried out: what its result holds.
    pub async fn done(&self, tool: &str, arguments: Value) -> Value {
        good(&self.call(tool, arguments).await)
    }

    /// A call that is refused: the code, and the whole of it.
    pub async fn refused(&self, tool: &str, arguments: Value) -> (String, Value) {
        refusal(&self.call(tool, arguments).await)
    }

    /// A `timer` call that stands by when this returns.
    pub async fn standing(&self, world: &World, arguments: Value) -> JoinHandle<CallToolResult> {
        let agent = self.clone();
        world.stands(async move { agent.send("timer", arguments, Value::Null).await.unwrap() }).await
    }

    pub fn listener(&self) -> &Listener {
        self.client.service()
    }

    /// The process behind stdio.
    pub fn child(&self) -> Child {
        self.child.lock().unwrap().take().expect("stdio")
    }
}

/// What a good result holds; its text says it too.
#[track_caller]
pub fn good(result: &CallToolResult) -> Value {
    assert_ne!(result.is_error, Some(true), "{result:?}");
    let body = result.structured_content.clone().expect("structured content");
    let text = words(result);
    assert!(text.contains(body["hint"].as_str().unwrap_or_default()), "{text}");
    for message in body["messages"].as_array().into_iter().flatten() {
        assert!(text.contains(message["text"].as_str().unwrap()), "{text}");
    }
    body
}

#[track_caller]
pub fn refusal(result: &CallToolResult) -> (String, Value) {
    assert_eq!(result.is_error, Some(true), "{result:?}");
    let body = result.structured_content.clone().expect("structured content");
    assert_eq!(words(result), body["detail"]);
    (body["code"].as_str().expect("a code").to_owned(), body)
}

/// The text for the model.
#[track_caller]
pub fn words(result: &CallToolResult) -> String {
    assert_eq!(result.content.len(), 1, "{result:?}");
    result.content[0].as_text().expect("text").text.clone()
}
