//! Slots: calls of the functions in `sql/functions/slot`, and what their answers mean.

use std::time::Duration;

use async_trait::async_trait;
use fencepost_core::slot::{GrantOrigin, OpenBatch, Owner, SlotState};
use fencepost_core::{
    AckReceived, Batch, BatchId, BatchSize, ClaimSlot, ConsumerPath, Delay, Epoch, Error, Failure, FailureText, Forced,
    Kind, MessageId, NackOutcome, Nacked, Nonce, Position, QueueName, Reason, Release, Renewal, Result, SlotGrant,
    SlotIndex, SlotStatus, SlotToken, Slots, Topic, Ttl, WorkerName,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::batch::{acked, batch};
use crate::connection::Parameter;
use crate::consumer::path_of;
use crate::deliver::GiveBack;
use crate::error::damaged;
use crate::numbered::{OfAny, OfQueue};
use crate::queue::micros;
use crate::store::{PostgresStore, column, one};
use crate::time::At;

const CLAIM: &str = "select slot, epoch, expires_at, origin, lost_by, (open).batch_id,
    coalesce(((open).next).pos, ((open).next).h), (open).size, (open).deliveries, (open).crashes, (open).plain, (open).alone
    from fencepost._claim($1, $2, $3, $4 * interval '1 microsecond', $5, $6)";
const RECEIVE: OfQueue = OfQueue {
    by_number:
        "select acked, batch_id, batch_deliveries, crashes, position, id, key, kind, payload, headers::text, attempt,
        deliveries, created_at from {q}_receive($1, $2, $3, $4, $5)",
    by_name:
        "select acked, batch_id, batch_deliveries, crashes, position, id, key, kind, payload, headers::text, attempt,
        deliveries, created_at from fencepost._receive($1, $2, $3, $4, $5)",
};
const ACK_RECEIVE: OfQueue = OfQueue {
    by_number:
        "select acked, batch_id, batch_deliveries, crashes, position, id, key, kind, payload, headers::text, attempt,
        deliveries, created_at from {q}_receive($1, $2, $3, $4, $5, $6)",
    by_name:
        "select acked, batch_id, batch_deliveries, crashes, position, id, key, kind, payload, headers::text, attempt,
        deliveries, created_at from fencepost._receive($1, $2, $3, $4, $5, $6)",
};
pub(crate) const ACK: OfAny =
    OfAny { any: "select fencepost._any_ack($1, $2, $3, $4, $5)", granted: "select fencepost.ack($1, $2, $3, $4, $5)" };
const ACK_THROUGH: &str = "select fencepost.ack_through($1, $2, $3, $4, $5, $6)";
const NACK: &str = "select what, due_at, withdrawn
    from fencepost._dispose('nack', $1, $2, $3, $4, $5, $6, $7 * interval '1 microsecond', $8)";
const SNOOZE: &str = "select fencepost.snooze($1, $2, $3, $4, $5, $6, $7 * interval '1 microsecond')";
const DEAD_LETTER: &str = "select fencepost.dead_letter($1, $2, $3, $4, $5, $6, $7)";
const NEXT_DUE: &str = "select (extract(epoch from fencepost._next_due($1, $2, $3)) * 1000000)::bigint";
const RENEW: &str = "select fencepost.renew_slot($1, $2, $3, $4)";
pub(crate) const RELEASE: &str = "select fencepost.release_slot($1, $2, $3, $4)";
const ABANDON: &str = "select fencepost.abandon_slot($1, $2, $3, $4)";
const FORCE: &str = "select fencepost.force_release_slot($1, $2, $3, $4)";
pub(crate) const GUARD: &str = "select fencepost.slot_guard($1, $2, $3, $4)";
const HISTORY: &str = "select slot::integer, at, epoch, held_by, reason from fencepost._slot_history($1, $2)";
const STATUS: &str = "select queue, consumer, slot, epoch, holder, nonce, (extract(epoch from ttl) * 1000000)::bigint, expires_at,
    cursor_position, batch_id, through, size, deliveries, crashes, plain, alone, last_acked, isolated, lag, retrying, parked,
    first_at, blocked_by from fencepost._slot_report($1)";

/// What every call on a slot presents.
pub(crate) struct Presented<'t> {
    queue: &'t str,
    consumer: &'t str,
    slot: i32,
    epoch: i64,
}

impl<'t> Presented<'t> {
    pub(crate) fn of(token: &'t SlotToken) -> Self {
        let SlotToken { path, slot, epoch } = token;
        Self {
            queue: path.queue.as_str(),
            consumer: path.consumer.as_str(),
            slot: i32::from(slot.get()),
            epoch: epoch.get(),
        }
    }

