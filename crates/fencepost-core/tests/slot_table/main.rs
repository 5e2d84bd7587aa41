//! The slot's transition table, proved. The contract is written down here once more, independently of `slot::TABLE`, and every
//! state × call is judged by both: the answer and every field of the next state. Only the last check of the enumeration reads
//! `slot::TABLE`, to show that no cell is dead and no impossible one is reached.

mod contract;
mod promise;
mod situation;

use std::collections::HashSet;
use std::time::Duration;

use fencepost_core::slot::{
    Action, Call, Claimant, Event, Found, Outcome, Owner, Part, Phase, Refusal, SlotState, Step, TABLE, step,
};
use fencepost_core::{ConsumerPath, Epoch, Kind, Nonce, Position, SlotIndex, Timestamp, WorkerName};

use contract::contract;
use promise::promised;
use situation::{
    CURSOR, Claimants, EXPIRY, ISOLATED, OPEN, OTHER, OWN, STALE, Situation, THROUGH, WITHIN, at, batch, epoch,
    finds_a_suspect, message, nonce, position, situations, ttl, worker,
};

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
    assert_eq!(judged, 324 * 120, "the product lost or gained a dimension: 324 situations, 120 calls each");
}

#[test]
fn a_message_is_suspected_by_the_takeover_that_reaches_the_limit() {
    for situation in situations() {
        for max_crashes in 1..=6 {
            let found = situation.state.is_suspected(max_crashes, situation.now);
            assert_eq!(found, finds_a_suspect(&situation, max_crashes), "{max_crashes} in {situation:?}");
        }
    }
}

#[test]
fn the_cursor_never_passes_the_end_of_the_open_batch() {
    for Situation { state, .. } in situations() {
        let end = if state.batch.is_some() { THROUGH } else { CURSOR };
        for (finished, expected) in [(CURSOR - 1, CURSOR), (WITHIN, WITHIN.min(end)), (THROUGH + 1, end)] {
            assert_eq!(state.cursor_after(position(finished)), position(expected), "{finished} in {state:?}");
        }
        let settled =
            [WITHIN, WITHIN + 1, ISOLATED, ISOLATED + 1].map(|at| state.settles(position(at), position(WITHIN)));
        let isolated = state.isolated.is_some();
        assert_eq!(settled, [true, !isolated, !isolated, true], "{state:?}");
    }
}

#[test]
fn renewal_past_half_of_an_odd_ttl_is_exact_to_the_microsecond() {
    for (left, renews) in [(50_002, false), (50_001, false), (50_000, true), (49_999, true), (0, true)] {
        let odd = ttl(100_001);
        let owner = Owner { worker: worker("owner"), nonce: None, ttl: odd, expires_at: at(EXPIRY) };
        let state = SlotState { epoch: Some(epoch(OWN)), owner: Some(owner), ..SlotState::new(Position::START) };
        let found = Found::Messages { through: position(1), size: 1, plain: true };
        let now = at(EXPIRY - left);
        let next = step(&state, &Call::Receive { epoch: epoch(OWN), found }, now).next.unwrap();
        let expected = if renews { now + odd.get() } else { at(EXPIRY) };
        assert_eq!(next.owner.unwrap().expires_at, expected, "{left} µs before the expiry");
    }
}

/// A source of numbers that is the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// What a receive may find behind `state`: one message at a time while it is isolated, and nothing beyond.
fn find(state: &SlotState, dice: &mut Dice) -> Found {
    let next = position(state.cursor.to_storage() + dice.roll(9) as i64);
    match (state.isolated, dice.roll(4)) {
        (Some(end), 0) => Found::Skipped(end.max(state.cursor)),
        (Some(end), _) if next <= end => Found::Messages { through: next, size: 1, plain: false },
        (Some(end), _) => Found::Skipped(end.max(state.cursor)),
        (None, 0) => Found::Nothing,
        (None, 1) if next > state.cursor => Found::Skipped(next),
        (None, _) => Found::Messages { through: next, size: 1 + dice.roll(4) as u32, plain: next > state.cursor },
    }
}

