//! Reading a queue without owning anything.

use async_trait::async_trait;
use fencepost_core::refusal::no_queue;
use fencepost_core::{BatchSize, Page, Position, QueueName, Readers, Result, Start, Timestamp};
use rusqlite::Connection;

use crate::state::{load_queue, recorded};
use crate::store::SqliteStore;
use crate::{log, queue};

#[async_trait]
impl Readers for SqliteStore {
    async fn read(&self, queue: &QueueName, from: Start, max: BatchSize) -> Result<Page> {
        // A page of which everything has expired is passed over. Each is a snapshot of its own, so that none lasts long.
        let least = match from {
            Start::AfterId(id) => id,
            _ => 0,
        };
        let mut start = from;
        loop {
            let (name, shared, from) = (queue.clone(), self.shared().clone(), start.clone());
            let (page, is_end) = self
                .read("read", move |snapshot| {
                    let now = shared.clock.now(recorded(snapshot)?);
                    page(snapshot, &name, &from, least, max, now)
                })
                .await?;
            if is_end || !page.messages.is_empty() {
                return Ok(page);
            }
            start = Start::After(page.next);
        }
    }
}

/// One page without the ids up to `least`, and whether nothing comes after it.
fn page(
    snapshot: &Connection,
    name: &QueueName,
    from: &Start,
    least: i64,
    max: BatchSize,
    now: Timestamp,
) -> Result<(Page, bool)> {
    let row = load_queue(snapshot, name)?.ok_or_else(|| no_queue(name))?;
    let since = match from {
        Start::At(at) => Some(queue::before(snapshot, row.id, *at)?),
        _ => None,
    };
    let last = queue::last_position(snapshot)?;
    let after = queue::start(snapshot, name, row.id, from, since, last)?;
    let positions = log::positions(snapshot, row.id, row.partitions.all(), after, log::END, max.get())?;
    let next = positions.last().copied().map_or(after, Position::from_storage);
    let mut messages = Vec::with_capacity(positions.len());
    for logged in log::messages(snapshot, &positions, 1)? {
        if !logged.is_expired(now) && logged.message.id.get() > least {
            messages.push(logged.message);
        }
    }
    Ok((Page { messages, next: next.into() }, positions.is_empty()))
}
