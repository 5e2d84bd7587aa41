//! What a scheduler tells of itself.

use fencepost_core::schedule::Fired;
use fencepost_core::{Epoch, Error, QueueName, ScheduleName};

/// Something that happened to a scheduler.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum ScheduleEvent<'a> {
    /// It leads from now on.
    Leads {
        /// The epoch of its term.
        epoch: Epoch,
    },
    /// It leads no more: somebody else may.
    Lost {
        /// The epoch of the term that is over.
        epoch: Epoch,
    },
    /// The store is away, and [`crate::Scheduler::serve`] tries again after a while.
    Away {
        /// What it failed with.
        error: &'a Error,
    },
    /// A schedule fired, or left out what was too late.
    Fired {
        /// Which.
        schedule: &'a ScheduleName,
        /// What was sent.
        fired: &'a [Fired],
        /// How many nominal times were left out.
        missed: u64,
    },
    /// What is stored of a schedule cannot be read: it stops until it is put again, or until somebody leads who can.
    Unreadable {
        /// Which.
        schedule: &'a ScheduleName,
        /// Why.
        problem: &'a str,
    },
    /// The queue of a schedule is not there.
    TargetGone {
        /// Which.
        schedule: &'a ScheduleName,
        /// The queue.
        queue: &'a QueueName,
    },
}

/// Who hears of it. Called between two calls of the store: it must not wait.
pub trait ScheduleObserver: Send + Sync {
    /// Hears of an event.
    fn hear(&self, event: ScheduleEvent<'_>);
}

/// Hears nothing.
pub(super) struct Deaf;

impl ScheduleObserver for Deaf {
    fn hear(&self, _: ScheduleEvent<'_>) {}
}
