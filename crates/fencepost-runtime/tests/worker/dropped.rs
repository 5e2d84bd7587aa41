//! Calls on leases that are dropped at any await: the next acquire gets through at once, and no task and no sleeper is left.

use std::sync::Arc;
use std::time::Duration;

use fencepost_conformance::dropped_after;
use fencepost_core::{AcquireLease, Acquired, HolderName, LeaseName, Leases, Release, Result, Store, Ttl};
use fencepost_runtime::{KeptLease, Waiting, campaign};

use crate::spy::Hangs;
use crate::stage::{Stage, pass};

/// How long every call takes.
const CALL: Duration = Duration::from_millis(10);
const HOUR: Duration = Duration::from_secs(3_600);

fn request() -> AcquireLease {
    AcquireLease::new(LeaseName::new("leader").unwrap(), HolderName::new("h").unwrap()).ttl(Ttl::MAX)
}

/// Whoever asks next is granted it at once, and gives it back.
async fn is_free(stage: &Stage) {
    let answer = stage.store.acquire_lease(&request()).await.unwrap();
    let Acquired::Granted { token, .. } = answer else { panic!("a grant was left behind: {answer:?}") };
    assert_eq!(stage.store.release_lease(&token).await.unwrap(), Release::Released);
}

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// Drops a call after one poll, two, and so on until it ends, on a lease that is free and on one that is held for a while; `end` gives
/// back what it was granted.
async fn drop_in_turn<T, C, E>(call: impl Fn(Arc<dyn Store>) -> C, end: impl Fn(Arc<dyn Store>, T) -> E)
where
    C: Future<Output = Result<T>>,
    E: Future<Output = ()>,
{
    let stage = Stage::new(1).await;
    stage.store.hang(Hangs::EverythingFor(CALL));
    let baseline = tasks();
    for held_first in [false, true] {
        for polls in 0.. {
            let first = if held_first { Some(stage.store.acquire_lease(&request()).await.unwrap()) } else { None };
            let releasing = async {
                if let Some(Acquired::Granted { token, .. }) = first {
                    pass(CALL * 5).await;
                    stage.store.release_lease(&token).await.unwrap();
                }
            };
            let (answer, ()) = tokio::join!(dropped_after(polls, call(stage.store.clone())), releasing);
            let ended = answer.is_some();
            if let Some(granted) = answer {
                end(stage.store.clone(), granted.unwrap()).await;
            }
            is_free(&stage).await;
            // A task that was aborted ends at the next turn.
            pass(CALL).await;
            assert_eq!(tasks(), baseline, "after {polls} polls");
            assert!(stage.store.sleepers.is_empty(), "after {polls} polls");
            if ended {
                assert!(polls > 1, "there was an await to drop it at");
                break;
            }
        }
    }
}

async fn release_granted(store: Arc<dyn Store>, answer: Acquired) {
    if let Acquired::Granted { token, .. } = answer {
        assert_eq!(store.release_lease(&token).await.unwrap(), Release::Released);
    }
}

async fn release_kept(_: Arc<dyn Store>, answer: std::result::Result<KeptLease, Acquired>) {
    if let Ok(lease) = answer {
        assert_eq!(lease.release().await.unwrap(), Release::Released);
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquire_that_waits() {
    let call = |store: Arc<dyn Store>| async move { store.acquire_within(&request(), HOUR).await };
    drop_in_turn(call, release_granted).await;
}

#[tokio::test(start_paused = true)]
async fn a_kept_lease_that_is_acquired() {
    let call = |store| async { KeptLease::acquire(store, &request()).await };
    drop_in_turn(call, release_kept).await;
}

#[tokio::test(start_paused = true)]
async fn a_kept_lease_that_is_waited_for() {
    let call = |store| async { KeptLease::acquire_within(store, &request(), HOUR).await };
    drop_in_turn(call, release_kept).await;
}

#[tokio::test(start_paused = true)]
async fn a_campaign() {
    let call = |store| async { campaign(store, &request()).await };
    drop_in_turn(call, async |_, term: fencepost_runtime::Term| {
        assert_eq!(term.resign().await.unwrap(), Release::Released);
    })
    .await;
}

/// A release that has begun is made also when its caller goes away.
#[tokio::test(start_paused = true)]
async fn a_release_that_has_begun() {
    let stage = Stage::new(1).await;
    stage.store.hang(Hangs::EverythingFor(CALL));
    let baseline = tasks();
    for polls in 1.. {
        let lease = KeptLease::acquire(stage.store.clone(), &request()).await.unwrap().unwrap();
        let answer = dropped_after(polls, lease.release()).await;
        pass(CALL * 2).await;
        is_free(&stage).await;
        assert_eq!(tasks(), baseline);
        if let Some(answer) = answer {
            assert_eq!(answer.unwrap(), Release::Released);
            return;
        }
    }
}

/// A store that does not answer holds nobody up for longer than the lease lasts.
#[tokio::test(start_paused = true)]
async fn a_release_that_is_not_answered_ends_with_the_ttl() {
    let stage = Stage::new(1).await;
    let lease = KeptLease::acquire(stage.store.clone(), &request()).await.unwrap().unwrap();
    stage.store.hang(Hangs::Everything);
    assert_eq!(lease.release().await.unwrap_err().kind(), fencepost_core::Kind::Unavailable);
}
