//! How long messages are kept: consumed ones for as long as told, unread ones by age and by bytes.

use std::time::Duration;

use fencepost_core::{Kind, Retention, Start};

use crate::Harness;
use crate::stage::{Stage, ids, path, refused, text, writes_nothing};

async fn retain(stage: &Stage, retention: Retention) {
    stage.store.set_retention(stage.queue(), retention).await.unwrap();
}

/// A queue begins with the documented retention, tells what was set, and setting the same again writes nothing.
pub async fn retention_is_told_as_it_was_set(h: &dyn Harness) {
    let stage = Stage::bare(h, 1).await;
    let begun = stage.queue_status().await.retention;
    assert_eq!(begun, Retention::default());
    assert_eq!((begun.consumed, begun.unread_bytes), (Duration::ZERO, 1 << 30));
    assert_eq!(begun.unread, Duration::from_secs(7 * 24 * 60 * 60));
    let consumed = Duration::from_micros(1_500_001);
    let set = Retention { consumed, unread: Retention::LONGEST, unread_bytes: i64::MAX as u64 };
    retain(&stage, set).await;
    assert_eq!(stage.through(h.another().await).queue_status().await.retention, set);
    writes_nothing(h, "the same retention", retain(&stage, set)).await;

    let long = Retention::LONGEST + Duration::from_micros(1);
    let bad = [
        ("retain_for", Retention { consumed: long, ..set }),
        ("retain_unread", Retention { unread: long, ..set }),
        ("retain_unread_bytes", Retention { unread_bytes: 1 << 63, ..set }),
    ];
    for (argument, retention) in bad {
        let call = stage.store.set_retention(stage.queue(), retention);
        let error = refused(writes_nothing(h, "a refused retention", call).await, Kind::InvalidInput);
        assert_eq!(error.fact("argument"), Some(argument));
    }
    let nowhere = path("nowhere", "x").queue;
    refused(stage.store.set_retention(&nowhere, set).await, Kind::NotFound);
    assert_eq!(stage.queue_status().await.retention, set);
}

/// Consumed messages stay for as long as the queue says after they were sent, and then go; what is not consumed stays.
pub async fn consumed_messages_stay_as_long_as_told(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    retain(&stage, Retention { consumed: Duration::from_secs(60), ..Retention::default() }).await;
    let early = stage.send(0, 3).await;
    stage.pass_seconds(30);
    stage.send(0, 2).await;
    let unread = stage.send(1, 1).await;
    stage.drain(0, 100).await;
    stage.pass(Duration::from_micros(29_999_999));
    assert_eq!(writes_nothing(h, "maintenance before the time", stage.maintain()).await, 0);
    assert_eq!(stage.queue_status().await.stored, 6);
    let all = stage.consumer("all", 1, Start::Earliest).await;
    assert_eq!(all.drain(0, 100).await.iter().flat_map(ids).take(3).collect::<Vec<_>>(), early, "it can be replayed");
    stage.pass(Duration::from_micros(1));
    assert!(stage.maintain().await >= 1);
    assert_eq!(stage.queue_status().await.stored, 3);
    stage.pass_seconds(3_600);
    assert!(stage.maintain().await >= 1);
    assert_eq!(stage.queue_status().await.stored, 1);
    assert_eq!(stage.drain(1, 100).await.iter().flat_map(ids).collect::<Vec<_>>(), unread);
}

/// A consumer that lags pins its queue: nothing that it has yet to see goes, however old.
pub async fn a_lagging_consumer_pins_its_queue(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let behind = stage.consumer("behind", 1, Start::Earliest).await;
    retain(&stage, Retention { unread: Duration::ZERO, unread_bytes: 0, ..Retention::default() }).await;
    let sent = stage.send(0, 3).await;
    stage.drain(0, 100).await;
    stage.pass_seconds(3_650 * 24 * 60 * 60);
    assert_eq!(stage.maintain().await, 0);
    assert_eq!(behind.drain(0, 100).await.iter().flat_map(ids).collect::<Vec<_>>(), sent);
    assert!(stage.maintain().await >= 1);
    assert_eq!(stage.queue_status().await.stored, 0);
}

