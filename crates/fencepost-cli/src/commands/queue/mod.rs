//! `fencepost queue …`

pub mod create;
pub mod drop;
pub mod list;
pub mod show;

use fencepost::{Error, Kind, QueueName, QueueStatus, Timestamp};
use serde_json::{Value, json};

use crate::table::Table;
use crate::text;

/// Queues as a table for people.
pub fn table(queues: &[QueueStatus], now: Timestamp) -> Table {
    let mut table = Table::new(["queue", "partitions", "consumers", "stored", "oldest"]);
    for status in queues {
        table.row([
            status.queue.to_string().into(),
            status.partitions.get().into(),
            status.consumers.into(),
            status.stored.into(),
            status.oldest_at.map(|at| text::relative(at, now)).into(),
        ]);
    }
    table
}

/// A queue for programs.
pub fn json(status: &QueueStatus) -> Value {
    json!({
        "queue": status.queue.as_str(),
        "partitions": status.partitions.get(),
        "consumers": status.consumers,
        "stored": status.stored,
        "oldest_at": status.oldest_at.map(text::rfc3339),
    })
}

/// The error of a queue that is not there.
pub fn absent(queue: &QueueName) -> Error {
    Error::new(Kind::NotFound, format!("cannot find the queue `{queue}`"))
        .with("queue", queue)
        .hinted("`fencepost queue list` shows the queues there are; `fencepost queue create` makes one")
}
