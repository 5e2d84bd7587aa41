//! Stopping: what is in hand is finished or handed back, what is held is given back, and nobody is blamed.

use std::time::Duration;

use fencepost_core::{Consumers, Members, Store, Ttl};
use fencepost_runtime::{CancellationToken, Done, Event, Report, Worker};

use crate::spy::Hangs;
use crate::stage::{Does, Hears, PATIENCE, Stage, TTL, next, nothing_to_do, pass, path, settings, shows};

#[tokio::test(start_paused = true)]
async fn a_clean_stop_finishes_the_batch_in_hand_and_gives_everything_back() {
    let stage = Stage::new(2).await;
    stage.send(10).await;
    let (handler, mut shown) = shows();
    let worker = stage.start(settings("w1").max(fencepost_core::BatchSize::new(1).unwrap()), handler).await;
    let (first, second) = (next(&mut shown).await, next(&mut shown).await);
    worker.stop.cancel();
    // A handler is not disturbed within the grace period.
    pass(Duration::from_secs(5)).await;
    assert!(!first.slot.cancelled.is_cancelled() && !second.slot.cancelled.is_cancelled());
    first.answer.send(Ok(Done::Ack)).unwrap();
    second.answer.send(Ok(Done::Ack)).unwrap();
    let (diary, report) = (worker.diary.clone(), worker.stop().await);
    assert_eq!(report, Report { batches: 2, messages: 2, failed: 0, lost: 0 });
    assert!(shown.recv().await.is_none(), "nothing more was begun");
    assert_eq!((diary.count("acked"), diary.count("released"), diary.count("abandoned")), (2, 2, 0));

    assert_eq!(stage.lag().await, 8);
    for slot in 0..2 {
        let grant = stage.claim(slot).await.expect("the slot is free");
        assert_eq!(grant.batch, None);
        let batch = stage.receive(&grant).await;
        assert_eq!((batch.deliveries, batch.crashes), (1, 0));
    }
    assert!(stage.store.members(&path()).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_stopped_claims_nothing_more() {
    let stage = Stage::new(4).await;
    stage.send(4).await;
    let (handler, mut shown) = shows();
    let worker = stage.start(settings("w1"), handler).await;
    let held = next(&mut shown).await;
    worker.stop.cancel();
    worker.diary.until(|diary| diary.count("claimed") > 0).await;
    let claims = stage.store.calls("claim");
    pass(Duration::from_secs(3)).await;
    assert_eq!(stage.store.calls("claim"), claims);
    drop((held, shown));
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_stopped_before_it_runs_claims_nothing() {
    let stage = Stage::new(2).await;
    let joined = stage.join(settings("w1"), nothing_to_do()).await;
    assert_eq!(stage.store.members(&path()).await.unwrap().len(), 1);
    let (diary, running) = (joined.diary.clone(), joined.run());
    assert_eq!(running.stop().await, Report::default());
    assert!(diary.lines().is_empty(), "{:?}", diary.lines());
    assert_eq!(stage.store.calls("claim"), 0);
    assert!(stage.store.members(&path()).await.unwrap().is_empty());
}

/// A22 of the worker: told to stop, then aborted, then handed over at once.
#[tokio::test(start_paused = true)]
async fn a_handler_that_never_ends_is_left_after_the_grace_period() {
    let stage = Stage::new(1).await;
    stage.send(3).await;
    let never = Does(|_, _| std::future::pending());
    let worker = stage.start(settings("w1").grace(Duration::from_secs(7)), never).await;
    worker.diary.tells("received").await;
    let since = tokio::time::Instant::now();
    let (diary, report) = (worker.diary.clone(), worker.stop().await);
    assert!((Duration::from_secs(7)..Duration::from_secs(8)).contains(&since.elapsed()), "{:?}", since.elapsed());
    assert_eq!(report, Report::default());
    assert_eq!(diary.count("abandoned"), 1);

    let heir = stage.claim(0).await.expect("without waiting");
    let batch = stage.receive(&heir).await;
    assert_eq!((batch.deliveries, batch.crashes, batch.messages.len()), (2, 0, 3));
}

/// A handler that hears the signal ends by itself, and its batch is handed over without a crash.
#[tokio::test(start_paused = true)]
async fn a_handler_is_told_before_the_grace_period_is_over() {
    let stage = Stage::new(1).await;
    stage.send(1).await;
    let (handler, mut shown) = shows();
    let worker = stage.start(settings("w1").grace(Duration::from_secs(7)), handler).await;
    let shown = next(&mut shown).await;
    worker.stop.cancel();
    let since = tokio::time::Instant::now();
    shown.slot.cancelled.cancelled().await;
    assert!((Duration::from_secs(5)..Duration::from_secs(6)).contains(&since.elapsed()), "{:?}", since.elapsed());
    assert_eq!(shown.slot.time_left(), Duration::ZERO, "nothing is to be begun");
    shown.answer.send(Err("told to stop".into())).unwrap();
    let (diary, _) = (worker.diary.clone(), worker.stop().await);
    assert_eq!(diary.count("abandoned"), 1);
    assert_eq!(stage.claim(0).await.expect("without waiting").batch.map(|batch| batch.crashes), Some(0));
}

/// No await, no abort: a handler that blocks its thread keeps neither the worker nor the slot.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_handler_that_blocks_its_thread_is_left_behind() {
    let stage = Stage::real(1).await;
    stage.send(1).await;
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = std::sync::Mutex::new(blocked);
    let handler = Does(move |_, _| {
        let _ = blocked.lock().unwrap().recv();
        async { Ok(Done::Ack) }
    });
    let worker = stage.start(settings("w1").grace(Duration::from_millis(10)), handler).await;
    worker.diary.tells("received").await;
    let diary = worker.diary.clone();
    let stopped = tokio::time::timeout(Duration::from_secs(20), worker.stop()).await;
    drop(release);
    assert_eq!(stopped.expect("it stops while the handler blocks"), Report::default());
    assert_eq!(diary.count("abandoned"), 1);
    assert!(stage.claim(0).await.is_some());
}

/// Every wait has a bound, also when the store answers nothing any more.
#[tokio::test(start_paused = true)]
async fn a_worker_stops_although_the_store_hangs() {
    for busy in [false, true] {
        let stage = Stage::new(2).await;
        let (handler, mut shown) = shows();
        let worker = stage.start(settings("w1"), handler).await;
        worker.diary.until(|diary| diary.held() == 2).await;
        let mut held = None;
        if busy {
            stage.send(1).await;
            held = Some(next(&mut shown).await);
        }
        stage.store.hang(Hangs::Everything);
        if let Some(shown) = held {
            shown.answer.send(Ok(Done::Ack)).unwrap();
        }
        let since = tokio::time::Instant::now();
        let diary = worker.diary.clone();
        worker.stop().await;
        assert!(since.elapsed() < Duration::from_secs(60), "{:?}", since.elapsed());
        assert!(diary.count("call failed") > 0, "{:?}", diary.lines());
    }
}

/// A TTL of a day is no reason to wait for hours.
#[tokio::test(start_paused = true)]
async fn a_worker_with_a_long_ttl_stops_as_soon_when_the_store_hangs() {
    let stage = Stage::new(2).await;
    let worker = stage.start(settings("w1").ttl(Ttl::MAX), nothing_to_do()).await;
    worker.diary.until(|diary| diary.held() == 2).await;
    stage.store.hang(Hangs::Everything);
    let since = tokio::time::Instant::now();
    worker.stop().await;
    assert!(since.elapsed() < Duration::from_secs(60), "{:?}", since.elapsed());
}

#[tokio::test(start_paused = true)]
async fn joining_a_store_that_hangs_is_given_up() {
    let stage = Stage::new(1).await;
    stage.store.hang(Hangs::Everything);
    for ttl in [Ttl::MIN, Ttl::MAX] {
        let joining = Worker::join(stage.store.clone(), settings("w1").ttl(ttl), nothing_to_do());
        let joined = tokio::time::timeout(PATIENCE, joining).await.expect("it has a bound");
        assert_eq!(joined.err().map(|error| error.code()), Some("renewal_timeout"));
    }
}

/// Nothing will ever come of it, so there is nothing to wait for.
#[tokio::test(start_paused = true)]
async fn a_worker_whose_store_was_closed_ends_by_itself() {
    for busy in [false, true] {
        let stage = Stage::new(2).await;
        let (handler, mut shown) = shows();
        let worker = stage.start(settings("w1"), handler).await;
        worker.diary.until(|diary| diary.held() == 2).await;
        let mut held = None;
        if busy {
            stage.send(1).await;
            held = Some(next(&mut shown).await);
        }
        stage.store.close().await;
        let report = tokio::time::timeout(TTL, worker.task).await.expect("it ends by itself").unwrap();
        assert_eq!(report, Report::default());
        assert!(!worker.stop.is_cancelled(), "the caller's token is the caller's");
        drop(held);
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_stopped_between_two_claims_makes_no_second_one() {
    let stage = Stage::new(4).await;
    let stop = CancellationToken::new();
    let observer = Hears({
        let stop = stop.clone();
        move |event: &Event<'_>| {
            if matches!(event, Event::Claimed { .. }) {
                stop.cancel();
            }
        }
    });
    let worker = Worker::join_observed(stage.store.clone(), settings("w1"), nothing_to_do(), observer).await.unwrap();
    worker.run(stop).await;
    assert_eq!(stage.store.calls("claim"), 1);
}

/// A heartbeat between a release and its answer finds the slot free, which is what was asked for.
#[tokio::test(start_paused = true)]
async fn a_slot_that_is_being_given_back_is_not_lost() {
    let stage = Stage::new(1).await;
    let worker = stage.start(settings("w1"), nothing_to_do()).await;
    worker.diary.until(|diary| diary.held() == 1).await;
    stage.store.hang(Hangs::AnswersOfReleases);
    let beats = stage.store.calls("heartbeat");
    worker.stop.cancel();
    pass(TTL / 3 + Duration::from_millis(500)).await;
    assert!(stage.store.calls("heartbeat") > beats);
    stage.store.hang(Hangs::Nothing);
    let (diary, report) = (worker.diary.clone(), worker.stop().await);
    assert_eq!(diary.lines(), ["claimed 0 fresh", "released 0"]);
    assert_eq!(report, Report::default());
}

/// A consumer that is dropped under a worker: its calls answer `not_found`, its handler is told.
#[tokio::test(start_paused = true)]
async fn a_dropped_consumer_is_a_loss() {
    let stage = Stage::new(1).await;
    stage.send(1).await;
    let (handler, mut shown) = shows();
    let worker = stage.start(settings("w1"), handler).await;
    let shown = next(&mut shown).await;
    stage.store.drop_consumer(&path(), true).await.unwrap();
    shown.answer.send(Ok(Done::Ack)).unwrap();
    worker.diary.tells("lost by not_found").await;
    let report = tokio::time::timeout(PATIENCE, worker.stop()).await.unwrap();
    assert_eq!(report, Report { batches: 0, messages: 0, failed: 0, lost: 1 });
}
