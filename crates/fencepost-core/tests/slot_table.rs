//! The slot's transition table, proved. The contract is written down here once more, independently of `slot::TABLE`, and every
//! state × call is judged by both: the answer and every field of the next state. Only the last check of the enumeration reads
//! `slot::TABLE`, to show that no cell is dead and no impossible one is reached.

use std::collections::HashSet;
use std::time::Duration;

use fencepost_core::slot::{
    Action, Call, Claimant, Event, Found, GrantOrigin, OpenBatch, Outcome, Owner, Phase, Refusal, SlotState, Step,
    TABLE, step,
};
use fencepost_core::{BatchId, ConsumerPath, Epoch, Kind, Nonce, Position, SlotIndex, Timestamp, Ttl, WorkerName};

/// The columns of the contract's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Free,
    HeldLive,
    HeldExpired,
    OpenLive,
    OpenExpired,
    Orphan,
}

/// The rows of the contract's table, with what the cells say in words told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Row {
    Claim,
    ClaimSameNonce,
    ReceiveOwnMessages,
    ReceiveOwnNone,
    AckOwnThis,
    AckOwnLast,
    AckOwnOther,
    RenewOwn,
    ReleaseOwn,
    AbandonOwn,
    ReceiveOrAckNotOwn,
    RenewNotOwn,
    ReleaseOrAbandonNotOwn,
    DropConsumer,
    DropConsumerForce,
    GuardOwn,
    GuardNotOwn,
    ForceRelease,
}

/// What a cell of the contract's table promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// The contract has a dash here, or the row cannot meet the column.
    Never,
    /// held, new epoch
    HeldNewEpoch,
    /// open, new epoch, deliveries + 1, crashes + 1
    OpenNewEpochCrashed,
    /// open, new epoch, deliveries + 1
    OpenNewEpoch,
    /// the stored grant
    TheStoredGrant,
    /// none
    NoneGranted,
    /// messages: open, new batch, deliveries 1
    OpenNewBatch,
    /// the same batch again
    SameBatchAgain,
    /// none: held, nothing written
    NothingWritten,
    /// held, cursor past exactly the batch
    HeldCursorPast,
    /// 0, no change
    Zero,
    /// `conflict`, another batch
    ConflictOtherBatch,
    /// true
    True,
    /// false
    False,
    /// free, Released
    FreeReleased,
    /// orphan, old epoch void at once
    OrphanReleased,
    /// error `open_batch`, nothing changes
    ErrorOpenBatch,
    /// `fenced` with presented and current epoch
    ErrorFenced,
    /// NotHeld
    NotHeld,
    /// dropped
    Dropped,
    /// `conflict` without force
    ConflictLive,
    /// ok
    Ok,
    /// free, epoch bumped; with a batch: orphan, epoch bumped
    EpochBumped,
}

#[rustfmt::skip]
const CONTRACT: [(Row, [Then; 6]); 18] = {
    use Then::*;
    [
    //                             free          held, live          held, expired       open, live          open, expired        orphan
    (Row::Claim,                  [HeldNewEpoch, NoneGranted,        HeldNewEpoch,       NoneGranted,        OpenNewEpochCrashed, OpenNewEpoch]),
    (Row::ClaimSameNonce,         [Never,        TheStoredGrant,     HeldNewEpoch,       TheStoredGrant,     OpenNewEpochCrashed, Never]),
    (Row::ReceiveOwnMessages,     [Never,        OpenNewBatch,       OpenNewBatch,       SameBatchAgain,     SameBatchAgain,      Never]),
    (Row::ReceiveOwnNone,         [Never,        NothingWritten,     NothingWritten,     SameBatchAgain,     SameBatchAgain,      Never]),
    (Row::AckOwnThis,             [Never,        Never,              Never,              HeldCursorPast,     HeldCursorPast,      Never]),
    (Row::AckOwnLast,             [Never,        Zero,               Zero,               Zero,               Zero,                Never]),
    (Row::AckOwnOther,            [Never,        ConflictOtherBatch, ConflictOtherBatch, ConflictOtherBatch, ConflictOtherBatch,  Never]),
    (Row::RenewOwn,               [Never,        True,               True,               True,               True,                Never]),
    (Row::ReleaseOwn,             [Never,        FreeReleased,       FreeReleased,       ErrorOpenBatch,     ErrorOpenBatch,      Never]),
    (Row::AbandonOwn,             [Never,        FreeReleased,       FreeReleased,       OrphanReleased,     OrphanReleased,      Never]),
    (Row::ReceiveOrAckNotOwn,     [ErrorFenced,  ErrorFenced,        ErrorFenced,        ErrorFenced,        ErrorFenced,         ErrorFenced]),
    (Row::RenewNotOwn,            [False,        False,              False,              False,              False,               False]),
    (Row::ReleaseOrAbandonNotOwn, [NotHeld,      NotHeld,            NotHeld,            NotHeld,            NotHeld,             NotHeld]),
    (Row::DropConsumer,           [Dropped,      ConflictLive,       Dropped,            ErrorOpenBatch,     ErrorOpenBatch,      ErrorOpenBatch]),
    (Row::DropConsumerForce,      [Dropped,      Dropped,            Dropped,            Dropped,            Dropped,             Dropped]),
    (Row::GuardOwn,               [Never,        Ok,                 Ok,                 Ok,                 Ok,                  Never]),
    (Row::GuardNotOwn,            [ErrorFenced,  ErrorFenced,        ErrorFenced,        ErrorFenced,        ErrorFenced,         ErrorFenced]),
    (Row::ForceRelease,           [EpochBumped,  EpochBumped,        EpochBumped,        EpochBumped,        EpochBumped,         EpochBumped]),
    ]
};