/// In a queue without consumers messages go by age.
pub async fn unread_messages_go_by_age(h: &dyn Harness) {
    let stage = Stage::bare(h, 1).await;
    stage.send(0, 3).await;
    stage.pass_seconds(24 * 60 * 60);
    let later = stage.send(0, 2).await;
    stage.pass(Duration::from_secs(6 * 24 * 60 * 60) - Duration::from_micros(1));
    assert_eq!(stage.maintain().await, 0);
    stage.pass(Duration::from_micros(1));
    assert!(stage.maintain().await >= 1);
    assert_eq!(stage.queue_status().await.stored, 2);
    stage.create(Start::Earliest).await;
    assert_eq!(stage.drain(0, 100).await.iter().flat_map(ids).collect::<Vec<_>>(), later);
}

/// In a queue without consumers the latest messages stay, as far as their payloads fit the bytes.
pub async fn unread_messages_go_by_bytes(h: &dyn Harness) {
    let stage = Stage::bare(h, 1).await;
    let mut sent = Vec::new();
    for _ in 0..5 {
        sent.push(stage.put(text(&"x".repeat(100))).await);
    }
    retain(&stage, Retention { unread_bytes: 500, ..Retention::default() }).await;
    assert_eq!(stage.maintain().await, 0, "they fit exactly");
    retain(&stage, Retention { unread_bytes: 299, ..Retention::default() }).await;
    assert!(stage.maintain().await >= 1);
    assert_eq!(stage.queue_status().await.stored, 2);
    stage.create(Start::Earliest).await;
    assert_eq!(stage.drain(0, 100).await.iter().flat_map(ids).collect::<Vec<_>>(), sent[3..]);
}

/// What was removed from the log comes again all the same when it had failed or is parked, and stays with its open batch.
pub async fn what_was_set_aside_outlives_the_log(h: &dyn Harness) {
    let stage = Stage::pausing(h, 1).await;
    let sent = stage.send(0, 3).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let batch = stage.receive(&token, 100).await;
    stage.nack(&token, &batch, sent[0], 60).await;
    stage.ack(&token, &batch).await;
    stage.maintain().await;
    let told = stage.status(0).await;
    assert_eq!((told.lag, told.retrying, told.parked), (3, 1, 2));
    stage.pass_seconds(60);
    let head = stage.receive(&token, 100).await;
    assert_eq!((ids(&head), &head.messages[0].payload), (sent[..1].to_vec(), &batch.messages[0].payload));
    stage.maintain().await;
    stage.store.abandon_slot(&token).await.unwrap();
    let heir = stage.claim("w2", 0, 600).await.token;
    assert_eq!(ids(&stage.receive(&heir, 100).await), sent[..1]);
    assert_eq!(stage.ack(&heir, &head).await, 1);
    let rest = stage.receive(&heir, 100).await;
    assert_eq!(ids(&rest), sent[1..]);
    assert_eq!(rest.messages[1].payload, batch.messages[2].payload);
}

/// A message that was held back for longer than unread messages are kept is as old as when it came.
pub async fn a_message_held_back_for_long_is_kept_when_it_comes(h: &dyn Harness) {
    let stage = Stage::bare(h, 1).await;
    let day = Duration::from_secs(24 * 60 * 60);
    let held_back = text("held back").delay(fencepost_core::Delay::new(day * 8).unwrap());
    let id = stage.store.send(stage.queue(), held_back).await.unwrap();
    stage.pass(day * 8);
    stage.maintain().await;
    let later = stage.send(0, 1).await;
    stage.maintain().await;
    assert_eq!(stage.queue_status().await.stored, 2);
    stage.create(Start::Earliest).await;
    let found: Vec<_> = stage.drain(0, 100).await.iter().flat_map(ids).collect();
    assert_eq!(found, [id, later[0]]);
}
