//! The pure middle of Reveille: what a session's timers and reminders are and how they change.
//!
//! Nothing here reads a clock, a file, a socket or a random number. [`decide()`] takes the part of a session that was
//! loaded, a command and `now`, and answers with data: the rows to write and the reply to give. Everything that has
//! effects lives in other crates and treats what is decided here as final.

#![forbid(unsafe_code)]

pub mod agenda;
pub mod at;
pub mod batch;
pub mod call;
pub mod command;
pub mod condition;
pub mod cron;
pub mod decide;
pub mod directive;
pub mod due;
pub mod duration;
pub mod history;
pub mod id;
pub mod inbox;
pub mod item;
pub mod limits;
pub mod message;
pub mod quiet;
pub mod recurrence;
pub mod reject;
pub mod reminder;
pub mod schedule;
pub mod session;
pub mod session_timer;
pub mod task;
pub mod text;
pub mod thread;
pub mod time;
pub mod timer;
pub mod utterance;
pub mod zone;

pub use agenda::Agenda;
pub use batch::{Batch, ItemWrite, MessageWrite, RequestKey, Tally};
pub use call::ToolCall;
pub use command::{Call, Command, Needs, Sleep, State};
pub use condition::Condition;
pub use decide::{Decision, Fired, Reply, Scheduled, decide};
pub use directive::Directive;
pub use history::{HistoryEntry, SubjectKind};
pub use id::{AgentId, ItemId, LeaseId, SessionId, TaskId};
pub use item::{Item, Kind};
pub use limits::Limits;
pub use message::{Lease, Message, MessageKind};
pub use quiet::{Hours, Quiet};
pub use recurrence::{CatchUp, Recurrence};
pub use reject::Reject;
pub use reminder::Reminder;
pub use schedule::{Schedule, When};
pub use session::Session;
pub use session_timer::SessionTimer;
pub use task::{Task, TaskEnd, TaskOutcome};
pub use thread::Thread;
pub use time::{Millis, Timestamp};
pub use timer::{Purpose, Status, Timer};
pub use utterance::Utterance;
pub use zone::Zone;
