//! The contract of fencepost: what every engine answers, and nothing of how it stores it.
//!
//! This crate owns the words, the types, the errors and the transition tables of leases and slots. It opens no file, speaks no
//! SQL and starts no task; the only system calls it makes read clocks and randomness.
//!
//! The two tables worth reading first are [`slot::TABLE`] and [`lease::TABLE`]: they *are* the semantics, and every engine runs
//! the pure functions [`slot::step`] and [`lease::step`] over them inside its own transaction.

mod clock;
mod consumer;
mod dead;
mod engine_clock;
mod epoch;
mod error;
mod failure;
pub mod lease;
mod member;
mod message;
mod name;
mod notice;
mod partition;
mod queue;
mod reader;
pub mod refusal;
pub mod schedule;
pub mod slot;
mod store;
mod visible;
mod wake;

pub use clock::{BootInstant, Clock, Deadline, HostClock, ManualClock, Moment, Timestamp, Ttl};
pub use consumer::{ConsumerPath, ConsumerStatus, Consumers, CreateConsumer, Start};
pub use dead::{DEAD_KEPT, DeadLetter, DeadLetters};
pub use engine_clock::{EngineClock, Recorded};
pub use epoch::Epoch;
pub use error::{Error, Kind, Result, Retry};
pub use failure::{
    DeadCause, Delay, Disposition, Failure, FailurePolicy, FailureText, LONGEST_BACKOFF, MAX_FAILURE, NackOutcome,
    Nacked, OnFailure, UNPARKED,
};
pub use lease::{AcquireLease, Acquired, Forced, LeaseStatus, LeaseToken, Leases};
pub use member::{Heartbeat, MemberStatus, Members, Pulse};
pub use message::{BatchId, BatchSize, Headers, MAX_HEADERS, MAX_PAYLOAD, Message, MessageId, NewMessage, Window};
pub use name::{
    ChannelName, ConsumerName, HolderName, IdempotencyKey, Key, LeaseName, LockName, MessageKind, Nonce, QueueName,
    Reason, ScheduleName, WorkerName, random_u64,
};
pub use notice::{
    MAX_NOTICE, NOTICE_KEPT, NOTICES_KEPT, NOTICES_WAITING, Notice, NoticePayload, NoticeReceiver, Notices,
};
pub use partition::{Partition, Partitions, RoundRobin, SlotCount, SlotIndex};
pub use queue::{Checkpoint, Created, Dropped, OnceTtl, Position, QueueStatus, Queues, Retention, SentOnce};
pub use reader::{Page, Readers};
pub use schedule::{
    Due, Fired, Misfire, NextFire, Put, ScheduleDefinition, ScheduleStatus, Schedules, Tick, TickOutcome,
};
pub use slot::{AckReceived, Batch, ClaimSlot, Release, Renewal, SlotGrant, SlotStatus, SlotToken, Slots};
pub use store::{Store, StoreInfo};
pub use visible::{harmless, visible};
pub use wake::{Closed, Topic, WakeHub, WakeReceiver, Wakeups};
