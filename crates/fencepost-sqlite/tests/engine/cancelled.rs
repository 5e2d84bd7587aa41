//! Calls whose future is dropped: what was granted to nobody is given back at once, long before it would expire.

use std::time::Duration;

use fencepost_core::{
    AcquireLease, Acquired, ClaimSlot, HolderName, Key, LeaseName, Leases, Queues, Release, Slots, Topic, Ttl, Wakeups,
    WorkerName,
};

use crate::place::{Place, Still, billing, claim, index, orders, queued, run, status, text};

#[test]
fn a_slot_that_was_granted_to_a_dropped_claim_is_given_back() {
    run(async {
        let place = Place::new();
        let store = place.stage().await;
        let request = ClaimSlot::new(billing(), WorkerName::new("gone").unwrap()).ttl(Ttl::MAX);
        let still = Still::new(&store).await;
        let dropped = queued(store.claim_slot(&request, index(0)));
        still.let_go().await;
        let granted = loop {
            if let Some(epoch) = status(&store, 0).await.state.epoch {
                break epoch;
            }
        };
        let mut given_back = store.wakes(&Topic::Slots(billing()));
        drop(dropped);
        given_back.woken().await.unwrap();
        assert!(claim(&store, "next", 0, Duration::from_secs(60)).await.token.epoch > granted);
    });
}

/// The batch that came along goes to the next claimant, and nobody crashed but its first owner.
#[test]
fn a_takeover_by_a_dropped_claim_leaves_the_batch_to_the_next() {
    run(async {
        let place = Place::new();
        let store = place.stage().await;
        // The key `a` belongs to an even partition, which is slot 0's.
        store.send(&orders(), text("x").key(Key::new("a").unwrap())).await.unwrap();
        let owner = claim(&store, "first", 0, Duration::from_secs(60)).await;
        let batch = store.receive(&owner.token, Default::default()).await.unwrap().expect("a message waits");
        store.abandon_slot(&owner.token).await.unwrap();
        let request = ClaimSlot::new(billing(), WorkerName::new("gone").unwrap()).ttl(Ttl::MAX);
        let still = Still::new(&store).await;
        let dropped = queued(store.claim_slot(&request, index(0)));
        still.let_go().await;
        while status(&store, 0).await.state.epoch == Some(owner.token.epoch) {}
        let mut given_back = store.wakes(&Topic::Slots(billing()));
        drop(dropped);
        given_back.woken().await.unwrap();
        let heir = claim(&store, "next", 0, Duration::from_secs(60)).await;
        let inherited = store.receive(&heir.token, Default::default()).await.unwrap().expect("the batch came along");
        assert_eq!((inherited.id, inherited.crashes), (batch.id, 0));
    });
}

#[test]
fn a_lease_that_was_granted_to_a_dropped_acquire_is_given_back() {
    run(async {
        let place = Place::new();
        let store = place.stage().await;
        let request = |holder: &str| {
            AcquireLease::new(LeaseName::new("l").unwrap(), HolderName::new(holder).unwrap()).ttl(Ttl::MAX)
        };
        let gone = request("gone");
        let still = Still::new(&store).await;
        let dropped = queued(store.acquire_lease(&gone));
        still.let_go().await;
        while store.lease_status().await.unwrap().is_empty() {}
        drop(dropped);
        let token = loop {
            if let Acquired::Granted { token, .. } = store.acquire_lease(&request("next")).await.unwrap() {
                break token;
            }
        };
        assert_eq!(store.release_lease(&token).await.unwrap(), Release::Released);
    });
}
