//! The tools the suite calls. They exist in this test only: a wrapper around the handler that is shipped, which answers
//! everything else.

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::*,
    service::{NotificationContext, RequestContext},
};
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Clone)]
pub struct Fixtures<H>(pub H);

/// One pixel.
const IMAGE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
/// No sound.
const AUDIO: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";

fn schema(name: &str) -> Value {
    match name {
        "test_headers" => json!({
            "type": "object",
            "properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "query": {"type": "string"}},
            "required": ["region"],
        }),
        "json_schema_2020_12_tool" => json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {"address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }},
            "properties": {
                "name": {"type": "string"},
                "address": {"$ref": "#/$defs/address"},
                "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                "phone": {"type": "string"},
                "email": {"type": "string"},
            },
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
            "then": {"required": ["phone"]},
            "else": {"required": ["email"]},
            "additionalProperties": false,
        }),
        _ => json!({"type": "object", "properties": {}}),
    }
}

const NAMES: &[&str] = &[
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_error_handling",
    "test_tool_with_progress",
    "test_missing_capability",
    "test_streaming_elicitation",
    "test_logging_tool",
    "test_headers",
    "json_schema_2020_12_tool",
    "greet",
];

/// Tools that go on as tasks. Ours is `timer`, so these are timers.
const TASK_NAMES: &[&str] = &["slow_compute", "failing_job", "protocol_error_job"];

fn tool(name: &'static str) -> Tool {
    let schema = schema(name).as_object().unwrap().clone();
    Tool::new(name, "For the conformance suite.", Arc::new(schema))
}

fn resource() -> ContentBlock {
    ContentBlock::embedded_text("test://embedded-resource", "This is an embedded resource content.")
}

impl<H: ServerHandler> Fixtures<H> {
    async fn answer(&self, name: &str, context: &RequestContext<RoleServer>) -> Result<CallToolResult, ErrorData> {
        let text = || ContentBlock::text("This is a simple text response for testing.");
        let image = || ContentBlock::image(IMAGE, "image/png");
        Ok(CallToolResult::success(match name {
            "test_image_content" => vec![image()],
            "test_audio_content" => vec![ContentBlock::audio(AUDIO, "audio/wav")],
            "test_embedded_resource" => vec![resource()],
            "test_multiple_content_types" => vec![text(), image(), resource()],
            "test_error_handling" => {
                return Ok(CallToolResult::error(vec![ContentBlock::text("It failed on purpose")]));
            }
            "test_missing_capability" => {
                return Err(ErrorData::missing_required_client_capability(
                    serde_json::from_value(json!({"sampling": {}})).unwrap(),
                ));
            }
            "test_tool_with_progress" | "test_streaming_elicitation" => {
                if let Some(token) = context.meta.get_progress_token() {
                    for progress in [0.0, 50.0, 100.0] {
                        let note = ProgressNotificationParam::new(token.clone(), progress).with_total(100.0);
                        let _ = context.peer.notify_progress(note).await;
                    }
                }
                vec![text()]
            }
            _ => vec![text()],
        }))
    }
}

impl<H: ServerHandler + Clone> ServerHandler for Fixtures<H> {
    fn get_info(&self) -> ServerConfig {
        self.0.get_info()
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        self.0.discover(context).await
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut listed = self.0.list_tools(page, context).await?;
        listed.tools.extend(NAMES.iter().chain(TASK_NAMES).map(|name| tool(name)));
        Ok(listed)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let fixture = NAMES.iter().chain(TASK_NAMES).find(|known| **known == name);
        fixture.map(|name| tool(name)).or_else(|| self.0.get_tool(name))
    }

    async fn call_tool(
        &self,
        mut params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = params.arguments.clone().unwrap_or_default();
        let seconds = arguments.get("seconds").and_then(Value::as_u64);
        if params.name == "greet" || seconds == Some(0) {
            let name = arguments.get("name").and_then(Value::as_str).unwrap_or_default();
            return Ok(CallToolResult::success(vec![ContentBlock::text(format!("Hello, {name}!"))]).into());
        }
        if TASK_NAMES.contains(&params.name.as_ref()) {
            let timer = json!({"total_duration": seconds.unwrap_or(1), "reason": params.name});
            params.name = "timer".into();
            params.arguments = timer.as_object().cloned();
        }
        if NAMES.contains(&params.name.as_ref()) {
            return self.answer(&params.name, &context).await.map(Into::into);
        }
        self.0.call_tool(params, context).await
    }

    async fn get_task(
        &self,
        asked: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.0.get_task(asked, context).await
    }

    async fn update_task(&self, asked: UpdateTaskParams, context: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.0.update_task(asked, context).await
    }

    async fn cancel_task(&self, asked: CancelTaskParams, context: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.0.cancel_task(asked, context).await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        self.0.on_custom_request(request, context).await
    }

    async fn complete(
        &self,
        params: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        self.0.complete(params, context).await
    }

    async fn list_prompts(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.0.list_prompts(page, context).await
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.0.list_resources(page, context).await
    }

    async fn list_resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.0.list_resource_templates(page, context).await
    }

    async fn on_cancelled(&self, cancelled: CancelledNotificationParam, context: NotificationContext<RoleServer>) {
        self.0.on_cancelled(cancelled, context).await;
    }
}
