//! The engine's clock decides: a host clock that is turned back neither steals a grant nor makes it immortal.

use std::time::Duration;

use fencepost_core::{AcquireLease, Acquired, Epoch, HolderName, LeaseName, Timestamp};

use crate::Harness;
use crate::stage::{Stage, ttl};

const HOUR_BACK: i64 = -3_600_000_000;

/// A slot's grant lasts for its TTL although the host's clock is turned back by an hour meanwhile.
pub async fn a_clock_turned_back_neither_steals_nor_freezes_a_slot(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let other = stage.through(h.another().await);
    let now = other.store.now().await.unwrap();
    let grant = stage.claim("w1", 0, 10).await;
    stage.clock.step_wall(HOUR_BACK);
    assert_eq!(stage.store.now().await.unwrap(), now, "time does not run backwards");
    for handle in [&stage, &other] {
        assert_eq!(handle.try_claim("w2", 0, 10).await, None);
    }
    stage.pass(Duration::from_micros(9_999_999));
    for handle in [&stage, &other] {
        assert_eq!(handle.try_claim("w2", 0, 10).await, None);
    }
    stage.pass(Duration::from_micros(1));
    let heir = other.claim("w2", 0, 10).await;
    assert!(heir.token.epoch > grant.token.epoch);
    assert_eq!(heir.expires_at, grant.expires_at + Duration::from_secs(10));
}

/// A handle opened after the clock was turned back goes on from what the store has recorded.
pub async fn a_handle_opened_after_the_clock_was_turned_back_steals_nothing(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let grant = stage.claim("w1", 0, 10).await;
    stage.clock.step_wall(HOUR_BACK);
    let late = stage.through(h.another().await);
    assert_eq!(late.try_claim("w2", 0, 10).await, None);
    stage.pass_seconds(10);
    let heir = late.claim("w2", 0, 10).await;
    assert!(heir.token.epoch > grant.token.epoch, "epochs rise although the clock went back");
    assert!(heir.expires_at >= grant.expires_at + Duration::from_secs(10));
}

/// A lease lasts for its TTL although the host's clock is turned back by an hour meanwhile.
pub async fn a_clock_turned_back_neither_steals_nor_freezes_a_lease(h: &dyn Harness) {
    let (store, clock) = (h.store(), h.clock());
    let request = AcquireLease::new(LeaseName::new("l").unwrap(), HolderName::new("a").unwrap()).ttl(ttl(10));
    let acquire = async || -> Option<(Epoch, Timestamp)> {
        match store.acquire_lease(&request).await.unwrap() {
            Acquired::Granted { token, expires_at } => Some((token.epoch, expires_at)),
            Acquired::Held { .. } | Acquired::Contended => None,
        }
    };
    let (epoch, expires_at) = acquire().await.unwrap();
    clock.step_wall(HOUR_BACK);
    assert_eq!(acquire().await, None);
    clock.advance(Duration::from_micros(9_999_999));
    assert_eq!(acquire().await, None);
    clock.advance(Duration::from_micros(1));
    let (heir, later) = acquire().await.unwrap();
    assert!(heir > epoch);
    assert_eq!(later, expires_at + Duration::from_secs(10));
}

/// Every handle on a store tells the same time, and it moves with the clock.
pub async fn every_handle_tells_the_same_time(h: &dyn Harness) {
    let (one, two) = (h.store(), h.another().await);
    let before = one.now().await.unwrap();
    h.clock().advance(Duration::from_secs(90));
    assert_eq!(one.now().await.unwrap(), before + Duration::from_secs(90));
    assert_eq!(two.now().await.unwrap(), before + Duration::from_secs(90));
}