const EXPIRY: i64 = 1_767_225_600_000_000;
const TTL_MICROS: i64 = 10_000_000;

/// Microseconds from the expiry; whether a grant of 10 s is live there; whether half of it has passed.
const INSTANTS: [(i64, bool, bool); 8] = [
    (-TTL_MICROS, true, false),
    (-5_000_001, true, false),
    (-5_000_000, true, false),
    (-4_999_999, true, true),
    (-1, true, true),
    (0, false, true),
    (1, false, true),
    (3_600_000_000, false, true),
];

const OWN: i64 = 700;
const STALE: i64 = 699;
const FUTURE: i64 = 701;
const NEXT: i64 = 800;

const OPEN: i64 = 5;
const LAST: i64 = 4;
const OTHER: i64 = 9;

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn epoch(number: i64) -> Epoch {
    Epoch::new(number).unwrap()
}

fn batch(number: i64) -> BatchId {
    BatchId::new(number).unwrap()
}

fn position(number: i64) -> Position {
    Position::from_storage(number)
}

fn ttl(micros: i64) -> Ttl {
    Ttl::from_micros(micros).unwrap()
}

fn nonce(text: &str) -> Nonce {
    Nonce::new(text).unwrap()
}

fn worker(text: &str) -> WorkerName {
    WorkerName::new(text).unwrap()
}

/// One state at one instant, with the column that it belongs to by construction.
#[derive(Debug, Clone)]
struct Situation {
    column: Column,
    past_half: bool,
    state: SlotState,
    now: Timestamp,
}

/// Every shape of a stored state at every instant that a grant tells apart.
fn situations() -> Vec<Situation> {
    let mut all = Vec::new();
    let batches = [None, Some((1, 0)), Some((3, 1))].map(|counts| {
        counts.map(|(deliveries, crashes)| OpenBatch {
            id: batch(OPEN),
            through: position(60),
            size: 7,
            deliveries,
            crashes,
        })
    });
    for open in batches {
        for last_acked in [None, Some(batch(LAST))] {
            for granted in [None, Some(epoch(OWN))] {
                let column = if open.is_some() { Column::Orphan } else { Column::Free };
                let state = SlotState { cursor: position(50), epoch: granted, owner: None, batch: open, last_acked };
                all.push(Situation { column, past_half: false, state, now: at(EXPIRY) });
            }
            for granted_to in [None, Some(nonce("own"))] {
                for (offset, live, past_half) in INSTANTS {
                    let column = match (open.is_some(), live) {
                        (false, true) => Column::HeldLive,
                        (false, false) => Column::HeldExpired,
                        (true, true) => Column::OpenLive,
                        (true, false) => Column::OpenExpired,
                    };
                    let owner = Owner {
                        worker: worker("owner"),
                        nonce: granted_to.clone(),
                        ttl: ttl(TTL_MICROS),
                        expires_at: at(EXPIRY),
                    };
                    let state = SlotState {
                        cursor: position(50),
                        epoch: Some(epoch(OWN)),
                        owner: Some(owner),
                        batch: open,
                        last_acked,
                    };
                    all.push(Situation { column, past_half, state, now: at(EXPIRY + offset) });
                }
            }
        }
    }
    all
}

/// The names and nonces that calls borrow.
struct Claimants {
    worker: WorkerName,
    nonces: [Option<Nonce>; 3],
}

impl Claimants {
    fn new() -> Self {
        Self { worker: worker("claimant"), nonces: [None, Some(nonce("own")), Some(nonce("another"))] }
    }

