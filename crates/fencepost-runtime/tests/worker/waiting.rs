//! Waiting for a lease: woken by whoever gives it back, at its expiry otherwise, and asking again each time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fencepost_core::{
    AcquireLease, Acquired, BatchSize, ClaimSlot, Consumers, CreateConsumer, Delay, Error, Failure, HolderName, Kind,
    LeaseName, LeaseToken, Leases, NewMessage, Partitions, Queues, Reason, Release, SlotCount, Slots, Store, Ttl,
    WorkerName,
};
use fencepost_mem::MemStore;
use fencepost_runtime::{KeptLease, Waiting};
use tokio::time::Instant;

use crate::stage::{PATIENCE, Stage, TTL, pass, path, ttl, virtual_clock};

const HOUR: Duration = Duration::from_secs(3_600);
/// Waiters for one expiry do not ask in step; timers count whole milliseconds.
const SPREAD: Duration = Duration::from_millis(52);

fn name() -> LeaseName {
    LeaseName::new("leader").unwrap()
}

fn request(holder: &str, ttl: Ttl) -> AcquireLease {
    AcquireLease::new(name(), HolderName::new(holder).unwrap()).ttl(ttl)
}

async fn granted(store: &impl Store, ttl: Ttl) -> LeaseToken {
    match store.acquire_lease(&request("holder", ttl)).await.unwrap() {
        Acquired::Granted { token, .. } => token,
        refused => panic!("it was free: {refused:?}"),
    }
}

