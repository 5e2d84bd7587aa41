//! For engines: the errors of the contract that every engine answers alike, so that no two say different things of the same call.

use crate::{ConsumerPath, Error, Kind, Partitions, QueueName, Retry, SlotCount, SlotIndex};

/// The queue does not exist.
pub fn no_queue(queue: &QueueName) -> Error {
    Error::new(Kind::NotFound, format!("cannot find the queue `{queue}`"))
        .with("queue", queue)
        .hinted("`fencepost queue list` shows the queues there are; `fencepost queue create` makes one")
}

/// The queue exists, the consumer does not.
pub fn no_consumer(path: &ConsumerPath) -> Error {
    Error::new(Kind::NotFound, format!("cannot find the consumer `{}` of the queue `{}`", path.consumer, path.queue))
        .with("consumer", path)
        .hinted("`fencepost consumer list` shows the consumers there are; it may have been dropped")
}

/// The consumer has no such slot.
pub fn no_slot(path: &ConsumerPath, slot: SlotIndex, slots: SlotCount) -> Error {
    Error::new(Kind::NotFound, format!("cannot find slot `{slot}` of the consumer `{path}`"))
        .with("consumer", path)
        .with("slot", slot)
        .hinted(format!("its slots are 0 to {}", slots.get() - 1))
}

/// The queue exists with another number of partitions.
pub fn other_partitions(queue: &QueueName, asked: Partitions, found: Partitions) -> Error {
    Error::new(Kind::Conflict, format!("cannot create the queue `{queue}` with `{asked}` partitions: it has `{found}`"))
        .with("queue", queue)
        .with("partitions", found)
        .hinted("the number of partitions of a queue is fixed; use it as it is, or another name")
}

/// The consumer exists with another number of slots.
pub fn other_slots(path: &ConsumerPath, asked: SlotCount, found: SlotCount) -> Error {
    Error::new(Kind::Conflict, format!("cannot create the consumer `{path}` with `{asked}` slots: it has `{found}`"))
        .with("consumer", path)
        .with("slots", found)
        .hinted("use it as it is, or another name; dropping it forgets its position")
}

/// The queue cannot be dropped without force.
pub fn queue_in_use(queue: &QueueName, consumers: u64) -> Error {
    let why = match consumers {
        0 => "it holds messages".to_owned(),
        1 => "it has a consumer".to_owned(),
        count => format!("it has {count} consumers"),
    };
    Error::new(Kind::Conflict, format!("cannot drop the queue `{queue}`: {why}"))
        .with("queue", queue)
        .with("consumers", consumers)
        .hinted("drop its consumers and let its messages go first, or force it: both are then gone with it")
}

/// The store was closed.
pub fn store_closed() -> Error {
    Error::new(Kind::Unavailable, "cannot use the store: it was closed").coded("store_closed").retried(Retry::Never)
}