    /// Every call with every argument that could make a difference, and the row that it belongs to in `situation`.
    fn calls(&self, situation: &Situation) -> Vec<(Row, Call<'_>)> {
        let owner = situation.state.owner.as_ref();
        let open = owner.is_some() && situation.state.batch.is_some();
        let mut calls = Vec::new();

        for claimed in &self.nonces {
            let same = claimed.is_some() && owner.is_some_and(|owner| owner.nonce == *claimed);
            let claimant =
                Claimant { worker: &self.worker, nonce: claimed.as_ref(), ttl: ttl(2_000_000), epoch: epoch(NEXT) };
            calls.push((if same { Row::ClaimSameNonce } else { Row::Claim }, Call::Claim(claimant)));
        }
        for presented in [OWN, STALE, FUTURE] {
            let own = owner.is_some() && presented == OWN;
            let row = |row, not_own| if own { row } else { not_own };
            let epoch = epoch(presented);

            let waiting = Some(Found { through: position(55), size: 3 });
            for (found, when_own) in [(waiting, Row::ReceiveOwnMessages), (None, Row::ReceiveOwnNone)] {
                calls.push((row(when_own, Row::ReceiveOrAckNotOwn), Call::Receive { epoch, found }));
            }
            for acked in [OPEN, LAST, OTHER] {
                let when_own = match acked {
                    OPEN if open => Row::AckOwnThis,
                    LAST if situation.state.last_acked.is_some() => Row::AckOwnLast,
                    _ => Row::AckOwnOther,
                };
                calls.push((row(when_own, Row::ReceiveOrAckNotOwn), Call::Ack { epoch, batch: batch(acked) }));
            }
            calls.push((row(Row::RenewOwn, Row::RenewNotOwn), Call::Renew { epoch }));
            calls.push((row(Row::ReleaseOwn, Row::ReleaseOrAbandonNotOwn), Call::Release { epoch }));
            calls.push((row(Row::AbandonOwn, Row::ReleaseOrAbandonNotOwn), Call::Abandon { epoch }));
            calls.push((row(Row::GuardOwn, Row::GuardNotOwn), Call::Guard { epoch }));
        }
        calls.push((Row::ForceRelease, Call::ForceRelease { epoch: epoch(NEXT) }));
        calls.push((Row::DropConsumer, Call::Drop { force: false }));
        calls.push((Row::DropConsumerForce, Call::Drop { force: true }));
        calls
    }
}

fn contract(row: Row, column: Column) -> Then {
    CONTRACT.iter().find(|(known, _)| *known == row).unwrap().1[column as usize]
}

