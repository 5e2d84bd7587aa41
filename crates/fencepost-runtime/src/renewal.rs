//! Renewing at intervals what expires otherwise. Where the store is slow the next attempt begins before the last one has ended, and
//! whichever is answered first counts: an attempt that was given up may have been committed all the same, and nobody would know.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use fencepost_core::{Error, Kind, Result};
use tokio::time::{Instant, sleep_until};

/// Attempts under way at once; they begin so many to an interval.
const ATTEMPTS: u32 = 3;

/// Attempts again and again, at the interval after one that succeeded and sooner after one that failed or is late, and tells
/// `heard` every answer, until that breaks.
pub(crate) async fn keep_renewing<A, T>(
    interval: Duration,
    attempt: impl Fn() -> A,
    mut heard: impl FnMut(Result<T>) -> ControlFlow<()>,
) where
    A: Future<Output = Result<T>>,
{
    // The oldest first.
    let mut under_way: Vec<Pin<Box<A>>> = Vec::new();
    let mut due = Instant::now() + interval;
    loop {
        tokio::select! {
            biased;
            answer = first(&mut under_way), if !under_way.is_empty() => {
                if answer.is_ok() {
                    // ORDER: the others end here, so that an older answer never follows a newer one.
                    under_way.clear();
                    due = Instant::now() + interval;
                } else {
                    due = due.min(Instant::now() + interval / (3 * ATTEMPTS));
                }
                if heard(answer).is_break() {
                    return;
                }
            }
            () = sleep_until(due) => {
                if !under_way.is_empty() && heard(Err(late())).is_break() {
                    return;
                }
                if under_way.len() == ATTEMPTS as usize {
                    under_way.remove(0);
                }
                under_way.push(Box::pin(attempt()));
                due = Instant::now() + interval / ATTEMPTS;
            }
        }
    }
}

/// The first answer of any.
async fn first<A: Future>(under_way: &mut Vec<Pin<Box<A>>>) -> A::Output {
    poll_fn(|context| {
        for index in 0..under_way.len() {
            if let Poll::Ready(answer) = under_way[index].as_mut().poll(context) {
                drop(under_way.remove(index));
                return Poll::Ready(answer);
            }
        }
        Poll::Pending
    })
    .await
}

/// The error of a renewal that was not answered in time.
pub(crate) fn late() -> Error {
    Error::new(Kind::Unavailable, "cannot renew in time: the store has not answered yet").coded("renewal_timeout")
}
