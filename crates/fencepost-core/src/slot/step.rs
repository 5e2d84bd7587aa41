//! The pure step function over the table: classify the call against the stored state, look the action up, apply it.

use super::table::{Action, Event, Phase};
use crate::{
    BatchId, ConsumerPath, Epoch, Error, Kind, MessageId, Nonce, Position, SlotIndex, Timestamp, Ttl, WorkerName,
};

/// How many owners a message ends that was handed out alone, until it is a dead letter.
const CONVICTED: u32 = 2;

/// The stored state of a slot: cursor, ownership and open batch in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotState {
    /// Everything of the slot's partitions up to here is acked.
    pub cursor: Position,
    /// The highest epoch that was ever granted here; the owner's while there is one.
    pub epoch: Option<Epoch>,
    /// Who holds the slot.
    pub owner: Option<Owner>,
    /// What was handed out and is not acked.
    pub batch: Option<OpenBatch>,
    /// The batch that was acked last.
    pub last_acked: Option<BatchId>,
    /// While one message of a batch is suspected of ending its owners: up to here messages come in batches of one.
    pub isolated: Option<Position>,
}

/// Who holds a slot, beside its epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The owner's label.
    pub worker: WorkerName,
    /// The nonce of the call that was granted.
    pub nonce: Option<Nonce>,
    /// How far a renewal reaches.
    pub ttl: Ttl,
    /// When the grant expires.
    pub expires_at: Timestamp,
}

/// What was handed out: the messages of the slot's partitions after the cursor and up to `through`, without those set aside, and those
/// that were set aside before and came again with this batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenBatch {
    /// Identifies the batch within its slot.
    pub id: BatchId,
    /// The position of its last message.
    pub through: Position,
    /// How many messages it has without a disposition.
    pub size: u32,
    /// How often it was handed to an owner.
    pub deliveries: u32,
    /// Owners that lost it by expiry.
    pub crashes: u32,
    /// Whether nothing was set aside: its messages are exactly the range after the cursor.
    pub plain: bool,
    /// Whether its one message is suspected of ending its owners.
    pub alone: bool,
}

/// Who claims.
#[derive(Debug, Clone, Copy)]
pub struct Claimant<'a> {
    /// The claimant's label.
    pub worker: &'a WorkerName,
    /// Identifies the attempt.
    pub nonce: Option<&'a Nonce>,
    /// How long the grant lasts.
    pub ttl: Ttl,
    /// The epoch that the store gives to its next grant.
    pub epoch: Epoch,
    /// When [`SlotState::is_suspected`]: how far the cursor goes with the open batch's first message that has no disposition.
    pub suspect: Option<Position>,
}

/// What a receive found, looked up only when no batch is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Nothing waits.
    Nothing,
    /// What waits up to here is not to be handed out now: it was set aside, has expired, or was suspected and is done.
    Skipped(Position),
    /// Messages for a batch.
    Messages {
        /// How far the cursor goes with them.
        through: Position,
        /// How many there are.
        size: u32,
        /// Whether they are exactly the range after the cursor.
        plain: bool,
    },
}

/// What an ack through a message of the open batch found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// It is not of the batch.
    Foreign,
    /// It is behind the cursor: acked or set aside before, by the same call perhaps.
    Acked,
    /// It is of the batch, and more follow.
    First {
        /// How far the cursor goes with it.
        through: Position,
        /// How many messages without a disposition are acked.
        acked: u32,
    },
    /// It is the last one.
    Whole,
}

/// A call on one slot.
#[derive(Debug, Clone, Copy)]
pub enum Call<'a> {
    /// Claim it.
    Claim(Claimant<'a>),
    /// Receive.
    Receive {
        /// The presented epoch.
        epoch: Epoch,
        /// What waits.
        found: Found,
    },
    /// Ack a batch.
    Ack {
        /// The presented epoch.
        epoch: Epoch,
        /// The batch to finish.
        batch: BatchId,
    },
    /// Ack a batch through one of its messages.
    AckThrough {
        /// The presented epoch.
        epoch: Epoch,
        /// The batch.
        batch: BatchId,
        /// The message.
        message: MessageId,
        /// What it is to the batch, looked up only when that is open.
        part: Part,
    },
    /// Record a disposition: nack, snooze, dead letter.
    Dispose {
        /// The presented epoch.
        epoch: Epoch,
        /// The batch.
        batch: BatchId,
        /// The message.
        message: MessageId,
        /// How many messages of the batch have a disposition by this that had none, looked up only when it is open; `None` when the
        /// message is not of the batch.
        fresh: Option<u32>,
    },
    /// Renew the grant.
    Renew {
        /// The presented epoch.
        epoch: Epoch,
    },
    /// Give it back between batches.
    Release {
        /// The presented epoch.
        epoch: Epoch,
    },
    /// Give it back with its open batch.
    Abandon {
        /// The presented epoch.
        epoch: Epoch,
    },
    /// Make sure, inside a transaction of the caller's, that nobody else is granted it before that ends.
    Guard {
        /// The presented epoch.
        epoch: Epoch,
    },
    /// Take it from whoever owns it.
    ForceRelease {
        /// The epoch that the store gives to its next grant.
        epoch: Epoch,
    },
    /// Drop its consumer.
    Drop {
        /// Whoever holds it.
        force: bool,
    },
}

