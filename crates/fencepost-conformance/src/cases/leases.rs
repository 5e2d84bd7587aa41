//! Leases: exactly one holder, told apart by its epoch and never by its name.

use std::sync::Arc;
use std::time::Duration;

use fencepost_core::lease::{LeaseState, Phase, REMEMBERED};
use fencepost_core::{
    AcquireLease, Acquired, HolderName, LeaseName, LeaseStatus, LeaseToken, Release, Renewal, Store, Timestamp,
};

use crate::{Harness, dropped_after, poll_once};
use crate::stage::{Stage, nonce, ttl, writes_nothing};

fn request(holder: &str, seconds: u64) -> AcquireLease {
    AcquireLease::new(LeaseName::new("nightly").unwrap(), HolderName::new(holder).unwrap()).ttl(ttl(seconds))
}

fn granted(acquired: Acquired) -> (LeaseToken, Timestamp) {
    match acquired {
        Acquired::Granted { token, expires_at } => (token, expires_at),
        Acquired::Held { .. } | Acquired::Contended => panic!("not granted: {acquired:?}"),
    }
}

async fn acquire(store: &Arc<dyn Store>, holder: &str, seconds: u64) -> LeaseToken {
    granted(store.acquire_lease(&request(holder, seconds)).await.unwrap()).0
}

async fn state(store: &Arc<dyn Store>) -> LeaseState {
    store.lease(&LeaseName::new("nightly").unwrap()).await.unwrap().expect("the lease has a status").state
}

async fn is_held(store: &Arc<dyn Store>, holder: &str) -> bool {
    matches!(store.acquire_lease(&request(holder, 1)).await.unwrap(), Acquired::Held { .. })
}

/// A free lease is granted for its TTL, and its status says to whom and until when.
pub async fn a_free_lease_is_granted_for_its_ttl(h: &dyn Harness) {
    let store = h.store();
    let now = store.now().await.unwrap();
    let (token, expires_at) = granted(store.acquire_lease(&request("a", 10).nonce(nonce("n1"))).await.unwrap());
    assert_eq!(expires_at, now + Duration::from_secs(10));
    let state = state(&store).await;
    assert_eq!(state.epoch, Some(token.epoch));
    let holding = state.holding.unwrap();
    assert_eq!((holding.holder.as_str(), holding.since, holding.expires_at), ("a", now, expires_at));
    assert_eq!((holding.ttl, holding.nonce), (ttl(10), Some(nonce("n1"))));
}

/// A live lease answers who holds it, since when and for how long, and is not touched.
pub async fn a_live_lease_is_held_and_says_by_whom(h: &dyn Harness) {
    let store = h.store();
    let since = store.now().await.unwrap();
    let token = acquire(&store, "a", 10).await;
    h.clock().advance(Duration::from_secs(4));
    let before = state(&store).await;
    let other = h.another().await;
    let held = writes_nothing(h, "an acquire of a live lease", other.acquire_lease(&request("b", 10))).await.unwrap();
    let holder = HolderName::new("a").unwrap();
    let expires_in = Duration::from_secs(6);
    assert_eq!(held, Acquired::Held { holder, epoch: token.epoch, since, expires_in });
    assert_eq!(state(&store).await, before);
}

/// A36: the epochs of a lease that was given back are higher than any before, and differ from those of other leases.
pub async fn a36_epochs_of_leases_rise_and_never_repeat_in_a_store(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let store = &stage.store;
    let mut epochs = Vec::new();
    for n in 0..5 {
        // The clock stands still: only what the store remembers keeps the epochs rising.
        let token = acquire(store, "a", 10).await;
        epochs.push(token.epoch);
        assert_eq!(store.release_lease(&token).await.unwrap(), Release::Released);
        let other = AcquireLease::new(LeaseName::new(format!("l{n}")).unwrap(), HolderName::new("a").unwrap());
        epochs.push(granted(store.acquire_lease(&other).await.unwrap()).0.epoch);
        let slot = stage.claim("w1", 0, 10).await.token;
        epochs.push(slot.epoch);
        store.release_slot(&slot).await.unwrap();
    }
    assert!(epochs.is_sorted_by(|one, next| one < next), "{epochs:?}");
}

