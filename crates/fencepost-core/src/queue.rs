//! Queues: durable append-only logs of messages.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Error, IdempotencyKey, MessageId, NewMessage, Partitions, QueueName, Result, Timestamp};

/// Where a message sits in the log of its queue. Opaque: compare positions, do not compute with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(i64);

impl Position {
    /// Before the first message of any queue.
    pub const START: Position = Position(0);

    /// For engines: the position that their storage calls `number`.
    pub const fn from_storage(number: i64) -> Self {
        Self(number)
    }

    /// For engines: how their storage writes this position.
    pub const fn to_storage(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

impl std::str::FromStr for Position {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let number = text.strip_prefix('p').and_then(|number| number.parse().ok()).filter(|number| *number >= 0);
        number.map(Self).ok_or_else(|| {
            Error::invalid(
                format!("cannot use `{}` as a position", text.escape_debug()),
                "allowed is a position that a message or a page told, such as `p42`",
            )
            .with("argument", "position")
        })
    }
}

/// A place between the messages of a queue, from which a reader or a consumer goes on: after a position, and, where transactions commit
/// in another order than they took their positions, with those that had not committed by then. Opaque, and a short text without
/// spaces; whatever commits later is read once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Checkpoint {
    position: Position,
    uncommitted: Option<Box<str>>,
}

impl Checkpoint {
    /// For engines: a place with what their storage has to remember of what was uncommitted, as a text of digits, colons, commas and
    /// semicolons.
    pub fn from_storage(position: Position, uncommitted: Option<String>) -> Self {
        Self { position, uncommitted: uncommitted.map(String::into_boxed_str) }
    }

    /// After which position it is.
    pub fn position(&self) -> Position {
        self.position
    }

    /// For engines: what their storage remembers.
    pub fn uncommitted(&self) -> Option<&str> {
        self.uncommitted.as_deref()
    }
}

impl From<Position> for Checkpoint {
    /// After a message. What commits later at an earlier position is then not told from what was read before, and is left out.
    fn from(position: Position) -> Self {
        Self { position, uncommitted: None }
    }
}

impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.uncommitted {
            None => self.position.fmt(f),
            Some(uncommitted) => write!(f, "{}/{uncommitted}", self.position),
        }
    }
}

impl std::str::FromStr for Checkpoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let Some((position, uncommitted)) = text.split_once('/') else { return text.parse().map(Position::into) };
        let is_known = |c: char| c.is_ascii_digit() || matches!(c, ':' | ',' | ';');
        if uncommitted.is_empty() || !uncommitted.chars().all(is_known) {
            return Err(Error::invalid(
                format!("cannot use `{}` as a checkpoint", text.escape_debug()),
                "allowed is what a page told, whole",
            )
            .with("argument", "position"));
        }
        Ok(Self { position: position.parse()?, uncommitted: Some(uncommitted.into()) })
    }
}

/// How long messages are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// How long a message stays after it was sent although every consumer has acked past it; 0 unless said.
    pub consumed: Duration,
    /// How long a queue without consumers keeps a message; 7 days unless said.
    pub unread: Duration,
    /// How many bytes of payloads a queue without consumers keeps, the latest; 1 GiB unless said.
    pub unread_bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { consumed: Duration::ZERO, unread: Duration::from_secs(7 * 24 * 60 * 60), unread_bytes: 1 << 30 }
    }
}

impl Retention {
    /// The longest time that messages are kept by rule: 10 years.
    pub const LONGEST: Duration = Duration::from_secs(3_650 * 24 * 60 * 60);

    /// Checks the ranges.
    ///
    /// # Errors
    /// `invalid_input` when a time is longer than [`Retention::LONGEST`] or the bytes do not fit 63 bits.
    pub fn check(&self) -> Result<()> {
        for (argument, time) in [("retain_for", self.consumed), ("retain_unread", self.unread)] {
            if time > Self::LONGEST {
                return Err(Error::invalid(
                    format!("cannot keep messages for `{time:?}`"),
                    "allowed are 0 to 3650 days",
                )
                .with("argument", argument));
            }
        }
        if i64::try_from(self.unread_bytes).is_err() {
            return Err(Error::invalid(
                format!("cannot keep `{}` bytes of messages", self.unread_bytes),
                "allowed are 0 to 9223372036854775807",
            )
            .with("argument", "retain_unread_bytes"));
        }
        Ok(())
    }
}

/// How long a queue remembers an idempotency key: 1 s to 365 days, 1 day unless said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnceTtl(Duration);

impl OnceTtl {
    /// Checks and takes a time.
    ///
    /// # Errors
    /// `invalid_input` outside 1 s ..= 365 days.
    pub fn new(ttl: Duration) -> Result<Self> {
        if (Duration::from_secs(1)..=Duration::from_secs(365 * 24 * 60 * 60)).contains(&ttl) {
            return Ok(Self(ttl));
        }
        Err(Error::invalid(format!("cannot remember an idempotency key for `{ttl:?}`"), "allowed are 1 s to 365 days")
            .with("argument", "ttl"))
    }

