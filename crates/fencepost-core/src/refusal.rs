//! For engines: the errors of the contract that every engine answers alike, so that no two say different things of the same call.

use std::fmt;

use crate::{
    ConsumerPath, CreateConsumer, Error, FailurePolicy, IdempotencyKey, Kind, MessageId, Partitions, Position,
    QueueName, Retry, ScheduleName, SlotCount, SlotIndex,
};

/// What to do when a queue is not there.
pub const NO_QUEUE_HINT: &str = "`fencepost queue list` shows the queues there are; `fencepost queue create` makes one";

/// What to do when a consumer is not there.
pub const NO_CONSUMER_HINT: &str = "`fencepost consumer list` shows the consumers there are; it may have been dropped";

/// What to do when a schedule is not there.
pub const NO_SCHEDULE_HINT: &str =
    "`fencepost schedule list` shows the schedules there are; `fencepost schedule put` makes one";

/// The queue does not exist.
pub fn no_queue(queue: &QueueName) -> Error {
    Error::new(Kind::NotFound, format!("cannot find the queue `{queue}`")).with("queue", queue).hinted(NO_QUEUE_HINT)
}

/// The queue exists, the consumer does not.
pub fn no_consumer(path: &ConsumerPath) -> Error {
    Error::new(Kind::NotFound, format!("cannot find the consumer `{}` of the queue `{}`", path.consumer, path.queue))
        .with("consumer", path)
        .hinted(NO_CONSUMER_HINT)
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

/// The schedule does not exist.
pub fn no_schedule(schedule: &ScheduleName) -> Error {
    Error::new(Kind::NotFound, format!("cannot find the schedule `{schedule}`"))
        .with("schedule", schedule)
        .hinted(NO_SCHEDULE_HINT)
}

/// The consumer exists with other settings; nothing when they are the same.
pub fn other_consumer(asked: &CreateConsumer, slots: SlotCount, policy: &FailurePolicy) -> Option<Error> {
    let CreateConsumer { path, .. } = asked;
    let other = |what: &'static str, asked: &dyn fmt::Display, found: &dyn fmt::Display| {
        Error::new(
            Kind::Conflict,
            format!("cannot create the consumer `{path}` with {what} `{asked}`: it has `{found}`"),
        )
        .with("consumer", path)
        .with(what, found)
        .hinted("use it as it is, or another name; dropping it forgets its position")
    };
    let (wanted, found) = (&asked.policy, policy);
    if asked.slots != slots {
        return Some(other("slots", &asked.slots.get(), &slots.get()));
    }
    if wanted.get_on_failure() != found.get_on_failure() {
        return Some(other("on_failure", &wanted.get_on_failure().as_str(), &found.get_on_failure().as_str()));
    }
    if wanted.get_max_attempts() != found.get_max_attempts() {
        return Some(other("max_attempts", &wanted.get_max_attempts(), &found.get_max_attempts()));
    }
    if wanted.get_max_crashes() != found.get_max_crashes() {
        return Some(other("max_crashes", &wanted.get_max_crashes(), &found.get_max_crashes()));
    }
    if wanted.get_backoff() != found.get_backoff() {
        let shown = |policy: &FailurePolicy| humantime::format_duration(policy.get_backoff()).to_string();
        return Some(other("backoff", &shown(wanted), &shown(found)));
    }
    None
}

/// What is asked for was removed already.
pub fn position_gone(queue: &QueueName, asked: impl fmt::Display, first: Option<Position>) -> Error {
    let first = first.map_or_else(|| "none".to_owned(), |first| first.to_string());
    Error::new(
        Kind::PositionGone,
        format!("cannot read the queue `{queue}` from `{asked}`: messages after it were removed"),
    )
    .with("queue", queue)
    .with("first_position", &first)
    .hinted(format!("the first message there is sits at `{first}`; `earliest` starts with it"))
}

/// The idempotency key stands for another message.
pub fn other_message(queue: &QueueName, key: &IdempotencyKey, first: MessageId) -> Error {
    Error::new(
        Kind::Conflict,
        format!("cannot send to `{queue}` under the idempotency key `{key}`: it stands for another message, `{first}`"),
    )
    .with("queue", queue)
    .with("first_id", first)
    .hinted("payload, key, kind and headers have to be those of the first send; use another idempotency key for another message")
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