    /// The values of a call, with what it adds.
    pub(crate) fn with<'v>(&'v self, more: &[Parameter<'v>]) -> Vec<Parameter<'v>> {
        let own: [Parameter<'v>; 4] = [
            (&self.queue, Type::TEXT),
            (&self.consumer, Type::TEXT),
            (&self.slot, Type::INT4),
            (&self.epoch, Type::INT8),
        ];
        own.into_iter().chain(more.iter().cloned()).collect()
    }
}

#[async_trait]
impl Slots for PostgresStore {
    async fn claim(&self, request: &ClaimSlot) -> Result<Option<SlotGrant>> {
        let (store, request) = (self.clone(), request.clone());
        self.granting(async move { store.claim_one("claim", &request, None).await }).await
    }

    async fn claim_slot(&self, request: &ClaimSlot, slot: SlotIndex) -> Result<Option<SlotGrant>> {
        let (store, request) = (self.clone(), request.clone());
        self.granting(async move { store.claim_one("claim_slot", &request, Some(slot)).await }).await
    }

    async fn receive(&self, token: &SlotToken, max: BatchSize) -> Result<Option<Batch>> {
        let (presented, max) = (Presented::of(token), max.get().cast_signed());
        let values = presented.with(&[(&max, Type::INT4)]);
        let rows = self.write_to("receive", &token.path.queue, RECEIVE, &values).await?;
        batch(&rows)
    }

    async fn ack(&self, token: &SlotToken, batch: BatchId) -> Result<u32> {
        let (presented, batch) = (Presented::of(token), batch.get());
        count(&self.write_any("ack", ACK, &presented.with(&[(&batch, Type::INT8)])).await?)
    }

    async fn ack_through(&self, token: &SlotToken, batch: BatchId, message: MessageId) -> Result<u32> {
        let (presented, batch, message) = (Presented::of(token), batch.get(), message.get());
        let values = presented.with(&[(&batch, Type::INT8), (&message, Type::INT8)]);
        count(&self.write("ack_through", ACK_THROUGH, &values).await?)
    }

    async fn nack(&self, token: &SlotToken, batch: BatchId, message: MessageId, failure: &Failure) -> Result<Nacked> {
        let (presented, batch, message) = (Presented::of(token), batch.get(), message.get());
        let retry_after = failure.retry_after.map(|delay| micros(delay.get()));
        let reason = failure.reason.as_ref().map(FailureText::as_str);
        let values = presented.with(&[
            (&batch, Type::INT8),
            (&message, Type::INT8),
            (&retry_after, Type::INT8),
            (&reason, Type::TEXT),
        ]);
        let rows = self.write("nack", NACK, &values).await?;
        let row = one(&rows)?;
        let outcome = match column::<Option<At>>(row, 1)? {
            Some(At(due_at)) if column::<&str>(row, 0)? == "retry" => NackOutcome::Retry { due_at },
            _ => NackOutcome::Dead,
        };
        Ok(Nacked { outcome, withdrawn: withdrawn(row, 2)? })
    }

    async fn snooze(
        &self,
        token: &SlotToken,
        batch: BatchId,
        message: MessageId,
        retry_after: Delay,
    ) -> Result<Vec<MessageId>> {
        let (presented, batch, message) = (Presented::of(token), batch.get(), message.get());
        let retry_after = micros(retry_after.get());
        let values = presented.with(&[(&batch, Type::INT8), (&message, Type::INT8), (&retry_after, Type::INT8)]);
        let rows = self.write("snooze", SNOOZE, &values).await?;
        withdrawn(one(&rows)?, 0)
    }

    async fn dead_letter(
        &self,
        token: &SlotToken,
        batch: BatchId,
        message: MessageId,
        reason: &FailureText,
    ) -> Result<()> {
        let (presented, batch, message) = (Presented::of(token), batch.get(), message.get());
        let reason = reason.as_str();
        let values = presented.with(&[(&batch, Type::INT8), (&message, Type::INT8), (&reason, Type::TEXT)]);
        self.write("dead_letter", DEAD_LETTER, &values).await.map(drop)
    }

    async fn next_due(&self, path: &ConsumerPath, slot: SlotIndex) -> Result<Option<Duration>> {
        let (queue, consumer, slot) = (path.queue.as_str(), path.consumer.as_str(), i32::from(slot.get()));
        let values: [_; 3] = [(&queue as _, Type::TEXT), (&consumer as _, Type::TEXT), (&slot as _, Type::INT4)];
        let rows = self.read("next_due", NEXT_DUE, &values).await?;
        let due: Option<i64> = column(one(&rows)?, 0)?;
        Ok(due.map(|micros| Duration::from_micros(micros.unsigned_abs())))
    }

