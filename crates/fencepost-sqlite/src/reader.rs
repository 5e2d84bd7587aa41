//! Reading a queue without owning anything.

use async_trait::async_trait;
use fencepost_core::refusal::no_queue;
use fencepost_core::{BatchSize, Page, Position, QueueName, Readers, Result, SlotCount, Start};

use crate::state::{load_queue, recorded};
use crate::statement::value;
use crate::store::SqliteStore;
use crate::{log, queue};

#[async_trait]
impl Readers for SqliteStore {
    async fn read(&self, queue: &QueueName, from: Start, max: BatchSize) -> Result<Page> {
        let (name, shared) = (queue.clone(), self.shared().clone());
        self.read("read", move |snapshot| {
            let row = load_queue(snapshot, &name)?.ok_or_else(|| no_queue(&name))?;
            let since = match from {
                Start::At(at) => queue::before(snapshot, row.id, at)?,
                _ => None,
            };
            let last = Position::from_storage(value(snapshot, "SELECT position FROM fencepost_store", [])?);
            let after = queue::start(snapshot, &name, row.id, from, since, last)?;
            let least = match from {
                Start::AfterId(id) => id,
                _ => 0,
            };
            let whole = SlotCount::new(1)?;
            let share = whole.slots().flat_map(|slot| whole.share(slot, row.partitions));
            let positions = log::positions(snapshot, row.id, share, after, log::END, max.get())?;
            let next = positions.last().copied().map_or(after, Position::from_storage);
            let now = shared.clock.now(recorded(snapshot)?);
            let mut messages = Vec::with_capacity(positions.len());
            for logged in log::messages(snapshot, &positions, 1)? {
                if !logged.is_expired(now) && logged.message.id.get() > least {
                    messages.push(logged.message);
                }
            }
            Ok(Page { messages, next })
        })
        .await
    }
}
