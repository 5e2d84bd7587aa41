//! Calls that are dropped at a given await: for every loop over all of them, the suite's and other tests'.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// Begins a call, or looks whether it has ended.
pub fn poll_once<F: Future + Unpin>(call: &mut F) -> Option<F::Output> {
    match Pin::new(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

/// Polls a call that often, each time when it has something to do, and drops it; its answer if it has ended by then.
pub async fn dropped_after<F: Future>(polls: usize, call: F) -> Option<F::Output> {
    let (mut call, mut polled) = (pin!(call), 0);
    poll_fn(|context| {
        if polled == polls {
            return Poll::Ready(None);
        }
        polled += 1;
        let answer = call.as_mut().poll(context);
        if answer.is_pending() && polled == polls { Poll::Ready(None) } else { answer.map(Some) }
    })
    .await
}
