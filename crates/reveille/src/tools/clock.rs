//! The `clock` tool: arguments as models really send them → command → result.

use super::{
    MessageView,
    arguments::Arguments,
    reminders::{ClockResult, ReminderView, ScheduledView, iso},
    run::{IDS_TRIED_MAX, ToolBody, ToolCall, ToolReply},
};
use crate::engine::{EngineError, Outcome as Done};
use reveille_core::{
    Command, ItemId, Limits, Reject, Reminder, Reply, RequestKey, Scheduled, Timestamp, due,
    reminder::{Ask, Change, Content, Due, check_tool},
};
use serde::Serialize;
use serde_json::{Map, Value, json};

pub const CANCELLED_HINT: &str = "Cancelled: it will not be told.";

/// What a `clock` call asks for.
#[derive(Debug, PartialEq)]
pub enum ClockWish {
    Schedule(Vec<Wanted>),
    List,
    Cancel(ItemId),
    Clear,
}

/// One item of a schedule, before it has an id. Its serialized form is what an idempotency key stands for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    New { due: Due, content: Content },
    Replace { id: ItemId, change: Change },
}

impl Arguments<'_> {
    pub fn clock(&self) -> Result<ClockWish, Reject> {
        let action = self.string("action")?.unwrap_or_default();
        match action.trim() {
            "schedule" => self.items().map(ClockWish::Schedule),
            "list" => Ok(ClockWish::List),
            "cancel" => {
                let hint = "the id of the task to cancel; action list shows them";
                self.task_id()?.map(ClockWish::Cancel).ok_or(Reject::MissingArgument { field: "taskId", hint })
            }
            "clear" => Ok(ClockWish::Clear),
            "" => {
                let hint = "one of schedule, list, cancel, clear";
                Err(Reject::MissingArgument { field: "action", hint })
            }
            other => {
                let why =
                    format!("is '{}'; it must be schedule, list, cancel or clear", reveille_core::text::shown(other));
                Err(Reject::InvalidArgument { field: "action".into(), why })
            }
        }
    }

    /// A list, a single item, either as JSON in a text, or the fields of one item beside `action`.
    fn items(&self) -> Result<Vec<Wanted>, Reject> {
        let hint = "what to be reminded of: [{\"task\": \"…\", \"in\": \"10m\"}]";
        let items = match self.fields.get("items") {
            None | Some(Value::Null) if self.fields.contains_key("task") || self.fields.contains_key("taskId") => {
                return Ok(vec![self.item()?]);
            }
            None | Some(Value::Null) => return Err(Reject::MissingArgument { field: "items", hint }),
            Some(Value::String(text)) => serde_json::from_str(text).map_err(|error| Reject::InvalidArgument {
                field: "items".into(),
                why: format!("is a text that is not valid JSON ({error}); send a list of objects"),
            })?,
            Some(value) => value.clone(),
        };
        let items = match items {
            Value::Array(items) => items,
            item @ Value::Object(_) => vec![item],
            _ => {
                let why = "must be a list of objects, each with `task` and `dueAt` or `in`".to_owned();
                return Err(Reject::InvalidArgument { field: "items".into(), why });
            }
        };
        if items.is_empty() {
            return Err(Reject::MissingArgument { field: "items", hint });
        }
        let max = self.limits.live_reminders_max as usize;
        if items.len() > max {
            let why = format!("has {} entries; at most {max} fit into one call", items.len());
            return Err(Reject::InvalidArgument { field: "items".into(), why });
        }
        items.into_iter().enumerate().map(|(place, item)| item_at(place, item, self.limits)).collect()
    }

    fn item(&self) -> Result<Wanted, Reject> {
        let (task, tool, arguments) = (self.text("task")?, self.tool()?, self.arguments()?);
        let due = self.due()?;
        if let Some(id) = self.task_id()? {
            return Ok(Wanted::Replace { id, change: Change { due, task, tool, arguments } });
        }
        let hint = "what to do when it is due";
        let task = task.ok_or(Reject::MissingArgument { field: "task", hint })?;
        let hint = "when: an ISO 8601 time with offset (2026-01-21T20:30:00-08:00); or send `in` (\"10m\") instead";
        let due = due.ok_or(Reject::MissingArgument { field: "dueAt", hint })?;
        Ok(Wanted::New { due, content: Content { task, tool, arguments } })
    }

    fn due(&self) -> Result<Option<Due>, Reject> {
        let at = match self.fields.get("dueAt") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) if text.trim().is_empty() => None,
            Some(value) => Some(due::parse(value)?),
        };
        match (at, self.duration("in")?) {
            (Some(_), Some(_)) => {
                let why = "and `dueAt` exclude each other; send the one you know".to_owned();
                Err(Reject::InvalidArgument { field: "in".into(), why })
            }
            (Some(at), None) => Ok(Some(Due::At(at))),
            (None, length) => Ok(length.map(Due::In)),
        }
    }

    fn tool(&self) -> Result<Option<String>, Reject> {
        let tool = self.string("tool")?.map(|tool| tool.trim().to_owned()).filter(|tool| !tool.is_empty());
        tool.as_deref().map(check_tool).transpose()?;
        Ok(tool)
    }

    fn arguments(&self) -> Result<Option<Map<String, Value>>, Reject> {
        let invalid = || Reject::InvalidArgument { field: "arguments".into(), why: "must be a JSON object".into() };
        let arguments = match self.fields.get("arguments") {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(text)) if text.trim().is_empty() => return Ok(None),
            Some(Value::String(text)) => serde_json::from_str(text).map_err(|_| invalid())?,
            Some(Value::Object(fields)) => fields.clone(),
            Some(_) => return Err(invalid()),
        };
        let chars = json!(arguments).to_string().chars().count();
        if chars > self.limits.text_chars_max {
            return Err(Reject::TextTooLong { field: "arguments", chars, max: self.limits.text_chars_max });
        }
        Ok(Some(arguments))
    }

    fn task_id(&self) -> Result<Option<ItemId>, Reject> {
        Ok(self.string("taskId")?.map(|id| id.trim().to_owned()).filter(|id| !id.is_empty()).map(ItemId::new))
    }
}

