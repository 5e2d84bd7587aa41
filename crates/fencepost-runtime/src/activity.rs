//! Whether a worker has had nothing to do, and for how long.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

/// The batches that a worker has in hand, over all its slots, and when it had one last.
pub(crate) struct Activity(Mutex<State>);

struct State {
    in_hand: usize,
    last: Instant,
}

/// One batch in hand, until dropped.
pub(crate) struct InHand<'a>(&'a Activity);

impl Activity {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State { in_hand: 0, last: Instant::now() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic while batches are counted")
    }

    pub(crate) fn begin(&self) -> InHand<'_> {
        self.state().in_hand += 1;
        InHand(self)
    }

    /// Counts from now on.
    pub(crate) fn restart(&self) {
        self.state().last = Instant::now();
    }

    /// How long no batch was in hand.
    pub(crate) fn idle(&self) -> Duration {
        let state = self.state();
        if state.in_hand > 0 { Duration::ZERO } else { state.last.elapsed() }
    }
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.in_hand -= 1;
        state.last = Instant::now();
    }
}
