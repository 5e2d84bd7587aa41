//! Every shape of a stored state at every instant that a grant tells apart, and every call with every argument that could make a
//! difference there.

use fencepost_core::slot::{Call, Claimant, Found, OpenBatch, Owner, Part, SlotState};
use fencepost_core::{BatchId, Epoch, MessageId, Nonce, Position, Timestamp, Ttl, WorkerName};

use crate::contract::{Column, Row};

pub const EXPIRY: i64 = 1_767_225_600_000_000;
pub const TTL_MICROS: i64 = 10_000_000;

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

pub const OWN: i64 = 700;
pub const STALE: i64 = 699;
const FUTURE: i64 = 701;
pub const NEXT: i64 = 800;

pub const OPEN: i64 = 5;
pub const LAST: i64 = 4;
pub const OTHER: i64 = 9;

/// The cursor, a message of the open batch before its last, the last message of it, and the end of an isolation.
pub const CURSOR: i64 = 50;
pub const WITHIN: i64 = 53;
pub const THROUGH: i64 = 60;
pub const ISOLATED: i64 = 80;

/// How many owners may lose a batch, in the policies that claims are judged by.
const MAX_CRASHES: [u32; 3] = [1, 2, 5];

pub fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

pub fn epoch(number: i64) -> Epoch {
    Epoch::new(number).unwrap()
}

pub fn batch(number: i64) -> BatchId {
    BatchId::new(number).unwrap()
}

pub fn message(number: i64) -> MessageId {
    MessageId::new(number).unwrap()
}

pub fn position(number: i64) -> Position {
    Position::from_storage(number)
}

pub fn ttl(micros: i64) -> Ttl {
    Ttl::from_micros(micros).unwrap()
}

pub fn nonce(text: &str) -> Nonce {
    Nonce::new(text).unwrap()
}

pub fn worker(text: &str) -> WorkerName {
    WorkerName::new(text).unwrap()
}

/// One state at one instant, with the column that it belongs to by construction.
#[derive(Debug, Clone)]
pub struct Situation {
    pub column: Column,
    pub past_half: bool,
    pub state: SlotState,
    pub now: Timestamp,
}

/// The open batches there can be, each with the end of the isolation that it is part of. A batch is of one suspected message exactly
/// while the slot is isolated.
fn batches() -> Vec<(Option<OpenBatch>, Option<Position>)> {
    let (id, through, isolated) = (batch(OPEN), position(THROUGH), Some(position(ISOLATED)));
    let plain = OpenBatch { id, through, size: 7, deliveries: 1, crashes: 0, plain: true, alone: false };
    let taken_over = OpenBatch { deliveries: 3, crashes: 1, size: 4, plain: false, ..plain };
    let alone = OpenBatch { size: 1, plain: false, alone: true, ..plain };
    vec![
        (None, None),
        (None, isolated),
        (Some(plain), None),
        (Some(OpenBatch { deliveries: 5, crashes: 4, ..plain }), None),
        (Some(taken_over), None),
        (Some(OpenBatch { size: 0, ..taken_over }), None),
        (Some(alone), isolated),
        (Some(OpenBatch { deliveries: 7, crashes: 1, ..alone }), isolated),
        (Some(OpenBatch { size: 0, crashes: 1, deliveries: 2, ..alone }), isolated),
    ]
}

pub fn situations() -> Vec<Situation> {
    let mut all = Vec::new();
    for (open, isolated) in batches() {
        for last_acked in [None, Some(batch(LAST))] {
            let state = |granted, owner| SlotState {
                cursor: position(CURSOR),
                epoch: granted,
                owner,
                batch: open,
                last_acked,
                isolated,
            };
            for granted in [None, Some(epoch(OWN))] {
                let column = if open.is_some() { Column::Orphan } else { Column::Free };
                all.push(Situation { column, past_half: false, state: state(granted, None), now: at(EXPIRY) });
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
                    let state = state(Some(epoch(OWN)), Some(owner));
                    all.push(Situation { column, past_half, state, now: at(EXPIRY + offset) });
                }
            }
        }
    }
    all
}

/// Whether a claim finds a suspected message: it is the takeover that reaches the policy's number of crashes, or the second one of a
/// batch of one suspected message. What has a disposition crashed nobody.
pub fn finds_a_suspect(situation: &Situation, max_crashes: u32) -> bool {
    let enough = |open: &OpenBatch| open.crashes + 1 >= if open.alone { 2 } else { max_crashes };
    let suspected = situation.state.batch.is_some_and(|open| open.size > 0 && enough(&open));
    situation.column == Column::OpenExpired && suspected
}

/// The names and nonces that calls borrow.
pub struct Claimants {
    worker: WorkerName,
    nonces: [Option<Nonce>; 3],
}

impl Claimants {
    pub fn new() -> Self {
        Self { worker: worker("claimant"), nonces: [None, Some(nonce("own")), Some(nonce("another"))] }
    }

