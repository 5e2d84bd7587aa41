//! `fencepost consumer …`

pub mod create;
pub mod drop;
pub mod list;
pub mod show;

use fencepost::{ConsumerPath, ConsumerStatus, Error, FailurePolicy, Kind, OnFailure, Result, Store};
use serde_json::{Value, json};

use crate::table::Table;
use crate::text;

/// Consumers as a table for people.
pub fn table(consumers: &[ConsumerStatus]) -> Table {
    let mut table = Table::new(["consumer", "slots", "lag", "retrying", "parked", "dead", "workers", "on failure"]);
    for status in consumers {
        table.row([
            status.path.to_string().into(),
            status.slots.get().into(),
            status.lag.into(),
            status.retrying.into(),
            status.parked.into(),
            status.dead.into(),
            status.workers.into(),
            status.policy.get_on_failure().as_str().to_owned().into(),
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
        "retrying": status.retrying,
        "parked": status.parked,
        "first_at": status.first_at.map(text::rfc3339),
        "dead": status.dead,
        "workers": status.workers,
        "on_failure": status.policy.get_on_failure().as_str(),
        "max_attempts": status.policy.get_max_attempts(),
        "max_crashes": status.policy.get_max_crashes(),
        "backoff_ms": status.policy.get_backoff().as_millis() as u64,
    })
}

/// How a consumer treats failures, for people.
pub fn policy_in_words(policy: &FailurePolicy) -> String {
    let others = match policy.get_on_failure() {
        OnFailure::Skip => "skip: the later messages of the key go on",
        OnFailure::Pause => "pause: the later messages of the key wait",
    };
    let (attempts, crashes) = (policy.get_max_attempts(), policy.get_max_crashes());
    format!("{others}; backoff {}, max attempts {attempts}, max crashes {crashes}", text::exact(policy.get_backoff()))
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
