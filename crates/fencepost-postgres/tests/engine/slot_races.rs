//! Two calls on one slot, in the order that goes wrong when a call judges by what it saw before it had the lock.

use fencepost_core::Kind;

use crate::script::{Own, Script, begin, call, claim, own, receive, run, value};

/// A30: a release that waits for a receive of the same owner on another connection finds the batch that this one opened.
#[tokio::test]
async fn a30_a_release_that_waited_for_a_receive_is_refused() {
    let Some(script) = Script::new(1).await else { return };
    script.send(2).await;
    let token = script.claim(0).await;
    let (one, two) = (script.client().await, script.client().await);
    run(&one, "begin").await;
    let (_, ids) = receive(&one, token, 10).await.expect("a batch");
    let released = begin(two, format!("select fencepost.release_slot({})", token.arguments()));
    script.waiting(1).await;
    run(&one, "commit").await;
    let before = script.state(0).await;
    let (_, released) = released.await.unwrap();
    assert_eq!(released.unwrap_err().kind(), Kind::OpenBatch);
    assert_eq!(script.state(0).await, before);
    assert_eq!(claim(&script.admin, 0).await, None, "nobody else is granted it");
    assert_eq!(receive(&one, token, 10).await.expect("the same batch").1, ids);
}

/// A30: the same when the receive is rolled back: nothing is open, and the release succeeds.
#[tokio::test]
async fn a30_a_release_that_waited_for_a_receive_that_was_rolled_back_succeeds() {
    let Some(script) = Script::new(1).await else { return };
    script.send(2).await;
    let token = script.claim(0).await;
    let (one, two) = (script.client().await, script.client().await);
    run(&one, "begin").await;
    receive(&one, token, 10).await.expect("a batch");
    let released = begin(two, format!("select fencepost.release_slot({})", token.arguments()));
    script.waiting(1).await;
    run(&one, "rollback").await;
    assert!(released.await.unwrap().1.unwrap()[0].get::<_, bool>(0));
}

/// A receive that looked while another one of the same owner opened a batch returns that batch, not one of its own.
#[tokio::test]
async fn a_receive_that_waited_for_another_one_returns_the_same_batch() {
    let Some(script) = Script::new(1).await else { return };
    script.send(4).await;
    let token = script.claim(0).await;
    let (one, two) = (script.client().await, script.client().await);
    run(&one, "begin").await;
    let (batch, ids) = receive(&one, token, 2).await.expect("a batch");
    let sql = format!("select batch_id, id from fencepost.receive({}, 10)", token.arguments());
    let waits = begin(two, sql);
    script.waiting(1).await;
    run(&one, "commit").await;
    let rows = waits.await.unwrap().1.unwrap();
    assert_eq!(rows.iter().map(|row| row.get(1)).collect::<Vec<i64>>(), ids);
    assert_eq!(rows[0].get::<_, i64>(0), batch);
}

/// A30, the mirror order: a receive, ack, nack or renewal that waited for a release, an abandon or a takeover is not the owner's any more.
#[tokio::test]
async fn a30_a_call_that_waited_for_a_change_of_owner_is_not_its_owners() {
    let calls = ["receive({}, 10)", "ack({}, 1)", "ack_receive({}, 1, 10)", "ack_through({}, 1, 1)", "nack({}, 1, 1)"];
    let Some(script) = Script::new(1).await else { return };
    for (change, is_open) in [("release_slot({})", false), ("abandon_slot({})", true), ("", true)] {
        // A receive while a batch is open waits for nothing; the others take a batch.
        for late in calls.iter().filter(|late| is_open != late.starts_with("receive")) {
            script.anew(1).await;
            script.send(4).await;
            let token = script.claim(0).await;
            if is_open {
                receive(&script.admin, token, 2).await.expect("a batch");
            }
            let (one, two) = (script.client().await, script.client().await);
            run(&one, "begin").await;
            if change.is_empty() {
                script.stage.pass(11);
                claim(&one, 0).await.expect("it has expired");
            } else {
                run(&one, &format!("select fencepost.{}", change.replace("{}", &token.arguments()))).await;
            }
            let waits = begin(two, format!("select fencepost.{}", late.replace("{}", &token.arguments())));
            script.waiting(1).await;
            run(&one, "commit").await;
            let before = script.state(0).await;
            let (two, answer) = waits.await.unwrap();
            assert_eq!(answer.unwrap_err().kind(), Kind::Fenced, "{late} after {change}");
            assert_eq!(script.state(0).await, before, "{late} after {change}");
            let renewed: bool = value(&two, &format!("select fencepost.renew_slot({})", token.arguments())).await;
            assert!(!renewed);
        }
    }
}

