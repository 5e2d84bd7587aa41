//! The lease's transition table, proved. The contract is written down here once more, independently of `lease::TABLE`, and every
//! state × call is judged by both: the answer and every field of the next state. Only the last check of the enumeration reads
//! `lease::TABLE`, to show that no cell is dead and no impossible one is reached.

use std::collections::HashSet;
use std::time::Duration;

use fencepost_core::lease::{Action, Call, Event, Holding, LeaseState, Outcome, Phase, Request, Step, TABLE, step};
use fencepost_core::{Epoch, HolderName, Nonce, Timestamp, Ttl};

/// The columns of the contract's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Free,
    HeldLive,
    HeldExpired,
}

/// The rows of the contract's table, with what the cells say in words told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Row {
    Acquire,
    AcquireSameNonce,
    RenewOwn,
    RenewOther,
    ReleaseOwn,
    ReleaseOther,
    GuardOwn,
    GuardOther,
    ForceRelease,
}

/// What a cell of the contract's table promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// The contract has a dash here, or the row cannot meet the column.
    Never,
    /// Granted, new epoch
    GrantedNewEpoch,
    /// Held{holder, epoch, since, expires_in}
    Held,
    /// the stored grant
    TheStoredGrant,
    /// true, extended
    TrueExtended,
    /// false
    False,
    /// Released → free
    ReleasedFree,
    /// NotHeld
    NotHeld,
    /// ok
    Ok,
    /// fenced
    Fenced,
    /// → free, epoch bumped; free: new epoch recorded
    FreeEpochBumped,
}

#[rustfmt::skip]
const CONTRACT: [(Row, [Then; 3]); 9] = {
    use Then::*;
    [
    //                       free             held, live      held, expired
    (Row::Acquire,          [GrantedNewEpoch, Held,           GrantedNewEpoch]),
    (Row::AcquireSameNonce, [Never,           TheStoredGrant, GrantedNewEpoch]),
    (Row::RenewOwn,         [Never,           TrueExtended,   TrueExtended]),
    (Row::RenewOther,       [False,           False,          False]),
    (Row::ReleaseOwn,       [Never,           ReleasedFree,   ReleasedFree]),
    (Row::ReleaseOther,     [NotHeld,         NotHeld,        NotHeld]),
    (Row::GuardOwn,         [Never,           Ok,             Ok]),
    (Row::GuardOther,       [Fenced,          Fenced,         Fenced]),
    (Row::ForceRelease,     [FreeEpochBumped, FreeEpochBumped, FreeEpochBumped]),
    ]
};

const EXPIRY: i64 = 1_767_225_600_000_000;
const TTL_MICROS: i64 = 10_000_000;

/// Microseconds from the expiry, and whether a grant is live there.
const INSTANTS: [(i64, bool); 6] =
    [(-TTL_MICROS, true), (-5_000_000, true), (-1, true), (0, false), (1, false), (3_600_000_000, false)];

const OWN: i64 = 700;
const STALE: i64 = 699;
const FUTURE: i64 = 701;
const NEXT: i64 = 800;

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn epoch(number: i64) -> Epoch {
    Epoch::new(number).unwrap()
}

fn ttl(micros: i64) -> Ttl {
    Ttl::from_micros(micros).unwrap()
}

fn nonce(text: &str) -> Nonce {
    Nonce::new(text).unwrap()
}

fn holder(text: &str) -> HolderName {
    HolderName::new(text).unwrap()
}

/// One state at one instant, with the column that it belongs to by construction.
#[derive(Debug, Clone)]
struct Situation {
    column: Column,
    state: LeaseState,
    now: Timestamp,
}

fn situations() -> Vec<Situation> {
    let mut all = Vec::new();
    for granted in [None, Some(epoch(OWN))] {
        let state = LeaseState { epoch: granted, holding: None };
        all.push(Situation { column: Column::Free, state, now: at(EXPIRY) });
    }
    for granted_to in [None, Some(nonce("own"))] {
        for (offset, live) in INSTANTS {
            let holding = Holding {
                holder: holder("holder"),
                nonce: granted_to.clone(),
                ttl: ttl(TTL_MICROS),
                since: at(EXPIRY - TTL_MICROS),
                expires_at: at(EXPIRY),
            };
            let state = LeaseState { epoch: Some(epoch(OWN)), holding: Some(holding) };
            let column = if live { Column::HeldLive } else { Column::HeldExpired };
            all.push(Situation { column, state, now: at(EXPIRY + offset) });
        }
    }
    all
}