/// B14: a handle renews late as long as nobody took over, and is lost once somebody did.
pub async fn b14_a_late_renewal_is_held_until_somebody_takes_over(h: &dyn Harness) {
    let store = h.store();
    let token = acquire(&store, "a", 1).await;
    h.clock().advance(Duration::from_secs(3));
    let now = store.now().await.unwrap();
    assert_eq!(store.renew_lease(&token, None).await.unwrap(), Renewal::Held);
    let renewed = state(&store).await;
    assert_eq!(renewed.epoch, Some(token.epoch), "a renewal keeps the epoch");
    assert_eq!(renewed.holding.unwrap().expires_at, now + Duration::from_secs(1));
    assert!(is_held(&store, "b").await);

    h.clock().advance(Duration::from_secs(3));
    let heir = acquire(&store, "b", 10).await;
    assert!(heir.epoch > token.epoch);
    let before = state(&store).await;
    let lost = writes_nothing(h, "a lost renewal", store.renew_lease(&token, None)).await;
    assert_eq!(lost.unwrap(), Renewal::Lost);
    assert_eq!(store.release_lease(&token).await.unwrap(), Release::NotHeld);
    assert_eq!(state(&store).await, before);
}

/// B15: the same holder's name is Held while live, and gets a new epoch with the full TTL after expiry; the old handle is lost.
pub async fn b15_the_same_holder_name_is_excluded_while_live(h: &dyn Harness) {
    let store = h.store();
    let old = acquire(&store, "a", 10).await;
    h.clock().advance(Duration::from_secs(9));
    assert!(is_held(&store, "a").await);
    h.clock().advance(Duration::from_secs(1));
    let now = store.now().await.unwrap();
    let (new, expires_at) = granted(store.acquire_lease(&request("a", 10)).await.unwrap());
    assert!(new.epoch > old.epoch);
    assert_eq!(expires_at, now + Duration::from_secs(10));
    assert_eq!(state(&store).await.holding.unwrap().since, now);
    assert_eq!(store.renew_lease(&old, None).await.unwrap(), Renewal::Lost);
    assert_eq!(store.renew_lease(&new, None).await.unwrap(), Renewal::Held);
}

/// B15: of two tasks of one process with one holder's name exactly one is granted.
pub async fn b15_two_tasks_of_one_process_exclude_each_other(h: &dyn Harness) {
    let store = h.store();
    let tasks: Vec<_> = (0..2)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.acquire_lease(&request("same", 10)).await.unwrap() })
        })
        .collect();
    let mut won = 0;
    for task in tasks {
        won += usize::from(matches!(task.await.unwrap(), Acquired::Granted { .. }));
    }
    assert_eq!(won, 1);
}

/// B17: a TTL of 1 s excludes for exactly 1 s.
pub async fn b17_a_ttl_of_one_second_excludes_for_exactly_one_second(h: &dyn Harness) {
    let store = h.store();
    acquire(&store, "a", 1).await;
    h.clock().advance(Duration::from_micros(999_999));
    let held = store.acquire_lease(&request("b", 1)).await.unwrap();
    assert!(matches!(held, Acquired::Held { expires_in, .. } if expires_in == Duration::from_micros(1)), "{held:?}");
    h.clock().advance(Duration::from_micros(1));
    granted(store.acquire_lease(&request("b", 1)).await.unwrap());
}

/// B33: of forty acquires of one free lease at once exactly one is granted, and the others name the real holder.
pub async fn b33_forty_acquires_at_once_grant_exactly_one(h: &dyn Harness) {
    let mut handles = vec![h.store()];
    for _ in 0..3 {
        handles.push(h.another().await);
    }
    let tasks: Vec<_> = (0..40)
        .map(|n| {
            let store = handles[n % handles.len()].clone();
            tokio::spawn(async move { (n, store.acquire_lease(&request(&format!("h{n}"), 10)).await.unwrap()) })
        })
        .collect();
    let (mut winners, mut told, mut contended) = (Vec::new(), Vec::new(), 0);
    for task in tasks {
        match task.await.unwrap() {
            (n, Acquired::Granted { token, .. }) => winners.push((format!("h{n}"), token.epoch)),
            (_, Acquired::Held { holder, epoch, .. }) => told.push((holder.as_str().to_owned(), epoch)),
            (_, Acquired::Contended) => contended += 1,
        }
    }
    assert_eq!((winners.len(), told.len() + contended), (1, 39), "{winners:?}");
    assert!(told.iter().all(|holder| *holder == winners[0]), "{told:?} were told, {winners:?} holds it");
}