    /// Every call with every argument that could make a difference, and the row that it belongs to in `situation`.
    pub fn calls(&self, situation: &Situation) -> Vec<(Row, Call<'_>)> {
        let mut calls = self.claims(situation);
        for presented in [OWN, STALE, FUTURE] {
            let own = situation.state.owner.is_some() && presented == OWN;
            let row = |row, not_own| if own { row } else { not_own };
            let epoch = epoch(presented);

            let fenced = receives(situation, epoch).into_iter();
            let fenced = fenced.chain(acks(situation, epoch)).chain(dispositions(situation, epoch));
            calls.extend(fenced.map(|(when_own, call)| (row(when_own, Row::FencedNotOwn), call)));
            calls.push((row(Row::GuardOwn, Row::FencedNotOwn), Call::Guard { epoch }));
            calls.push((row(Row::RenewOwn, Row::RenewNotOwn), Call::Renew { epoch }));
            calls.push((row(Row::ReleaseOwn, Row::ReleaseOrAbandonNotOwn), Call::Release { epoch }));
            calls.push((row(Row::AbandonOwn, Row::ReleaseOrAbandonNotOwn), Call::Abandon { epoch }));
        }
        calls.push((Row::ForceRelease, Call::ForceRelease { epoch: epoch(NEXT) }));
        calls.push((Row::DropConsumer, Call::Drop { force: false }));
        calls.push((Row::DropConsumerForce, Call::Drop { force: true }));
        calls
    }

    /// Claims by every nonce, under every policy.
    fn claims(&self, situation: &Situation) -> Vec<(Row, Call<'_>)> {
        let owner = situation.state.owner.as_ref();
        let mut calls = Vec::new();
        for claimed in &self.nonces {
            for max_crashes in MAX_CRASHES {
                let suspected = finds_a_suspect(situation, max_crashes);
                let suspect = suspected.then(|| position(WITHIN));
                let same = claimed.is_some() && owner.is_some_and(|owner| owner.nonce == *claimed);
                let row = match situation.state.batch {
                    Some(open) if suspected && open.alone => Row::ClaimAfterTwoCrashesAlone,
                    _ if suspected => Row::ClaimReachesMaxCrashes,
                    _ if same => Row::ClaimSameNonce,
                    _ => Row::Claim,
                };
                let (worker, nonce) = (&self.worker, claimed.as_ref());
                let claimant = Claimant { worker, nonce, ttl: ttl(2_000_000), epoch: epoch(NEXT), suspect };
                calls.push((row, Call::Claim(claimant)));
            }
        }
        calls
    }
}

fn receives(situation: &Situation, epoch: Epoch) -> Vec<(Row, Call<'static>)> {
    let none_left = situation.state.batch.is_some_and(|open| open.size == 0);
    let row = |when_waiting| if none_left { Row::ReceiveOwnNoneLeft } else { when_waiting };
    let messages = |size, plain| Found::Messages { through: position(55), size, plain };
    let receive = |when_waiting, found| (row(when_waiting), Call::Receive { epoch, found });
    vec![
        receive(Row::ReceiveOwnMessages, messages(3, true)),
        receive(Row::ReceiveOwnMessages, messages(1, false)),
        receive(Row::ReceiveOwnNone, Found::Nothing),
        receive(Row::ReceiveOwnNoneForIt, Found::Skipped(position(ISOLATED - 1))),
        receive(Row::ReceiveOwnNoneForIt, Found::Skipped(position(ISOLATED))),
    ]
}

fn acks(situation: &Situation, epoch: Epoch) -> Vec<(Row, Call<'static>)> {
    let open = situation.state.batch.filter(|_| situation.state.owner.is_some());
    // Of a batch of one suspected message a part is only what has a disposition and comes before it.
    let acked = open.map_or(0, |open| if open.alone { 0 } else { open.size.min(2) });
    let parts = [
        (Part::First { through: position(WITHIN), acked }, Row::AckThroughOwnPart),
        (Part::Whole, Row::AckOwnThis),
        (Part::Acked, Row::AckThroughOwnAcked),
        (Part::Foreign, Row::AckThroughOwnForeign),
    ];
    let mut calls = Vec::new();
    for number in [OPEN, LAST, OTHER] {
        let row = |when_open| match number {
            OPEN if open.is_some() => when_open,
            LAST if situation.state.last_acked.is_some() => Row::AckOwnLast,
            _ => Row::AckOwnOther,
        };
        let batch = batch(number);
        calls.push((row(Row::AckOwnThis), Call::Ack { epoch, batch }));
        for (part, when_open) in parts {
            calls.push((row(when_open), Call::AckThrough { epoch, batch, message: message(31), part }));
        }
    }
    calls
}

fn dispositions(situation: &Situation, epoch: Epoch) -> Vec<(Row, Call<'static>)> {
    let open = situation.state.batch.filter(|_| situation.state.owner.is_some());
    let size = open.map_or(0, |open| open.size);
    let found = [
        // It had a disposition already; it had none; it had none and others of its key are withdrawn.
        (Some(0), Row::DisposeOwnThis),
        (Some(size.min(1)), Row::DisposeOwnThis),
        (Some(size), Row::DisposeOwnThis),
        (None, Row::DisposeOwnForeign),
    ];
    let mut calls = Vec::new();
    for number in [OPEN, LAST, OTHER] {
        for (fresh, when_open) in found {
            let row = if number == OPEN && open.is_some() { when_open } else { Row::DisposeOwnOther };
            calls.push((row, Call::Dispose { epoch, batch: batch(number), message: message(31), fresh }));
        }
    }
    calls
}
