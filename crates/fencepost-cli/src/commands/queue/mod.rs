//! `fencepost queue …`

pub mod create;
pub mod drop;
pub mod list;
pub mod pause;
pub mod retain;
pub mod show;

use fencepost::{Error, Kind, QueueName, QueueStatus, Result, Store, Timestamp};
use serde_json::{Value, json};

use crate::table::Table;
use crate::text;

/// Queues as a table for people.
pub fn table(queues: &[QueueStatus], now: Timestamp) -> Table {
    let mut table = Table::new(["queue", "partitions", "consumers", "stored", "delayed", "oldest", "paused"]);
    for status in queues {
        table.row([
            status.queue.to_string().into(),
            status.partitions.get().into(),
            status.consumers.into(),
            status.stored.into(),
            status.delayed.into(),
            status.oldest_at.map(|at| text::relative(at, now)).into(),
            status.paused.then(|| "yes".to_owned()).into(),
        ]);
    }
    table
}

/// A queue for programs.
pub fn json(status: &QueueStatus) -> Value {
    let mut queue = json!({
        "queue": status.queue.as_str(),
        "partitions": status.partitions.get(),
        "consumers": status.consumers,
        "stored": status.stored,
        "delayed": status.delayed,
        "oldest_at": status.oldest_at.map(text::rfc3339),
        "paused": status.paused,
    });
    retain::extend(&mut queue, &status.retention);
    queue
}

/// What one queue holds.
///
/// # Errors
/// `not_found` when it is not there.
pub async fn find(store: &Store, queue: &QueueName) -> Result<QueueStatus> {
    store.queue_status().await?.into_iter().find(|status| status.queue == *queue).ok_or_else(|| absent(queue))
}

/// The error of a queue that is not there.
pub fn absent(queue: &QueueName) -> Error {
    Error::new(Kind::NotFound, format!("cannot find the queue `{queue}`"))
        .with("queue", queue)
        .hinted("`fencepost queue list` shows the queues there are; `fencepost queue create` makes one")
}
