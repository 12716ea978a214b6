//! What agents and people are shown of reminders: the fields of the original tool. Instants are texts in ISO 8601 with
//! the offset of this machine, since the one who reads them is a model that thinks in the times of its user.

use super::{Deliverable, MessageView};
use jiff::tz::TimeZone;
use reveille_core::{
    Reminder, Scheduled, Timestamp,
    reminder::{Content, Status},
};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// `2026-01-21T20:30:00-08:00`.
pub fn iso(at: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(at.as_millis()) {
        Ok(instant) => instant.display_with_offset(TimeZone::system().to_offset(instant)).to_string(),
        Err(_) => at.to_iso(),
    }
}

/// One reminder.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReminderView {
    #[schema(example = "task_nq072rt887")]
    pub task_id: String,
    #[schema(example = "2026-01-21T20:30:00-08:00")]
    pub due_at: String,
    pub task: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub arguments: Option<Map<String, Value>>,
    #[schema(value_type = ReminderStatusName)]
    pub status: Status,
    pub created_at: String,
    pub updated_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<String>,
    pub delivery_count: u32,
    /// It is due within quiet hours, and told when they are over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_until: Option<String>,
}

/// For the schema only: the five states.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(dead_code, reason = "the schema of reveille_core::reminder::Status, which knows nothing of schemas")]
pub enum ReminderStatusName {
    Scheduled,
    Due,
    Delivered,
    Missed,
    Cancelled,
}

impl ReminderView {
    pub fn of(reminder: &Reminder) -> Self {
        let Content { task, tool, arguments } = reminder.content.clone();
        Self {
            task_id: reminder.id.to_string(),
            due_at: iso(reminder.due_at),
            task,
            tool,
            arguments,
            status: reminder.status(),
            created_at: iso(reminder.created_at),
            updated_at: iso(reminder.updated_at),
            delivered_at: reminder.delivered_at().map(iso),
            delivery_count: reminder.delivery_count,
            waits_until: reminder.opens_at.filter(|_| reminder.status() == Status::Scheduled).map(iso),
        }
    }
}

/// One reminder just scheduled.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduledView {
    pub task_id: String,
    pub due_at: String,
    pub task: String,
    /// It is due within quiet hours, and told when they are over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_until: Option<String>,
}

impl ScheduledView {
    pub fn of(scheduled: &Scheduled) -> Self {
        let Scheduled { id, due_at, opens_at, task } = scheduled;
        let waits_until = opens_at.map(iso);
        Self { task_id: id.to_string(), due_at: iso(*due_at), task: task.clone(), waits_until }
    }
}

/// The answer of `clock`: what the action did, and the time.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClockResult {
    pub ok: bool,
    /// `schedule`: in the order of the items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled: Option<Vec<ScheduledView>>,
    /// `list`: all pending ones and the latest that ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<Vec<ReminderView>>,
    /// `cancel`: the id of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<String>,
    /// `clear`: how many were pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed_count: Option<usize>,
    #[schema(example = "2026-01-21T20:20:00-08:00")]
    pub now: String,
    /// Everything the system had to tell.
    pub messages: Vec<MessageView>,
    /// `schedule`: how the reminders will come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Deliverable>,
    pub hint: String,
}
