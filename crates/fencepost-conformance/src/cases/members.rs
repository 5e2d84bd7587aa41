//! Membership: the numbers that fair share is computed from, and the renewal of all slots in one call.

use std::time::Duration;

use fencepost_core::{Renewal, Start};

use crate::Harness;
use crate::stage::{Stage, count, index, nonce, path, ttl, writes_nothing};

/// The first heartbeat joins; every one learns the live members, the fewest slots held, and the consumer's slots.
pub async fn a_heartbeat_learns_who_works_and_how_much(h: &dyn Harness) {
    let stage = Stage::new(h, 3).await;
    let grants = [stage.claim("m1", 0, 30).await, stage.claim("m1", 1, 30).await, stage.claim("m2", 2, 30).await];
    let pulse = stage.store.heartbeat(&stage.heartbeat("m1", &[&grants[0], &grants[1]])).await.unwrap();
    assert_eq!((pulse.workers, pulse.fewest, pulse.slots), (1, 2, count(3)));
    assert_eq!(pulse.held, [Renewal::Held, Renewal::Held]);

    let pulse = stage.store.heartbeat(&stage.heartbeat("m2", &[&grants[2]])).await.unwrap();
    assert_eq!((pulse.workers, pulse.fewest), (2, 1));
    let idle = stage.through(h.another().await);
    let pulse = idle.store.heartbeat(&idle.heartbeat("m3", &[])).await.unwrap();
    assert_eq!((pulse.workers, pulse.fewest, pulse.held), (3, 0, vec![]));
    let pulse = stage.store.heartbeat(&stage.heartbeat("m1", &[&grants[0], &grants[1]])).await.unwrap();
    assert_eq!((pulse.workers, pulse.fewest), (3, 0), "a further heartbeat joins nobody");

    let now = stage.store.now().await.unwrap();
    let members = stage.store.members(&stage.path).await.unwrap();
    let told: Vec<_> = members.iter().map(|member| (member.worker.as_str(), member.held, member.expires_at)).collect();
    let expires_at = now + Duration::from_secs(10);
    assert_eq!(told, [("m1", 2, expires_at), ("m2", 1, expires_at), ("m3", 0, expires_at)]);
}

/// A heartbeat renews each slot by its own epoch and by the TTL it was claimed with; what is lost is told in its place.
pub async fn a_heartbeat_judges_each_slot_by_its_own_epoch(h: &dyn Harness) {
    let stage = Stage::new(h, 4).await;
    let short = stage.claim("m1", 0, 5).await;
    let long = stage.claim("m1", 1, 60).await;
    let released = stage.claim("m1", 2, 60).await;
    stage.store.release_slot(&released.token).await.unwrap();
    stage.pass_seconds(5);
    let heir = stage.claim("m2", 0, 60).await;
    let before = stage.state(0).await;

    let beat = stage.heartbeat("m1", &[&short, &long, &released]);
    let pulse = stage.store.heartbeat(&beat).await.unwrap();
    assert_eq!(pulse.held, [Renewal::Lost, Renewal::Held, Renewal::Lost]);
    assert_eq!(pulse.fewest, 1, "only what is still held counts");
    assert_eq!(stage.store.members(&stage.path).await.unwrap()[0].held, 1);
    assert_eq!(stage.state(0).await, before, "the heir is untouched");
    assert_eq!(stage.state(1).await.owner.unwrap().expires_at, long.expires_at + Duration::from_secs(5));
    assert_eq!(stage.state(2).await.owner, None);
    assert!(heir.token.epoch > short.token.epoch);
}

/// A heartbeat renews a slot with an open batch, and one that expired without a taker; the batch stays.
pub async fn a_heartbeat_renews_open_and_expired_slots(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    stage.send(0, 2).await;
    let (open, held) = (stage.claim("m1", 0, 5).await, stage.claim("m1", 1, 5).await);
    let batch = stage.receive(&open.token, 100).await;
    stage.pass_seconds(60);
    let pulse = stage.store.heartbeat(&stage.heartbeat("m1", &[&held, &open])).await.unwrap();
    assert_eq!(pulse.held, [Renewal::Held, Renewal::Held]);
    for slot in [0, 1] {
        assert_eq!(stage.state(slot).await.owner.unwrap().expires_at, open.expires_at + Duration::from_secs(60));
        assert_eq!(stage.try_claim("m2", slot, 5).await, None);
    }
    assert_eq!(stage.receive(&open.token, 100).await, batch);
}

