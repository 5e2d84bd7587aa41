//! The comparison of stores, compared with itself: the model against the model finds nothing, and everything that can happen happens;
//! a planted bug is found and cut down to the calls that show it.

use std::sync::Arc;

use fencepost_conformance::differential::{Difference, Operation, Plan, Side, Tally, compare};
use fencepost_core::ManualClock;
use fencepost_mem::MemStore;

fn model() -> Side {
    let clock = Arc::new(ManualClock::default());
    Side::new(Arc::new(MemStore::new(clock.clone())), clock)
}

const PLAN: Plan = Plan { seed: 1, sequences: 80, length: 250 };

/// Compares the model with one that misunderstands calls so.
async fn with_bug(understood: fn(Operation) -> Operation) -> Result<Tally, Difference> {
    compare(PLAN, async || [model(), model().with_bug(understood)]).await
}

#[tokio::test]
async fn the_model_does_not_differ_from_itself_and_everything_happens() {
    let tally = compare(PLAN, async || [model(), model()]).await.unwrap();
    for seen in [
        "ack: acked",
        "ack: error fenced",
        "ack: error conflict",
        "ackthrough: acked",
        "ackthrough: error not_found",
        "ackreceive: acked",
        "nack: retry",
        "nack: dead",
        "nack: error not_found",
        "snooze: snoozed",
        "giveup: given",
        "claim: takeover",
        "claim: convicted",
        "claim: inherited",
        "claim: stored",
        "claimslot: fresh",
        "create: error conflict",
        "drop: error open_batch",
        "drop: Dropped",
        "read: page",
        "read: error position_gone",
        "release: error open_batch",
        "replay: replayed",
        "sendonce: deduplicated",
        "sendonce: error conflict",
        "message: withdrawn",
        "message: alone",
    ] {
        assert!(tally.of(seen) >= 2, "`{seen}` was seen {} times: {tally:?}", tally.of(seen));
    }
    assert!(!format!("{tally:?}").contains("error internal"), "{tally:?}");
}

#[tokio::test]
async fn a_retry_that_comes_late_is_found_with_the_calls_that_it_takes() {
    let found = with_bug(|operation| match operation {
        Operation::Nack { owner, batches_ago, message, after } => {
            Operation::Nack { owner, batches_ago, message, after: after + 1 }
        }
        other => other,
    });
    let difference = found.await.unwrap_err();
    assert!(matches!(difference.operations.last(), Some(Operation::Nack { .. })), "{difference}");
    assert!(difference.operations.len() <= 5, "make, send, claim, receive, nack are enough: {difference}");
}

#[tokio::test]
async fn an_ack_of_a_part_that_acks_too_much_is_found() {
    let found = with_bug(|operation| match operation {
        Operation::AckThrough { owner, batches_ago, .. } => Operation::Ack { owner, batches_ago },
        other => other,
    });
    let difference = found.await.unwrap_err();
    assert!(matches!(difference.operations.last(), Some(Operation::AckThrough { .. })), "{difference}");
    assert!(difference.operations.len() <= 7, "{difference}");
}

#[tokio::test]
async fn a_grant_that_lasts_too_long_is_found() {
    let found = with_bug(|operation| match operation {
        Operation::ClaimSlot { consumer, slot, nonce, ttl } => {
            Operation::ClaimSlot { consumer, slot, nonce, ttl: ttl + 1 }
        }
        other => other,
    });
    let difference = found.await.unwrap_err();
    assert!(difference.operations.len() <= 2, "{difference}");
}