/// The names and nonces that calls borrow. The first acquirer bears the holder's name, which must make no difference.
struct Acquirers {
    names: [HolderName; 2],
    nonces: [Option<Nonce>; 3],
}

impl Acquirers {
    fn new() -> Self {
        Self {
            names: [holder("holder"), holder("acquirer")],
            nonces: [None, Some(nonce("own")), Some(nonce("another"))],
        }
    }

    fn calls(&self, situation: &Situation) -> Vec<(Row, Call<'_>)> {
        let holding = situation.state.holding.as_ref();
        let mut calls = Vec::new();
        for holder in &self.names {
            for acquired in &self.nonces {
                let same = acquired.is_some() && holding.is_some_and(|holding| holding.nonce == *acquired);
                let request = Request { holder, nonce: acquired.as_ref(), ttl: ttl(2_000_000), epoch: epoch(NEXT) };
                calls.push((if same { Row::AcquireSameNonce } else { Row::Acquire }, Call::Acquire(request)));
            }
        }
        for presented in [OWN, STALE, FUTURE] {
            let own = holding.is_some() && presented == OWN;
            for ttl in [None, Some(ttl(3_000_000))] {
                let row = if own { Row::RenewOwn } else { Row::RenewOther };
                calls.push((row, Call::Renew { epoch: epoch(presented), ttl }));
            }
            let row = if own { Row::ReleaseOwn } else { Row::ReleaseOther };
            calls.push((row, Call::Release { epoch: epoch(presented) }));
            let row = if own { Row::GuardOwn } else { Row::GuardOther };
            calls.push((row, Call::Guard { epoch: epoch(presented) }));
        }
        calls.push((Row::ForceRelease, Call::ForceRelease { epoch: epoch(NEXT) }));
        calls
    }
}

/// The step that the contract promises, field by field.
fn promised(then: Then, situation: &Situation, call: &Call<'_>) -> Step {
    let Situation { state: before, now, .. } = situation;
    let unchanged = |outcome| Step { outcome, next: None };
    match (then, *call) {
        (Then::GrantedNewEpoch, Call::Acquire(request)) => {
            let holding = Holding {
                holder: request.holder.clone(),
                nonce: request.nonce.cloned(),
                ttl: ttl(2_000_000),
                since: *now,
                expires_at: *now + Duration::from_secs(2),
            };
            let next = LeaseState { epoch: Some(epoch(NEXT)), holding: Some(holding) };
            Step { outcome: Outcome::Granted, next: Some(next) }
        }
        (Then::TheStoredGrant, Call::Acquire(_)) => unchanged(Outcome::Granted),
        (Then::Held, Call::Acquire(_)) => unchanged(Outcome::Held),
        (Then::TrueExtended, Call::Renew { ttl: chosen, .. }) => {
            let holding = before.holding.clone().unwrap();
            let extended = chosen.unwrap_or(ttl(TTL_MICROS));
            let holding = Holding { ttl: extended, expires_at: *now + extended.get(), ..holding };
            let next = LeaseState { epoch: Some(epoch(OWN)), holding: Some(holding) };
            Step { outcome: Outcome::Renewed, next: Some(next) }
        }
        (Then::False, Call::Renew { .. }) => unchanged(Outcome::Lost),
        (Then::ReleasedFree, Call::Release { .. }) => {
            let next = LeaseState { epoch: Some(epoch(OWN)), holding: None };
            Step { outcome: Outcome::Released, next: Some(next) }
        }
        (Then::NotHeld, Call::Release { .. }) => unchanged(Outcome::NotHeld),
        (Then::Ok, Call::Guard { .. }) => unchanged(Outcome::Guarded),
        (Then::Fenced, Call::Guard { .. }) => unchanged(Outcome::Fenced),
        (Then::FreeEpochBumped, Call::ForceRelease { .. }) => {
            let next = LeaseState { epoch: Some(epoch(NEXT)), holding: None };
            Step { outcome: Outcome::Released, next: Some(next) }
        }
        (then, call) => panic!("the contract has no {then:?} for {call:?}"),
    }
}

#[test]
fn every_call_in_every_state_does_what_the_contract_says_and_nothing_else() {
    let acquirers = Acquirers::new();
    let mut reached: HashSet<(Event, Phase)> = HashSet::new();
    let mut judged = 0;

    for situation in situations() {
        for (row, call) in acquirers.calls(&situation) {
            let then = CONTRACT.iter().find(|(known, _)| *known == row).unwrap().1[situation.column as usize];
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
    assert_eq!(judged, 14 * 19, "the product lost or gained a dimension: 14 situations, 19 calls each");
}
