//! Leader election: terms follow each other, each knows when and why it is over, and a campaign that is dropped leaves nobody leading.

use std::sync::Arc;
use std::time::Duration;

use fencepost_core::{AcquireLease, HolderName, LeaseName, Leases, NewMessage, Partitions, QueueName, Queues};
use fencepost_core::{Epoch, Kind, Reason, Release, Store, Ttl};
use fencepost_mem::MemStore;
use fencepost_runtime::{LossReason, Term, campaign};
use tokio::time::Instant;

use crate::spy::Hangs;
use crate::stage::{PATIENCE, Stage, TTL, pass, ttl, virtual_clock};

fn name() -> LeaseName {
    LeaseName::new("leader").unwrap()
}

fn request(ttl: Ttl) -> AcquireLease {
    AcquireLease::new(name(), HolderName::new("candidate").unwrap()).ttl(ttl)
}

async fn leads(store: &MemStore) -> Term {
    campaign(Arc::new(store.clone()), &request(Ttl::MAX)).await.unwrap()
}

/// B05: who campaigns while another leads waits, for as long as it takes, and leads at the resignation.
#[tokio::test(start_paused = true)]
async fn b05_a_campaign_takes_over_when_the_leader_resigns() {
    let store = MemStore::new(virtual_clock());
    let (mut term, mut epochs) = (leads(&store).await, Vec::<Epoch>::new());
    for _ in 0..3 {
        epochs.push(term.token().epoch);
        let next = tokio::spawn({
            let store = store.clone();
            async move { leads(&store).await }
        });
        pass(Duration::from_secs(100 * 3_600)).await;
        assert!(!next.is_finished() && !term.lost().is_cancelled() && term.time_left() > TTL);
        let since = Instant::now();
        assert_eq!(term.resign().await.unwrap(), Release::Released);
        term = next.await.unwrap();
        assert_eq!(since.elapsed(), Duration::ZERO);
    }
    assert!(epochs.is_sorted_by(|one, next| one < next) && term.token().epoch > epochs[2], "{epochs:?}");
}

/// B05: and at the expiry of a leader that is not there any more.
#[tokio::test(start_paused = true)]
async fn b05_a_campaign_takes_over_when_the_leader_has_vanished() {
    let stage = Stage::new(1).await;
    stage.store.acquire_lease(&request(ttl(TTL))).await.unwrap();
    let since = Instant::now();
    let term = campaign(stage.store.clone(), &request(Ttl::MAX)).await.unwrap();
    assert!((TTL..TTL + Duration::from_millis(250)).contains(&since.elapsed()), "{:?}", since.elapsed());
    assert_eq!(term.loss().reason(), None);
}

/// A leader that does not know yet that its term is over writes nothing.
#[tokio::test(start_paused = true)]
async fn terms_overlap_in_minds_and_never_in_guarded_writes() {
    let store = MemStore::new(virtual_clock());
    let queue = QueueName::new("decisions").unwrap();
    store.create_queue(&queue, Partitions::default()).await.unwrap();
    let write = |term: &Term| {
        store.write(|tx| {
            tx.guard_in(term.token())?;
            tx.send_in(&queue, NewMessage::new("decided")?)
        })
    };
    let old = leads(&store).await;
    write(&old).unwrap();
    store.force_release_lease(&name(), &Reason::new("it hangs").unwrap()).await.unwrap();
    let new = leads(&store).await;
    assert!(!old.lost().is_cancelled(), "it has not heard of it");
    assert_eq!(write(&old).unwrap_err().kind(), Kind::Fenced);
    write(&new).unwrap();
    assert_eq!(store.queue_status().await.unwrap()[0].stored, 2);
}

#[tokio::test(start_paused = true)]
async fn a_term_that_was_taken_says_so() {
    let store = MemStore::new(virtual_clock());
    let term = campaign(Arc::new(store.clone()), &request(ttl(TTL))).await.unwrap();
    let loss = term.loss().clone();
    assert_eq!(loss.reason(), None);
    store.force_release_lease(&name(), &Reason::new("it hangs").unwrap()).await.unwrap();
    let reason = tokio::time::timeout(PATIENCE, loss.happened()).await.expect("a renewal tells");
    assert_eq!((reason, term.time_left()), (LossReason::Taken, Duration::ZERO));
    assert_eq!(term.resign().await.unwrap(), Release::NotHeld);
    assert_eq!(loss.reason(), Some(LossReason::Taken));
}

#[tokio::test(start_paused = true)]
async fn a_term_that_is_resigned_or_dropped_says_so() {
    let store = MemStore::new(virtual_clock());
    let term = leads(&store).await;
    let (loss, lost) = (term.loss().clone(), term.lost().clone());
    term.resign().await.unwrap();
    assert!(lost.is_cancelled());
    assert_eq!(loss.happened().await, LossReason::Released);
    let loss = leads(&store).await.loss().clone();
    assert_eq!(loss.reason(), Some(LossReason::Released));
}

/// B07, in real time: no renewal gets through, and whoever works under the term is told before it can be somebody else's.
#[tokio::test]
async fn b07_a_term_whose_deadline_passes_says_so() {
    let stage = Stage::real(1).await;
    let term = campaign(stage.store.clone(), &request(ttl(Duration::from_secs(1)))).await.unwrap();
    stage.store.hang(Hangs::Renewals);
    assert_eq!(term.loss().happened().await, LossReason::DeadlinePassed);
    assert!(stage.store.now().await.unwrap() < expires_at(&stage).await);
    stage.store.hang(Hangs::Nothing);
    assert_eq!(term.resign().await.unwrap(), Release::Released, "it was still its own");
}

async fn expires_at(stage: &Stage) -> fencepost_core::Timestamp {
    stage.store.lease(&name()).await.unwrap().unwrap().state.holding.unwrap().expires_at
}