/// One entry of the list, read by the same rules as the fields of a call.
fn item_at(place: usize, item: Value, limits: &Limits) -> Result<Wanted, Reject> {
    match item {
        Value::Object(fields) => Arguments { fields, limits }.item(),
        _ => {
            let why = "must be an object with `task` and `dueAt` or `in`".to_owned();
            Err(Reject::InvalidArgument { field: format!("items[{place}]"), why })
        }
    }
}

/// A reminder that somebody else than the agent sets, by the same rules: always a new one.
pub fn new_reminder(body: Value, limits: &Limits) -> Result<(Due, Content), Reject> {
    match Arguments::new(body, limits)?.item()? {
        Wanted::New { due, content } => Ok((due, content)),
        Wanted::Replace { .. } => {
            let why = "is for the agent itself; leave it out to set a new reminder".to_owned();
            Err(Reject::InvalidArgument { field: "taskId".into(), why })
        }
    }
}

/// What an agent may do whom nothing would wake.
const STAND_BY: &str = " If it must be told on time, do not end your turn: call timer with a reason and a timeout_duration to \
                        stand by until then.";

impl ToolCall<'_> {
    /// The reply and what it is counted as.
    pub(super) async fn clock(mut self, wish: ClockWish) -> Result<(ToolReply, &'static str), EngineError> {
        let (done, counted) = match wish {
            ClockWish::Schedule(items) => (self.schedule(items).await?, "scheduled"),
            ClockWish::List => (self.execute(Command::ListReminders, true).await?, "listed"),
            ClockWish::Cancel(id) => (self.execute(Command::CancelReminder { id }, true).await?, "cancelled"),
            ClockWish::Clear => (self.execute(Command::ClearReminders, true).await?, "cleared"),
        };
        let (now, limits) = (self.engine.now(), self.engine.limits());
        let mut result = answer(&done, now, limits);
        if let Reply::Scheduled(scheduled) = &done.reply {
            let last = scheduled.iter().map(|scheduled| scheduled.due_at).max().unwrap_or(now);
            let told_in = first(scheduled, now, limits).map(|(told, _)| told.since(now));
            let (delivery, warning) = self.delivery(last.since(now), told_in).await;
            if let Some((warning, when)) = warning.zip(when(scheduled, now, limits)) {
                // Models behind the gateway may not have that tool.
                let instead = if self.in_turn.is_some() { "" } else { STAND_BY };
                result.hint = format!("Kept. The first {when}. {warning}{instead}");
            }
            result.delivery = Some(delivery);
        }
        let deliveries = done.delivery.into_iter().collect();
        Ok((ToolReply { body: ToolBody::Clock(Box::new(result)), deliveries, task: None }, counted))
    }

    async fn schedule(&mut self, items: Vec<Wanted>) -> Result<Done, EngineError> {
        let key = self.request_key(|| json!({"clock": items}).to_string())?;
        for _ in 0..IDS_TRIED_MAX {
            match self.execute(self.scheduling(&items, key.clone()), true).await {
                Err(EngineError::IdTaken) => {}
                done => return done,
            }
        }
        Err(EngineError::IdTaken)
    }

    fn scheduling(&self, items: &[Wanted], key: Option<RequestKey>) -> Command {
        let asks = items.iter().cloned().map(|item| match item {
            Wanted::New { due, content } => Ask::New { id: self.engine.fresh_task(), due, content },
            Wanted::Replace { id, change } => Ask::Replace { id, change },
        });
        Command::Schedule { asks: asks.collect(), key }
    }
}