/// The step that the contract promises, field by field.
fn promised(then: Then, situation: &Situation, call: &Call<'_>) -> Step {
    let before = &situation.state;
    let owner = before.owner.as_ref();
    let step = |outcome, next| Step { outcome, next };

    let owned_by_claimant = |batch: Option<OpenBatch>| {
        let Call::Claim(claimant) = call else { panic!("{call:?} is no claim") };
        Some(SlotState {
            cursor: before.cursor,
            epoch: Some(epoch(NEXT)),
            owner: Some(Owner {
                worker: worker("claimant"),
                nonce: claimant.nonce.cloned(),
                ttl: ttl(2_000_000),
                expires_at: situation.now + Duration::from_secs(2),
            }),
            batch,
            last_acked: before.last_acked,
        })
    };
    let renewed = || owner.map(|owner| Owner { expires_at: situation.now + owner.ttl.get(), ..owner.clone() });
    let renewed_past_half = || if situation.past_half { renewed() } else { owner.cloned() };

    match then {
        Then::Never => panic!("the contract has no such case"),
        Then::HeldNewEpoch => step(Outcome::Granted(GrantOrigin::Fresh), owned_by_claimant(None)),
        Then::OpenNewEpochCrashed => {
            let open = before.batch.unwrap();
            let next = OpenBatch { deliveries: open.deliveries + 1, crashes: open.crashes + 1, ..open };
            let origin = GrantOrigin::TakeOver { from: epoch(OWN) };
            step(Outcome::Granted(origin), owned_by_claimant(Some(next)))
        }
        Then::OpenNewEpoch => {
            let open = before.batch.unwrap();
            let next = OpenBatch { deliveries: open.deliveries + 1, ..open };
            step(Outcome::Granted(GrantOrigin::Inherited), owned_by_claimant(Some(next)))
        }
        Then::TheStoredGrant => step(Outcome::Granted(GrantOrigin::Stored), None),
        Then::NoneGranted => step(Outcome::NotGranted, None),
        Then::OpenNewBatch => {
            let id = batch(if before.last_acked.is_some() { LAST + 1 } else { 1 });
            let opened = OpenBatch { id, through: position(55), size: 3, deliveries: 1, crashes: 0 };
            let next = SlotState { owner: renewed_past_half(), batch: Some(opened), ..before.clone() };
            step(Outcome::Opened(opened), Some(next))
        }
        Then::SameBatchAgain => {
            let next = SlotState { owner: renewed_past_half(), ..before.clone() };
            step(Outcome::Reissued(before.batch.unwrap()), situation.past_half.then_some(next))
        }
        Then::NothingWritten => step(Outcome::Nothing, None),
        Then::HeldCursorPast => {
            let next = SlotState {
                cursor: position(60),
                epoch: Some(epoch(OWN)),
                owner: renewed_past_half(),
                batch: None,
                last_acked: Some(batch(OPEN)),
            };
            step(Outcome::Acked(7), Some(next))
        }
        Then::Zero => step(Outcome::Acked(0), None),
        Then::ConflictOtherBatch => {
            let Call::Ack { batch: presented, .. } = *call else { panic!("{call:?} is no ack") };
            let open = before.batch.is_some().then(|| batch(OPEN));
            step(Outcome::Refused(Refusal::OtherBatch { presented, open }), None)
        }
        Then::True => step(Outcome::Renewed, Some(SlotState { owner: renewed(), ..before.clone() })),
        Then::False => step(Outcome::Lost, None),
        Then::FreeReleased => {
            assert_eq!(before.batch, None, "a slot with a batch does not become free");
            step(Outcome::Released, Some(SlotState { owner: None, ..before.clone() }))
        }
        Then::OrphanReleased => {
            assert!(before.batch.is_some(), "an orphan has a batch");
            step(Outcome::Released, Some(SlotState { owner: None, ..before.clone() }))
        }
        Then::ErrorOpenBatch => step(Outcome::Refused(Refusal::OpenBatch(batch(OPEN))), None),
        Then::ErrorFenced => {
            let (Call::Receive { epoch: presented, .. }
            | Call::Ack { epoch: presented, .. }
            | Call::Guard { epoch: presented }) = *call
            else {
                panic!("{call:?} is not fenced by an error")
            };
            let current = owner.map(|_| epoch(OWN));
            step(Outcome::Refused(Refusal::Fenced { presented, current }), None)
        }
        Then::NotHeld => step(Outcome::NotHeld, None),
        Then::Dropped => step(Outcome::Dropped, None),
        Then::Ok => step(Outcome::Guarded, None),
        Then::EpochBumped => {
            let next = SlotState { epoch: Some(epoch(NEXT)), owner: None, ..before.clone() };
            step(Outcome::Released, Some(next))
        }
        Then::ConflictLive => step(Outcome::Refused(Refusal::Live), None),
    }
}

#[test]
fn every_call_in_every_state_does_what_the_contract_says_and_nothing_else() {
    let claimants = Claimants::new();
    let mut reached: HashSet<(Event, Phase)> = HashSet::new();
    let mut judged = 0;

    for situation in situations() {
        for (row, call) in claimants.calls(&situation) {
            let then = contract(row, situation.column);
            let found = step(&situation.state, &call, situation.now);
            assert_eq!(found, promised(then, &situation, &call), "{row:?} in {situation:?} with {call:?}");
            reached.insert((situation.state.classify(&call), situation.state.phase(situation.now)));
            judged += 1;
        }
    }

    let possible: HashSet<(Event, Phase)> = TABLE
        .iter()
        .flat_map(|(event, actions)| {
            Phase::ALL.into_iter().zip(actions).map(move |(phase, action)| (*event, phase, action))
        })
        .filter(|(.., action)| **action != Action::Impossible)
        .map(|(event, phase, _)| (event, phase))
        .collect();
    assert_eq!(reached, possible, "a cell of the table is dead, or an impossible one was reached");
    assert_eq!(judged, 108 * 33, "the product lost or gained a dimension: 108 situations, 33 calls each");
}

#[test]
fn renewal_past_half_of_an_odd_ttl_is_exact_to_the_microsecond() {
    for (left, renews) in [(50_002, false), (50_001, false), (50_000, true), (49_999, true), (0, true)] {
        let odd = ttl(100_001);
        let owner = Owner { worker: worker("owner"), nonce: None, ttl: odd, expires_at: at(EXPIRY) };
        let state = SlotState { epoch: Some(epoch(OWN)), owner: Some(owner), ..SlotState::new(Position::START) };
        let found = Some(Found { through: position(1), size: 1 });
        let now = at(EXPIRY - left);
        let next = step(&state, &Call::Receive { epoch: epoch(OWN), found }, now).next.unwrap();
        let expected = if renews { now + odd.get() } else { at(EXPIRY) };
        assert_eq!(next.owner.unwrap().expires_at, expected, "{left} µs before the expiry");
    }
}