/// A call that an engine could make on `state`.
fn any_call<'a>(state: &SlotState, now: Timestamp, next: Epoch, dice: &mut Dice, names: &'a Names) -> Call<'a> {
    let presented = if dice.roll(9) == 0 { epoch(1) } else { state.epoch.unwrap_or(next) };
    let named = state.batch.map(|open| open.id).or(state.last_acked).unwrap_or(batch(1));
    let size = state.batch.map_or(0, |open| open.size);
    let through = state.batch.map_or(state.cursor, |open| open.through);
    match dice.roll(12) {
        0..=2 => Call::Claim(Claimant {
            worker: &names.worker,
            nonce: (dice.roll(2) == 0).then_some(&names.nonce),
            ttl: ttl(2_000_000),
            epoch: next,
            suspect: state.is_suspected(2, now).then(|| through.min(state.cursor.max(position(1)))),
        }),
        3..=5 => Call::Receive { epoch: presented, found: find(state, dice) },
        6 => Call::Ack { epoch: presented, batch: named },
        7 => {
            let part = Part::First { through: state.cursor, acked: dice.roll(u64::from(size) + 1) as u32 };
            let part = [part, Part::Whole, Part::Acked, Part::Foreign][dice.roll(4) as usize];
            Call::AckThrough { epoch: presented, batch: named, message: message(1), part }
        }
        8 => {
            let fresh = (dice.roll(4) > 0).then(|| dice.roll(u64::from(size) + 1) as u32);
            Call::Dispose { epoch: presented, batch: named, message: message(1), fresh }
        }
        9 => Call::Renew { epoch: presented },
        10 => Call::Release { epoch: presented },
        _ => Call::Abandon { epoch: presented },
    }
}

/// The names that calls borrow.
struct Names {
    worker: WorkerName,
    nonce: Nonce,
}

/// A long pseudo-random life of one slot: what is reachable is what the enumeration covers, and numbers only rise.
#[test]
fn a_long_life_of_a_slot_keeps_its_invariants() {
    let names = Names { worker: worker("claimant"), nonce: nonce("own") };
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let mut state = SlotState::new(Position::START);
    let (mut now, mut counter) = (at(EXPIRY), 0);
    let (mut columns, mut actions) = (HashSet::new(), HashSet::new());

    for _ in 0..100_000 {
        now = now + Duration::from_micros([0, 1, 1_000_001, 2_000_000][dice.roll(4) as usize]);
        let next_epoch = Epoch::next(counter, state.epoch, at(0)).unwrap();
        let call = any_call(&state, now, next_epoch, &mut dice, &names);
        columns.insert(state.phase(now));
        actions.insert(state.classify(&call).action(state.phase(now)));
        let Step { outcome, next } = step(&state, &call, now);
        if matches!(outcome, Outcome::Refused(_) | Outcome::Lost | Outcome::NotHeld | Outcome::NotGranted) {
            assert_eq!(next, None, "{outcome:?} of {call:?} changed {state:?}");
        }
        if let Outcome::Opened(open) | Outcome::Reissued(open) = outcome {
            assert!(open.size > 0, "a batch without messages was handed out: {call:?} in {state:?}");
        }
        let Some(next) = next else { continue };
        assert!(next.cursor >= state.cursor && next.last_acked >= state.last_acked && next.epoch >= state.epoch);
        assert!(next.owner.is_none() || next.epoch.is_some(), "an owner without an epoch: {next:?}");
        if let Some(open) = next.batch {
            assert!(open.through >= next.cursor && Some(open.id) > next.last_acked, "nothing to ack: {next:?}");
            assert!(open.crashes < open.deliveries, "a batch crashed more often than it was delivered: {next:?}");
            assert_eq!(open.alone, next.isolated.is_some(), "one message at a time exactly while isolated: {next:?}");
            assert!(open.size <= 1 || !open.alone, "a suspected message is alone: {next:?}");
        }
        counter = next.epoch.map_or(counter, |epoch| counter.max(epoch.get()));
        state = next;
    }
    assert_eq!(columns.len(), Phase::ALL.len(), "the life did not visit every state");
    for rare in [Action::Isolate, Action::Convict, Action::Skip, Action::Shrink, Action::Dispose] {
        assert!(actions.contains(&rare), "the life had no {rare:?}");
    }
}

#[test]
fn a_refusal_becomes_the_error_of_the_contract() {
    let path = ConsumerPath::new("orders", "billing").unwrap();
    let slot = SlotIndex::new(3).unwrap();
    let fenced = |current| Refusal::Fenced { presented: epoch(STALE), current };
    let other = |open| Refusal::OtherBatch { presented: batch(OTHER), open };
    let foreign = Refusal::Foreign { batch: batch(OPEN), message: message(31) };
    let expectations = [
        (fenced(Some(epoch(OWN))), Kind::Fenced, vec![("presented_epoch", "699"), ("current_epoch", "700")]),
        (fenced(None), Kind::Fenced, vec![("presented_epoch", "699"), ("current_epoch", "none")]),
        (Refusal::OpenBatch(batch(OPEN)), Kind::OpenBatch, vec![("batch_id", "5")]),
        (other(Some(batch(OPEN))), Kind::Conflict, vec![("batch_id", "9"), ("open_batch_id", "5")]),
        (other(None), Kind::Conflict, vec![("batch_id", "9"), ("open_batch_id", "none")]),
        (foreign, Kind::NotFound, vec![("batch_id", "5"), ("message_id", "31")]),
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
