//! A connection that wakes itself goes on at once.
//!
//! While a request's body is read, the connection's own task wakes itself. The scheduler would put it at the end of the
//! queue and call another thread for help, which costs more than the request. Here it is polled again instead.

use futures_util::task::AtomicWaker;
use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

/// So often at most, so that no connection keeps others waiting.
const AGAIN_MAX: usize = 8;

#[derive(Default)]
struct Bell {
    task: AtomicWaker,
    /// The connection is being polled: whoever rings is heard right after.
    polling: AtomicBool,
    rung: AtomicBool,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::SeqCst);
        if !self.polling.load(Ordering::SeqCst) {
            self.task.wake();
        }
    }
}

/// Runs a connection to its end.
pub async fn prompt<F: Future>(connection: F) -> F::Output {
    let mut connection = pin!(connection);
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(bell.clone());
    poll_fn(|task| {
        bell.task.register(task.waker());
        bell.polling.store(true, Ordering::SeqCst);
        let mut polled = Poll::Pending;
        for _ in 0..AGAIN_MAX {
            bell.rung.store(false, Ordering::SeqCst);
            polled = connection.as_mut().poll(&mut Context::from_waker(&waker));
            if polled.is_ready() || !bell.rung.load(Ordering::SeqCst) {
                break;
            }
        }
        bell.polling.store(false, Ordering::SeqCst);
        if polled.is_pending() && bell.rung.load(Ordering::SeqCst) {
            // Rung after the last look.
            task.waker().wake_by_ref();
        }
        polled
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc, thread, time::Duration};

    #[tokio::test]
    async fn what_wakes_itself_ends_and_what_is_woken_from_outside_too() {
        let mut left = 100;
        prompt(poll_fn(|cx| {
            left -= 1;
            cx.waker().wake_by_ref();
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        }))
        .await;
        // Woken by a thread at every moment, also between the last look and the wait.
        let (sender, wakers) = mpsc::channel::<Waker>();
        let ringer = thread::spawn(move || wakers.iter().for_each(Waker::wake));
        let mut left = 10_000;
        let rung = prompt(poll_fn(|cx| {
            left -= 1;
            let _ = sender.send(cx.waker().clone());
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        }));
        tokio::time::timeout(Duration::from_secs(20), rung).await.expect("no wake is lost");
        drop(sender);
        ringer.join().expect("no panic");
    }
}
