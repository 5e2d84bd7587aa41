//! Fair share: nobody takes more than its share, and everybody gets one when workers come and go.

use std::time::Duration;

use fencepost_core::{Key, NewMessage, Queues, Slots, Topic};
use fencepost_runtime::Done;

use crate::stage::{PATIENCE, Running, Stage, TTL, next, nothing_to_do, pass, path, settings, shows, ttl};

/// Waits until every worker holds so many slots that the shares, sorted, are these.
async fn settle(workers: &[&Running], shares: &[usize]) {
    let held = || {
        let mut held: Vec<usize> = workers.iter().map(|worker| worker.diary.held()).collect();
        held.sort_unstable();
        held
    };
    let waiting = async {
        while held() != shares {
            pass(Duration::from_millis(50)).await;
        }
    };
    let settled = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(settled.is_ok(), "{:?} instead of {shares:?}", held());
}

#[tokio::test(start_paused = true)]
async fn while_all_live_nobody_claims_more_than_its_share_rounded_up() {
    for (slots, workers, shares) in [(10, 4, vec![2, 2, 3, 3]), (8, 4, vec![2; 4]), (3, 5, vec![0, 0, 1, 1, 1])] {
        let stage = Stage::new(slots).await;
        let mut joined = Vec::new();
        for n in 0..workers {
            joined.push(stage.join(settings(&format!("w{n}")), nothing_to_do()).await);
        }
        let running: Vec<Running> = joined.into_iter().map(|joined| joined.run()).collect();
        let all: Vec<&Running> = running.iter().collect();
        // The first to come may take its share rounded up, so how the rest is dealt out varies within one.
        let waiting = async {
            while all.iter().map(|worker| worker.diary.held()).sum::<usize>() < slots as usize {
                pass(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.expect("all slots are taken");
        let share = (slots as usize).div_ceil(workers);
        for worker in &all {
            assert!(worker.diary.most() <= share, "{:?}", worker.diary.lines());
        }
        settle(&all, &shares).await;
        for worker in running {
            assert!(worker.diary.most() <= share);
            worker.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn slots_are_shared_anew_when_workers_join_and_leave() {
    let stage = Stage::new(8).await;
    let first = stage.start(settings("w1"), nothing_to_do()).await;
    settle(&[&first], &[8]).await;
    let second = stage.start(settings("w2"), nothing_to_do()).await;
    settle(&[&first, &second], &[4, 4]).await;
    let third = stage.start(settings("w3"), nothing_to_do()).await;
    settle(&[&first, &second, &third], &[2, 3, 3]).await;
    first.stop().await;
    settle(&[&second, &third], &[4, 4]).await;
    second.stop().await;
    settle(&[&third], &[8]).await;
    third.stop().await;
    assert!(stage.slots().await.iter().all(|slot| slot.owner.is_none()));
}

/// A worker that goes without a word leaves its share to the others once its TTL has passed.
#[tokio::test(start_paused = true)]
async fn the_share_of_a_worker_that_vanished_goes_to_the_others() {
    let stage = Stage::new(4).await;
    let (first, second) =
        (stage.join(settings("w1"), nothing_to_do()).await, stage.join(settings("w2"), nothing_to_do()).await);
    let (first, second) = (first.run(), second.run());
    settle(&[&first, &second], &[2, 2]).await;
    first.task.abort();
    let since = tokio::time::Instant::now();
    settle(&[&second], &[4]).await;
    assert!(since.elapsed() < TTL + TTL / 3, "{:?}", since.elapsed());
    assert_eq!(second.diary.count("claimed"), 4);
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn messages_of_every_slot_are_handled_once_while_shares_change() {
    let stage = Stage::new(4).await;
    stage.send(400).await;
    let first = stage.start(settings("w1").max(fencepost_core::BatchSize::new(5).unwrap()), nothing_to_do()).await;
    let second = stage.start(settings("w2").max(fencepost_core::BatchSize::new(5).unwrap()), nothing_to_do()).await;
    let waiting = async {
        while stage.lag().await > 0 {
            pass(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("everything is handled");
    let reports = [first.stop().await, second.stop().await];
    assert_eq!(reports.iter().map(|report| report.messages).sum::<u64>(), 400);
    assert_eq!(reports.iter().map(|report| report.lost).sum::<u64>(), 0);
}

/// One renewal an interval, for all slots together.
#[tokio::test(start_paused = true)]
async fn a_worker_renews_all_its_slots_by_one_heartbeat_an_interval() {
    let stage = Stage::new(8).await;
    let worker = stage.start(settings("w1").ttl(ttl(TTL * 10)), nothing_to_do()).await;
    settle(&[&worker], &[8]).await;
    let before = stage.store.calls("heartbeat");
    pass(TTL * 10).await;
    let renewals = stage.store.calls("heartbeat") - before;
    assert!((2..=4).contains(&renewals), "{renewals} in one ttl");
    assert_eq!(stage.store.calls("renew_slot"), 0);
    assert_eq!(worker.diary.held(), 8);
    worker.stop().await;
}

/// Slots that nobody has sent anything to for three TTLs are given back, and taken again when a message comes.
#[tokio::test(start_paused = true)]
async fn an_idle_worker_gives_its_slots_back_and_comes_again() {
    let stage = Stage::new(2).await;
    let worker = stage.start(settings("w1"), nothing_to_do()).await;
    settle(&[&worker], &[2]).await;
    let since = tokio::time::Instant::now();
    worker.diary.until(|diary| diary.count("released") >= 2).await;
    assert!(since.elapsed() >= TTL * 3 - Duration::from_secs(2), "{:?}", since.elapsed());
    stage.send(4).await;
    let waiting = async {
        while stage.lag().await > 0 {
            pass(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(TTL * 3, waiting).await.expect("it comes again");
    assert_eq!(worker.stop().await.messages, 4);
    assert!(stage.store.slot_status(None).await.unwrap().iter().all(|slot| slot.state.batch.is_none()));
}

/// One busy slot is work enough: the others are not given back, only to be claimed again.
#[tokio::test(start_paused = true)]
async fn a_worker_with_one_busy_slot_keeps_the_idle_ones() {
    let stage = Stage::new(2).await;
    let worker = stage.start(settings("w1"), nothing_to_do()).await;
    settle(&[&worker], &[2]).await;
    for _ in 0..10 {
        let message = NewMessage::new("x").unwrap().key(Key::new("always the same").unwrap());
        stage.store.send(&path().queue, message).await.unwrap();
        pass(TTL).await;
    }
    assert_eq!((worker.diary.count("acked"), worker.diary.count("released")), (10, 0), "{:?}", worker.diary.lines());
    worker.stop().await;
}

/// A batch that takes long is not idleness.
#[tokio::test(start_paused = true)]
async fn a_worker_with_a_long_batch_keeps_the_idle_slots() {
    let stage = Stage::new(2).await;
    stage.send(1).await;
    let (handler, mut shown) = shows();
    let worker = stage.start(settings("w1"), handler).await;
    let long = next(&mut shown).await;
    pass(TTL * 5).await;
    assert_eq!((worker.diary.held(), worker.diary.count("released")), (2, 0), "{:?}", worker.diary.lines());
    long.answer.send(Ok(Done::Ack)).unwrap();
    worker.stop().await;
}

/// It looks again when it is time to poll, and at once when a message comes, also while its slots are being given back.
#[tokio::test(start_paused = true)]
async fn an_idle_worker_comes_again_by_a_message_or_by_polling() {
    const POLL: Duration = Duration::from_secs(90);
    let stage = Stage::new(2).await;
    let worker = stage.start(settings("w1").poll(POLL), nothing_to_do()).await;
    settle(&[&worker], &[2]).await;
    worker.diary.until(|diary| diary.count("released") == 2).await;
    let since = tokio::time::Instant::now();
    worker.diary.until(|diary| diary.count("claimed") == 4).await;
    let took = since.elapsed();
    assert!((POLL - Duration::from_secs(1)..POLL + Duration::from_secs(1)).contains(&took), "{took:?}");

    worker.diary.until(|diary| diary.count("released") > 2).await;
    stage.store.sleepers.wake(&Topic::Messages(path().queue));
    let since = tokio::time::Instant::now();
    worker.diary.until(|diary| diary.count("claimed") == 6).await;
    assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
    worker.stop().await;
}

/// Slots that were asked back and are still at work are given back already, as far as shares are concerned.
#[tokio::test(start_paused = true)]
async fn a_worker_asks_no_more_slots_back_than_it_owes() {
    let stage = Stage::new(4).await;
    stage.send(4).await;
    let (handler, mut shown) = shows();
    let first = stage.start(settings("w1"), handler).await;
    let mut at_work = Vec::new();
    for _ in 0..4 {
        at_work.push(next(&mut shown).await);
    }
    let second = stage.start(settings("w2"), nothing_to_do()).await;
    pass(TTL * 2).await;
    for shown in at_work {
        shown.answer.send(Ok(Done::Ack)).unwrap();
    }
    settle(&[&first, &second], &[2, 2]).await;
    assert_eq!(first.diary.count("released"), 2, "{:?}", first.diary.lines());
    first.stop().await;
    second.stop().await;
}
