//! `fencepost consumer …`

pub mod create;
pub mod drop;
pub mod list;
pub mod show;

use fencepost::{ConsumerPath, ConsumerStatus, Error, Kind, Result, Store};
use serde_json::{Value, json};

use crate::table::Table;

/// Consumers as a table for people.
pub fn table(consumers: &[ConsumerStatus]) -> Table {
    let mut table = Table::new(["consumer", "slots", "lag", "workers"]);
    for status in consumers {
        table.row([
            status.path.to_string().into(),
            status.slots.get().into(),
            status.lag.into(),
            status.workers.into(),
        ]);
    }
    table
}

/// A consumer for programs.
pub fn json(status: &ConsumerStatus) -> Value {
    json!({
        "queue": status.path.queue.as_str(),
        "consumer": status.path.consumer.as_str(),
        "slots": status.slots.get(),
        "lag": status.lag,
        "workers": status.workers,
    })
}

/// How one consumer stands.
///
/// # Errors
/// `not_found` when it or its queue is not there.
pub async fn find(store: &Store, path: &ConsumerPath) -> Result<ConsumerStatus> {
    let consumers = store.consumer_status(Some(&path.queue)).await?;
    consumers.into_iter().find(|status| status.path == *path).ok_or_else(|| absent(path))
}

/// The error of a consumer that is not there.
pub fn absent(path: &ConsumerPath) -> Error {
    Error::new(Kind::NotFound, format!("cannot find the consumer `{}` of the queue `{}`", path.consumer, path.queue))
        .with("consumer", path)
        .hinted("`fencepost consumer list` shows the consumers there are; `fencepost consumer create` makes one")
}
