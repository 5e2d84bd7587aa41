//! Write transactions that callers take part in: their own tables and fencepost's, committed together.

use std::cell::RefCell;
use std::ops::Deref;
use std::path::Path;

use fencepost_core::{
    BatchId, ChannelName, Error, IdempotencyKey, Kind, LeaseToken, MessageId, NewMessage, NoticePayload, OnceTtl,
    QueueName, Release, Result, SentOnce, SlotToken,
};
use rusqlite::{Connection, Transaction, TransactionState};

use crate::error::driver_error;
use crate::state::{Group, Shared};
use crate::{lease, notice, queue, slot};

/// A write transaction that the caller takes part in. Derefs to the driver's connection, for the caller's own SQL.
///
/// Made by [`SqliteStore::write`](crate::SqliteStore::write), which commits it, or by
/// [`SqliteStore::join`](crate::SqliteStore::join) over a transaction that the caller commits.
///
/// A call that fails dooms the transaction: `write` rolls it back even when the closure ignores the error. Who commits a joined
/// transaction has to see to that.
pub struct WriteTransaction<'g, 'c> {
    connection: &'c Connection,
    part: RefCell<Part<'g, 'c>>,
    /// The first call that failed: whoever ignores it does not commit.
    failed: RefCell<Option<Error>>,
}

enum Part<'g, 'c> {
    /// On the writer thread; counters are written once for the whole group.
    Shared(&'g mut Group<'c>),
    /// In the caller's own transaction; counters are read and written with every call, as nobody tells when it commits, what it
    /// rolls back to a savepoint, or who else joined it.
    Joined(&'c Shared),
}

impl<'g, 'c> WriteTransaction<'g, 'c> {
    pub(crate) fn shared(group: &'g mut Group<'c>) -> Self {
        Self { connection: group.connection(), part: RefCell::new(Part::Shared(group)), failed: RefCell::default() }
    }

    pub(crate) fn joined(transaction: &'c Transaction<'_>, shared: &'c Shared, path: &Path) -> Result<Self> {
        let connection: &'c Connection = transaction;
        let same = connection.path().is_some_and(|other| {
            matches!((std::fs::canonicalize(other), std::fs::canonicalize(path)), (Ok(other), Ok(own)) if other == own)
        });
        if !same {
            return Err(Error::invalid(
                format!(
                    "cannot join the transaction: its connection is to `{}`",
                    connection.path().unwrap_or("memory")
                ),
                format!("open the connection on the store's own file, `{}`", path.display()),
            ));
        }
        let state = connection.transaction_state(Some(c"main")).map_err(driver_error)?;
        if !matches!(state, TransactionState::Write) {
            return Err(Error::new(Kind::Unsupported, "cannot join the transaction: it does not hold the write lock")
                .hinted("begin it with TransactionBehavior::Immediate; a deferred one may read what a grant has since changed"));
        }
        Ok(Self { connection, part: RefCell::new(Part::Joined(shared)), failed: RefCell::default() })
    }

    fn call<T>(&self, operation: &'static str, work: impl FnOnce(&mut Group<'c>) -> Result<T>) -> Result<T> {
        let result = match &mut *self.part.borrow_mut() {
            Part::Shared(group) => group.is_open().and_then(|()| work(group)),
            Part::Joined(shared) => {
                let mut group = Group::new(self.connection, shared);
                group.is_open().and_then(|()| in_savepoint(&mut group, work))
            }
        };
        result.map_err(|error| {
            let error = error.during(operation);
            self.failed.borrow_mut().get_or_insert_with(|| error.shared());
            error
        })
    }

    /// The first call that failed, if one did.
    pub(crate) fn failure(self) -> Option<Error> {
        self.failed.into_inner()
    }

    /// Sends a message with this transaction: it is there once that commits, and never was if it does not.
    ///
    /// # Errors
    /// `not_found` when the queue does not exist.
    pub fn send_in(&self, queue: &QueueName, message: NewMessage) -> Result<MessageId> {
        self.call("send", |group| queue::append(group, queue, &message))
    }

    /// Sends messages in order with this transaction.
    ///
    /// # Errors
    /// `not_found` when the queue does not exist.
    pub fn send_batch_in(&self, queue: &QueueName, messages: &[NewMessage]) -> Result<Vec<MessageId>> {
        self.call("send_batch", |group| queue::append_all(group, queue, messages))
    }

    /// Sends a message with this transaction unless the queue remembers the key: rolled back, it leaves no trace. The twin of
    /// [`Queues::send_once`](fencepost_core::Queues::send_once).
    ///
    /// # Errors
    /// `conflict` when the key stands for another message; `not_found` when the queue does not exist.
    pub fn send_once_in(
        &self,
        queue: &QueueName,
        message: NewMessage,
        key: &IdempotencyKey,
        ttl: OnceTtl,
    ) -> Result<SentOnce> {
        self.call("send_once", |group| queue::send_once(group, queue, &message, key, ttl))
    }

    /// Notifies with this transaction: listeners are told once that commits, and never if it does not.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn notify_in(&self, channel: &ChannelName, payload: &NoticePayload) -> Result<()> {
        self.call("notify", |group| notice::notify(group, channel, payload))
    }

    /// Acks a batch with this transaction, so that its effects are stored exactly once. Make it the last statement: a refusal
    /// then comes with everything else still undone, when the error is returned.
    ///
    /// # Errors
    /// `fenced` when somebody else owns the slot now: return it, so that the effects are rolled back; `conflict`; `not_found`.
    pub fn ack_in(&self, token: &SlotToken, batch: BatchId) -> Result<u32> {
        self.call("ack", |group| slot::ack(group, token, batch))
    }

    /// Makes this transaction valid only under a lease: nobody else is granted the lease before it ends, and it is refused when
    /// somebody else was already. An expired lease that nobody took over passes.
    ///
    /// # Errors
    /// `fenced`: return it, so that everything is rolled back.
    pub fn guard_in(&self, token: &LeaseToken) -> Result<()> {
        self.call("guard_lease", |group| lease::guard(group, token))
    }

    /// Makes this transaction valid only under a slot, for effects without an ack.
    ///
    /// # Errors
    /// `fenced`: return it, so that everything is rolled back; `not_found`.
    pub fn slot_guard_in(&self, token: &SlotToken) -> Result<()> {
        self.call("guard_slot", |group| slot::guard(group, token))
    }

    /// Gives the slot back with this transaction.
    ///
    /// # Errors
    /// `open_batch` unless the batch is acked before, also in this transaction; `not_found`.
    pub fn release_in(&self, token: &SlotToken) -> Result<Release> {
        self.call("release_slot", |group| slot::release(group, token))
    }
}

/// Runs one call of a joined transaction whole or not at all: the caller may commit whatever it answered.
fn in_savepoint<'c, T>(group: &mut Group<'c>, work: impl FnOnce(&mut Group<'c>) -> Result<T>) -> Result<T> {
    let mut answer = None;
    group.savepoint(|group| {
        let result = work(group).and_then(|value| group.flush().map(|()| value));
        let outcome = result.as_ref().map(drop).map_err(Error::shared);
        answer = Some(result);
        outcome
    })?;
    answer.unwrap_or_else(|| Err(Error::new(Kind::Internal, "cannot answer a call that did not run")))
}

impl Deref for WriteTransaction<'_, '_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl std::fmt::Debug for WriteTransaction<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteTransaction").finish_non_exhaustive()
    }
}
