//! The protocol's requests, answered. The same for every transport and revision; what differs is behind [`Backend`].

use super::{
    Answer, Backend, Call, Identity, Refusal, StandbyLimits, catalogue, protocol, reply,
    standby::{self, Progress},
    tasks,
};
use crate::tools::Tool;
use reveille_core::text;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams, CancelledNotificationParam,
        CompleteRequestMethod, CompleteRequestParams, CompleteResult, CustomRequest, CustomResult, DiscoverResult,
        ErrorCode, GetTaskParams, GetTaskResult, InitializeRequestParams, InitializeResult, ListPromptsRequestMethod,
        ListPromptsResult, ListResourceTemplatesRequestMethod, ListResourceTemplatesResult, ListResourcesRequestMethod,
        ListResourcesResult, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool as Listed,
        UpdateTaskParams,
    },
    service::{NotificationContext, RequestContext},
};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The list of tools changes only with the program; a client may keep it for an hour.
const FRESH_MS: u64 = 3_600_000;

const INSTRUCTIONS: &str = "A clock for waiting without spending requests. To wait for something, call timer with a \
    reason and a timeout, look for yourself when it returns, and call it again with the timer_id to wait on. To come \
    back later, call timer with a mission and end your turn; a message wakes you.";

/// Methods of ours. A request for one of them that is none of the SDK's has parameters that cannot be read.
const METHODS: &[&str] = &["tools/call", "tools/list", "tasks/get", "tasks/update", "tasks/cancel"];

#[derive(Clone)]
pub struct Handler<B> {
    pub backend: B,
    pub identity: Identity,
    pub limits: Arc<StandbyLimits>,
    /// The connection is over: nobody waits for an answer any more.
    pub stop: CancellationToken,
}

impl<B: Backend> ServerHandler for Handler<B> {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tasks().build())
            .with_server_info(protocol::server())
            .with_instructions(INSTRUCTIONS)
    }

    /// Older revisions have tasks of another kind.
    async fn initialize(
        &self,
        asked: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(asked.clone());
        self.met(&context);
        let mut result = self.negotiate_initialize(&asked)?;
        result.capabilities.extensions = None;
        Ok(result)
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        self.met(&context);
        let versions = ServerHandler::supported_protocol_versions(self).into_owned();
        let discovered = DiscoverResult::from_server_info(versions, self.get_info());
        Ok(discovered.with_ttl_ms(FRESH_MS).with_cache_scope(CacheScope::Public))
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.met(&context);
        if page.is_some_and(|page| page.cursor.is_some()) {
            return Err(ErrorData::invalid_params("unknown cursor: all tools are on the first page", None));
        }
        let mut result = ListToolsResult::with_all_items(catalogue::tools().to_vec());
        if protocol::is_modern(&context) {
            (result.ttl_ms, result.cache_scope) = (Some(FRESH_MS), Some(CacheScope::Public));
        }
        result.meta = protocol::server_meta(&context);
        Ok(result)
    }

    fn get_tool(&self, name: &str) -> Option<Listed> {
        catalogue::tools().iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = Tool::named(&params.name) else {
            let unknown = format!("Unknown tool: {}", text::shown(&params.name));
            return Err(ErrorData::invalid_params(unknown, None));
        };
        let mut arguments = params.arguments.unwrap_or_default();
        let meta = protocol::server_meta(&context);
        let told = match self.identity.resolve(&context, tool, &mut arguments) {
            Ok(told) => told,
            Err(refusal) => return Ok(reply::refused(refusal, meta).into()),
        };
        if let Err(refusal) = self.backend.admit(&context, &told.session).await {
            return Ok(reply::refused(refusal, meta).into());
        }
        let client = super::http::client_name(&context);
        let progress = context.meta.get_progress_token().is_some();
        let standby_max = self.limits.of(client.as_deref(), progress);
        let task = tool == Tool::Timer && tasks::may_answer_with_task(&context);
        let call = Call { session: told.session.clone(), client, tool, arguments, standby_max, task };
        let result = match self.carry_out(&context, call).await? {
            Ok(Answer { task: Some(task), body, .. }) => {
                return Ok(CallToolResponse::Task(tasks::created(&task, &body, &told, meta)));
            }
            Ok(answer) => {
                self.backend.hand_over(&context, answer.receipt);
                reply::complete(answer.body, &told, meta)
            }
            Err(refusal) => reply::refused(refusal, meta),
        };
        Ok(result.into())
    }

    async fn get_task(
        &self,
        asked: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let mut result = self.read_task(asked.task_id, &context).await?;
        result.meta = protocol::server_meta(&context);
        Ok(result)
    }

    /// No task of ours ever asks for input.
    async fn update_task(&self, asked: UpdateTaskParams, context: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.look_at_task(asked.task_id, &context).await
    }

    async fn cancel_task(&self, asked: CancelTaskParams, context: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.end_task(asked.task_id, &context).await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if METHODS.contains(&request.method.as_str()) {
            let why = format!("the parameters of {} cannot be read", request.method);
            return Err(ErrorData::invalid_params(why, None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("Method not found: {}", request.method), None))
    }

    // What is not offered is not there; the SDK would answer with empty lists.

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourcesRequestMethod>())
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourceTemplatesRequestMethod>())
    }

    async fn on_cancelled(&self, cancelled: CancelledNotificationParam, _: NotificationContext<RoleServer>) {
        if let Some(id) = cancelled.request_id {
            self.backend.cancelled(&id);
        }
    }
}

impl<B: Backend> Handler<B> {
    /// A client is there, whether or not it ever calls a tool.
    fn met(&self, context: &RequestContext<RoleServer>) {
        if let Some(session) = self.identity.at_first(context) {
            self.backend.met(&session);
        }
    }

    /// The call, with signs of life for as long as it stands by. Whoever leaves it leaves the timer alone.
    async fn carry_out(
        &self,
        context: &RequestContext<RoleServer>,
        call: Call,
    ) -> Result<Result<Answer<B::Receipt>, Refusal>, ErrorData> {
        let length = standby::expected(&call);
        let progress = length.and_then(|length| Progress::of(context, length));
        if length.is_some() && progress.is_none() {
            self.backend.begun(context);
        }
        let signs = async {
            match progress {
                Some(progress) => progress.run().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = context.ct.cancelled() => Err(left()),
            () = self.stop.cancelled() => Err(left()),
            () = signs => unreachable!("signs of life do not end"),
            answer = self.backend.call(call) => Ok(answer),
        }
    }
}

/// Nobody reads it: the request was cancelled, or its connection is gone.
fn left() -> ErrorData {
    ErrorData::new(ErrorCode::INTERNAL_ERROR, "the request was cancelled; its timer goes on", None)
}