/// Whether it was granted, and after how long.
async fn waited(store: &impl Store, wait: Duration) -> (Acquired, Duration) {
    let since = Instant::now();
    let answer = store.acquire_within(&request("waiter", Ttl::MAX), wait).await.unwrap();
    (answer, since.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_by_a_release_and_by_force() {
    let store = MemStore::new(virtual_clock());
    for by_force in [false, true] {
        let token = granted(&store, Ttl::MAX).await;
        let waiting = tokio::spawn({
            let store = store.clone();
            async move { waited(&store, HOUR).await }
        });
        pass(Duration::from_millis(1_234)).await;
        if by_force {
            store.force_release_lease(&name(), &Reason::new("as asked").unwrap()).await.unwrap();
        } else {
            assert_eq!(store.release_lease(&token).await.unwrap(), Release::Released);
        }
        let (answer, after) = waiting.await.unwrap();
        let Acquired::Granted { token, .. } = answer else { panic!("it was given back: {answer:?}") };
        assert_eq!(after.as_millis(), 1_234, "it was woken at once");
        store.release_lease(&token).await.unwrap();
    }
}

/// B05 for a lease: nobody gives it back, and the waiter gets it right after the holder's TTL.
#[tokio::test(start_paused = true)]
async fn a_waiter_gets_the_lease_when_it_expires() {
    let stage = Stage::new(1).await;
    for time in [Duration::from_millis(100), Duration::from_secs(2), TTL] {
        granted(&*stage.store, ttl(time)).await;
        let (answer, after) = waited(&*stage.store, HOUR).await;
        let Acquired::Granted { token, .. } = answer else { panic!("it has expired: {answer:?}") };
        assert!((time..=time + SPREAD).contains(&after), "{after:?} for {time:?}");
        stage.store.release_lease(&token).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn after_the_wait_the_holder_is_answered() {
    let stage = Stage::new(1).await;
    let token = granted(&*stage.store, Ttl::MAX).await;
    for wait in [Duration::ZERO, Duration::from_millis(1), Duration::from_secs(61)] {
        let before = stage.store.calls("acquire_lease");
        let (answer, after) = waited(&*stage.store, wait).await;
        assert!(matches!(answer, Acquired::Held { epoch, .. } if epoch == token.epoch), "{answer:?}");
        assert!((wait..=wait + Duration::from_millis(2)).contains(&after), "{after:?} for {wait:?}");
        assert!(stage.store.sleepers.is_empty());
        // Asleep for 5 s at a time.
        let asked = stage.store.calls("acquire_lease") - before;
        let most = if wait.is_zero() { 1 } else { 3 + wait.as_secs() as usize / 5 };
        assert!((1..=most).contains(&asked), "{asked} attempts within {wait:?}");
    }
}

/// The last thing a waiter does is to ask.
#[tokio::test(start_paused = true)]
async fn a_lease_that_expires_with_the_wait_is_granted() {
    let stage = Stage::new(1).await;
    granted(&*stage.store, ttl(TTL)).await;
    let (answer, _) = waited(&*stage.store, TTL).await;
    assert!(matches!(answer, Acquired::Granted { .. }), "{answer:?}");
}

/// Whoever gives it back before the waiter sleeps wakes nobody.
#[tokio::test(start_paused = true)]
async fn a_release_before_the_sleep_is_not_missed() {
    let stage = Stage::new(1).await;
    let token = granted(&*stage.store, Ttl::MAX).await;
    *stage.store.released_before_sleep.lock().unwrap() = Some(token);
    let (answer, after) = waited(&*stage.store, HOUR).await;
    assert!(matches!(answer, Acquired::Granted { .. }), "{answer:?}");
    assert_eq!(after, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_somebody_holds_is_waited_for() {
    let stage = Stage::new(1).await;
    *stage.store.contended.lock().unwrap() = 3;
    assert_eq!(waited(&*stage.store, Duration::ZERO).await.0, Acquired::Contended);
    let (answer, after) = waited(&*stage.store, HOUR).await;
    assert!(matches!(answer, Acquired::Granted { .. }) && after < Duration::from_millis(200), "{after:?} {answer:?}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_busy_is_waited_for_and_one_that_fails_is_not() {
    let stage = Stage::new(1).await;
    let fails_with = |kind| *stage.store.instead_of_acquired.lock().unwrap() = Some(Error::new(kind, "as asked"));
    let acquire = || async { stage.store.acquire_within(&request("waiter", ttl(TTL)), HOUR).await };
    fails_with(Kind::Busy);
    // What the busy call did all the same is another grant, which expires.
    let answer = acquire().await.unwrap();
    let Acquired::Granted { token, .. } = answer else { panic!("it was free in the end: {answer:?}") };
    stage.store.release_lease(&token).await.unwrap();
    fails_with(Kind::Unavailable);
    assert_eq!(acquire().await.unwrap_err().kind(), Kind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn a_wait_whose_outcome_is_unknown_is_resolved() {
    let stage = Stage::new(1).await;
    *stage.store.instead_of_acquired.lock().unwrap() = Some(Error::new(Kind::UnknownOutcome, "as asked"));
    let (answer, after) = waited(&*stage.store, HOUR).await;
    assert!(matches!(answer, Acquired::Granted { .. }) && after.is_zero(), "{after:?} {answer:?}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_closed_ends_the_wait() {
    let store = MemStore::new(virtual_clock());
    granted(&store, Ttl::MAX).await;
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.acquire_within(&request("waiter", Ttl::MAX), Duration::MAX).await }
    });
    pass(Duration::from_secs(1)).await;
    store.close().await;
    let answer = tokio::time::timeout(PATIENCE, waiting).await.expect("it ends").unwrap();
    assert_eq!(answer.unwrap_err().code(), "store_closed");
}

/// Whoever waits gets it in the end, one at a time, and no time passes between two of them.
#[tokio::test(start_paused = true)]
async fn forty_waiters_hold_the_lease_one_after_another() {
    let store = MemStore::new(virtual_clock());
    let first = granted(&store, Ttl::MAX).await;
    let holding = Arc::new(AtomicUsize::new(0));
    let waiters: Vec<_> = (0..40)
        .map(|_| {
            let (store, holding) = (Arc::new(store.clone()) as Arc<dyn Store>, holding.clone());
            tokio::spawn(async move {
                let lease = KeptLease::acquire_within(store, &request("waiter", Ttl::MAX), HOUR).await;
                let lease = lease.unwrap().expect("it gets its turn");
                assert_eq!(holding.fetch_add(1, Ordering::SeqCst), 0, "one at a time");
                pass(Duration::from_secs(10)).await;
                holding.fetch_sub(1, Ordering::SeqCst);
                assert_eq!(lease.release().await.unwrap(), Release::Released);
            })
        })
        .collect();
    pass(Duration::from_secs(1)).await;
    let since = Instant::now();
    store.release_lease(&first).await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    assert_eq!(since.elapsed().as_secs(), 400);
}

/// A receive that waits is woken by a send and by what becomes due, and ends with its time.
#[tokio::test(start_paused = true)]
async fn a_receive_waits_for_a_send_and_for_what_becomes_due() {
    let store = MemStore::new(virtual_clock());
    store.create_queue(&path().queue, Partitions::default()).await.unwrap();
    store.create_consumer(&CreateConsumer::ordered(path(), SlotCount::new(1).unwrap())).await.unwrap();
    let claim = ClaimSlot::new(path(), WorkerName::new("waiter").unwrap()).ttl(Ttl::MAX);
    let token = store.claim(&claim).await.unwrap().unwrap().token;
    let waited = async |wait| {
        let since = Instant::now();
        let batch = store.receive_within(&token, BatchSize::ONE, wait).await.unwrap();
        if let Some(batch) = &batch {
            store.nack(&token, batch.id, batch.messages[0].id, &Failure::default().retry_after(soon())).await.unwrap();
            store.ack(&token, batch.id).await.unwrap();
        }
        (batch.map(|batch| batch.messages[0].attempt), since.elapsed())
    };
    assert_eq!(waited(Duration::from_secs(3)).await, (None, Duration::from_secs(3)));
    let delayed = NewMessage::new("x").unwrap().delay(Delay::new(Duration::from_millis(1_500)).unwrap());
    let (received, _) = tokio::join!(waited(HOUR), async {
        pass(Duration::from_millis(500)).await;
        store.send(&path().queue, delayed).await.unwrap()
    });
    assert_eq!((received.0, received.1.as_millis()), (Some(1), 2_000), "when it is due");
    let (attempt, after) = waited(HOUR).await;
    assert_eq!((attempt, after.as_millis()), (Some(2), 700), "when it comes again");
    store.pause_queue(&path().queue).await.unwrap();
    assert_eq!(waited(Duration::from_secs(2)).await.0, None, "a paused queue hands out nothing");
}

fn soon() -> Delay {
    Delay::new(Duration::from_millis(700)).unwrap()
}
