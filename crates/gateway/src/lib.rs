//! The LLM gateway: one path for every model call, over three wire protocols.
//!
//! A request is read once for what routing needs, changed only by splices that leave every other byte alone, and sent
//! to the first upstream that serves its model. The answer is relayed frame by frame, byte for byte. Four limits say how
//! long each part may take; each has its own error, in the protocol's own form.
//!
//! Everything runs inside the future and the body that the server polls, so a client that leaves drops, and thereby
//! cancels, all of it. Nothing here knows of storage or timers: those come in as [`Stage`]s.

mod answer;
mod aside;
mod budget;
mod chunked;
mod conversation;
mod dial;
mod draft;
mod encoding;
mod fault;
mod flow;
mod gate;
mod gateway;
mod headers;
mod intake;
mod lanes;
mod limits;
mod line;
mod models;
mod opaque;
mod outline;
mod pass;
mod protocol;
mod relay;
mod report;
mod rounds;
mod send;
mod session;
pub mod sse;
mod stage;
mod upstream;
mod vigil;
mod whole;

pub use answer::Answer;
pub use aside::Aside;
pub use conversation::UserText;
pub use dial::{Dial, Link, Net};
pub use draft::Draft;
pub use fault::Fault;
pub use gateway::{Gateway, Settings};
pub use limits::{IdleCounts, Limit, Limits};
pub use outline::Outline;
pub use protocol::{Event, Finish, Kind, Protocol, Seen, ToolCall, Usage, Waiting};
pub use relay::Relay;
pub use report::{Observer, Outcome, Report};
pub use session::{SessionHint, Source, Whose};
pub use stage::{
    Admission, Admitted, Alone, Interest, More, Next, Stage, ToolResult, Turn, Verdict, Visit, Voice, Words,
};
pub use upstream::{ApiKey, Override, Upstream};
