//! Callers' own transactions: their tables and fencepost's, committed together.

use async_trait::async_trait;
use fencepost_core::{
    BatchId, ChannelName, IdempotencyKey, LeaseToken, MessageId, NewMessage, NoticePayload, OnceTtl, QueueName,
    Release, Result, SentOnce, SlotToken,
};
use tokio_postgres::types::Type;
use tokio_postgres::{Row, Transaction};

use crate::connection::Parameter;
use crate::error::{Effect, call_error, driver_error};
use crate::lease::GUARD;
use crate::notice;
use crate::queue::{Columns, Once, SEND_MANY, SEND_ONCE, identities, no_id, sent_once};
use crate::slot::{self, ACK, Presented, RELEASE, count};
use crate::store::{column, one};

/// Calls within a transaction of the caller's own connection to the database of the store.
///
/// A call that fails dooms the transaction, as every failed statement does on PostgreSQL: it can only be rolled back. The driver's own
/// [`Transaction::commit`] reports success even then, as the server rolls back without an error; [`commit_whole`](TransactionCalls::commit_whole) does not.
#[async_trait]
pub trait TransactionCalls {
    /// Makes this transaction valid only under a lease: nobody else is granted the lease before it ends, and it is refused when
    /// somebody else was already. An expired lease that nobody took over passes. Renewals go on meanwhile.
    ///
    /// Valid at every isolation level. The server ends the transaction when it idles past the end of the grant as it stands now, at
    /// least 1 s.
    ///
    /// # Errors
    /// `fenced`: roll back; `busy` with code `serialization_failure` when the transaction's snapshot is older than the last grant:
    /// run it again from its beginning.
    async fn guard_in(&self, token: &LeaseToken) -> Result<()>;

    /// Makes this transaction valid only under a slot, for effects without an ack; as [`TransactionCalls::guard_in`].
    ///
    /// # Errors
    /// `fenced`: roll back; `not_found`.
    async fn slot_guard_in(&self, token: &SlotToken) -> Result<()>;

    /// Sends a message with this transaction: it is there once that commits, and never was if it does not.
    ///
    /// # Errors
    /// `not_found` when the queue does not exist.
    async fn send_in(&self, queue: &QueueName, message: &NewMessage) -> Result<MessageId>;

    /// Sends messages in order with this transaction.
    ///
    /// # Errors
    /// `not_found` when the queue does not exist.
    async fn send_batch_in(&self, queue: &QueueName, messages: &[NewMessage]) -> Result<Vec<MessageId>>;

    /// Sends a message with this transaction unless the queue remembers the key: rolled back, it leaves no trace.
    ///
    /// # Errors
    /// `conflict` when the key stands for another message; `busy` when somebody sends under it at this moment; `not_found`;
    /// `unsupported` above READ COMMITTED.
    async fn send_once_in(
        &self,
        queue: &QueueName,
        message: &NewMessage,
        key: &IdempotencyKey,
        ttl: OnceTtl,
    ) -> Result<SentOnce>;

    /// Notifies with this transaction: listeners are told once that commits, and never if it does not.
    ///
    /// # Errors
    /// `permission_denied` where the user may not notify.
    async fn notify_in(&self, channel: &ChannelName, payload: &NoticePayload) -> Result<()>;

    /// Acks a batch with this transaction, so that its effects are stored exactly once. Make it the last statement before the commit:
    /// the slot is locked from here on.
    ///
    /// # Errors
    /// `fenced` when somebody else owns the slot now: roll back; `conflict`; `not_found`; `busy` with code `serialization_failure`
    /// when the transaction's snapshot is older than the slot's state: run it again from its beginning.
    async fn ack_in(&self, token: &SlotToken, batch: BatchId) -> Result<u32>;

    /// Gives the slot back with this transaction.
    ///
    /// # Errors
    /// `open_batch` unless the batch is acked before, also in this transaction; `not_found`; `unsupported` above READ COMMITTED.
    async fn release_in(&self, token: &SlotToken) -> Result<Release>;

    /// Commits, and fails when an earlier statement of the transaction had failed, so that nothing of it was stored.
    ///
    /// # Errors
    /// `conflict` with code `transaction_aborted`: nothing was stored; `unknown_outcome` when the connection was lost before the
    /// server answered; `busy` with code `serialization_failure`.
    async fn commit_whole(self) -> Result<()>;
}

#[async_trait]
impl TransactionCalls for Transaction<'_> {
    async fn guard_in(&self, token: &LeaseToken) -> Result<()> {
        let (name, epoch) = (token.name.as_str(), token.epoch.get());
        let values: [_; 2] = [(&name as _, Type::TEXT), (&epoch as _, Type::INT8)];
        call(self, "guard_lease", GUARD, &values).await.map(drop)
    }

    async fn slot_guard_in(&self, token: &SlotToken) -> Result<()> {
        call(self, "guard_slot", slot::GUARD, &Presented::of(token).with(&[])).await.map(drop)
    }

    async fn send_in(&self, queue: &QueueName, message: &NewMessage) -> Result<MessageId> {
        let ids = self.send_batch_in(queue, std::slice::from_ref(message)).await?;
        ids.into_iter().next().ok_or_else(no_id)
    }

    async fn send_batch_in(&self, queue: &QueueName, messages: &[NewMessage]) -> Result<Vec<MessageId>> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let rows = call(self, "send", SEND_MANY, &Columns::of(queue, messages).values()).await?;
        identities(one(&rows)?)
    }

    async fn send_once_in(
        &self,
        queue: &QueueName,
        message: &NewMessage,
        key: &IdempotencyKey,
        ttl: OnceTtl,
    ) -> Result<SentOnce> {
        let rows = call(self, "send_once", SEND_ONCE, &Once::of(queue, message, key, ttl).values()).await?;
        sent_once(one(&rows)?)
    }

    async fn notify_in(&self, channel: &ChannelName, payload: &NoticePayload) -> Result<()> {
        notice::notify_in(self, channel, payload).await
    }

    async fn ack_in(&self, token: &SlotToken, batch: BatchId) -> Result<u32> {
        let (presented, batch) = (Presented::of(token), batch.get());
        count(&call(self, "ack", ACK.granted, &presented.with(&[(&batch, Type::INT8)])).await?)
    }

    async fn release_in(&self, token: &SlotToken) -> Result<Release> {
        let rows = call(self, "release_slot", RELEASE, &Presented::of(token).with(&[])).await?;
        Ok(if column(one(&rows)?, 0)? { Release::Released } else { Release::NotHeld })
    }

    async fn commit_whole(self) -> Result<()> {
        // In an aborted transaction every statement fails but the one that ends it.
        self.execute_typed("select", &[]).await.map_err(|error| driver_error(error).during("commit"))?;
        self.commit().await.map_err(|error| call_error(error, Effect::Write).during("commit"))
    }
}

pub(crate) async fn call(
    transaction: &Transaction<'_>,
    operation: &'static str,
    sql: &'static str,
    values: &[Parameter<'_>],
) -> Result<Vec<Row>> {
    transaction.query_typed(sql, values).await.map_err(|error| driver_error(error).during(operation))
}