fn answer(done: &Done, now: Timestamp, limits: &Limits) -> ClockResult {
    let mut result = ClockResult {
        ok: true,
        scheduled: None,
        items: None,
        removed: None,
        removed_count: None,
        now: iso(now),
        messages: done.riding.iter().map(MessageView::delivered).collect(),
        delivery: None,
        hint: String::new(),
    };
    match &done.reply {
        Reply::Scheduled(scheduled) => {
            result.hint = scheduled_hint(scheduled, now, limits);
            result.scheduled = Some(scheduled.iter().map(ScheduledView::of).collect());
        }
        Reply::Reminders(reminders) => {
            result.hint = pending_hint(reminders);
            result.items = Some(reminders.iter().map(ReminderView::of).collect());
        }
        Reply::Reminder(reminder) => {
            result.hint = CANCELLED_HINT.into();
            result.removed = Some(reminder.id.to_string());
        }
        Reply::Cleared(count) => {
            result.hint = format!("{count} cancelled; no task is pending in this session.");
            result.removed_count = Some(*count);
        }
        _ => unreachable!("clock asks about reminders"),
    }
    result
}

/// The one that is told first, and from when on.
fn first<'a>(scheduled: &'a [Scheduled], now: Timestamp, limits: &Limits) -> Option<(Timestamp, &'a Scheduled)> {
    let told = |one: &'a Scheduled| {
        let early = one.due_at.minus(limits.due_window);
        (one.opens_at.unwrap_or(if early > now { early } else { one.due_at }), one)
    };
    scheduled.iter().map(told).min_by_key(|(told, _)| *told)
}

/// When the first is due, in words; nothing if it is told at once.
fn when(scheduled: &[Scheduled], now: Timestamp, limits: &Limits) -> Option<String> {
    let (told, first) = first(scheduled, now, limits).filter(|(told, _)| *told > now)?;
    Some(match first.opens_at {
        Some(_) => {
            format!("is due {}, within quiet hours: it waits for their end at {}", iso(first.due_at), iso(told))
        }
        None => format!("is due in {} seconds", first.due_at.since(now).get().div_ceil(1000)),
    })
}

fn scheduled_hint(scheduled: &[Scheduled], now: Timestamp, limits: &Limits) -> String {
    match when(scheduled, now, limits) {
        Some(when) => format!(
            "Kept. The first {when}; it is told with your first request or tool result from then on. End your turn now, do \
             not wait or poll."
        ),
        None => "Due now: it is told with your next request or tool result.".into(),
    }
}

