//! Who only looks writes nothing, and neither does who is refused.

use std::time::Duration;

use fencepost_core::{
    AcquireLease, Acquired, BatchId, CreateConsumer, HolderName, LeaseName, MessageId, Partitions, Release, Renewal,
};

use crate::Harness;
use crate::stage::{Stage, TakenOver, count, delay, failure, index, nonce, path, size, text, writes_nothing};

/// A42: a minute of polling writes nothing, by who holds slots and by who waits for one, and renews nothing.
pub async fn a42_a_minute_of_idle_polling_writes_nothing(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let grants = [stage.claim("w1", 0, 600).await, stage.claim("w1", 1, 600).await];
    let waiting = stage.through(h.another().await);
    let before = stage.store.slot_status(None).await.unwrap();
    writes_nothing(h, "a minute of polling", async {
        for _ in 0..60 {
            stage.pass_seconds(1);
            for grant in &grants {
                assert_eq!(stage.try_receive(&grant.token, 100).await, None);
            }
            assert_eq!(waiting.store.claim(&waiting.request("w2", 600)).await.unwrap(), None);
            assert_eq!(waiting.store.members(&waiting.path).await.unwrap(), []);
        }
    })
    .await;
    assert_eq!(stage.store.slot_status(None).await.unwrap(), before, "an empty receive does not renew");
}

/// A42: polling while messages wait for their retry, are parked or delayed writes nothing either.
pub async fn a42_polling_while_messages_are_set_aside_writes_nothing(h: &dyn Harness) {
    let stage = Stage::pausing(h, 1).await;
    let sent = stage.send(0, 3).await;
    stage.put(text("x").delay(delay(3_600))).await;
    let token = stage.claim("w1", 0, 3_600).await.token;
    let batch = stage.receive(&token, 2).await;
    stage.nack(&token, &batch, sent[0], 3_600).await;
    stage.ack(&token, &batch).await;
    assert_eq!(stage.try_receive(&token, 100).await, None);
    stage.maintain().await;
    let before = stage.status(0).await;
    assert_eq!((before.lag, before.retrying, before.parked), (3, 1, 2));
    writes_nothing(h, "a minute of polling", async {
        for _ in 0..60 {
            stage.pass_seconds(1);
            assert_eq!(stage.try_receive(&token, 100).await, None);
            assert_eq!(stage.maintain().await, 0);
        }
    })
    .await;
    assert_eq!(stage.status(0).await, before);
}

/// A42: polling past half the TTL and past expiry writes nothing either: whoever only polls must renew.
pub async fn a42_an_empty_receive_never_renews(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let grant = stage.claim("w1", 0, 10).await;
    writes_nothing(h, "an empty receive", async {
        for _ in 0..3 {
            stage.pass_seconds(6);
            assert_eq!(stage.try_receive(&grant.token, 100).await, None);
        }
    })
    .await;
    assert!(stage.try_claim("w2", 0, 10).await.is_some(), "the grant has expired");
}

/// A42: one heartbeat renews all slots of a worker, and polling between heartbeats writes nothing.
pub async fn a42_one_heartbeat_renews_all_slots_of_a_worker(h: &dyn Harness) {
    let stage = Stage::new(h, 4).await;
    let mut grants = Vec::new();
    for slot in 0..4 {
        grants.push(stage.claim("w1", slot, 30).await);
    }
    let held: Vec<_> = grants.iter().collect();
    for beat in 1..=6 {
        writes_nothing(h, "polling between heartbeats", async {
            for grant in &grants {
                stage.pass(Duration::from_millis(2_500));
                assert_eq!(stage.try_receive(&grant.token, 100).await, None);
            }
        })
        .await;
        let mark = h.write_mark().await;
        let pulse = stage.store.heartbeat(&stage.heartbeat("w1", &held)).await.unwrap();
        assert_eq!(pulse.held, [Renewal::Held; 4]);
        assert_ne!(h.write_mark().await, mark, "a heartbeat is written");
        for (slot, grant) in (0..).zip(&grants) {
            let expires_at = stage.state(slot).await.owner.unwrap().expires_at;
            assert_eq!(expires_at, grant.expires_at + Duration::from_secs(10 * beat));
        }
    }
}

