//! The stream and body adapters on paused time.

use bytes::Bytes;
use futures_util::{FutureExt, Stream, StreamExt, stream};
use http_body_util::{BodyExt, StreamBody};
use idle_timeout::{BodyError, Idle, IdleBody, IdleStream};
use proptest::prelude::*;
use std::{convert::Infallible, error::Error, time::Duration};
use tokio::{
    sync::mpsc,
    time::{Instant, advance, sleep},
};

const S: Duration = Duration::from_secs(1);

/// Items with a gap before each, then silence.
fn gaps(gaps: Vec<Duration>) -> impl Stream<Item = usize> + Unpin {
    let items = stream::iter(gaps.into_iter().enumerate()).then(|(number, gap)| async move {
        sleep(gap).await;
        number
    });
    Box::pin(items.chain(stream::pending()))
}

#[tokio::test(start_paused = true)]
async fn ten_minutes_of_a_chunk_a_second_survive_and_then_silence_ends_it() {
    let began = Instant::now();
    let mut stream = IdleStream::new(gaps(vec![S; 600]), 30 * S);
    for number in 0..600 {
        assert_eq!(stream.next().await, Some(Ok(number)));
    }
    assert_eq!(stream.next().await, Some(Err(Idle { limit: 30 * S })));
    assert!((630 * S..631 * S).contains(&began.elapsed()), "{:?}", began.elapsed());
    assert_eq!(stream.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn an_end_is_an_end() {
    let items: Vec<_> = IdleStream::new(stream::iter([1, 2]), Duration::ZERO).collect().await;
    assert_eq!(items, [Ok(1), Ok(2)]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_does_not_kill_a_live_stream() {
    let (sender, mut receiver) = mpsc::channel(8);
    let source = stream::poll_fn(move |cx| receiver.poll_recv(cx));
    let mut stream = IdleStream::new(source, S);
    sender.send(1).await.expect("room");
    assert_eq!(stream.next().await, Some(Ok(1)));
    // Looked once, found nothing, so the timer is armed; then the reader is away for long while data comes.
    assert!(stream.next().now_or_never().is_none());
    sender.send(2).await.expect("room");
    advance(100 * S).await;
    assert_eq!(stream.next().await, Some(Ok(2)));
    assert!(stream.next().now_or_never().is_none());
    // Away again, and what comes is only on its way when the reader returns.
    advance(100 * S).await;
    assert!(stream.next().now_or_never().is_none(), "a limit nobody watched run out gets a moment's grace");
    sender.send(3).await.expect("room");
    assert_eq!(stream.next().await, Some(Ok(3)));
    // Real silence ends it all the same.
    assert_eq!(stream.next().await, Some(Err(Idle { limit: S })));
}

#[tokio::test(start_paused = true)]
async fn zero_ends_the_first_silence_and_huge_none() {
    let mut stream = IdleStream::new(gaps(vec![]), Duration::ZERO);
    assert_eq!(stream.next().await, Some(Err(Idle { limit: Duration::ZERO })));
    let mut stream = IdleStream::new(gaps(vec![1_000_000 * S]), Duration::MAX);
    assert_eq!(stream.next().await, Some(Ok(0)));
}

#[tokio::test(start_paused = true)]
async fn a_body_passes_frames_errors_and_silence() {
    let frames =
        gaps(vec![S, S]).map(|number| Ok::<_, Infallible>(http_body::Frame::data(Bytes::from(vec![number as u8]))));
    let mut body = IdleBody::new(StreamBody::new(frames), 2 * S);
    for number in 0..2u8 {
        let frame = body.frame().await.expect("a frame").expect("data");
        assert_eq!(frame.into_data().expect("data"), [number][..]);
    }
    let error = body.frame().await.expect("an error").expect_err("silence");
    assert_eq!(error, BodyError::Idle(Idle { limit: 2 * S }));
    assert!(body.frame().await.is_none());
}

#[derive(Debug)]
struct Outer(Idle);

impl std::fmt::Display for Outer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("outer")
    }
}

impl Error for Outer {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

#[test]
fn errors_say_what_they_came_of() {
    let inner = Idle { limit: S };
    let error = BodyError::Source(Outer(inner));
    assert_eq!(error.to_string(), "outer");
    assert!(error.source().is_some_and(|source| source.downcast_ref() == Some(&inner)));
    let boxed: BodyError<Box<dyn Error + Send + Sync>> = BodyError::Source("boxed".into());
    assert_eq!(boxed.into_boxed().to_string(), "boxed");
    let idle = BodyError::<Outer>::Idle(inner).into_boxed();
    assert_eq!(idle.downcast_ref(), Some(&inner));
}

proptest! {
    /// Whatever the gaps: all items before the first gap over the limit pass, then comes the error, on time.
    #[test]
    fn only_a_gap_over_the_limit_ends_it(lengths in proptest::collection::vec(0u64..2_000, 0..40), limit in 1u64..2_500) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        runtime.block_on(async {
            let limit = Duration::from_millis(limit);
            let lengths: Vec<_> = lengths.into_iter().map(Duration::from_millis).collect();
            let alive = lengths.iter().take_while(|gap| **gap < limit).count();
            let end: Duration = lengths[..alive].iter().sum::<Duration>() + limit;
            // A gap of exactly the limit may fall either way.
            if lengths.get(alive).is_some_and(|gap| *gap <= limit + Duration::from_millis(2)) {
                return;
            }
            let began = Instant::now();
            let items: Vec<_> = IdleStream::new(gaps(lengths), limit).collect().await;
            assert_eq!(items.len(), alive + 1);
            assert!(items[..alive].iter().all(Result::is_ok) && items[alive].is_err());
            assert!(began.elapsed() >= end, "early");
            assert!(began.elapsed() <= end + Duration::from_millis(2 + alive as u64 * 2), "late");
        });
    }
}
