//! Leases through the facade, on every engine and in real time: waiting, handing over, and calls that are dropped at any await.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost::runtime::{KeptLease, Term, Waiting, campaign};
use fencepost::{AcquireLease, Acquired, HolderName, LeaseName, LeaseToken, Release, Result, Store, Ttl};
use fencepost_conformance::dropped_after;
use tempfile::TempDir;

/// How long anything may take that must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a waiter sleeps that nobody wakes.
const ASLEEP: Duration = Duration::from_secs(5);

/// Two handles on one store, as far apart as the engine allows.
async fn stores(folder: &TempDir) -> Vec<[Store; 2]> {
    let mem = fencepost::open("mem:").await.unwrap();
    let mut stores = vec![[mem.clone(), mem]];
    #[cfg(feature = "sqlite")]
    {
        let url = format!("sqlite:{}", folder.path().join("app.db").display());
        let open = || async { fencepost::open(url.clone()).create(true).await.unwrap() };
        stores.push([open().await, open().await]);
    }
    stores
}

fn request(holder: &str) -> AcquireLease {
    AcquireLease::new(LeaseName::new("nightly").unwrap(), HolderName::new(holder).unwrap()).ttl(Ttl::MAX)
}

fn granted(answer: Acquired) -> LeaseToken {
    match answer {
        Acquired::Granted { token, .. } => token,
        refused => panic!("it is granted: {refused:?}"),
    }
}

/// Ten times over, a waiter gets what another handle gives back. Unwoken, each would sleep for [`ASLEEP`].
#[tokio::test]
async fn a_waiter_is_woken_by_a_release_through_another_handle() {
    let folder = tempfile::tempdir().unwrap();
    for [here, there] in stores(&folder).await {
        let since = Instant::now();
        for _ in 0..10 {
            let held = granted(there.acquire_lease(&request("there")).await.unwrap());
            let asleep = tokio::spawn({
                let here = here.clone();
                async move { here.acquire_within(&request("here"), PATIENCE).await }
            });
            tokio::task::yield_now().await;
            assert_eq!(there.release_lease(&held).await.unwrap(), Release::Released);
            let token = granted(asleep.await.unwrap().unwrap());
            here.release_lease(&token).await.unwrap();
        }
        assert!(since.elapsed() < ASLEEP * 5, "{} was slow: {:?}", here.info().engine, since.elapsed());
    }
}

/// B17, in real time: whoever waits gets the lease of a holder that is gone, not before its TTL has passed, and soon after.
#[tokio::test]
async fn b17_a_lease_of_one_second_is_waited_for_one_second() {
    let folder = tempfile::tempdir().unwrap();
    for [here, there] in stores(&folder).await {
        let short = request("there").ttl(Ttl::new(Duration::from_secs(1)).unwrap());
        let Acquired::Granted { expires_at, .. } = there.acquire_lease(&short).await.unwrap() else {
            panic!("it is free")
        };
        granted(here.acquire_within(&request("here"), PATIENCE).await.unwrap());
        let late = here.now().await.unwrap();
        assert!(late >= expires_at && late.since(expires_at) < ASLEEP / 2, "{:?}", late.since(expires_at));
    }
}

/// Drops a call after one poll, two, and so on until it ends. After each, whoever asks next gets the lease, long before it would
/// expire, and no task is left.
async fn drop_in_turn<T>(call: impl AsyncFn(&Store) -> Result<T>, end: impl AsyncFn(&Store, T)) {
    let folder = tempfile::tempdir().unwrap();
    for [store, other] in stores(&folder).await {
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let baseline = tasks();
        for polls in 0.. {
            let answer = dropped_after(polls, call(&store)).await;
            let ended = answer.is_some();
            if let Some(answer) = answer {
                end(&store, answer.unwrap()).await;
            }
            let token = granted(other.acquire_within(&request("next"), PATIENCE).await.unwrap());
            assert_eq!(other.release_lease(&token).await.unwrap(), Release::Released);
            let since = Instant::now();
            while tasks() > baseline {
                assert!(since.elapsed() < PATIENCE, "after {polls} polls there are tasks left");
                tokio::task::yield_now().await;
            }
            if ended {
                break;
            }
        }
    }
}

async fn release_granted(store: &Store, answer: Acquired) {
    assert_eq!(store.release_lease(&granted(answer)).await.unwrap(), Release::Released);
}

async fn release_kept(_: &Store, answer: std::result::Result<KeptLease, Acquired>) {
    assert_eq!(answer.unwrap().release().await.unwrap(), Release::Released);
}

#[tokio::test]
async fn an_acquire_that_waits_may_be_dropped_at_every_await() {
    drop_in_turn(async |store| store.acquire_within(&request("gone"), PATIENCE).await, release_granted).await;
}

#[tokio::test]
async fn a_kept_lease_may_be_dropped_at_every_await_of_its_acquire() {
    drop_in_turn(async |store| KeptLease::acquire(store.contract(), &request("gone")).await, release_kept).await;
    let within = async |store: &Store| KeptLease::acquire_within(store.contract(), &request("gone"), PATIENCE).await;
    drop_in_turn(within, release_kept).await;
}

#[tokio::test]
async fn a_campaign_may_be_dropped_at_every_await() {
    let resign = async |_: &Store, term: Term| {
        assert_eq!(term.resign().await.unwrap(), Release::Released);
    };
    drop_in_turn(async |store| campaign(store.contract(), &request("gone")).await, resign).await;
}

/// B33 through the facade, with waiting: whoever is aborted, while it waits or gives back, holds nobody up.
#[tokio::test(flavor = "multi_thread")]
async fn b33_forty_waiters_of_which_some_are_aborted_all_get_their_turn() {
    let folder = tempfile::tempdir().unwrap();
    for [here, there] in stores(&folder).await {
        let handles = [Arc::new(here), Arc::new(there)];
        let waiters: Vec<_> = (0..40)
            .map(|n| {
                let store = handles[n % 2].clone();
                tokio::spawn(async move {
                    let lease = KeptLease::acquire_within(store.contract(), &request("waiter"), PATIENCE).await;
                    assert_eq!(lease.unwrap().unwrap().release().await.unwrap(), Release::Released);
                })
            })
            .collect();
        for (n, waiter) in waiters.into_iter().enumerate() {
            if n % 4 == 0 {
                waiter.abort();
            } else {
                waiter.await.unwrap();
            }
        }
    }
}
