//! Failing handlers, lost slots, and what a worker tells of it.

use std::time::Duration;

use fencepost_core::{ConsumerPath, Members, SlotIndex, SlotToken, Slots};
use fencepost_runtime::{CancellationToken, Done, Report, Worker};

use crate::spy::Hangs;
use crate::stage::{Diary, Does, Hears, Stage, TTL, next, nothing_to_do, pass, settings, shows};

/// Every message of the batch has failed: it comes again by the policy, with the next attempt.
#[tokio::test(start_paused = true)]
async fn the_messages_of_a_batch_whose_handler_fails_come_again() {
    let stage = Stage::new(1).await;
    stage.send(3).await;
    let (handler, mut shown) = shows();
    let worker = stage.start(settings("w1"), handler).await;
    let first = next(&mut shown).await;
    first.answer.send(Err("not today".into())).unwrap();
    worker.diary.tells("acked 0 batch 1").await;
    let mut left = 3;
    while left > 0 {
        // Their pauses are jittered, so they may come in several batches.
        let again = next(&mut shown).await;
        assert!(again.batch.messages.iter().all(|message| (message.attempt, message.deliveries) == (2, 2)));
        left -= again.batch.messages.len();
        again.answer.send(Ok(Done::Ack)).unwrap();
    }
    worker.diary.until(|diary| diary.count("acked") == diary.count("received")).await;
    assert_eq!(worker.diary.count("failed 0 batch 1: not today"), 1);
    let Report { messages, failed, lost, .. } = worker.stop().await;
    assert_eq!((messages, failed, lost), (3, 3, 0));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_is_a_handler_that_fails() {
    let stage = Stage::new(1).await;
    stage.send(1).await;
    let panicked = std::sync::atomic::AtomicBool::new(false);
    let handler = Does(move |_, _| {
        let first = !panicked.swap(true, std::sync::atomic::Ordering::Relaxed);
        async move { if first { panic!("as asked") } else { Ok(Done::Ack) } }
    });
    let worker = stage.start(settings("w1"), handler).await;
    worker.diary.tells("acked 0 batch 2").await;
    let lines = worker.diary.lines();
    assert_eq!(worker.diary.count("failed 0 batch 1: the handler panicked: as asked"), 1, "{lines:?}");
    assert_eq!(worker.stop().await, Report { batches: 2, messages: 1, failed: 1, lost: 0 });
}

#[tokio::test(start_paused = true)]
async fn a_plain_life_is_told_in_order() {
    let stage = Stage::new(1).await;
    stage.send(2).await;
    let worker = stage.start(settings("w1"), nothing_to_do()).await;
    worker.diary.tells("acked").await;
    let diary = worker.diary.clone();
    worker.stop().await;
    let expected = ["claimed 0 fresh", "received 0 batch 1 of 2, delivery 1", "acked 0 batch 1", "released 0"];
    assert_eq!(diary.lines(), expected);
}

/// The handler acked in the transaction of its effects: the worker does not do it again.
#[tokio::test(start_paused = true)]
async fn a_handler_that_acks_itself_is_believed() {
    let stage = Stage::new(1).await;
    stage.send(4).await;
    let store = stage.store.clone();
    let handler = Does(move |batch: fencepost_core::Batch, slot: fencepost_runtime::SlotContext| {
        let store = store.clone();
        async move {
            store.ack(&slot.token, batch.id).await?;
            Ok(Done::Acked)
        }
    });
    let worker = stage.start(settings("w1").max(fencepost_core::BatchSize::new(2).unwrap()), handler).await;
    worker.diary.tells("acked 0 batch 2").await;
    assert_eq!(stage.store.calls("ack"), 2);
    assert_eq!(stage.lag().await, 0);
    assert_eq!(worker.stop().await, Report { batches: 2, messages: 4, failed: 0, lost: 0 });
}

/// Renewals that do not come through, a TTL that passes, an heir: the next renewal says lost, and the handler hears it.
#[tokio::test(start_paused = true)]
async fn a_lost_slot_cancels_its_handler() {
    let stage = Stage::new(1).await;
    stage.send(2).await;
    let (handler, mut shown) = shows();
    let worker = stage.start(settings("w1"), handler).await;
    let late = next(&mut shown).await;
    stage.store.hang(Hangs::Renewals);
    pass(TTL + Duration::from_millis(1)).await;
    let heir = stage.claim(0).await.expect("its ttl has passed");
    assert!(!late.slot.cancelled.is_cancelled(), "it cannot know");
    let left = late.slot.time_left();
    assert!(left > TTL / 2 && left <= TTL * 9 / 10, "{left:?}");
    stage.store.hang(Hangs::Nothing);
    late.slot.cancelled.cancelled().await;
    assert_eq!(late.slot.time_left(), Duration::ZERO);
    worker.diary.tells("lost by renewal 0").await;
    assert!(worker.diary.count("call failed: renewal_timeout") > 0);

    // What it does late is refused, and what it says of it counts for nothing.
    late.answer.send(Ok(Done::Ack)).unwrap();
    worker.diary.tells("lost by fenced 0").await;
    let batch = stage.receive(&heir).await;
    assert_eq!((batch.messages.len(), batch.deliveries, batch.crashes), (2, 2, 1));
    assert_eq!(worker.stop().await, Report { batches: 0, messages: 0, failed: 0, lost: 1 });
    assert_eq!(stage.slots().await[0].epoch, Some(heir.token.epoch));
}

/// The refusal of a call inside the handler is as good as one of the worker's own.
#[tokio::test(start_paused = true)]
async fn a_handler_that_was_fenced_has_lost_its_slot() {
    let stage = Stage::new(1).await;
    stage.send(1).await;
    let (handler, mut shown) = shows();
    let worker = stage.start(settings("w1"), handler).await;
    let late = next(&mut shown).await;
    stage.store.hang(Hangs::Renewals);
    pass(TTL).await;
    let heir = stage.claim(0).await.expect("its ttl has passed");
    let refusal = stage.store.ack(&late.slot.token, late.batch.id).await.unwrap_err();
    late.answer.send(Err(refusal.into())).unwrap();
    worker.diary.tells("lost by fenced 0").await;
    assert_eq!(worker.diary.count("failed"), 0, "{:?}", worker.diary.lines());
    stage.store.hang(Hangs::Nothing);
    assert_eq!(worker.stop().await.lost, 1);
    assert_eq!(stage.slots().await[0].epoch, Some(heir.token.epoch));
}

/// Handlers make calls on other things too, and these answer `not_found` and `fenced` as well.
#[tokio::test(start_paused = true)]
async fn a_handler_that_was_refused_elsewhere_has_failed() {
    let stage = Stage::new(2).await;
    let other = stage.claim(1).await.unwrap().token;
    stage.send(2).await;
    let (handler, mut shown) = shows();
    let worker = stage.start(settings("w1"), handler).await;

    let mut held = next(&mut shown).await;
    let own = held.slot.token.clone();
    let absent = ConsumerPath::new("q", "absent").unwrap();
    let other_slot = SlotToken { slot: SlotIndex::new(1).unwrap(), ..own.clone() };
    let other_epoch = SlotToken { epoch: other.epoch, ..own.clone() };
    let other_consumer = SlotToken { path: absent.clone(), ..own.clone() };
    for refusal in [
        stage.store.members(&absent).await.unwrap_err(),
        stage.store.ack(&other_consumer, held.batch.id).await.unwrap_err(),
        stage.store.ack(&other_slot, held.batch.id).await.unwrap_err(),
        stage.store.ack(&other_epoch, held.batch.id).await.unwrap_err(),
    ] {
        held.answer.send(Err(refusal.into())).unwrap();
        held = next(&mut shown).await;
    }
    assert_eq!(held.slot.token, own);
    held.answer.send(Ok(Done::Ack)).unwrap();
    worker.diary.tells("acked 0 batch 5").await;
    let lines = worker.diary.lines();
    assert_eq!((worker.diary.count("failed 0"), worker.diary.count("lost")), (4, 0), "{lines:?}");
    assert_eq!(worker.stop().await, Report { batches: 5, messages: 1, failed: 4, lost: 0 });
}

/// The margin is the time to stop: after it the slot may be somebody else's.
#[tokio::test(start_paused = true)]
async fn a_handler_that_has_lost_its_slot_gets_the_margin_to_end() {
    let stage = Stage::new(1).await;
    stage.send(1).await;
    let worker = stage.start(settings("w1"), Does(|_, _| std::future::pending())).await;
    worker.diary.tells("received").await;
    stage.store.hang(Hangs::Renewals);
    pass(TTL).await;
    let _heir = stage.claim(0).await.expect("its ttl has passed");
    stage.store.hang(Hangs::Nothing);
    worker.diary.tells("lost by renewal 0").await;
    let since = tokio::time::Instant::now();
    worker.diary.tells("failed 0").await;
    let (took, margin) = (since.elapsed(), TTL / 10);
    assert!((margin..margin + Duration::from_secs(1)).contains(&took), "{took:?}");
    worker.stop().await;
}

/// A grant that expired and was made anew to the same worker: whoever works by the old one is told.
#[tokio::test(start_paused = true)]
async fn a_slot_that_is_claimed_anew_is_lost_to_its_older_handler() {
    let stage = Stage::new(2).await;
    let _other = stage.claim(1).await.unwrap();
    stage.send(2).await;
    let (handler, mut shown) = shows();
    let worker = stage.start(settings("w1"), handler).await;
    let late = next(&mut shown).await;
    stage.store.hang(Hangs::Renewals);
    worker.diary.until(|diary| diary.count("claimed 0") == 2).await;
    assert_eq!(worker.diary.count("lost by renewal 0"), 1, "{:?}", worker.diary.lines());
    assert!(late.slot.cancelled.is_cancelled());
    stage.store.hang(Hangs::Nothing);

    let again = next(&mut shown).await;
    assert!(again.slot.token.epoch > late.slot.token.epoch && !again.slot.cancelled.is_cancelled());
    late.answer.send(Ok(Done::Ack)).unwrap();
    worker.diary.tells("lost by fenced 0").await;
    again.answer.send(Ok(Done::Ack)).unwrap();
    worker.diary.tells("acked 0").await;
    assert_eq!(worker.stop().await, Report { batches: 1, messages: 1, failed: 0, lost: 1 });
}

/// What a slot's loop held is not renewed for ever when the loop is gone.
#[tokio::test(start_paused = true)]
async fn a_slot_whose_loop_panicked_expires_and_is_claimed_again() {
    let stage = Stage::new(1).await;
    let worker = stage.start(settings("w1"), nothing_to_do()).await;
    worker.diary.tells("claimed 0").await;
    stage.store.panic_in("receive");
    let claimed_again = worker.diary.until(|diary| diary.count("claimed 0") == 2);
    tokio::time::timeout(TTL + TTL / 3, claimed_again).await.expect("nobody renews it");
    stage.send(1).await;
    worker.diary.tells("acked").await;
    assert_eq!(worker.stop().await.batches, 1);
}

/// Whatever is told to it: what it hears is over already.
#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_ends_nothing() {
    let stage = Stage::new(1).await;
    let diary = Diary::default();
    let observer = Hears({
        let diary = diary.clone();
        move |event: &fencepost_runtime::Event<'_>| {
            fencepost_runtime::Observer::observe(&diary, event);
            panic!("as asked");
        }
    });
    let worker = Worker::join_observed(stage.store.clone(), settings("w1"), nothing_to_do(), observer).await.unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(worker.run(stop.clone()));
    stage.store.hang(Hangs::Renewals);
    diary.tells("call failed: renewal_timeout").await;
    stage.store.hang(Hangs::Nothing);
    pass(TTL * 2).await;
    stage.send(1).await;
    diary.tells("acked 0 batch 1").await;
    stop.cancel();
    assert_eq!(running.await.unwrap(), Report { batches: 1, messages: 1, failed: 0, lost: 0 });
    assert_eq!((diary.count("claimed"), diary.count("released")), (1, 1), "{:?}", diary.lines());
}

