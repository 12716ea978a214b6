//! What each client's hooks understand. One table: who, when, and the JSON that puts a text before the model.

use clap::ValueEnum;
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HookClient {
    ClaudeCode,
    Codex,
    Gemini,
    Cursor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HookEvent {
    /// The agent is about to end its turn
    Stop,
    /// The user has sent a prompt
    Prompt,
    /// The session begins or is resumed
    Start,
    /// Waits in the background and wakes an idle session (Claude Code, with `asyncRewake`)
    Rewake,
    /// A tool of Reveille is about to be called: names the session in its arguments (Claude Code)
    Tool,
}

impl HookClient {
    /// The kind of client, as sessions keep it.
    pub const fn kind(self) -> &'static str {
        match self {
            HookClient::ClaudeCode => "claude-code",
            HookClient::Codex => "codex",
            HookClient::Gemini => "gemini",
            HookClient::Cursor => "cursor",
        }
    }

    /// What is printed when there is nothing to say. Some clients read every answer as JSON.
    pub const fn silence(self) -> &'static str {
        match self {
            HookClient::ClaudeCode | HookClient::Codex => "",
            HookClient::Gemini | HookClient::Cursor => "{}\n",
        }
    }

    /// The client's own JSON; `None`: this hook cannot tell the model anything.
    pub fn tell(self, event: HookEvent, text: &str) -> Option<Value> {
        let context = |name: &str| json!({"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}});
        Some(match (self, event) {
            (HookClient::ClaudeCode | HookClient::Codex, HookEvent::Stop) => {
                json!({"decision": "block", "reason": text})
            }
            (HookClient::ClaudeCode | HookClient::Codex, HookEvent::Prompt) => context("UserPromptSubmit"),
            (HookClient::ClaudeCode | HookClient::Codex | HookClient::Gemini, HookEvent::Start) => {
                context("SessionStart")
            }
            (HookClient::Gemini, HookEvent::Stop) => json!({"decision": "deny", "reason": text}),
            (HookClient::Gemini, HookEvent::Prompt) => context("BeforeAgent"),
            (HookClient::Cursor, HookEvent::Stop) => json!({"followup_message": text}),
            (HookClient::Cursor, HookEvent::Prompt | HookEvent::Start) | (_, HookEvent::Rewake | HookEvent::Tool) => {
                return None;
            }
        })
    }
}

impl HookEvent {
    /// The way out, as the history shows it.
    pub const fn channel(self) -> &'static str {
        match self {
            HookEvent::Stop => "hook:stop",
            HookEvent::Prompt => "hook:prompt",
            HookEvent::Start => "hook:start",
            HookEvent::Rewake => "hook:rewake",
            HookEvent::Tool => "hook:tool",
        }
    }
}

/// The call that is about to be made, with its session named. Whether it is allowed is not said: that is the user's.
pub fn named(input: &Value, session: &str) -> Option<Value> {
    let mut arguments = input["tool_input"].as_object()?.clone();
    arguments.insert("session".into(), json!(session));
    Some(json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": arguments}}))
}

/// The conversation, by whatever name the client's JSON has for it.
pub fn session_of(input: &Value) -> Option<&str> {
    ["session_id", "conversation_id", "sessionId", "conversationId", "thread_id", "threadId"]
        .into_iter()
        .filter_map(|name| input[name].as_str())
        .find(|id| !id.trim().is_empty())
}
