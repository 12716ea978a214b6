//! Tasks (extension of 2026-07-28): a call answered at once with the name of a task, whose result is fetched later.
//!
//! Only who may be given one is decided here so far. Storing tasks, `tasks/get` and `tasks/cancel` belong here too.

use super::protocol::is_modern;
use rmcp::{RoleServer, service::RequestContext};

/// Whether this very request may be answered with a task: it speaks 2026-07-28 and declares the extension. A client of an
/// older revision may declare it as well and cannot read the answer.
#[allow(dead_code, reason = "asked as soon as tasks are kept")]
pub fn may_answer_with_task(context: &RequestContext<RoleServer>) -> bool {
    is_modern(context) && context.meta.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks())
}
