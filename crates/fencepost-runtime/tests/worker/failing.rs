//! Failing handlers, lost slots, and what a worker tells of it.

use std::time::Duration;

use fencepost_core::Slots;
use fencepost_runtime::{Done, Report};

use crate::spy::Hangs;
use crate::stage::{Does, Stage, TTL, next, pass, settings, shows};

#[tokio::test(start_paused = true)]
async fn the_batch_of_a_handler_that_fails_is_handed_out_again() {
    let stage = Stage::new(1).await;
    stage.send(3).await;
    let (handler, mut shown) = shows();
    let worker = stage.start(settings("w1"), handler).await;
    let first = next(&mut shown).await;
    first.answer.send(Err("not today".into())).unwrap();
    let failed = tokio::time::Instant::now();
    let second = next(&mut shown).await;
    let pause = failed.elapsed();
    second.answer.send(Err("not today either".into())).unwrap();
    let failed = tokio::time::Instant::now();
    let third = next(&mut shown).await;
    // It rests longer each time.
    assert!(pause >= Duration::from_millis(100) && failed.elapsed() > pause, "{pause:?} {:?}", failed.elapsed());
    assert_eq!((&first.batch, &second.batch), (&second.batch, &third.batch), "the same batch, not delivered anew");
    assert!(!third.slot.cancelled.is_cancelled());
    third.answer.send(Ok(Done::Ack)).unwrap();
    worker.diary.tells("acked 0 batch 1").await;
    let diary = worker.diary.clone();
    assert_eq!(worker.stop().await, Report { batches: 1, messages: 3, lost: 0 });
    assert_eq!(diary.count("failed 0 batch 1: not today"), 2);
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
    worker.diary.tells("acked 0 batch 1").await;
    let lines = worker.diary.lines();
    assert_eq!(worker.diary.count("failed 0 batch 1"), 1, "{lines:?}");
    assert_eq!(worker.diary.count("received 0 batch 1 of 1, delivery 1"), 2, "{lines:?}");
    assert_eq!(worker.stop().await, Report { batches: 1, messages: 1, lost: 0 });
}

#[tokio::test(start_paused = true)]
async fn a_plain_life_is_told_in_order() {
    let stage = Stage::new(1).await;
    stage.send(2).await;
    let worker = stage.start(settings("w1"), crate::stage::nothing_to_do()).await;
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
    assert_eq!(worker.stop().await, Report { batches: 2, messages: 4, lost: 0 });
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
    stage.store.hang(Hangs::Nothing);
    late.slot.cancelled.cancelled().await;
    worker.diary.tells("lost by renewal 0").await;
    assert!(worker.diary.count("call failed: renewal_timeout") > 0);

    // What it does late is refused, and what it says of it counts for nothing.
    late.answer.send(Ok(Done::Ack)).unwrap();
    worker.diary.tells("lost by fenced 0").await;
    let batch = stage.receive(&heir).await;
    assert_eq!((batch.messages.len(), batch.deliveries, batch.crashes), (2, 2, 1));
    assert_eq!(worker.stop().await, Report { batches: 0, messages: 0, lost: 1 });
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

/// A42: errors are told and outlived; what the worker holds is renewed in time when the store answers again.
#[tokio::test(start_paused = true)]
async fn a_store_that_answers_again_in_time_costs_nothing() {
    let stage = Stage::new(2).await;
    let worker = stage.start(settings("w1"), crate::stage::nothing_to_do()).await;
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
    let worker = stage.start(settings("w1"), crate::stage::nothing_to_do()).await;
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
