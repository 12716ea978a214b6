//! The controller on paused time.

use idle_timeout::{Cause, IdleTimeout, Signal};
use std::time::Duration;
use tokio::time::{Instant, advance, sleep, timeout};

const S: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn steady_data_keeps_it_alive_for_ever() {
    let idle = IdleTimeout::new(10 * S);
    let waiting = tokio::spawn({
        let signal = idle.signal();
        async move { signal.cancelled().await }
    });
    for _ in 0..100_000 {
        sleep(9 * S).await;
        idle.reset();
    }
    assert!(!waiting.is_finished());
    assert_eq!(idle.signal().cause(), None);
    assert_eq!(idle.elapsed(), 900_000 * S);
    assert_eq!(idle.silence(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn silence_fires_on_time_and_never_early() {
    let began = Instant::now();
    let idle = IdleTimeout::new(10 * S);
    let signal = idle.signal();
    advance(7 * S).await;
    idle.reset();
    assert!(timeout(Duration::from_millis(9_999), signal.cancelled()).await.is_err());
    assert_eq!(signal.cancelled().await, Cause::Idle);
    assert!((17 * S..17 * S + Duration::from_millis(2)).contains(&began.elapsed()), "{:?}", began.elapsed());
    assert_eq!(signal.idle().to_string(), "idle timeout after 10000 ms of inactivity");
}

#[tokio::test(start_paused = true)]
async fn a_reset_after_firing_does_nothing() {
    let idle = IdleTimeout::new(S);
    assert_eq!(idle.signal().cancelled().await, Cause::Idle);
    idle.reset();
    idle.abort();
    assert_eq!(idle.signal().cause(), Some(Cause::Idle));
    assert_eq!(idle.signal().cancelled().await, Cause::Idle);
}

#[tokio::test(start_paused = true)]
async fn abort_wakes_everybody_at_once() {
    let began = Instant::now();
    let idle = IdleTimeout::new(Duration::MAX);
    let waiting: Vec<_> = (0..100).map(|_| tokio::spawn(wait(idle.signal()))).collect();
    tokio::task::yield_now().await;
    idle.abort();
    for one in waiting {
        assert_eq!(one.await.expect("no panic"), Cause::Aborted);
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn dropping_ends_the_waits_and_leaves_no_timer() {
    let began = Instant::now();
    let idle = IdleTimeout::new(3600 * S);
    let waiting = tokio::spawn(wait(idle.signal()));
    tokio::task::yield_now().await;
    drop(idle);
    assert_eq!(waiting.await.expect("no panic"), Cause::Dropped);
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn zero_fires_at_once_and_huge_never() {
    assert_eq!(IdleTimeout::new(Duration::ZERO).signal().cause(), Some(Cause::Idle));
    for huge in [Duration::MAX, Duration::from_secs(u64::MAX / 2), Duration::from_secs(1 << 33)] {
        let idle = IdleTimeout::new(huge);
        assert!(timeout(100_000 * S, idle.signal().cancelled()).await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn many_at_once_each_on_its_own_time() {
    let began = Instant::now();
    let tasks: Vec<_> = (1..=10_000u32)
        .map(|number| {
            tokio::spawn(async move {
                let limit = Duration::from_millis(u64::from(number % 1000) + 1);
                let idle = IdleTimeout::new(limit);
                let signal = idle.signal();
                sleep(limit / 2).await;
                idle.reset();
                assert_eq!(signal.cancelled().await, Cause::Idle);
                assert!(began.elapsed() >= limit + limit / 2, "early");
                assert!(began.elapsed() <= limit + limit / 2 + Duration::from_millis(3), "late");
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("on time");
    }
}

async fn wait(signal: Signal) -> Cause {
    signal.cancelled().await
}