/// A long pseudo-random life of one slot: what is reachable is what the enumeration covers, and numbers only rise.
#[test]
fn a_long_life_of_a_slot_keeps_its_invariants() {
    let (first, second) = (nonce("own"), worker("claimant"));
    let mut dice = 0x9e37_79b9_7f4a_7c15_u64;
    let mut roll = |sides: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % sides
    };
    let mut state = SlotState::new(Position::START);
    let (mut now, mut counter) = (at(EXPIRY), 0);
    let mut columns = HashSet::new();

    for _ in 0..50_000 {
        now = now + Duration::from_micros([0, 1, 1_000_001, 2_000_000][roll(4) as usize]);
        let next_epoch = Epoch::next(counter, state.epoch, at(0)).unwrap();
        let presented = if roll(5) == 0 { epoch(1) } else { state.epoch.unwrap_or(next_epoch) };
        let acked = state.batch.map(|open| open.id).or(state.last_acked).unwrap_or(batch(1));
        let found = Some(Found { through: position(state.cursor.to_storage() + 1 + roll(9) as i64), size: 1 });
        let call = match roll(8) {
            0 | 1 => Call::Claim(Claimant {
                worker: &second,
                nonce: (roll(2) == 0).then_some(&first),
                ttl: ttl(2_000_000),
                epoch: next_epoch,
            }),
            2 => Call::Receive { epoch: presented, found },
            3 => Call::Receive { epoch: presented, found: None },
            4 => Call::Ack { epoch: presented, batch: acked },
            5 => Call::Renew { epoch: presented },
            6 => Call::Release { epoch: presented },
            _ => Call::Abandon { epoch: presented },
        };
        columns.insert(state.phase(now));
        let Step { outcome, next } = step(&state, &call, now);
        if matches!(outcome, Outcome::Refused(_) | Outcome::Lost | Outcome::NotHeld | Outcome::NotGranted) {
            assert_eq!(next, None, "{outcome:?} of {call:?} changed {state:?}");
        }
        let Some(next) = next else { continue };
        assert!(next.cursor >= state.cursor && next.last_acked >= state.last_acked && next.epoch >= state.epoch);
        assert!(next.owner.is_none() || next.epoch.is_some(), "an owner without an epoch: {next:?}");
        if let Some(open) = next.batch {
            assert!(open.through > next.cursor && Some(open.id) > next.last_acked, "nothing to ack: {next:?}");
            assert!(open.crashes < open.deliveries, "a batch crashed more often than it was delivered: {next:?}");
        }
        counter = next.epoch.map_or(counter, |epoch| counter.max(epoch.get()));
        state = next;
    }
    assert_eq!(columns.len(), Phase::ALL.len(), "the life did not visit every state");
}

#[test]
fn a_refusal_becomes_the_error_of_the_contract() {
    let path = ConsumerPath::new("orders", "billing").unwrap();
    let slot = SlotIndex::new(3).unwrap();
    let fenced = |current| Refusal::Fenced { presented: epoch(STALE), current };
    let other = |open| Refusal::OtherBatch { presented: batch(OTHER), open };
    let expectations = [
        (fenced(Some(epoch(OWN))), Kind::Fenced, vec![("presented_epoch", "699"), ("current_epoch", "700")]),
        (fenced(None), Kind::Fenced, vec![("presented_epoch", "699"), ("current_epoch", "none")]),
        (Refusal::OpenBatch(batch(OPEN)), Kind::OpenBatch, vec![("batch_id", "5")]),
        (other(Some(batch(OPEN))), Kind::Conflict, vec![("batch_id", "9"), ("open_batch_id", "5")]),
        (other(None), Kind::Conflict, vec![("batch_id", "9"), ("open_batch_id", "none")]),
        (Refusal::Live, Kind::Conflict, vec![]),
    ];
    for (refusal, kind, mut facts) in expectations {
        facts.extend([("consumer", "orders/billing"), ("slot", "3")]);
        let error = refusal.into_error("ack", &path, slot);
        assert_eq!((error.kind(), error.operation()), (kind, Some("ack")), "{refusal:?}");
        assert_eq!(error.context().collect::<Vec<_>>(), facts, "{refusal:?}");
        assert!(error.hint().is_some(), "{refusal:?}");
    }
}
