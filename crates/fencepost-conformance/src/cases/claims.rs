//! Claims: who is granted a slot, and what a nonce resolves.

use std::time::Duration;

use fencepost_core::Release;
use fencepost_core::slot::GrantOrigin;

use crate::Harness;
use crate::stage::{Stage, index, nonce, writes_nothing};

/// A25: a live slot is granted to nobody, also not to the same worker name.
pub async fn a25_a_live_slot_is_not_granted_to_the_same_worker_name(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    stage.claim("worker", 0, 30).await;
    let before = stage.state(0).await;
    stage.pass_seconds(1);
    assert_eq!(writes_nothing(h, "a refused claim", stage.try_claim("worker", 0, 30)).await, None);
    let any = stage.store.claim(&stage.request("worker", 30)).await.unwrap();
    assert_eq!(any, None);
    assert_eq!(stage.state(0).await, before);
}

/// A25: the same claim_slot again with the same nonce returns the stored grant.
pub async fn a25_the_same_claim_slot_with_the_same_nonce_returns_the_stored_grant(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    stage.send(0, 2).await;
    let request = stage.request("worker", 30).nonce(nonce("n1"));
    let grant = stage.store.claim_slot(&request, index(0)).await.unwrap().unwrap();
    stage.receive(&grant.token, 100).await;
    stage.pass_seconds(7);
    let before = stage.state(0).await;
    let again = writes_nothing(h, "a claim resolved by its nonce", stage.store.claim_slot(&request, index(0))).await;
    let again = again.unwrap().unwrap();
    assert_eq!((&again.token, again.expires_at), (&grant.token, grant.expires_at), "same epoch, remaining TTL");
    assert_eq!((again.origin, again.batch), (GrantOrigin::Stored, before.batch));
    assert_eq!(stage.state(0).await, before);
    let other = stage.request("worker", 30).nonce(nonce("n2"));
    assert_eq!(stage.store.claim_slot(&other, index(0)).await.unwrap(), None);
}

/// The same claim again with the same nonce returns the stored grant instead of another free slot.
pub async fn the_same_claim_with_the_same_nonce_returns_the_stored_grant(h: &dyn Harness) {
    let stage = Stage::new(h, 4).await;
    stage.claim("other", 0, 30).await;
    let request = stage.request("worker", 30).nonce(nonce("n1"));
    let grant = stage.store.claim(&request).await.unwrap().unwrap();
    for _ in 0..3 {
        let again = stage.store.claim(&request).await.unwrap().unwrap();
        assert_eq!((&again.token, again.origin), (&grant.token, GrantOrigin::Stored));
    }
    let fresh = stage.store.claim(&stage.request("worker", 30).nonce(nonce("n2"))).await.unwrap().unwrap();
    assert_ne!(fresh.token.slot, grant.token.slot);
}

/// The stored grant is found also when a slot before it has become free meanwhile.
pub async fn the_stored_grant_comes_before_a_free_slot(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let first = stage.claim("other", 0, 30).await;
    let request = stage.request("worker", 30).nonce(nonce("n1"));
    let grant = stage.store.claim(&request).await.unwrap().unwrap();
    assert_eq!(grant.token.slot, index(1));
    assert_eq!(stage.store.release_slot(&first.token).await.unwrap(), Release::Released);
    let again = stage.store.claim(&request).await.unwrap().unwrap();
    assert_eq!((&again.token, again.origin), (&grant.token, GrantOrigin::Stored));
    assert_eq!(stage.state(0).await.owner, None);
}

/// The nonce of an expired grant counts for nothing: the slot is granted anew, with a new epoch.
pub async fn the_nonce_of_an_expired_grant_counts_for_nothing(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    stage.send(0, 1).await;
    let request = stage.request("worker", 1).nonce(nonce("n1"));
    let grant = stage.store.claim_slot(&request, index(0)).await.unwrap().unwrap();
    stage.receive(&grant.token, 100).await;
    stage.pass_seconds(1);
    let anew = stage.store.claim_slot(&request, index(0)).await.unwrap().unwrap();
    assert!(anew.token.epoch > grant.token.epoch);
    assert_eq!(anew.origin, GrantOrigin::TakeOver { from: grant.token.epoch });
    stage.pass_seconds(1);
    let again = stage.store.claim(&request).await.unwrap().unwrap();
    assert!(again.token.epoch > anew.token.epoch);
    assert_eq!(again.batch.unwrap().crashes, 2);
}

/// The nonce of a grant that was given back counts for nothing.
pub async fn the_nonce_of_a_released_grant_counts_for_nothing(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let request = stage.request("worker", 30).nonce(nonce("n1"));
    let grant = stage.store.claim(&request).await.unwrap().unwrap();
    stage.store.release_slot(&grant.token).await.unwrap();
    let anew = stage.store.claim(&request).await.unwrap().unwrap();
    assert!(anew.token.epoch > grant.token.epoch);
    assert_eq!(anew.origin, GrantOrigin::Fresh);
}

/// Claims grant every slot once, and then nothing until one becomes claimable.
pub async fn claims_grant_every_slot_once(h: &dyn Harness) {
    let stage = Stage::new(h, 4).await;
    let mut grants = Vec::new();
    while let Some(grant) = stage.store.claim(&stage.request("worker", 10)).await.unwrap() {
        assert_eq!(grant.expires_at, stage.store.now().await.unwrap() + Duration::from_secs(10));
        grants.push(grant);
        assert!(grants.len() <= 4, "a slot was granted twice");
    }
    let mut slots: Vec<_> = grants.iter().map(|grant| grant.token.slot.get()).collect();
    slots.sort_unstable();
    assert_eq!(slots, [0, 1, 2, 3]);
    assert!(grants.is_sorted_by(|one, next| one.token.epoch < next.token.epoch), "epochs rise in grant order");
    stage.store.release_slot(&grants[2].token).await.unwrap();
    let again = stage.store.claim(&stage.request("worker", 10)).await.unwrap().unwrap();
    assert_eq!(again.token.slot, grants[2].token.slot);
}

/// Forty claims of one slot at once, through several handles: exactly one is granted.
pub async fn forty_claims_of_one_slot_at_once_grant_exactly_one(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let mut handles = vec![stage.store.clone()];
    for _ in 0..3 {
        handles.push(h.another().await);
    }
    let claims: Vec<_> = (0..40)
        .map(|n| {
            let (store, request) = (handles[n % handles.len()].clone(), stage.request(&format!("w{n}"), 30));
            tokio::spawn(async move { store.claim(&request).await.unwrap() })
        })
        .collect();
    let mut granted = Vec::new();
    for claim in claims {
        granted.extend(claim.await.unwrap());
    }
    assert_eq!(granted.len(), 1, "{granted:?}");
    assert_eq!(stage.state(0).await.epoch, Some(granted[0].token.epoch));
}