/// How a grant came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantOrigin {
    /// The slot had no open batch.
    Fresh,
    /// The same grant as before, asked for again by its nonce.
    Stored,
    /// The open batch of an owner that expired came along.
    TakeOver {
        /// The epoch that lost it.
        from: Epoch,
    },
    /// The open batch of an owner that expired had one message left that is suspected; it is a dead letter now.
    Convicted {
        /// The epoch that lost it.
        from: Epoch,
    },
    /// The open batch that an owner gave up came along.
    Inherited,
}

/// What a call answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Claimed.
    Granted(GrantOrigin),
    /// Not claimable.
    NotGranted,
    /// A new batch.
    Opened(OpenBatch),
    /// The open batch again.
    Reissued(OpenBatch),
    /// Nothing waits.
    Nothing,
    /// The cursor moved, nothing was handed out; more may wait.
    Skipped,
    /// So many messages acked.
    Acked(u32),
    /// The disposition is recorded.
    Disposed,
    /// Extended.
    Renewed,
    /// Not held by this epoch (renewal).
    Lost,
    /// Given back, or taken by force.
    Released,
    /// Owned by this epoch.
    Guarded,
    /// Not held by this epoch (release, abandon).
    NotHeld,
    /// Gone with its consumer.
    Dropped,
    /// An error, and nothing changed.
    Refused(Refusal),
}

/// Why a call is refused with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The presented epoch is not the current owner's.
    Fenced {
        /// What the caller presented.
        presented: Epoch,
        /// The current owner's, if there is one.
        current: Option<Epoch>,
    },
    /// A batch is open.
    OpenBatch(BatchId),
    /// Another batch than the open or the last one.
    OtherBatch {
        /// What the caller presented.
        presented: BatchId,
        /// The open one.
        open: Option<BatchId>,
    },
    /// The message is not of the open batch.
    Foreign {
        /// The open batch.
        batch: BatchId,
        /// What the caller named.
        message: MessageId,
    },
    /// A live owner is in the way of a drop.
    Live,
}

impl Refusal {
    /// The error of the contract.
    pub fn into_error(self, operation: &'static str, path: &ConsumerPath, slot: SlotIndex) -> Error {
        let place = format!("slot {slot} of consumer `{path}`");
        let error = match self {
            Refusal::Fenced { presented, current } => {
                let current = current.map_or_else(|| "none".to_owned(), |epoch| epoch.to_string());
                Error::new(
                    Kind::Fenced,
                    format!("cannot {operation} on {place}: epoch `{presented}` is not its owner's, the current one is `{current}`"),
                )
                .with("presented_epoch", presented)
                .with("current_epoch", current)
                .hinted("the slot was granted to somebody else or given back; drop what this owner was doing and claim again")
            }
            Refusal::OpenBatch(batch) => {
                Error::new(Kind::OpenBatch, format!("cannot {operation} on {place}: its batch `{batch}` is open"))
                    .with("batch_id", batch)
                    .hinted("ack the batch first, or abandon the slot to hand the batch to the next claimant at once")
            }
            Refusal::OtherBatch { presented, open } => {
                let open = open.map_or_else(|| "none".to_owned(), |batch| batch.to_string());
                Error::new(
                    Kind::Conflict,
                    format!("cannot {operation} batch `{presented}` on {place}: the open batch is `{open}`"),
                )
                .with("batch_id", presented)
                .with("open_batch_id", open)
                .hinted("finish the batch that the last receive returned")
            }
            Refusal::Foreign { batch, message } => Error::new(
                Kind::NotFound,
                format!("cannot {operation} message `{message}` on {place}: it is not in the open batch `{batch}`"),
            )
            .with("batch_id", batch)
            .with("message_id", message)
            .hinted("name a message that the last receive returned and that was not withdrawn or acked since"),
            Refusal::Live => Error::new(Kind::Conflict, format!("cannot {operation}: {place} is held by a live owner"))
                .hinted("stop its workers first, or force it: their calls then answer `not_found`"),
        };
        error.during(operation).with("consumer", path).with("slot", slot)
    }
}

