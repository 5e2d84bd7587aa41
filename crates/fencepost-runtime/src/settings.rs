//! What can be set on a worker, with ranges.

use std::time::Duration;

use fencepost_core::{BatchSize, ConsumerPath, Error, Result, Ttl, WorkerName};
use tokio::sync::Semaphore;

/// How a worker works.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    pub(crate) path: ConsumerPath,
    pub(crate) name: WorkerName,
    pub(crate) ttl: Ttl,
    pub(crate) margin: Duration,
    pub(crate) max: BatchSize,
    pub(crate) poll: Duration,
    pub(crate) grace: Duration,
    pub(crate) at_once: usize,
}

impl WorkerSettings {
    /// A worker with the default TTL of 30 s, batches of at most 100, a poll at least every second and 10 s of grace.
    pub fn new(path: ConsumerPath, name: WorkerName) -> Self {
        let ttl = Ttl::DEFAULT;
        Self {
            path,
            name,
            ttl,
            margin: ttl.get() / 10,
            max: BatchSize::default(),
            poll: Duration::from_secs(1),
            grace: Duration::from_secs(10),
            at_once: Semaphore::MAX_PERMITS,
        }
    }

    /// Sets how long slots stay with a worker that says nothing; the margin becomes a tenth of it.
    #[must_use]
    pub fn ttl(mut self, ttl: Ttl) -> Self {
        self.ttl = ttl;
        self.margin = ttl.get() / 10;
        self
    }

    /// Sets how long before the expiry of a grant its handler is told to stop: the rate error of the host's clock over one TTL,
    /// and the time that a handler needs to stop.
    ///
    /// # Errors
    /// `invalid_input` unless it is below half of the TTL, as renewals need the rest.
    pub fn margin(mut self, margin: Duration) -> Result<Self> {
        if margin < self.ttl.get() / 2 {
            self.margin = margin;
            return Ok(self);
        }
        Err(Error::invalid(
            format!("cannot use `{margin:?}` as the margin of a ttl of `{:?}`", self.ttl.get()),
            "allowed is less than half of the ttl",
        ))
    }

    /// Sets how many messages a batch has at most.
    #[must_use]
    pub fn max(mut self, max: BatchSize) -> Self {
        self.max = max;
        self
    }

    /// Sets how long an idle slot, and a worker that gave its idle slots back, waits for a wake-up before it looks anyway; at least
    /// 10 ms.
    #[must_use]
    pub fn poll(mut self, poll: Duration) -> Self {
        self.poll = poll.max(Duration::from_millis(10));
        self
    }

    /// Sets how long a batch in hand may take when the worker is stopped, before it is handed back. The handler is told when three
    /// quarters of it are over. A handler whose slot is lost or past its deadline gets the margin to end, if that is less.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets how many batches are handled at once, over all slots of this worker; as many as it has slots unless said. 0 means 1.
    #[must_use]
    pub fn at_once(mut self, batches: usize) -> Self {
        self.at_once = batches.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// How long a worker keeps slots for which nothing comes: three TTLs.
    pub(crate) fn idle(&self) -> Duration {
        self.ttl.get() * 3
    }

    /// Renewals come three to a TTL.
    pub(crate) fn interval(&self) -> Duration {
        self.ttl.get() / 3
    }
}