/// A slot that a re-created consumer does not have any more is lost like any other, and the heartbeat counts.
pub async fn a_heartbeat_with_a_slot_that_is_gone_is_lost(h: &dyn Harness) {
    let mut stage = Stage::new(h, 4).await;
    let grant = stage.claim("m1", 3, 30).await;
    stage.store.drop_consumer(&stage.path, true).await.unwrap();
    stage.slots = count(2);
    stage.create(Start::Earliest).await;
    let pulse = stage.store.heartbeat(&stage.heartbeat("m1", &[&grant])).await.unwrap();
    assert_eq!((pulse.held, pulse.workers, pulse.slots), (vec![Renewal::Lost], 1, count(2)));
}

/// A membership lapses exactly at its TTL, counts for nothing from then on, and a new heartbeat joins again.
pub async fn a_membership_lapses_exactly_at_its_ttl(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    stage.store.heartbeat(&stage.heartbeat("m1", &[])).await.unwrap();
    stage.pass(Duration::from_micros(9_999_999));
    assert_eq!(stage.store.members(&stage.path).await.unwrap().len(), 1);
    stage.pass(Duration::from_micros(1));
    assert_eq!(stage.store.members(&stage.path).await.unwrap(), []);
    assert_eq!(stage.store.consumer_status(None).await.unwrap()[0].workers, 0);

    let grant = stage.claim("m2", 0, 30).await;
    let pulse = stage.store.heartbeat(&stage.heartbeat("m2", &[&grant])).await.unwrap();
    assert_eq!((pulse.workers, pulse.fewest), (1, 1), "a lapsed member is not waited for");
    let pulse = stage.store.heartbeat(&stage.heartbeat("m1", &[])).await.unwrap();
    assert_eq!((pulse.workers, pulse.fewest), (2, 0));
}

/// A heartbeat keeps its member live, by the TTL that it names.
pub async fn a_heartbeat_extends_its_membership(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let mut beat = stage.heartbeat("m1", &[]);
    for seconds in [10, 60] {
        beat.ttl = ttl(seconds);
        stage.store.heartbeat(&beat).await.unwrap();
        stage.pass_seconds(9);
        let now = stage.store.now().await.unwrap();
        let members = stage.store.members(&stage.path).await.unwrap();
        assert_eq!(members[0].expires_at, now + Duration::from_secs(seconds - 9));
    }
}

/// Who leaves is gone at once and keeps its slots; to leave twice, or from nowhere, is no error and writes nothing.
pub async fn leaving_ends_the_membership_and_touches_no_slot(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let grant = stage.claim("m1", 0, 30).await;
    stage.store.heartbeat(&stage.heartbeat("m1", &[&grant])).await.unwrap();
    stage.store.heartbeat(&stage.heartbeat("m2", &[])).await.unwrap();
    let before = stage.state(0).await;
    stage.store.leave(&stage.path, &nonce("m1")).await.unwrap();
    assert_eq!(stage.state(0).await, before);
    let members = stage.store.members(&stage.path).await.unwrap();
    assert_eq!(members.iter().map(|member| member.worker.as_str()).collect::<Vec<_>>(), ["m2"]);

    writes_nothing(h, "leaving twice", stage.store.leave(&stage.path, &nonce("m1"))).await.unwrap();
    let nowhere = path("nowhere", "nobody");
    writes_nothing(h, "leaving from nowhere", stage.store.leave(&nowhere, &nonce("m1"))).await.unwrap();
    assert_eq!(stage.store.renew_slot(&grant.token).await.unwrap(), Renewal::Held);
}

/// Two workers of one name are two members: the member's own nonce tells them apart.
pub async fn two_members_of_one_name_are_two(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    for (member, workers) in [("n1", 1), ("n2", 2), ("n1", 2)] {
        let mut beat = stage.heartbeat("same", &[]);
        beat.member = nonce(member);
        assert_eq!(stage.store.heartbeat(&beat).await.unwrap().workers, workers);
    }
    assert_eq!(stage.store.members(&stage.path).await.unwrap().len(), 2);
    assert_eq!(stage.store.slot_status(None).await.unwrap()[0].slot, index(0));
}

/// Members of one consumer count for no other.
pub async fn members_of_consumers_are_independent(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let other = stage.consumer("shipping", 2, Start::Earliest).await;
    stage.store.heartbeat(&stage.heartbeat("m1", &[])).await.unwrap();
    assert_eq!(other.store.members(&other.path).await.unwrap(), []);
    assert_eq!(other.store.heartbeat(&other.heartbeat("m2", &[])).await.unwrap().workers, 1);
}