/// What a call does: the answer, and the new state when something changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The answer.
    pub outcome: Outcome,
    /// The state to store; `None` when nothing changes.
    pub next: Option<SlotState>,
}

impl SlotState {
    /// A slot that nobody ever held, with everything up to `cursor` behind it.
    pub const fn new(cursor: Position) -> Self {
        Self { cursor, epoch: None, owner: None, batch: None, last_acked: None, isolated: None }
    }

    /// The column of the table that this state is in at `now`. A grant is live strictly before its expiry.
    pub fn phase(&self, now: Timestamp) -> Phase {
        match (&self.owner, &self.batch) {
            (None, None) => Phase::Free,
            (None, Some(_)) => Phase::Orphan,
            (Some(owner), None) if now < owner.expires_at => Phase::HeldLive,
            (Some(_), None) => Phase::HeldExpired,
            (Some(owner), Some(_)) if now < owner.expires_at => Phase::OpenLive,
            (Some(_), Some(_)) => Phase::OpenExpired,
        }
    }

    /// Whether `epoch` is the current owner's.
    pub fn is_own(&self, epoch: Epoch) -> bool {
        self.owner.is_some() && self.epoch == Some(epoch)
    }

    /// Whether a claim now finds that so many owners lost the open batch that its first message has to be looked up.
    pub fn is_suspected(&self, max_crashes: u32, now: Timestamp) -> bool {
        self.phase(now) == Phase::OpenExpired
            && self.batch.is_some_and(|batch| {
                batch.size > 0 && batch.crashes + 1 >= if batch.alone { CONVICTED } else { max_crashes }
            })
    }

    /// For engines: how far the cursor goes when what the open batch has up to `position` is finished. Not past the end of the batch:
    /// a message that was replayed may sit behind it, and others that are to come in between.
    pub fn cursor_after(&self, position: Position) -> Position {
        let end = self.batch.map_or(self.cursor, |open| open.through);
        self.cursor.max(position.min(end))
    }

    /// For engines: whether what was decided about the message at `position` is settled with what comes up to `through`. While one
    /// message at a time is handed out, what was decided about those to come waits for its turn.
    pub fn settles(&self, position: Position, through: Position) -> bool {
        self.isolated.is_none_or(|end| position <= through || position > end)
    }

    /// Whether `batch` is the open one.
    pub fn has_open(&self, batch: BatchId) -> bool {
        self.batch.is_some_and(|open| open.id == batch)
    }

    /// The row of the table that `call` is against this state.
    pub fn classify(&self, call: &Call<'_>) -> Event {
        match *call {
            Call::Claim(Claimant { suspect: Some(_), .. }) => match self.batch {
                Some(batch) if batch.alone => Event::ClaimConvicted,
                _ => Event::ClaimSuspect,
            },
            Call::Claim(claimant) => {
                let granted = self.owner.as_ref().and_then(|owner| owner.nonce.as_ref());
                if claimant.nonce.is_some() && granted == claimant.nonce { Event::ClaimSameNonce } else { Event::Claim }
            }
            Call::Receive { epoch, .. } if !self.is_own(epoch) => Event::ReceiveNotOwn,
            Call::Receive { .. } if self.batch.is_some_and(|open| open.size == 0) => Event::ReceiveOwnSettled,
            Call::Receive { found: Found::Messages { .. }, .. } => Event::ReceiveOwn,
            Call::Receive { found: Found::Nothing, .. } => Event::ReceiveOwnEmpty,
            Call::Receive { found: Found::Skipped(_), .. } => Event::ReceiveOwnSkipped,
            Call::Ack { epoch, .. } | Call::AckThrough { epoch, .. } if !self.is_own(epoch) => Event::AckNotOwn,
            Call::AckThrough { batch, part, .. } if self.has_open(batch) => match part {
                Part::First { .. } => Event::AckThroughOwnPart,
                Part::Whole => Event::AckOwnOpen,
                Part::Acked => Event::AckThroughOwnAcked,
                Part::Foreign => Event::AckThroughOwnForeign,
            },
            Call::Ack { batch, .. } if self.has_open(batch) => Event::AckOwnOpen,
            Call::Ack { batch, .. } | Call::AckThrough { batch, .. } if self.last_acked == Some(batch) => {
                Event::AckOwnLast
            }
            Call::Ack { .. } | Call::AckThrough { .. } => Event::AckOwnOther,
            Call::Dispose { epoch, .. } if !self.is_own(epoch) => Event::DisposeNotOwn,
            Call::Dispose { batch, .. } if !self.has_open(batch) => Event::DisposeOwnOther,
            Call::Dispose { fresh: Some(_), .. } => Event::DisposeOwnOpen,
            Call::Dispose { fresh: None, .. } => Event::DisposeOwnForeign,
            Call::Renew { epoch } if self.is_own(epoch) => Event::RenewOwn,
            Call::Renew { .. } => Event::RenewNotOwn,
            Call::Release { epoch } if self.is_own(epoch) => Event::ReleaseOwn,
            Call::Release { .. } => Event::ReleaseNotOwn,
            Call::Abandon { epoch } if self.is_own(epoch) => Event::AbandonOwn,
            Call::Abandon { .. } => Event::AbandonNotOwn,
            Call::Guard { epoch } if self.is_own(epoch) => Event::GuardOwn,
            Call::Guard { .. } => Event::GuardNotOwn,
            Call::ForceRelease { .. } => Event::ForceRelease,
            Call::Drop { force: false } => Event::Drop,
            Call::Drop { force: true } => Event::DropForce,
        }
    }

