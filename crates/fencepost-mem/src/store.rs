//! The store's handle: the one lock, the commit, and what a store says of itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use fencepost_core::refusal::store_closed;
use fencepost_core::{
    ChannelName, Clock, EngineClock, NoticeReceiver, Recorded, Result, RoundRobin, Store, StoreInfo, Timestamp, Topic,
    WakeHub, WakeReceiver, Wakeups,
};

use crate::state::State;
use crate::transaction::{Commit, MemTransaction};

/// A store in memory. Clones share it; it lives as long as the last of them.
///
/// ```
/// use std::sync::Arc;
/// use fencepost_core::{ManualClock, NewMessage, Partitions, QueueName, Queues};
/// use fencepost_mem::MemStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> fencepost_core::Result<()> {
/// let store = MemStore::new(Arc::new(ManualClock::default()));
/// let orders = QueueName::new("orders")?;
/// store.create_queue(&orders, Partitions::default()).await?;
/// let id = store.write(|tx| tx.send_in(&orders, NewMessage::new("paid")?))?;
/// assert_eq!(id.get(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct MemStore(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    clock: EngineClock,
    round: RoundRobin,
    hub: WakeHub,
    committed: Mutex<Committed>,
}

#[derive(Debug, Default)]
struct Committed {
    state: Arc<State>,
    writes: u64,
    closed: bool,
}

impl MemStore {
    /// An empty store that lives by `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Shared {
            clock: EngineClock::new(clock),
            round: RoundRobin::new(),
            hub: WakeHub::default(),
            committed: Mutex::default(),
        }))
    }

    /// Runs `work` as one transaction: all of it is there when it returns `Ok`, nothing when it returns `Err` or panics.
    ///
    /// The store is locked meanwhile, so `work` must not call the store, only its transaction.
    ///
    /// # Errors
    /// What `work` returns, or what it ignored of its transaction's calls; `unavailable` with code `store_closed`, and then `work` does not run.
    pub fn write<T>(&self, work: impl FnOnce(&mut MemTransaction<'_>) -> Result<T>) -> Result<T> {
        let mut committed = self.open()?;
        // ORDER: the clock is read after the lock is held: a grant that waited for the lock must not be born old.
        let now = self.0.now();
        let mut tx = MemTransaction::new(committed.state.clone(), now, &self.0.round);
        let result = work(&mut tx)?;
        if let Some(ignored) = tx.failure() {
            return Err(ignored);
        }
        if let Some(Commit { state, wakes, notices }) = tx.finish() {
            committed.state = state;
            committed.writes += 1;
            // ORDER: delivered before anybody else commits, and before anybody listens who comes later.
            notices.iter().for_each(|(channel, notice)| self.0.hub.deliver(channel, notice));
            drop(committed);
            wakes.iter().for_each(|topic| self.0.hub.wake(topic));
        }
        Ok(result)
    }

    /// How many transactions changed something. What only looks, or is refused, is not counted.
    pub fn writes(&self) -> u64 {
        self.committed().writes
    }

    /// The state as it was last committed, and the instant now.
    pub(crate) fn read(&self) -> Result<(Arc<State>, Timestamp)> {
        let committed = self.open()?;
        let now = self.0.now();
        Ok((committed.state.clone(), now))
    }

    /// A receiver of what is committed from now on.
    pub(crate) fn listener(&self, channel: &ChannelName) -> Result<NoticeReceiver> {
        let _committed = self.open()?;
        Ok(self.0.hub.listener(channel))
    }

    fn open(&self) -> Result<MutexGuard<'_, Committed>> {
        let committed = self.committed();
        if committed.closed {
            return Err(store_closed());
        }
        Ok(committed)
    }

    fn committed(&self) -> MutexGuard<'_, Committed> {
        // A closure that panicked leaves the state as it was, because it worked on a copy.
        self.0.committed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// The instant by the engine's clock, which lives as long as the store, so that the store records no instant.
    fn now(&self) -> Timestamp {
        self.clock.now(Recorded::default())
    }
}

impl Wakeups for MemStore {
    fn wakes(&self, topic: &Topic) -> WakeReceiver {
        self.0.hub.receiver(topic)
    }
}

#[async_trait]
impl Store for MemStore {
    fn info(&self) -> StoreInfo {
        StoreInfo {
            engine: "mem",
            location: "mem:".into(),
            schema_version: 1,
            engine_version: env!("CARGO_PKG_VERSION").into(),
        }
    }

    async fn now(&self) -> Result<Timestamp> {
        self.read().map(|(_, now)| now).map_err(|error| error.during("now"))
    }

    async fn close(&self) {
        self.committed().closed = true;
        self.0.hub.close();
    }
}