/// B33: of forty acquires at once the first goes away. What was granted to it and it had not heard of goes back: one of the others is
/// granted the lease, at once or when they ask again, and nobody is told a holder that never was.
pub async fn b33_an_acquirer_that_goes_away_leaves_the_lease_to_the_others(h: &dyn Harness) {
    let store = h.store();
    let goner = request("gone", 60 * 60);
    let mut gone = store.acquire_lease(&goner);
    let heard = poll_once(&mut gone);
    let tasks: Vec<_> = (1..40)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                let request = request(&format!("h{n}"), 60 * 60);
                (request.holder.clone(), store.acquire_lease(&request).await.unwrap())
            })
        })
        .collect();
    drop(gone);
    if let Some(answer) = heard {
        store.release_lease(&granted(answer.unwrap()).0).await.unwrap();
    }
    let (mut winner, mut told) = (None, Vec::new());
    for task in tasks {
        match task.await.unwrap() {
            (holder, Acquired::Granted { .. }) => assert_eq!(winner.replace(holder), None, "one was granted already"),
            (_, Acquired::Held { holder, .. }) => told.push(holder),
            (_, Acquired::Contended) => {}
        }
    }
    let is_real = |holder: &HolderName| holder.as_str() == "gone" || Some(holder) == winner.as_ref();
    assert!(told.iter().all(is_real), "{told:?} were told, {winner:?} holds it");
    if winner.is_none() {
        until_granted(&store).await;
    }
    assert!(is_held(&store, "late").await);
}

/// Every await of an acquire, a renewal and a release: dropped there, the call has happened or not as a whole, and whoever asks next
/// gets the lease without waiting for an expiry.
pub async fn calls_on_a_lease_may_be_dropped_at_every_await(h: &dyn Harness) {
    let store = h.store();
    for polls in 0.. {
        let request = request("gone", 60 * 60);
        let acquired = dropped_after(polls, store.acquire_lease(&request)).await;
        let ended = acquired.is_some();
        let token = match acquired {
            Some(acquired) => granted(acquired.unwrap()).0,
            None => until_granted(&store).await,
        };
        if let Some(renewed) = dropped_after(polls, store.renew_lease(&token, None)).await {
            assert_eq!(renewed.unwrap(), Renewal::Held);
        }
        let released = dropped_after(polls, store.release_lease(&token)).await;
        // Of one that was dropped nobody knows whether it was made; asking again tells, and makes it.
        let again = store.release_lease(&token).await.unwrap();
        assert_eq!(state(&store).await, LeaseState { epoch: Some(token.epoch), holding: None });
        if let Some(released) = released {
            assert_eq!((released.unwrap(), again), (Release::Released, Release::NotHeld));
        }
        if ended {
            return;
        }
    }
}

/// Asks until the lease is granted, which it is without time passing.
async fn until_granted(store: &Arc<dyn Store>) -> LeaseToken {
    loop {
        if let Acquired::Granted { token, .. } = store.acquire_lease(&request("next", 60 * 60)).await.unwrap() {
            return token;
        }
        tokio::task::yield_now().await;
    }
}

/// One lease is told as the list tells it; one that nobody ever acquired is told apart from one that is free.
pub async fn a_lease_is_inspected_by_name(h: &dyn Harness) {
    let (store, other) = (h.store(), h.another().await);
    let name = LeaseName::new("nightly").unwrap();
    let look = async || writes_nothing(h, "a look at a lease", other.lease(&name)).await.unwrap();
    assert_eq!(look().await, None);
    let token = acquire(&store, "a", 10).await;
    let held = look().await;
    assert_eq!(held.as_ref(), store.lease_status().await.unwrap().first());
    let holding = held.unwrap().state.holding.expect("it is held");
    assert_eq!((holding.holder.as_str(), holding.ttl), ("a", ttl(10)));
    // Past its expiry it is told as it is stored: nobody took over.
    h.clock().advance(Duration::from_secs(20));
    assert_eq!(look().await.unwrap().state.phase(store.now().await.unwrap()), Phase::Expired);
    store.release_lease(&token).await.unwrap();
    let state = LeaseState { epoch: Some(token.epoch), holding: None };
    assert_eq!(look().await, Some(LeaseStatus { name: name.clone(), state }));
    assert_eq!(store.lease(&LeaseName::new("nightly2").unwrap()).await.unwrap(), None);
}

/// The same acquire again with the same nonce returns the stored grant: same epoch, remaining TTL, nothing written.
pub async fn the_same_acquire_with_the_same_nonce_returns_the_stored_grant(h: &dyn Harness) {
    let store = h.store();
    let named = request("a", 10).nonce(nonce("n1"));
    let first = store.acquire_lease(&named).await.unwrap();
    h.clock().advance(Duration::from_secs(7));
    let again = writes_nothing(h, "an acquire resolved by its nonce", store.acquire_lease(&named)).await;
    assert_eq!(again.unwrap(), first);
    let other = store.acquire_lease(&request("a", 10).nonce(nonce("n2"))).await.unwrap();
    assert!(matches!(other, Acquired::Held { .. }), "{other:?}");
}