    /// The time as a duration.
    pub const fn get(self) -> Duration {
        self.0
    }
}

impl Default for OnceTtl {
    fn default() -> Self {
        Self(Duration::from_secs(24 * 60 * 60))
    }
}

/// What an idempotent send did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentOnce {
    /// The id of the message that the key stands for.
    pub id: MessageId,
    /// Whether it was there before.
    pub deduplicated: bool,
}

/// What a create call did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// It was made.
    Created,
    /// It was there with the same settings.
    Existed,
}

/// What a drop call did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// It was there and is gone.
    Dropped,
    /// It was not there.
    Absent,
}

/// What one queue holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueStatus {
    /// The queue.
    pub queue: QueueName,
    /// Its partitions.
    pub partitions: Partitions,
    /// Its consumers.
    pub consumers: u64,
    /// Whether it hands out nothing new.
    pub paused: bool,
    /// How long its messages are kept.
    pub retention: Retention,
    /// Messages that are not due yet.
    pub delayed: u64,
    /// Messages in storage, consumed ones that were not removed yet included.
    pub stored: u64,
    /// When the oldest stored message was sent.
    pub oldest_at: Option<Timestamp>,
}

/// Queues and sending.
///
/// **Order of a key**: m1 comes before m2 if m1's send was acknowledged before m2's began, or both are in one call or
/// transaction in that order. Concurrent sends have no promised order.
#[async_trait]
pub trait Queues: Send + Sync {
    /// Makes a queue.
    ///
    /// # Errors
    /// `conflict` when it exists with another number of partitions.
    async fn create_queue(&self, queue: &QueueName, partitions: Partitions) -> Result<Created>;

    /// Drops a queue with its messages and consumers. With `force` also while it has consumers or unread messages.
    ///
    /// # Errors
    /// `conflict` when it has consumers or messages, only without `force`.
    async fn drop_queue(&self, queue: &QueueName, force: bool) -> Result<Dropped>;

    /// Appends one message and returns its id once it is durable.
    ///
    /// # Errors
    /// `not_found` when the queue does not exist; `unavailable`, or `unknown_outcome` when the storage failed while committing:
    /// then the message may or may not be there, and sending again may double it.
    async fn send(&self, queue: &QueueName, message: NewMessage) -> Result<MessageId>;

    /// Appends messages in order, all or none, and returns their ids once they are durable. No messages, no ids.
    ///
    /// # Errors
    /// As [`Queues::send`].
    async fn send_batch(&self, queue: &QueueName, messages: Vec<NewMessage>) -> Result<Vec<MessageId>>;

    /// Appends one message unless the queue remembers the key: then it returns the id of the first one. Made again after an unknown
    /// outcome, it tells what happened. A send that was rolled back leaves no trace.
    ///
    /// # Errors
    /// As [`Queues::send`]; `conflict` with `first_id` when the key stands for another message: payload, key, kind or headers differ.
    async fn send_once(
        &self,
        queue: &QueueName,
        message: NewMessage,
        key: &IdempotencyKey,
        ttl: OnceTtl,
    ) -> Result<SentOnce>;

    /// Stops handing out what is new in a queue. It still takes messages, and open batches can be finished. Returns whether that
    /// changed something.
    ///
    /// # Errors
    /// `not_found` when the queue does not exist; `unavailable`.
    async fn pause_queue(&self, queue: &QueueName) -> Result<bool>;

    /// Hands out what is new again. Returns whether that changed something.
    ///
    /// # Errors
    /// `not_found` when the queue does not exist; `unavailable`.
    async fn resume_queue(&self, queue: &QueueName) -> Result<bool>;

    /// Sets how long a queue keeps its messages. What is beyond goes with the next maintenance.
    ///
    /// # Errors
    /// `not_found` when the queue does not exist; `invalid_input` for what [`Retention::check`] refuses; `unavailable`.
    async fn set_retention(&self, queue: &QueueName, retention: Retention) -> Result<()>;

    /// What every queue holds, by name. Counts messages, so it costs time in proportion to what is stored.
    ///
    /// # Errors
    /// `unavailable`.
    async fn queue_status(&self) -> Result<Vec<QueueStatus>>;

    /// Does what is due for one queue, or for all, in steps bounded in size, and returns how many steps did something: appends
    /// delayed messages that became due, removes consumed messages past their retention, dead letters after [`crate::DEAD_KEPT`],
    /// and idempotency keys after their time. For all queues also what is left of dropped ones, and free leases that nobody was
    /// granted for 30 days.
    ///
    /// A message is consumed when the queue has a consumer and every consumer has acked past it. Any worker runs this from time
    /// to time; call it until it returns 0 to be sure that nothing is left to do.
    ///
    /// # Errors
    /// `not_found` when the queue named does not exist; `unavailable`.
    async fn maintain(&self, queue: Option<&QueueName>) -> Result<u64>;
}
