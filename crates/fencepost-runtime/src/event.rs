//! What a worker tells of itself, for logs, demonstrations and tests.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use fencepost_core::slot::{GrantOrigin, OpenBatch};
use fencepost_core::{BatchId, Epoch, Error, SlotIndex};

use crate::HandlerError;

/// Something that happened to a worker.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A slot was granted to it.
    Claimed {
        /// The slot.
        slot: SlotIndex,
        /// The epoch of the grant.
        epoch: Epoch,
        /// How the grant came about.
        origin: GrantOrigin,
        /// The open batch that came with it.
        batch: Option<OpenBatch>,
    },
    /// A batch was handed to the handler.
    Received {
        /// The slot.
        slot: SlotIndex,
        /// The owner's epoch.
        epoch: Epoch,
        /// The batch.
        batch: BatchId,
        /// How many messages it has.
        messages: usize,
        /// How often it was handed out, this time included.
        deliveries: u32,
    },
    /// A batch was acked.
    Acked {
        /// The slot.
        slot: SlotIndex,
        /// The owner's epoch.
        epoch: Epoch,
        /// The batch.
        batch: BatchId,
    },
    /// A slot was given back cleanly, between batches.
    Released {
        /// The slot.
        slot: SlotIndex,
        /// The epoch that ends.
        epoch: Epoch,
    },
    /// A slot was given back with its open batch.
    Abandoned {
        /// The slot.
        slot: SlotIndex,
        /// The epoch that ends.
        epoch: Epoch,
    },
    /// A slot is not this worker's any more.
    Lost {
        /// The slot.
        slot: SlotIndex,
        /// The epoch that it was held by.
        epoch: Epoch,
        /// How that was learned.
        cause: LossCause<'a>,
    },
    /// The deadline of a slot passed before a renewal succeeded: its handler was told to stop.
    DeadlinePassed {
        /// The slot.
        slot: SlotIndex,
        /// The owner's epoch.
        epoch: Epoch,
    },
    /// A handler of batches failed or panicked: what it decided nothing about has failed. A failed message of a handler of messages
    /// is no such event.
    HandlerFailed {
        /// The slot.
        slot: SlotIndex,
        /// The batch.
        batch: BatchId,
        /// What it returned.
        error: &'a HandlerError,
    },
    /// A call on the store failed; it is tried again.
    CallFailed {
        /// What it answered.
        error: &'a Error,
    },
}

/// How a loss was learned.
#[derive(Debug)]
pub enum LossCause<'a> {
    /// A renewal answered that it is lost, or the slot was granted to the same worker anew.
    Renewal,
    /// A call was refused: `fenced`, or `not_found` after the consumer was dropped.
    Refused(&'a Error),
}

/// Hears what happens to a worker. Called in the worker's own tasks: it must not block. When it panics, that is logged and nothing
/// else happens.
pub trait Observer: Send + Sync + 'static {
    /// Something happened.
    fn observe(&self, event: &Event<'_>);
}

/// Hears nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn observe(&self, _event: &Event<'_>) {}
}

/// The observer of a worker as its tasks call it: failures are logged too, and a panic of the observer's ends nothing.
#[derive(Clone)]
pub(crate) struct Witness(Arc<dyn Observer>);

impl Witness {
    pub(crate) fn new(observer: impl Observer) -> Self {
        Self(Arc::new(observer))
    }

    pub(crate) fn observe(&self, event: &Event<'_>) {
        match event {
            Event::CallFailed { error } => {
                tracing::warn!(
                    code = error.code(),
                    error = *error as &dyn std::error::Error,
                    "a call on the store failed"
                );
            }
            Event::HandlerFailed { slot, batch, error } => {
                tracing::warn!(%slot, %batch, error = &***error as &dyn std::error::Error, "a handler failed");
            }
            _ => {}
        }
        if catch_unwind(AssertUnwindSafe(|| self.0.observe(event))).is_err() {
            tracing::error!(?event, "an observer panicked");
        }
    }
}