    async fn ack_receive(&self, token: &SlotToken, batch_id: BatchId, max: BatchSize) -> Result<AckReceived> {
        let (presented, id, max) = (Presented::of(token), batch_id.get(), max.get().cast_signed());
        let values = presented.with(&[(&max, Type::INT4), (&id, Type::INT8)]);
        let rows = self.write_to("ack_receive", &token.path.queue, ACK_RECEIVE, &values).await?;
        Ok(AckReceived { acked: acked(&rows)?, next: batch(&rows)? })
    }

    async fn renew_slot(&self, token: &SlotToken) -> Result<Renewal> {
        let rows = self.write("renew_slot", RENEW, &Presented::of(token).with(&[])).await?;
        Ok(if column(one(&rows)?, 0)? { Renewal::Held } else { Renewal::Lost })
    }

    async fn release_slot(&self, token: &SlotToken) -> Result<Release> {
        self.give_slot_back("release_slot", RELEASE, token).await
    }

    async fn abandon_slot(&self, token: &SlotToken) -> Result<Release> {
        self.give_slot_back("abandon_slot", ABANDON, token).await
    }

    async fn force_release_slot(&self, path: &ConsumerPath, slot: SlotIndex, reason: &Reason) -> Result<Epoch> {
        let (queue, consumer, slot) = (path.queue.as_str(), path.consumer.as_str(), i32::from(slot.get()));
        let reason = reason.as_str();
        let values: [_; 4] = [
            (&queue as _, Type::TEXT),
            (&consumer as _, Type::TEXT),
            (&slot as _, Type::INT4),
            (&reason as _, Type::TEXT),
        ];
        let rows = self.write("force_release_slot", FORCE, &values).await?;
        self.wake(&Topic::Slots(path.clone()));
        Epoch::new(column(one(&rows)?, 0)?).map_err(|cause| damaged("slot", cause))
    }

    async fn slot_history(&self, path: &ConsumerPath) -> Result<Vec<(SlotIndex, Forced)>> {
        let (queue, consumer) = (path.queue.as_str(), path.consumer.as_str());
        let values: [_; 2] = [(&queue as _, Type::TEXT), (&consumer as _, Type::TEXT)];
        let rows = self.read("slot_history", HISTORY, &values).await?;
        let decode = |row| {
            let (slot, at, from) = (column::<i32>(row, 0)?, column::<At>(row, 1)?.0, column(row, 3)?);
            let decoded = || {
                let (epoch, reason) = (Epoch::new(column(row, 2)?)?, Reason::new(column::<String>(row, 4)?)?);
                Ok((SlotIndex::new(i64::from(slot))?, Forced { at, epoch, from, reason }))
            };
            decoded().map_err(|cause| damaged("slot_forced", cause))
        };
        rows.iter().map(decode).collect()
    }

    async fn slot_status(&self, queue: Option<&QueueName>) -> Result<Vec<SlotStatus>> {
        self.find_queue("slot_status", queue).await?;
        let name = queue.map(QueueName::as_str);
        let rows = self.read("slot_status", STATUS, &[(&name, Type::TEXT)]).await?;
        rows.iter().map(status).collect()
    }
}

impl PostgresStore {
    /// Claims a slot; with how a new grant is given back.
    async fn claim_one(
        self,
        operation: &'static str,
        request: &ClaimSlot,
        slot: Option<SlotIndex>,
    ) -> Result<(Option<SlotGrant>, Option<GiveBack>)> {
        let ClaimSlot { path, worker, ttl, nonce } = request;
        let (queue, consumer, worker) = (path.queue.as_str(), path.consumer.as_str(), worker.as_str());
        let (ttl, nonce) = (ttl.as_micros(), nonce.as_ref().map(Nonce::as_str));
        let slot = slot.map(|slot| i32::from(slot.get()));
        let values: [_; 6] = [
            (&queue as _, Type::TEXT),
            (&consumer as _, Type::TEXT),
            (&worker as _, Type::TEXT),
            (&ttl as _, Type::INT8),
            (&nonce as _, Type::TEXT),
            (&slot as _, Type::INT4),
        ];
        let rows = self.write(operation, CLAIM, &values).await?;
        let Some(row) = rows.first() else { return Ok((None, None)) };
        let grant = granted(path, row)?;
        if grant.origin == GrantOrigin::Stored {
            return Ok((Some(grant), None));
        }
        let token = grant.token.clone();
        let give_back: GiveBack = Box::pin(async move {
            if let Err(error) = self.abandon_slot(&token).await {
                tracing::warn!(slot = %token.slot, %error, "a grant whose caller is gone was not given back, and will expire");
            }
        });
        Ok((Some(grant), Some(give_back)))
    }