fn pending_hint(reminders: &[Reminder]) -> String {
    match reminders.iter().filter(|reminder| reminder.is_live()).count() {
        0 => "No task is pending in this session.".into(),
        1 => "One task is pending.".into(),
        live => format!("{live} tasks are pending."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reveille_core::Millis;

    fn wish(value: Value) -> Result<ClockWish, &'static str> {
        let limits = Limits::default();
        Arguments::new(value, &limits).and_then(|arguments| arguments.clock()).map_err(|reject| reject.code())
    }

    #[test]
    fn one_item_in_all_its_shapes() {
        let arguments = || json!({"b": [1], "a": "🙂"}).as_object().cloned();
        let content = Content { task: "检查".into(), tool: Some("exec".into()), arguments: arguments() };
        let expected = Wanted::New { due: Due::In(Millis::from_secs(600)), content };
        let item =
            json!({"task": "检查", "in": "10m", "tool": " exec ", "arguments": {"b": [1], "a": "🙂"}, "taskId": ""});
        let mut flat = item.clone();
        flat["action"] = json!("schedule");
        let mut quoted = item.clone();
        quoted["arguments"] = json!("{\"b\": [1], \"a\": \"🙂\"}");
        quoted["dueAt"] = json!(" ");
        for sent in [
            json!({"action": "schedule", "items": [item]}),
            json!({"action": " schedule", "items": item}),
            json!({"action": "schedule", "items": json!([item]).to_string()}),
            json!({"action": "schedule", "items": item.to_string()}),
            json!({"action": "schedule", "items": [quoted]}),
            flat,
        ] {
            assert_eq!(wish(sent.clone()), Ok(ClockWish::Schedule(vec![expected.clone()])), "{sent}");
        }
        for (value, seconds) in [(json!(600), 600), (json!("600"), 600), (json!("PT1H"), 3600)] {
            let Ok(ClockWish::Schedule(items)) = wish(json!({"action": "schedule", "task": "t", "in": value})) else {
                panic!("{value}")
            };
            assert!(
                matches!(items[0], Wanted::New { due: Due::In(length), .. } if length == Millis::from_secs(seconds))
            );
        }
    }

    #[test]
    fn mistakes_are_named() {
        let item = |item: Value| json!({"action": "schedule", "items": [item]});
        for (sent, code) in [
            (json!({}), "missing_argument"),
            (json!({"action": "remind"}), "invalid_argument"),
            (json!({"action": 7}), "invalid_argument"),
            (json!({"action": "cancel"}), "missing_argument"),
            (json!({"action": "cancel", "taskId": 7}), "invalid_argument"),
            (json!({"action": "schedule"}), "missing_argument"),
            (json!({"action": "schedule", "items": []}), "missing_argument"),
            (json!({"action": "schedule", "items": "[{"}), "invalid_argument"),
            (json!({"action": "schedule", "items": 7}), "invalid_argument"),
            (json!({"action": "schedule", "items": ["x"]}), "invalid_argument"),
            (json!({"action": "schedule", "items": vec![json!({"task": "t", "in": 9}); 101]}), "invalid_argument"),
            (item(json!({"task": "t"})), "missing_argument"),
            (item(json!({"in": 9})), "missing_argument"),
            (item(json!({"task": " ", "in": 9})), "missing_argument"),
            (item(json!({"task": "t", "in": 0})), "invalid_duration"),
            (item(json!({"task": "t", "in": "soon"})), "invalid_duration"),
            (item(json!({"task": "t", "in": 9, "dueAt": "2026-01-21T20:30:00Z"})), "invalid_argument"),
            (item(json!({"task": "t", "dueAt": "2026-01-21T20:30:00"})), "invalid_due_at"),
            (item(json!({"task": "t", "dueAt": 1769056200})), "invalid_due_at"),
            (item(json!({"task": "t\u{7}", "in": 9})), "control_characters"),
            (item(json!({"task": "长".repeat(4001), "in": 9})), "text_too_long"),
            (item(json!({"task": "t", "in": 9, "tool": "a b"})), "invalid_argument"),
            (item(json!({"task": "t", "in": 9, "tool": 7})), "invalid_argument"),
            (item(json!({"task": "t", "in": 9, "arguments": [1]})), "invalid_argument"),
            (item(json!({"task": "t", "in": 9, "arguments": "x"})), "invalid_argument"),
            (item(json!({"task": "t", "in": 9, "arguments": {"x": "长".repeat(4001)}})), "text_too_long"),
        ] {
            assert_eq!(wish(sent.clone()), Err(code), "{sent}");
        }
    }
}