/// A42: errors are told and outlived; what the worker holds is renewed in time when the store answers again.
#[tokio::test(start_paused = true)]
async fn a_store_that_answers_again_in_time_costs_nothing() {
    let stage = Stage::new(2).await;
    let worker = stage.start(settings("w1"), nothing_to_do()).await;
    worker.diary.until(|diary| diary.held() == 2).await;
    let epochs = || async { stage.slots().await.iter().map(|slot| slot.epoch).collect::<Vec<_>>() };
    let before = epochs().await;
    stage.store.hang(Hangs::Renewals);
    worker.diary.tells("call failed: renewal_timeout").await;
    stage.store.hang(Hangs::Nothing);
    pass(TTL).await;
    assert_eq!((epochs().await, worker.diary.held()), (before, 2));
    assert_eq!(worker.stop().await.lost, 0);
}

/// A disk that takes long for every commit: what is answered late counts all the same.
#[tokio::test(start_paused = true)]
async fn renewals_that_are_answered_late_keep_what_is_held() {
    let stage = Stage::new(2).await;
    let worker = stage.start(settings("w1"), nothing_to_do()).await;
    worker.diary.until(|diary| diary.held() == 2).await;
    stage.store.hang(Hangs::RenewalsFor(TTL / 4));
    let before = stage.slots().await;
    for _ in 0..8 {
        pass(TTL / 3).await;
        let now = fencepost_core::Store::now(&*stage.store).await.unwrap();
        assert!(stage.slots().await.iter().all(|slot| now < slot.owner.as_ref().unwrap().expires_at));
    }
    assert!(worker.diary.count("call failed: renewal_timeout") > 0);
    let epochs = |slots: &[fencepost_core::slot::SlotState]| slots.iter().map(|slot| slot.epoch).collect::<Vec<_>>();
    assert_eq!(epochs(&stage.slots().await), epochs(&before));
    stage.store.hang(Hangs::Nothing);
    assert_eq!(worker.stop().await.lost, 0);
}