/// What only looks writes nothing, and finds everything as it was.
pub async fn statuses_write_nothing(h: &dyn Harness) {
    let TakenOver { stage, .. } = TakenOver::new(h).await;
    stage.pass_seconds(100);
    writes_nothing(h, "a status", async {
        let store = h.another().await;
        assert_eq!(store.queue_status().await.unwrap().len(), 1);
        assert_eq!(store.consumer_status(None).await.unwrap().len(), 1);
        assert_eq!(store.slot_status(None).await.unwrap().len(), 2);
        assert_eq!(store.lease_status().await.unwrap(), []);
        assert_eq!(store.members(&stage.path).await.unwrap(), []);
        assert_eq!(store.dead_counts(None).await.unwrap(), []);
        assert_eq!(store.dead_letters(&stage.path, None, size(10)).await.unwrap(), []);
        assert_eq!(store.next_due(&stage.path, index(0)).await.unwrap(), None);
        assert_eq!(store.slot_history(&stage.path).await.unwrap(), []);
        assert_eq!(store.now().await.unwrap(), stage.store.now().await.unwrap());
    })
    .await;
}

/// Every refusal, and every ordinary outcome that changes nothing, writes nothing, however late it comes.
pub async fn every_refusal_writes_nothing(h: &dyn Harness) {
    let TakenOver { stage, first, second, batch, .. } = TakenOver::new(h).await;
    let store = &stage.store;
    let lease = AcquireLease::new(LeaseName::new("l").unwrap(), HolderName::new("a").unwrap());
    let Acquired::Granted { token, .. } = store.acquire_lease(&lease).await.unwrap() else {
        panic!("a free lease is granted")
    };
    let mut stale = token;
    stale.epoch = first.token.epoch;
    let claimed = stage.request("w3", 30).nonce(nonce("n1"));
    let third = store.claim(&claimed).await.unwrap().unwrap();
    assert_eq!(third.token.slot, index(1));
    let unknown = BatchId::new(999).unwrap();
    let other = CreateConsumer::ordered(stage.path.clone(), count(7));
    let before = store.slot_status(None).await.unwrap();

    writes_nothing(h, "a refusal", async {
        for _ in 0..3 {
            stage.pass_seconds(1);
            assert!(store.receive(&first.token, size(1)).await.is_err());
            assert!(store.ack(&first.token, batch.id).await.is_err());
            assert_eq!(store.renew_slot(&first.token).await.unwrap(), Renewal::Lost);
            assert_eq!(store.release_slot(&first.token).await.unwrap(), Release::NotHeld);
            assert_eq!(store.abandon_slot(&first.token).await.unwrap(), Release::NotHeld);
            assert!(store.release_slot(&second.token).await.is_err());
            assert!(store.ack(&second.token, unknown).await.is_err());
            assert!(store.ack_through(&second.token, batch.id, MessageId::MAX).await.is_err());
            assert!(store.nack(&second.token, unknown, batch.messages[0].id, &failure(0)).await.is_err());
            assert!(store.nack(&second.token, batch.id, MessageId::MAX, &failure(0)).await.is_err());
            assert_eq!(store.claim_slot(&claimed, index(0)).await.unwrap(), None);
            assert_eq!(store.claim(&claimed).await.unwrap().unwrap().token, third.token);
            assert!(store.drop_consumer(&stage.path, false).await.is_err());
            assert!(store.create_consumer(&other).await.is_err());
            assert!(store.create_queue(stage.queue(), Partitions::new(1).unwrap()).await.is_err());
            assert!(matches!(store.acquire_lease(&lease).await.unwrap(), Acquired::Held { .. }));
            assert_eq!(store.renew_lease(&stale, None).await.unwrap(), Renewal::Lost);
            assert_eq!(store.release_lease(&stale).await.unwrap(), Release::NotHeld);
            assert!(store.claim(&stage.request("w4", 30)).await.unwrap().is_none());
            assert!(store.send(&path("nowhere", "x").queue, text("x")).await.is_err());
        }
    })
    .await;
    assert_eq!(store.slot_status(None).await.unwrap(), before);
}