/// The nonce of a grant that expired or was given back counts for nothing.
pub async fn the_nonce_of_a_past_grant_counts_for_nothing(h: &dyn Harness) {
    let store = h.store();
    let named = request("a", 1).nonce(nonce("n1"));
    let first = granted(store.acquire_lease(&named).await.unwrap()).0;
    h.clock().advance(Duration::from_secs(1));
    let second = granted(store.acquire_lease(&named).await.unwrap()).0;
    assert!(second.epoch > first.epoch);
    store.release_lease(&second).await.unwrap();
    let third = granted(store.acquire_lease(&named).await.unwrap()).0;
    assert!(third.epoch > second.epoch);
}

/// A renewal extends by the TTL of the acquire, or by the one it names, which then stays.
pub async fn a_renewal_extends_by_its_own_ttl_or_the_first(h: &dyn Harness) {
    let store = h.store();
    let token = acquire(&store, "a", 10).await;
    for (named, seconds) in [(None, 10), (Some(ttl(60)), 60), (None, 60), (Some(ttl(2)), 2)] {
        h.clock().advance(Duration::from_secs(1));
        let now = store.now().await.unwrap();
        assert_eq!(store.renew_lease(&token, named).await.unwrap(), Renewal::Held);
        assert_eq!(state(&store).await.holding.unwrap().expires_at, now + Duration::from_secs(seconds));
    }
}

/// A lease is given back once, also after expiry, and is free at once; nobody else's is touched.
pub async fn a_lease_is_given_back_once(h: &dyn Harness) {
    let store = h.store();
    let token = acquire(&store, "a", 10).await;
    assert_eq!(store.release_lease(&token).await.unwrap(), Release::Released);
    let free = state(&store).await;
    assert_eq!((free.holding, free.epoch), (None, Some(token.epoch)));
    let again = writes_nothing(h, "a second release", store.release_lease(&token)).await;
    assert_eq!(again.unwrap(), Release::NotHeld);
    assert_eq!(store.renew_lease(&token, None).await.unwrap(), Renewal::Lost, "a free lease is not held");

    let heir = acquire(&store, "b", 1).await;
    assert_eq!(store.release_lease(&token).await.unwrap(), Release::NotHeld);
    assert!(is_held(&store, "c").await);
    h.clock().advance(Duration::from_secs(5));
    assert_eq!(store.release_lease(&heir).await.unwrap(), Release::Released, "an expired holder gives back, too");
}

/// A lease that nobody ever acquired is lost to a renewal and not held by a release; both write nothing.
pub async fn an_unknown_lease_is_nobodys(h: &dyn Harness) {
    let store = h.store();
    let known = acquire(&store, "a", 10).await;
    let unknown = LeaseToken { name: LeaseName::new("unknown").unwrap(), epoch: known.epoch };
    let renewal = writes_nothing(h, "a renewal of nothing", store.renew_lease(&unknown, None)).await;
    assert_eq!(renewal.unwrap(), Renewal::Lost);
    let release = writes_nothing(h, "a release of nothing", store.release_lease(&unknown)).await;
    assert_eq!(release.unwrap(), Release::NotHeld);
    let names: Vec<_> = store.lease_status().await.unwrap().into_iter().map(|status| status.name).collect();
    assert_eq!(names, [known.name]);
}

/// A free lease that nobody was granted for 30 days is forgotten by maintenance; a held one is not, and no epoch repeats.
pub async fn maintenance_forgets_leases_that_nobody_used_for_long(h: &dyn Harness) {
    let store = h.store();
    let acquire = async |name: &str| {
        let request = AcquireLease::new(LeaseName::new(name).unwrap(), HolderName::new("a").unwrap());
        granted(store.acquire_lease(&request).await.unwrap()).0
    };
    let (free, held) = (acquire("free").await, acquire("held").await);
    store.release_lease(&free).await.unwrap();
    h.clock().advance(REMEMBERED - Duration::from_secs(60));
    assert_eq!(store.maintain(None).await.unwrap(), 0, "not yet");
    h.clock().advance(Duration::from_secs(120));
    assert_eq!(store.maintain(None).await.unwrap(), 1);
    let left: Vec<_> = store.lease_status().await.unwrap().into_iter().map(|status| status.name).collect();
    assert_eq!(left, [held.name]);
    assert_eq!(writes_nothing(h, "maintenance of nothing", store.maintain(None)).await.unwrap(), 0);
    assert!(acquire("free").await.epoch > free.epoch);
}
