//! Acking a batch up to one of its messages: what is before is finished, the rest stays open as the same batch.

use std::time::Duration;

use fencepost_core::{BatchId, Kind, MessageId, Release};

use crate::Harness;
use crate::stage::{Stage, attempts, ids, refused, writes_nothing};

/// The rest stays open as the same batch, for the owner and for the heir, and what is acked does not come again.
pub async fn ack_through_leaves_the_rest_open(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let sent = stage.send(0, 5).await;
    let token = stage.claim("w1", 0, 10).await.token;
    let batch = stage.receive(&token, 4).await;
    let (start, other) = (stage.state(0).await.cursor, stage.status(1).await);
    assert_eq!(stage.store.ack_through(&token, batch.id, sent[1]).await.unwrap(), 2);
    let told = stage.status(0).await;
    assert!(told.state.cursor > start);
    let open = told.state.batch.unwrap();
    assert_eq!((told.lag, open.id, open.size, told.state.last_acked), (3, batch.id, 2, None));
    let rest = stage.receive(&token, 100).await;
    assert_eq!((rest.id, ids(&rest), rest.deliveries), (batch.id, sent[2..4].to_vec(), 1));
    refused(stage.store.release_slot(&token).await, Kind::OpenBatch);

    stage.pass_seconds(10);
    let heir = stage.claim("w2", 0, 10).await.token;
    let inherited = stage.receive(&heir, 100).await;
    assert_eq!((inherited.id, ids(&inherited), inherited.deliveries), (batch.id, sent[2..4].to_vec(), 2));
    assert_eq!(stage.store.ack_through(&heir, batch.id, sent[2]).await.unwrap(), 1);
    assert_eq!(stage.ack(&heir, &inherited).await, 1, "the count is of what was left");
    assert_eq!(ids(&stage.receive(&heir, 100).await), sent[4..]);
    assert_eq!(stage.status(1).await, other);
}

/// Through the last message it is an ack: the batch is finished, and acked again it answers 0.
pub async fn ack_through_the_last_message_is_an_ack(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.send(0, 3).await;
    let token = stage.claim("w1", 0, 30).await.token;
    let batch = stage.receive(&token, 100).await;
    assert_eq!(stage.store.ack_through(&token, batch.id, sent[2]).await.unwrap(), 3);
    let told = stage.status(0).await;
    assert_eq!((told.state.batch, told.state.last_acked, told.lag), (None, Some(batch.id), 0));
    for message in &sent {
        let again = stage.store.ack_through(&token, batch.id, *message);
        assert_eq!(writes_nothing(h, "an ack of the batch acked last", again).await.unwrap(), 0);
    }
    assert_eq!(stage.store.ack(&token, batch.id).await.unwrap(), 0);
    assert_eq!(stage.store.release_slot(&token).await.unwrap(), Release::Released);
}

/// Through a message that was acked before it answers 0 and changes nothing.
pub async fn ack_through_what_was_acked_is_zero(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.send(0, 4).await;
    let token = stage.claim("w1", 0, 30).await.token;
    let batch = stage.receive(&token, 100).await;
    stage.store.ack_through(&token, batch.id, sent[1]).await.unwrap();
    let before = stage.status(0).await;
    for message in &sent[..2] {
        let again = stage.store.ack_through(&token, batch.id, *message);
        assert_eq!(writes_nothing(h, "an ack of what was acked", again).await.unwrap(), 0);
    }
    assert_eq!(stage.status(0).await, before);
    assert_eq!(ids(&stage.receive(&token, 100).await), sent[2..]);
}

/// Through a message that is not of the batch it is not found; in another batch it is a conflict; nothing changes.
pub async fn ack_through_what_is_not_of_the_batch_is_refused(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let (sent, others) = (stage.send(0, 3).await, stage.send(1, 1).await);
    let token = stage.claim("w1", 0, 30).await.token;
    let never = BatchId::new(999).unwrap();
    let error = refused(stage.store.ack_through(&token, never, sent[0]).await, Kind::Conflict);
    assert_eq!(error.fact("open_batch_id"), Some("none"));
    let batch = stage.receive(&token, 2).await;
    let before = (stage.status(0).await, stage.status(1).await);
    for message in [sent[2], others[0], MessageId::MAX] {
        let call = stage.store.ack_through(&token, batch.id, message);
        let error = refused(writes_nothing(h, "a refusal", call).await, Kind::NotFound);
        assert_eq!(error.fact("message_id"), Some(message.to_string().as_str()));
        assert_eq!(error.operation(), Some("ack_through"));
    }
    let call = stage.store.ack_through(&token, never, sent[0]);
    let error = refused(writes_nothing(h, "a conflict", call).await, Kind::Conflict);
    assert_eq!(error.fact("open_batch_id"), Some(batch.id.to_string().as_str()));
    assert_eq!((stage.status(0).await, stage.status(1).await), before);
    assert_eq!(stage.ack(&token, &batch).await, 2);
}

