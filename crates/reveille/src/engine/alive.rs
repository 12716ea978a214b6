//! Keeping time must never end unnoticed: a server whose driver has died would answer and accept timers for ever, and
//! wake nobody. If one of the engine's tasks breaks, the engine says so and the process ends, to be started again.

use futures_util::FutureExt;
use std::{future::Future, panic::AssertUnwindSafe};
use tokio_util::sync::CancellationToken;

pub async fn watched(name: &'static str, broken: CancellationToken, task: impl Future<Output = ()>) {
    // Whatever the task shared is left as it is: nothing goes on working with it.
    if AssertUnwindSafe(task).catch_unwind().await.is_err() {
        tracing::error!(task = name, "a part of the engine broke; the server stops");
        broken.cancel();
    }
}