    fn grant(&self, claimant: &Claimant<'_>, now: Timestamp) -> SlotState {
        SlotState {
            epoch: Some(claimant.epoch),
            owner: Some(Owner {
                worker: claimant.worker.clone(),
                nonce: claimant.nonce.cloned(),
                ttl: claimant.ttl,
                expires_at: now + claimant.ttl.get(),
            }),
            ..self.clone()
        }
    }

    /// The open batch closes, the cursor moves past exactly it.
    fn closed(&self) -> SlotState {
        let batch = self.batch.expect("an open slot has a batch");
        SlotState { cursor: batch.through, batch: None, last_acked: Some(batch.id), ..self.clone() }
    }

    fn without_owner(&self) -> SlotState {
        SlotState { owner: None, ..self.clone() }
    }

    /// Extends the grant, always or only once half its TTL has passed.
    fn extend(&mut self, now: Timestamp, only_past_half: bool) -> bool {
        let Some(owner) = &mut self.owner else { return false };
        let due = !only_past_half || owner.expires_at.since(now) < owner.ttl.get() / 2;
        if due {
            owner.expires_at = now + owner.ttl.get();
        }
        due
    }

    /// The id of the next batch.
    pub fn next_batch(&self) -> BatchId {
        let last = self.last_acked.map_or(0, BatchId::get);
        BatchId::new(last + 1).expect("one more than a batch id or 0 is positive")
    }
}