/// A30b: a renewal that commits while a claim is on its way, between what the claim saw and its lock, keeps the slot.
#[tokio::test]
async fn a30b_a_claim_does_not_take_what_was_renewed_meanwhile() {
    let Some(script) = Script::new(1).await else { return };
    let token = script.claim(0).await;
    // The claim stops at this lock: it has seen an expired slot, and does not have its row yet.
    run(
        &script.admin,
        "create or replace function fencepost._clock() returns timestamptz language plpgsql volatile as $$
         begin
             if current_setting('test.stops', true) = 'here' then
                 perform set_config('test.stops', '', true);
                 perform pg_advisory_xact_lock_shared(7);
                 return '2026-01-01 00:00:11+00';
             end if;
             return (select at from fencepost.test_clock);
         end $$",
    )
    .await;
    let (gate, keeper, thief) = (script.client().await, script.client().await, script.client().await);
    run(&gate, "begin; select pg_advisory_xact_lock(7)").await;
    script.stage.pass(9);
    run(&thief, "set test.stops = 'here'").await;
    let claimed = begin(thief, "select slot, epoch from fencepost.claim('q', 'c', 'thief', '10 s')".to_owned());
    script.waiting(1).await;
    let renewed: bool = value(&keeper, &format!("select fencepost.renew_slot({})", token.arguments())).await;
    assert!(renewed);
    script.stage.pass(2);
    run(&gate, "commit").await;
    let claimed = own(&claimed.await.unwrap().1.unwrap());
    assert_eq!(claimed, None, "it was renewed for another ten seconds");
    assert_eq!(value::<String>(&script.admin, "select worker from fencepost.slot").await, "w");
}

/// A35: a claim passes over a slot whose row somebody has locked, and takes the next one at once.
#[tokio::test]
async fn a35_a_claim_does_not_wait_for_a_locked_slot() {
    let Some(script) = Script::new(2).await else { return };
    for lock in ["key share", "no key update", "update"] {
        let blocker = script.client().await;
        run(&blocker, &format!("begin; select from fencepost.slot where slot = 0 for {lock}")).await;
        assert!(call(&script.admin, "select * from fencepost.claim_slot('q', 'c', 0, 'w')").await.unwrap().is_empty());
        // It answers while the lock is held, which is until the blocker ends: it has not waited for it.
        let rows = call(&script.admin, "select slot, epoch from fencepost.claim('q', 'c', 'w', '10 s')").await.unwrap();
        let granted = own(&rows).expect("the other slot is free");
        assert_eq!(granted.slot, 1, "{lock}");
        run(&blocker, "rollback").await;
        run(&script.admin, &format!("select fencepost.release_slot({})", granted.arguments())).await;
    }
}

/// B33: of forty claims at once each slot is granted once, and nobody waits or is told of an error.
#[tokio::test(flavor = "multi_thread")]
async fn b33_forty_claims_at_once_grant_every_slot_once() {
    let Some(script) = Script::new(3).await else { return };
    let mut claims = Vec::new();
    for worker in 0..40 {
        let sql = format!("select slot, epoch from fencepost.claim('q', 'c', 'w{worker}', '10 s')");
        claims.push(begin(script.client().await, sql));
    }
    let mut granted: Vec<Own> = Vec::new();
    for claimed in claims {
        granted.extend(own(&claimed.await.unwrap().1.unwrap()));
    }
    // One who met a lock that was there for an instant went away empty; there is never more than one owner.
    while let Some(late) =
        own(&call(&script.admin, "select slot, epoch from fencepost.claim('q', 'c', 'late')").await.unwrap())
    {
        granted.push(late);
    }
    let (mut slots, mut epochs): (Vec<_>, Vec<_>) = granted.iter().map(|own| (own.slot, own.epoch)).unzip();
    slots.sort_unstable();
    epochs.sort_unstable();
    epochs.dedup();
    assert_eq!((slots, epochs.len()), (vec![0, 1, 2], 3));
}

/// A32: a release that waits while its consumer is dropped and made again with fewer slots finds nothing of its own.
#[tokio::test]
async fn a32_a_call_that_waits_for_a_drop_never_touches_what_is_made_in_its_place() {
    let Some(script) = Script::new(2).await else { return };
    for (late, again) in [
        ("release_slot({})", true),
        ("renew_slot({})", true),
        ("receive({}, 10)", true),
        ("ack({}, 1)", true),
        ("slot_guard({})", true),
        ("receive({}, 10)", false),
        ("ack({}, 1)", false),
        ("nack({}, 1, 1)", false),
        ("slot_guard({})", false),
        ("force_release_slot('q', 'c', 1, 'an operator')", false),
    ] {
        script.anew(2).await;
        script.send(4).await;
        let token = script.claim(1).await;
        if !late.starts_with("receive") {
            receive(&script.admin, token, 10).await.expect("a batch");
        }
        let (dropper, waiter) = (script.client().await, script.client().await);
        run(&dropper, "begin; select fencepost.drop_consumer('q', 'c', true)").await;
        let waits = begin(waiter, format!("select fencepost.{}", late.replace("{}", &token.arguments())));
        script.waiting(1).await;
        if again {
            run(&dropper, "select fencepost.create_consumer('q', 'c', 4)").await;
        }
        run(&dropper, "commit").await;
        match (waits.await.unwrap().1, again) {
            (Ok(rows), _) => assert!(!rows[0].get::<_, bool>(0), "{late}"),
            (Err(error), true) => assert_eq!(error.kind(), Kind::Fenced, "{late}: {error:?}"),
            (Err(error), false) => assert_eq!(error.kind(), Kind::NotFound, "{late}: {error:?}"),
        }
        let untouched: bool = value(
            &script.admin,
            "select coalesce(bool_and(s.worker is null and st.batch_id is null and st.version = 1), true)
             from fencepost.slot s cross join lateral fencepost._state(s.consumer_id, s.slot) st",
        )
        .await;
        assert!(untouched, "{late}");
    }
}
