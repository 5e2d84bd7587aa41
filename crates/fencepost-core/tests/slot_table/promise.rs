//! The step that the contract promises for a cell, field by field.

use std::time::Duration;

use fencepost_core::slot::{Call, Found, GrantOrigin, OpenBatch, Outcome, Owner, Part, Refusal, SlotState, Step};

use crate::contract::Then;
use crate::situation::{
    CURSOR, ISOLATED, LAST, NEXT, OPEN, OWN, Situation, THROUGH, WITHIN, batch, epoch, position, ttl, worker,
};

/// The claimant owns the slot by the next epoch; all else is as `before`.
fn claimed(before: &SlotState, situation: &Situation, call: &Call<'_>) -> SlotState {
    let Call::Claim(claimant) = call else { panic!("{call:?} is no claim") };
    let owner = Owner {
        worker: worker("claimant"),
        nonce: claimant.nonce.cloned(),
        ttl: ttl(2_000_000),
        expires_at: situation.now + Duration::from_secs(2),
    };
    SlotState { epoch: Some(epoch(NEXT)), owner: Some(owner), ..before.clone() }
}

pub fn promised(then: Then, situation: &Situation, call: &Call<'_>) -> Step {
    let before = &situation.state;
    let owner = before.owner.as_ref();
    let answer = |outcome| Step { outcome, next: None };
    let change = |outcome, next| Step { outcome, next: Some(next) };
    let renewed = || owner.map(|owner| Owner { expires_at: situation.now + owner.ttl.get(), ..owner.clone() });
    let renewed_past_half = || if situation.past_half { renewed() } else { owner.cloned() };
    let taken_over = GrantOrigin::TakeOver { from: epoch(OWN) };
    let finished =
        SlotState { cursor: position(THROUGH), batch: None, last_acked: Some(batch(OPEN)), ..before.clone() };

    match then {
        Then::Never => panic!("the contract has no such case"),
        Then::HeldNewEpoch => {
            assert_eq!(before.batch, None, "a slot with a batch does not become held");
            change(Outcome::Granted(GrantOrigin::Fresh), claimed(before, situation, call))
        }
        Then::OpenNewEpochCrashed => {
            let open = before.batch.unwrap();
            let next = OpenBatch { deliveries: open.deliveries + 1, crashes: open.crashes + 1, ..open };
            let next = SlotState { batch: Some(next), ..claimed(before, situation, call) };
            change(Outcome::Granted(taken_over), next)
        }
        Then::OpenNewEpoch => {
            let open = before.batch.unwrap();
            let next = OpenBatch { deliveries: open.deliveries + 1, ..open };
            let next = SlotState { batch: Some(next), ..claimed(before, situation, call) };
            change(Outcome::Granted(GrantOrigin::Inherited), next)
        }
        Then::OpenNewEpochCut => {
            let cut = OpenBatch {
                id: batch(OPEN),
                through: position(WITHIN),
                size: 1,
                deliveries: before.batch.unwrap().deliveries + 1,
                crashes: 0,
                plain: false,
                alone: true,
            };
            let isolated = Some(position(THROUGH));
            let next = SlotState { batch: Some(cut), isolated, ..claimed(before, situation, call) };
            change(Outcome::Granted(taken_over), next)
        }
        Then::HeldNewEpochDead => {
            let origin = GrantOrigin::Convicted { from: epoch(OWN) };
            change(Outcome::Granted(origin), claimed(&finished, situation, call))
        }
        Then::TheStoredGrant => answer(Outcome::Granted(GrantOrigin::Stored)),
        Then::NoneGranted => answer(Outcome::NotGranted),
        Then::OpenNewBatch => {
            let Call::Receive { found: Found::Messages { size, plain, .. }, .. } = *call else {
                panic!("{call:?} found no messages")
            };
            let id = batch(if before.last_acked.is_some() { LAST + 1 } else { 1 });
            let alone = before.isolated.is_some();
            let opened = OpenBatch { id, through: position(55), size, deliveries: 1, crashes: 0, plain, alone };
            let next = SlotState { owner: renewed_past_half(), batch: Some(opened), ..before.clone() };
            change(Outcome::Opened(opened), next)
        }
        Then::SameBatchAgain => {
            let next = SlotState { owner: renewed_past_half(), ..before.clone() };
            Step { outcome: Outcome::Reissued(before.batch.unwrap()), next: situation.past_half.then_some(next) }
        }
        Then::NothingWritten => answer(Outcome::Nothing),
        Then::CursorPastSkipped => {
            let Call::Receive { found: Found::Skipped(through), .. } = *call else { panic!("{call:?} skips nothing") };
            assert!(through > position(CURSOR));
            let isolated = before.isolated.filter(|_| through != position(ISOLATED));
            change(Outcome::Skipped, SlotState { cursor: through, isolated, ..before.clone() })
        }
        Then::HeldCursorPast => {
            let acked = before.batch.unwrap().size;
            change(Outcome::Acked(acked), SlotState { owner: renewed_past_half(), ..finished })
        }
        Then::RestStaysOpen => {
            let Call::AckThrough { part: Part::First { acked, .. }, .. } = *call else { panic!("{call:?} is no part") };
            let open = before.batch.unwrap();
            let rest = OpenBatch { size: open.size - acked, ..open };
            let (cursor, owner) = (position(WITHIN), renewed_past_half());
            change(Outcome::Acked(acked), SlotState { cursor, owner, batch: Some(rest), ..before.clone() })
        }
        Then::Zero => answer(Outcome::Acked(0)),
        Then::DispositionRecorded => {
            let Call::Dispose { fresh: Some(fresh), .. } = *call else { panic!("{call:?} disposes of nothing") };
            let open = before.batch.unwrap();
            let left = OpenBatch { size: open.size - fresh, plain: false, ..open };
            let next = SlotState { owner: renewed_past_half(), batch: Some(left), ..before.clone() };
            change(Outcome::Disposed, next)
        }
        Then::ConflictOtherBatch => {
            let (Call::Ack { batch: presented, .. }
            | Call::AckThrough { batch: presented, .. }
            | Call::Dispose { batch: presented, .. }) = *call
            else {
                panic!("{call:?} names no batch")
            };
            let open = before.batch.is_some().then(|| batch(OPEN));
            answer(Outcome::Refused(Refusal::OtherBatch { presented, open }))
        }
        Then::NotFoundInBatch => {
            let (Call::AckThrough { message, .. } | Call::Dispose { message, .. }) = *call else {
                panic!("{call:?} names no message")
            };
            answer(Outcome::Refused(Refusal::Foreign { batch: batch(OPEN), message }))
        }
        Then::True => change(Outcome::Renewed, SlotState { owner: renewed(), ..before.clone() }),
        Then::False => answer(Outcome::Lost),
        Then::FreeReleased => {
            assert_eq!(before.batch, None, "a slot with a batch does not become free");
            change(Outcome::Released, SlotState { owner: None, ..before.clone() })
        }
        Then::OrphanReleased => {
            assert!(before.batch.is_some(), "an orphan has a batch");
            change(Outcome::Released, SlotState { owner: None, ..before.clone() })
        }
        Then::ErrorOpenBatch => answer(Outcome::Refused(Refusal::OpenBatch(batch(OPEN)))),
        Then::ErrorFenced => {
            let (Call::Receive { epoch: presented, .. }
            | Call::Ack { epoch: presented, .. }
            | Call::AckThrough { epoch: presented, .. }
            | Call::Dispose { epoch: presented, .. }
            | Call::Guard { epoch: presented }) = *call
            else {
                panic!("{call:?} is not fenced by an error")
            };
            let current = owner.map(|_| epoch(OWN));
            answer(Outcome::Refused(Refusal::Fenced { presented, current }))
        }
        Then::NotHeld => answer(Outcome::NotHeld),
        Then::Dropped => answer(Outcome::Dropped),
        Then::Ok => answer(Outcome::Guarded),
        Then::EpochBumped => {
            let next = SlotState { epoch: Some(epoch(NEXT)), owner: None, ..before.clone() };
            change(Outcome::Released, next)
        }
        Then::ConflictLive => answer(Outcome::Refused(Refusal::Live)),
    }
}