/// Judges `call` against `state` at `now`. Pure: the engine loads the state under its lock and stores what is returned.
///
/// # Panics
/// When the table says that the situation cannot arise, which is a bug.
pub fn step(state: &SlotState, call: &Call<'_>, now: Timestamp) -> Step {
    let action = state.classify(call).action(state.phase(now));
    let unchanged = |outcome| Step { outcome, next: None };
    let refused = |refusal| unchanged(Outcome::Refused(refusal));
    let changed = |outcome, next| Step { outcome, next: Some(next) };

    match (action, *call) {
        (Action::Grant, Call::Claim(claimant)) => {
            changed(Outcome::Granted(GrantOrigin::Fresh), state.grant(&claimant, now))
        }
        (Action::TakeOver | Action::Inherit, Call::Claim(claimant)) => {
            let mut next = state.grant(&claimant, now);
            let batch = next.batch.as_mut().expect("an open or orphan slot has a batch");
            batch.deliveries += 1;
            let origin = match (action, state.epoch) {
                (Action::TakeOver, Some(from)) => {
                    batch.crashes += 1;
                    GrantOrigin::TakeOver { from }
                }
                _ => GrantOrigin::Inherited,
            };
            changed(Outcome::Granted(origin), next)
        }
        (Action::Isolate, Call::Claim(claimant @ Claimant { suspect: Some(through), .. })) => {
            let from = state.epoch.expect("a slot with an owner has an epoch");
            let mut next = state.grant(&claimant, now);
            let batch = next.batch.as_mut().expect("an open slot has a batch");
            next.isolated = Some(batch.through);
            let deliveries = batch.deliveries + 1;
            *batch = OpenBatch { through, size: 1, deliveries, crashes: 0, plain: false, alone: true, ..*batch };
            changed(Outcome::Granted(GrantOrigin::TakeOver { from }), next)
        }
        (Action::Convict, Call::Claim(claimant)) => {
            let from = state.epoch.expect("a slot with an owner has an epoch");
            let next = state.closed().grant(&claimant, now);
            changed(Outcome::Granted(GrantOrigin::Convicted { from }), next)
        }
        (Action::StoredGrant, _) => unchanged(Outcome::Granted(GrantOrigin::Stored)),
        (Action::NotGranted, _) => unchanged(Outcome::NotGranted),
        (Action::OpenBatch, Call::Receive { found: Found::Messages { through, size, plain }, .. }) => {
            let batch = OpenBatch {
                id: state.next_batch(),
                through,
                size,
                deliveries: 1,
                crashes: 0,
                plain,
                alone: state.isolated.is_some(),
            };
            let mut next = SlotState { batch: Some(batch), ..state.clone() };
            next.extend(now, true);
            changed(Outcome::Opened(batch), next)
        }
        (Action::Reissue, _) => {
            let batch = state.batch.expect("an open slot has a batch");
            let mut next = state.clone();
            let renewed = next.extend(now, true);
            Step { outcome: Outcome::Reissued(batch), next: renewed.then_some(next) }
        }
        (Action::Nothing, _) => unchanged(Outcome::Nothing),
        (Action::Skip, Call::Receive { found: Found::Skipped(through), .. }) => {
            let isolated = state.isolated.filter(|end| *end > through);
            changed(Outcome::Skipped, SlotState { cursor: through, isolated, ..state.clone() })
        }
        (Action::CloseBatch, _) => {
            let size = state.batch.map_or(0, |batch| batch.size);
            let mut next = state.closed();
            next.extend(now, true);
            changed(Outcome::Acked(size), next)
        }
        (Action::Shrink, Call::AckThrough { part: Part::First { through, acked }, .. }) => {
            let mut next = SlotState { cursor: through, ..state.clone() };
            let batch = next.batch.as_mut().expect("an open slot has a batch");
            batch.size -= acked;
            next.extend(now, true);
            changed(Outcome::Acked(acked), next)
        }
        (Action::Dispose, Call::Dispose { fresh: Some(fresh), .. }) => {
            let mut next = state.clone();
            let batch = next.batch.as_mut().expect("an open slot has a batch");
            (batch.size, batch.plain) = (batch.size - fresh, false);
            next.extend(now, true);
            changed(Outcome::Disposed, next)
        }
        (Action::AlreadyAcked, _) => unchanged(Outcome::Acked(0)),
        (Action::Extend, _) => {
            let mut next = state.clone();
            next.extend(now, false);
            changed(Outcome::Renewed, next)
        }
        (Action::Lost, _) => unchanged(Outcome::Lost),
        (Action::Free | Action::Orphan, _) => changed(Outcome::Released, state.without_owner()),
        (Action::Guarded, _) => unchanged(Outcome::Guarded),
        (Action::ForceOut, Call::ForceRelease { epoch }) => {
            changed(Outcome::Released, SlotState { epoch: Some(epoch), ..state.without_owner() })
        }
        (Action::NotHeld, _) => unchanged(Outcome::NotHeld),
        (Action::Drop, _) => unchanged(Outcome::Dropped),
        (
            Action::RefuseFenced,
            Call::Receive { epoch, .. }
            | Call::Ack { epoch, .. }
            | Call::AckThrough { epoch, .. }
            | Call::Dispose { epoch, .. }
            | Call::Guard { epoch },
        ) => refused(Refusal::Fenced { presented: epoch, current: state.owner.as_ref().and(state.epoch) }),
        (Action::RefuseOpenBatch, _) => {
            refused(Refusal::OpenBatch(state.batch.expect("an open or orphan slot has a batch").id))
        }
        (
            Action::RefuseOtherBatch,
            Call::Ack { batch, .. } | Call::AckThrough { batch, .. } | Call::Dispose { batch, .. },
        ) => refused(Refusal::OtherBatch { presented: batch, open: state.batch.map(|open| open.id) }),
        (Action::RefuseForeign, Call::AckThrough { batch, message, .. } | Call::Dispose { batch, message, .. }) => {
            refused(Refusal::Foreign { batch, message })
        }
        (Action::RefuseLive, _) => refused(Refusal::Live),
        (action, call) => unreachable!("the table has {action:?} for {call:?}, which it cannot answer"),
    }
}