    async fn give_slot_back(&self, operation: &'static str, sql: &'static str, token: &SlotToken) -> Result<Release> {
        let rows = self.write(operation, sql, &Presented::of(token).with(&[])).await?;
        if !column::<bool>(one(&rows)?, 0)? {
            return Ok(Release::NotHeld);
        }
        self.wake(&Topic::Slots(token.path.clone()));
        Ok(Release::Released)
    }
}

pub(crate) fn count(rows: &[Row]) -> Result<u32> {
    Ok(column::<i32>(one(rows)?, 0)?.unsigned_abs())
}

fn withdrawn(row: &Row, index: usize) -> Result<Vec<MessageId>> {
    let ids: Vec<i64> = column(row, index)?;
    ids.into_iter().map(|id| MessageId::new(id).map_err(|cause| damaged("aside", cause))).collect()
}

/// Columns: slot, epoch, expires_at, origin, lost_by, then those of the open batch.
fn granted(path: &ConsumerPath, row: &Row) -> Result<SlotGrant> {
    let epoch = |number| Epoch::new(number).map_err(|cause| damaged("slot", cause));
    let lost_by = || -> Result<Epoch> {
        let number: Option<i64> = column(row, 4)?;
        epoch(number.unwrap_or_default())
    };
    let origin = match column::<&str>(row, 3)? {
        "fresh" => GrantOrigin::Fresh,
        "stored" => GrantOrigin::Stored,
        "inherited" => GrantOrigin::Inherited,
        "taken_over" => GrantOrigin::TakeOver { from: lost_by()? },
        "convicted" => GrantOrigin::Convicted { from: lost_by()? },
        other => {
            return Err(Error::new(Kind::Internal, format!("cannot understand the origin `{other}` of a grant")));
        }
    };
    let slot = SlotIndex::new(i64::from(column::<i32>(row, 0)?)).map_err(|cause| damaged("slot", cause))?;
    let token = SlotToken { path: path.clone(), slot, epoch: epoch(column(row, 1)?)? };
    Ok(SlotGrant { token, expires_at: column::<At>(row, 2)?.0, origin, batch: open_batch(row, 5)? })
}

/// Seven columns from `index` on: id, through, size, deliveries, crashes, plain, alone; all NULL without a batch.
fn open_batch(row: &Row, index: usize) -> Result<Option<OpenBatch>> {
    let Some(id) = column::<Option<i64>>(row, index)? else { return Ok(None) };
    let number = |index| Ok(column::<i32>(row, index)?.unsigned_abs());
    Ok(Some(OpenBatch {
        id: BatchId::new(id).map_err(|cause| damaged("state", cause))?,
        through: Position::from_storage(column(row, index + 1)?),
        size: number(index + 2)?,
        deliveries: number(index + 3)?,
        crashes: number(index + 4)?,
        plain: column(row, index + 5)?,
        alone: column(row, index + 6)?,
    }))
}

fn status(row: &Row) -> Result<SlotStatus> {
    let count = |index| Ok(column::<i64>(row, index)?.unsigned_abs());
    let (worker, nonce) = (column::<Option<String>>(row, 4)?, column::<Option<String>>(row, 5)?);
    let (ttl, expires_at) = (column::<Option<i64>>(row, 6)?, column::<Option<At>>(row, 7)?);
    let decoded = || -> Result<(Option<Epoch>, Option<Owner>, Option<BatchId>)> {
        let owner = match (worker, ttl, expires_at) {
            (Some(worker), Some(ttl), Some(At(expires_at))) => Some(Owner {
                worker: WorkerName::new(worker)?,
                nonce: nonce.map(Nonce::new).transpose()?,
                ttl: Ttl::from_micros(ttl)?,
                expires_at,
            }),
            _ => None,
        };
        let epoch = column::<Option<i64>>(row, 3)?.map(Epoch::new).transpose()?;
        Ok((epoch, owner, column::<Option<i64>>(row, 16)?.map(BatchId::new).transpose()?))
    };
    let (epoch, owner, last_acked) = decoded().map_err(|cause| damaged("slot", cause))?;
    let state = SlotState {
        cursor: Position::from_storage(column(row, 8)?),
        epoch,
        owner,
        batch: open_batch(row, 9)?,
        last_acked,
        isolated: column::<Option<i64>>(row, 17)?.map(Position::from_storage),
    };
    let slot = SlotIndex::new(i64::from(column::<i32>(row, 2)?)).map_err(|cause| damaged("slot", cause))?;
    Ok(SlotStatus {
        path: path_of(row)?,
        slot,
        state,
        lag: count(18)?,
        retrying: count(19)?,
        parked: count(20)?,
        first_at: column::<Option<At>>(row, 21)?.map(|At(at)| at),
        blocked_by: column(row, 22)?,
    })
}
