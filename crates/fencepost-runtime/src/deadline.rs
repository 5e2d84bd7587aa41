//! Deadlines that fire even when everything else is stuck: a thread of its own, by a clock that counts suspend. It renews
//! nothing, so a stuck renewal cannot delay it.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use fencepost_core::{Clock, Deadline, HostClock};
use tokio_util::sync::CancellationToken;

/// How long the thread sleeps at most. Waiting does not count suspend, so after a resume a deadline fires within this.
const SLICE: Duration = Duration::from_millis(100);

/// Fires cancellation tokens at deadlines, from a thread that does nothing else.
#[derive(Debug, Clone)]
pub struct DeadlineWatcher(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    clock: Arc<dyn Clock>,
    watched: Mutex<Entries>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Entries {
    next: u64,
    deadlines: HashMap<u64, (Deadline, CancellationToken)>,
    ended: bool,
}

impl DeadlineWatcher {
    /// The watcher by this host's clock that the process shares: one thread, however many leases it keeps.
    pub(crate) fn of_host() -> Self {
        static SHARED: Mutex<Weak<Shared>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().map(Self).unwrap_or_else(|| {
            let started = Self::start(Arc::new(HostClock));
            *shared = Arc::downgrade(&started.0);
            started
        })
    }

    /// Starts the thread; it ends with the last clone and the last [`Watched`].
    pub fn start(clock: Arc<dyn Clock>) -> Self {
        let shared = Arc::new(Shared { clock, watched: Mutex::default(), changed: Condvar::new() });
        let weak = Arc::downgrade(&shared);
        thread::Builder::new()
            .name("fencepost-deadline".into())
            .spawn(move || watch(&weak))
            .expect("the system starts one more thread");
        Self(shared)
    }

    /// Fires `token` at `deadline`, unless the deadline is moved or the returned guard dropped before.
    pub fn watch(&self, deadline: Deadline, token: CancellationToken) -> Watched {
        let mut watched = self.0.entries();
        let id = watched.next;
        watched.next += 1;
        watched.deadlines.insert(id, (deadline, token));
        drop(watched);
        self.0.changed.notify_one();
        Watched { shared: self.0.clone(), id }
    }
}

/// A deadline under watch. Dropping it ends the watch without firing.
#[derive(Debug)]
pub struct Watched {
    shared: Arc<Shared>,
    id: u64,
}

impl Watched {
    /// Moves the deadline. One that has fired stays fired.
    pub fn move_to(&self, deadline: Deadline) {
        if let Some(entry) = self.shared.entries().deadlines.get_mut(&self.id) {
            entry.0 = deadline;
        }
        self.shared.changed.notify_one();
    }

    /// The deadline, unless it has fired.
    pub fn deadline(&self) -> Option<Deadline> {
        self.shared.entries().deadlines.get(&self.id).map(|(deadline, _)| *deadline)
    }

    /// How long until the deadline; zero once it has fired.
    pub fn left(&self) -> Duration {
        self.deadline().map_or(Duration::ZERO, |deadline| deadline.left(self.shared.clock.boot()))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.shared.entries().deadlines.remove(&self.id);
    }
}

impl Shared {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.watched.lock().expect("no panic while deadlines are held")
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.entries().ended = true;
        self.changed.notify_all();
    }
}

fn watch(weak: &Weak<Shared>) {
    // RACE: upgraded anew for every slice, so that the thread does not keep itself alive.
    while let Some(shared) = weak.upgrade() {
        let mut entries = shared.entries();
        let now = shared.clock.boot();
        let mut wait = SLICE;
        entries.deadlines.retain(|_, (deadline, token)| {
            let left = deadline.left(now);
            if left.is_zero() {
                token.cancel();
                return false;
            }
            wait = wait.min(left);
            true
        });
        let (entries, _) = shared.changed.wait_timeout(entries, wait).expect("no panic while deadlines are held");
        if entries.ended {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use fencepost_core::{ManualClock, Ttl};

    use super::*;

    fn ttl(seconds: u64) -> Ttl {
        Ttl::new(Duration::from_secs(seconds)).unwrap()
    }

    #[tokio::test]
    async fn a_deadline_fires_by_the_clock_that_counts_suspend() {
        let clock = Arc::new(ManualClock::default());
        let watcher = DeadlineWatcher::start(clock.clone());
        let token = CancellationToken::new();
        let _watched = watcher.watch(Deadline::of_request(clock.boot(), ttl(60), Duration::ZERO), token.clone());
        assert!(!token.is_cancelled());
        clock.advance(Duration::from_secs(60));
        token.cancelled().await;
    }

    #[tokio::test]
    async fn a_moved_deadline_does_not_fire_at_the_old_instant() {
        let clock = Arc::new(ManualClock::default());
        let watcher = DeadlineWatcher::start(clock.clone());
        let (moved, other) = (CancellationToken::new(), CancellationToken::new());
        let early = Deadline::of_request(clock.boot(), ttl(10), Duration::ZERO);
        let watched = watcher.watch(early, moved.clone());
        let _other = watcher.watch(early, other.clone());
        watched.move_to(Deadline::of_request(clock.boot(), ttl(20), Duration::ZERO));
        clock.advance(Duration::from_secs(10));
        // The other one, at the same old instant, shows that the thread has looked.
        other.cancelled().await;
        assert!(!moved.is_cancelled());
        clock.advance(Duration::from_secs(10));
        moved.cancelled().await;
    }

    #[tokio::test]
    async fn a_dropped_watch_does_not_fire() {
        let clock = Arc::new(ManualClock::default());
        let watcher = DeadlineWatcher::start(clock.clone());
        let (dropped, other) = (CancellationToken::new(), CancellationToken::new());
        let deadline = Deadline::of_request(clock.boot(), ttl(1), Duration::ZERO);
        drop(watcher.watch(deadline, dropped.clone()));
        let _other = watcher.watch(deadline, other.clone());
        clock.advance(Duration::from_secs(1));
        other.cancelled().await;
        assert!(!dropped.is_cancelled());
    }
}
