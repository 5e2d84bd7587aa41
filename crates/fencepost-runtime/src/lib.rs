//! Loops over the contract of fencepost: workers that own slots and handle batches, keepers of leases, waiters, campaigns, and the
//! scheduler.
//!
//! Nothing here names an engine or speaks SQL, and nothing here makes anything correct: epochs do, in the store. What this
//! crate adds is that owners know early when to stop, share slots fairly, and give them back cleanly.

mod activity;
mod deadline;
mod event;
mod failure;
mod handler;
mod inline;
mod keeper;
mod keyed;
mod lease;
mod loss;
mod renewal;
mod scheduler;
mod scheduling;
mod settings;
mod share;
mod signal;
mod slot;
mod term;
mod waiting;
mod worker;

/// What handlers are written with, so that they need no dependency of their own for it.
pub use async_trait::async_trait;
pub use deadline::{DeadlineWatcher, Watched};
pub use event::{Event, LossCause, Observer, Silent};
pub use failure::{Instead, kept};
pub use handler::{BatchHandler, Done, HandlerError, MessageHandler, SlotContext};
pub use inline::Inline;
pub use keyed::PerMessage;
pub use lease::KeptLease;
pub use loss::{Loss, LossReason};
pub use scheduler::{LEADER, ScheduleEvent, ScheduleObserver, Scheduler};
pub use scheduling::Scheduling;
pub use settings::WorkerSettings;
pub use signal::stop_on_signals;
pub use term::{Term, campaign};
pub use tokio_util::sync::CancellationToken;
pub use waiting::Waiting;
pub use worker::{Control, Report, Worker};
