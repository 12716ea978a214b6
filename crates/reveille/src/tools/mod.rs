//! The tools agents call, the same through every door: names, schemas, arguments, results.

mod arguments;
mod clock;
mod deliverable;
mod kind;
mod listed;
pub(crate) mod plan;
mod reminders;
mod run;
mod schedule;
mod schema;
mod task;
mod until;
mod view;

pub use clock::{CANCELLED_HINT, new_reminder};
pub use deliverable::{Deliverable, Known, deliverable};
pub use kind::client_kind;
pub use listed::TimersResult;
pub(crate) use plan::given;
pub(crate) use reminders::iso;
pub use reminders::{ClockResult, ReminderStatusName, ReminderView, ScheduledView};
pub use run::{HeldFor, IDS_TRIED_MAX, ToolBody, ToolCall, ToolReply, request_key};
pub use schedule::ScheduleView;
pub use schema::{Format, catalogue};
pub use task::{TaskReply, TaskStatus, TaskView};
pub use view::{MessageView, Outcome, Problem, Seconds, SessionView, TimerResult, TimerType, TimerView};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    Timer,
    ReadTimer,
    StopTimer,
    CancelTimer,
    PauseTimer,
    ResumeTimer,
    Clock,
}

impl Tool {
    /// In the order in which every door lists them; it never changes, so that prompt caches hold.
    pub const ALL: [Tool; 7] = [
        Tool::Timer,
        Tool::ReadTimer,
        Tool::StopTimer,
        Tool::CancelTimer,
        Tool::PauseTimer,
        Tool::ResumeTimer,
        Tool::Clock,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Tool::Timer => "timer",
            Tool::ReadTimer => "read_timer",
            Tool::StopTimer => "stop_timer",
            Tool::CancelTimer => "cancel_timer",
            Tool::PauseTimer => "pause_timer",
            Tool::ResumeTimer => "resume_timer",
            Tool::Clock => "clock",
        }
    }

    pub fn named(name: &str) -> Option<Tool> {
        Tool::ALL.into_iter().find(|tool| tool.name() == name)
    }
}
