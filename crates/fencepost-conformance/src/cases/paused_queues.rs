//! Paused queues: they take messages and hand out nothing new; what is open can be finished.

use std::time::Duration;

use fencepost_core::{Kind, Start, Topic};

use crate::Harness;
use crate::stage::{Stage, delay, ids, path, refused, size, text, woken, writes_nothing};

/// A paused queue accepts messages and hands out nothing new, to any consumer; resumed, it hands out everything in order.
pub async fn a_paused_queue_takes_messages_and_hands_out_none(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let other = stage.consumer("shipping", 1, Start::Earliest).await;
    let mut sent = stage.send(0, 2).await;
    assert!(stage.store.pause_queue(stage.queue()).await.unwrap());
    assert!(stage.queue_status().await.paused);
    sent.extend(stage.send(0, 2).await);
    let token = stage.claim("w1", 0, 600).await.token;
    let others = other.claim("w1", 0, 600).await.token;
    let before = stage.status(0).await;
    writes_nothing(h, "a receive from a paused queue", async {
        assert_eq!(stage.try_receive(&token, 100).await, None);
        assert_eq!(other.try_receive(&others, 100).await, None);
        assert_eq!(stage.through(h.another().await).try_receive(&token, 100).await, None);
    })
    .await;
    assert_eq!(stage.status(0).await, before);
    assert_eq!(before.lag, 4);
    assert!(stage.store.resume_queue(stage.queue()).await.unwrap());
    assert!(!stage.queue_status().await.paused);
    for (stage, token) in [(&stage, &token), (&other, &others)] {
        assert_eq!(ids(&stage.receive(token, 100).await), sent);
    }
}

/// A batch that was open when its queue was paused comes again, can be acked in part, nacked and finished, also by its heir; nothing
/// new follows, and nothing that comes again.
pub async fn an_open_batch_of_a_paused_queue_can_be_finished(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.send(0, 5).await;
    let owner = stage.claim("w1", 0, 1).await.token;
    let batch = stage.receive(&owner, 4).await;
    stage.store.pause_queue(stage.queue()).await.unwrap();
    assert_eq!(stage.receive(&owner, 100).await, batch);
    assert_eq!(stage.store.ack_through(&owner, batch.id, sent[0]).await.unwrap(), 1);
    stage.pass_seconds(1);
    let heir = stage.claim("w2", 0, 600).await.token;
    let inherited = stage.receive(&heir, 100).await;
    assert_eq!((inherited.id, ids(&inherited)), (batch.id, sent[1..4].to_vec()));
    stage.nack(&heir, &inherited, sent[1], 0).await;
    let both = stage.store.ack_receive(&heir, batch.id, size(100)).await.unwrap();
    assert_eq!((both.acked, both.next), (2, None));
    assert_eq!(stage.try_receive(&heir, 100).await, None);
    stage.store.resume_queue(stage.queue()).await.unwrap();
    assert_eq!(ids(&stage.receive(&heir, 100).await), [sent[1], sent[4]]);
}

/// A batch of which nothing is left settles in a paused queue, too, and the slot can be given back.
pub async fn a_batch_without_messages_settles_in_a_paused_queue(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.send(0, 2).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let batch = stage.receive(&token, 1).await;
    stage.nack(&token, &batch, sent[0], 0).await;
    stage.store.pause_queue(stage.queue()).await.unwrap();
    assert_eq!(stage.try_receive(&token, 100).await, None);
    let told = stage.status(0).await;
    assert_eq!((told.state.batch, told.state.last_acked, told.lag), (None, Some(batch.id), 2));
    stage.store.release_slot(&token).await.unwrap();
}

/// Pausing what is paused and resuming what is not change nothing and say so; a queue that is not there is not found.
pub async fn pausing_and_resuming_say_whether_they_changed_something(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let queue = stage.queue();
    assert!(!writes_nothing(h, "a resume", stage.store.resume_queue(queue)).await.unwrap());
    assert!(stage.store.pause_queue(queue).await.unwrap());
    assert!(!writes_nothing(h, "a second pause", stage.store.pause_queue(queue)).await.unwrap());
    assert!(stage.store.resume_queue(queue).await.unwrap());
    let nowhere = path("nowhere", "x").queue;
    refused(stage.store.pause_queue(&nowhere).await, Kind::NotFound);
    refused(stage.store.resume_queue(&nowhere).await, Kind::NotFound);
}

/// Maintenance goes on in a paused queue: what is due gets its place, what is consumed goes; and a queue that was dropped while it
/// was paused is made again not paused.
pub async fn a_paused_queue_is_maintained(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    stage.send(0, 2).await;
    stage.drain(0, 100).await;
    let late = stage.put(text("x").delay(delay(10))).await;
    stage.store.pause_queue(stage.queue()).await.unwrap();
    stage.pass(Duration::from_secs(10));
    assert!(stage.maintain().await >= 2);
    let status = stage.queue_status().await;
    assert_eq!((status.stored, status.delayed), (1, 0));
    stage.store.resume_queue(stage.queue()).await.unwrap();
    assert_eq!(stage.drain(0, 100).await.iter().flat_map(ids).collect::<Vec<_>>(), [late]);
    stage.store.pause_queue(stage.queue()).await.unwrap();
    stage.store.drop_queue(stage.queue(), true).await.unwrap();
    assert!(!Stage::new(h, 1).await.queue_status().await.paused);
}

/// Resuming wakes who waits for messages.
pub async fn resuming_wakes_who_waits_for_messages(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    stage.store.pause_queue(stage.queue()).await.unwrap();
    let mut sleeper = stage.store.wakes(&Topic::Messages(stage.queue().clone()));
    stage.store.resume_queue(stage.queue()).await.unwrap();
    woken(&mut sleeper).await;
}
