//! Races over one file: calls of every sort at once, transactions that are held open, and consumers that are made anew.
//!
//! Not applicable here: A30b and A35 (no row is locked apart from the file; a claim under another's write lock is `busy` within its
//! bound), A41 (the cost of a read is measured by the benchmarks), A47 (later), B27 (the store's connections are not a pool that
//! callers share; their own transaction has a connection of their own).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fencepost_core::{
    BatchSize, ClaimSlot, Consumers, CreateConsumer, Delay, Failure, FailurePolicy, FailureText, Kind, Nonce,
    OnFailure, Queues, Release, Result, SlotCount, SlotToken, Slots, WorkerName,
};
use fencepost_sqlite::SqliteStore;
use fencepost_sqlite::rusqlite::TransactionBehavior;

use crate::place::{Place, billing, claim, commits, index, orders, queued, refused, run, text};

/// How long the mix runs.
const MIX: Duration = Duration::from_secs(4);

/// What calls may answer while others claim, drop and make anew: an outcome of the contract, never a fault of the storage.
fn is_expected(kind: Kind) -> bool {
    matches!(kind, Kind::Fenced | Kind::NotFound | Kind::OpenBatch | Kind::Conflict)
}

/// A31: eight tasks over two stores of one file, with every call on slots, and consumers dropped and made meanwhile.
#[test]
fn a31_a_mix_of_every_call_meets_no_fault_and_no_deadlock() {
    run(async {
        let place = Place::new();
        let stores = [place.stage().await, place.open().await];
        let (stop, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut tasks = Vec::new();
        for task in 0..8_u64 {
            let (store, stop, calls) = (stores[task as usize % 2].clone(), stop.clone(), calls.clone());
            tasks.push(tokio::spawn(async move {
                for round in 0_u64.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let answer = if task == 0 { remake(&store, round).await } else { work(&store, task, round).await };
                    if let Err(error) = answer {
                        assert!(is_expected(error.kind()), "task {task}: {error:?}");
                    }
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
        tokio::time::sleep(MIX).await; // TIME: how long the mix runs
        stop.store(true, Ordering::Relaxed);
        for task in tasks {
            task.await.unwrap();
        }
        assert!(calls.load(Ordering::Relaxed) > 8, "{calls:?}");
        let check: String = place.connect().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok");
    });
}

/// Drops the consumer by force now and then, and makes it with another number of slots and another policy.
async fn remake(store: &SqliteStore, round: u64) -> Result<()> {
    tokio::time::sleep(Duration::from_millis(20)).await; // TIME: the others get to work in between
    store.drop_consumer(&billing(), true).await?;
    let policy = if round.is_multiple_of(2) { OnFailure::Pause } else { OnFailure::Skip };
    let slots = SlotCount::new(1 + (round % 4) as i64)?;
    let policy = FailurePolicy::default().on_failure(policy).max_attempts(2)?;
    store.create_consumer(&CreateConsumer::ordered(billing(), slots).policy(policy)).await?;
    store.maintain(None).await.map(drop)
}

async fn work(store: &SqliteStore, task: u64, round: u64) -> Result<()> {
    let message = text(format!("{task}/{round}")).key(fencepost_core::Key::new(format!("key {}", round % 5))?);
    store.send_batch(&orders(), vec![message.clone(), message]).await?;
    let request = ClaimSlot::new(billing(), WorkerName::new(format!("task {task}"))?).nonce(Nonce::random()?);
    let Some(grant) = store.claim(&request).await? else { return Ok(()) };
    let token = grant.token;
    let handled = handle(store, &token, task + round).await;
    let released = match store.release_slot(&token).await {
        Err(error) if error.kind() == Kind::OpenBatch => store.abandon_slot(&token).await,
        other => other,
    };
    handled.and(released.map(drop))
}

async fn handle(store: &SqliteStore, token: &SlotToken, turn: u64) -> Result<()> {
    let Some(batch) = store.receive(token, BatchSize::new(4)?).await? else { return Ok(()) };
    let (first, last) = (batch.messages[0].id, batch.messages[batch.messages.len() - 1].id);
    let soon = Delay::new(Duration::from_millis(turn % 3))?;
    match turn % 7 {
        0 => drop(store.nack(token, batch.id, first, &Failure::default().retry_after(soon)).await?),
        1 => drop(store.snooze(token, batch.id, last, soon).await?),
        2 => store.dead_letter(token, batch.id, first, &FailureText::new("by turns")?).await?,
        3 => drop(store.ack_through(token, batch.id, first).await?),
        4 => return Ok(()),
        5 => return store.ack_receive(token, batch.id, BatchSize::ONE).await.map(drop),
        _ => {}
    }
    store.ack(token, batch.id).await.map(drop)
}

/// A30: one owner releases while its own receive has not committed. On SQLite the second waits for the first, in either order.
#[test]
fn a30_a_release_waits_for_the_receive_and_then_refuses() {
    run(async {
        let place = Place::new();
        let (store, second) = (place.stage().await, place.open().await);
        store.send_batch(&orders(), (0..16).map(|n| text(n.to_string())).collect()).await.unwrap();
        for round in 0..20 {
            let token = claim(&store, "w1", 0, Duration::from_secs(60)).await.token;
            let (received, released) = tokio::join!(store.receive(&token, BatchSize::ONE), second.release_slot(&token));
            match (received, released) {
                (Ok(Some(batch)), Err(refusal)) => {
                    assert_eq!(refusal.kind(), Kind::OpenBatch, "round {round}");
                    assert_eq!(store.ack(&token, batch.id).await.unwrap(), 1);
                    assert_eq!(second.release_slot(&token).await.unwrap(), Release::Released);
                }
                (Err(fenced), Ok(Release::Released)) => assert_eq!(fenced.kind(), Kind::Fenced, "round {round}"),
                // Nothing is left to receive.
                (Ok(None), Ok(Release::Released)) => {}
                other => panic!("round {round}: {other:?}"),
            }
        }
    });
}

/// A32: while a release waits for the lock, the consumer is dropped and made anew: the release sees the new one.
#[test]
fn a32_a_release_that_waited_sees_the_consumer_made_anew() {
    run(async {
        let place = Place::new();
        let store = place.stage().await;
        store.send_batch(&orders(), (0..16).map(|n| text(n.to_string())).collect()).await.unwrap();
        let old = claim(&store, "w1", 1, Duration::from_secs(60)).await.token;

        let mut own = place.connect();
        let held = own.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        let (releasing, waiting) = (store.clone(), old.clone());
        let mut release = Box::pin(async move { releasing.release_slot(&waiting).await });
        let begun = std::future::poll_fn(|context| std::task::Poll::Ready(release.as_mut().poll(context))).await;
        assert!(begun.is_pending(), "it waits for the lock, before the calls below");
        held.rollback().unwrap();
        store.drop_consumer(&billing(), true).await.unwrap();
        store.create_consumer(&CreateConsumer::ordered(billing(), SlotCount::new(1).unwrap())).await.unwrap();
        let heir = claim(&store, "w2", 0, Duration::from_secs(60)).await.token;
        let batch = store.receive(&heir, BatchSize::default()).await.unwrap().unwrap();

        match release.await {
            Ok(answer) => assert_eq!(answer, Release::Released, "it came before the drop"),
            Err(refusal) => assert_eq!(refusal.kind(), Kind::NotFound, "{refusal:?}"),
        }
        refused(store.release_slot(&old).await, Kind::NotFound, "not_found");
        let own_slot = SlotToken { slot: index(0), ..old };
        assert_eq!(
            store.release_slot(&own_slot).await.unwrap(),
            Release::NotHeld,
            "an old epoch on a slot of the new one"
        );
        assert_eq!(store.receive(&heir, BatchSize::default()).await.unwrap(), Some(batch), "untouched");
    });
}

/// A24, A35, B26: a caller's transaction is open, and more callers wait than the store has threads; each answers `busy` within its
/// bound, the caller's own included, and all goes on afterwards.
#[test]
fn b26_calls_behind_an_open_transaction_are_busy_within_their_bound() {
    run(async {
        let place = Place::new();
        let bound = Duration::from_millis(300);
        let store = place.open_with(place.options().busy_timeout(bound)).await;
        crate::place::stage(&store).await;
        let mut own = place.connect();
        let held = own.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        store.join(&held).unwrap().send_in(&orders(), text("mine")).unwrap();

        let started = Instant::now();
        let waiting: Vec<_> = (0..64)
            .map(|n| {
                let store = store.clone();
                tokio::spawn(async move { store.send(&orders(), text(format!("waits {n}"))).await })
            })
            .collect();
        refused(
            store.claim_slot(&ClaimSlot::new(billing(), WorkerName::new("w1").unwrap()), index(0)).await,
            Kind::Busy,
            "busy",
        );
        for waits in waiting {
            refused(waits.await.unwrap(), Kind::Busy, "busy");
        }
        assert!(started.elapsed() < bound * 10, "{:?}", started.elapsed());
        held.commit().unwrap();
        store.send(&orders(), text("after")).await.unwrap();
        assert_eq!(crate::place::texts(&store).await, ["mine", "after"]);
    });
}

/// An empty receive is answered by what it reads, whoever has the write lock, and whether or not this store waits for it.
#[test]
fn an_empty_receive_waits_for_no_lock_and_writes_nothing() {
    run(async {
        let place = Place::new();
        let bound = Duration::from_millis(300);
        let store = place.open_with(place.options().busy_timeout(bound)).await;
        crate::place::stage(&store).await;
        let token = claim(&store, "w1", 0, Duration::from_secs(60)).await.token;
        let before = commits(&place.file());
        let mut own = place.connect();
        let held = own.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();

        assert_eq!(store.receive(&token, BatchSize::ONE).await.unwrap(), None, "the writer is idle");
        let queue = orders();
        let sent = queued(store.send(&queue, text("waits")));
        for _ in 0..20 {
            assert_eq!(store.receive(&token, BatchSize::default()).await.unwrap(), None, "the writer waits");
        }
        refused(sent.await, Kind::Busy, "busy");
        drop(held);
        assert_eq!(commits(&place.file()), before);

        let there = (0..16).map(|n| text(n.to_string())).collect();
        store.send_batch(&queue, there).await.unwrap();
        let held = own.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        let refusal = store.receive(&token, BatchSize::ONE).await;
        drop(held);
        refused(refusal, Kind::Busy, "busy");
        assert_eq!(store.receive(&token, BatchSize::ONE).await.unwrap().unwrap().messages.len(), 1);
    });
}