/// What was decided takes effect up to the message and is kept after it; the count leaves it out.
pub async fn ack_through_makes_dispositions_true_up_to_its_message(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.send(0, 6).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let batch = stage.receive(&token, 100).await;
    stage.nack(&token, &batch, sent[0], 60).await;
    stage.give_up(&token, &batch, sent[2], "x").await;
    stage.nack(&token, &batch, sent[3], 60).await;
    stage.give_up(&token, &batch, sent[4], "x").await;
    assert_eq!(stage.store.ack_through(&token, batch.id, sent[2]).await.unwrap(), 1);
    assert_eq!(stage.dead_ids().await, [sent[2]]);
    let told = stage.status(0).await;
    assert_eq!((told.lag, told.state.batch.map(|open| open.size)), (4, Some(1)));
    let rest = stage.receive(&token, 100).await;
    assert_eq!((rest.id, ids(&rest)), (batch.id, vec![sent[5]]));

    // The last decision counts up to the ack, also for a message whose batch is acked in part.
    stage.snooze(&token, &batch, sent[4], 60).await;
    assert_eq!(stage.ack(&token, &batch).await, 1);
    assert_eq!(stage.dead_ids().await, [sent[2]]);
    stage.pass_seconds(60);
    let again = stage.receive(&token, 100).await;
    assert_eq!((ids(&again), attempts(&again)), (vec![sent[0], sent[3], sent[4]], vec![2, 2, 1]));
}

/// When everything after the message has a disposition, the batch is open without messages, and settles at the next receive.
pub async fn ack_through_may_leave_only_what_was_decided(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.send(0, 4).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let batch = stage.receive(&token, 3).await;
    stage.nack(&token, &batch, sent[2], 600).await;
    assert_eq!(stage.store.ack_through(&token, batch.id, sent[1]).await.unwrap(), 2);
    let open = stage.state(0).await.batch.unwrap();
    assert_eq!((open.id, open.size), (batch.id, 0));
    refused(stage.store.release_slot(&token).await, Kind::OpenBatch);
    assert_eq!(ids(&stage.receive(&token, 100).await), sent[3..]);
    let told = stage.status(0).await;
    assert_eq!((told.lag, told.retrying), (2, 1));
}

/// Messages that come again are acked in part by their place in the log, like any other.
pub async fn ack_through_goes_by_position_also_among_what_came_again(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.send(0, 3).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let batch = stage.receive(&token, 100).await;
    for id in [sent[0], sent[2]] {
        stage.nack(&token, &batch, id, 0).await;
    }
    stage.ack(&token, &batch).await;
    let fresh = stage.send(0, 2).await;
    let mixed = stage.receive(&token, 100).await;
    assert_eq!(ids(&mixed), [sent[0], sent[2], fresh[0], fresh[1]]);
    assert_eq!(stage.store.ack_through(&token, mixed.id, sent[0]).await.unwrap(), 1);
    let rest = stage.receive(&token, 100).await;
    assert_eq!((rest.id, ids(&rest)), (mixed.id, vec![sent[2], fresh[0], fresh[1]]));
    assert_eq!(stage.store.ack_through(&token, mixed.id, fresh[0]).await.unwrap(), 2);
    assert_eq!(stage.store.ack_through(&token, mixed.id, fresh[1]).await.unwrap(), 1);
    assert_eq!(stage.status(0).await.lag, 0);
}

/// A16: an ack of a part past half the TTL renews, too.
pub async fn a16_ack_through_past_half_the_ttl_renews(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.send(0, 2).await;
    let grant = stage.claim("w1", 0, 10).await;
    let batch = stage.receive(&grant.token, 100).await;
    stage.pass_seconds(6);
    assert_eq!(stage.store.ack_through(&grant.token, batch.id, sent[0]).await.unwrap(), 1);
    let expires_at = stage.state(0).await.owner.unwrap().expires_at;
    assert_eq!(expires_at, grant.expires_at + Duration::from_secs(6));
    stage.pass_seconds(4);
    assert_eq!(stage.try_claim("w2", 0, 10).await, None);
}
