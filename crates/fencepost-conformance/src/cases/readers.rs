//! Reading a queue without owning anything: from any position, in pages, and without a trace.

use std::time::Duration;

use fencepost_core::{Kind, Message, MessageId, Page, Start};

use crate::Harness;
use crate::stage::{Stage, delay, refused, size, text, writes_nothing};

async fn read(stage: &Stage, from: Start, max: i64) -> Page {
    stage.store.read(stage.queue(), from, size(max)).await.unwrap()
}

fn page_ids(page: &Page) -> Vec<MessageId> {
    page.messages.iter().map(|message| message.id).collect()
}

/// Pages follow each other without gaps and end with an empty one; what is sent later comes from where the last one ended.
pub async fn pages_follow_each_other_to_the_end(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let mut sent = stage.send(0, 4).await;
    sent.extend(stage.send(1, 3).await);
    let (mut from, mut seen) = (Start::Earliest, Vec::new());
    loop {
        let page = writes_nothing(h, "a read", read(&stage, from, 3)).await;
        from = Start::After(page.next.clone());
        if page.messages.is_empty() {
            break;
        }
        assert!(page.messages.len() <= 3);
        assert_eq!(page.messages.last().map(|message| message.position), Some(page.next.position()));
        seen.extend(page_ids(&page));
    }
    assert_eq!(seen, sent);
    let later = stage.send(0, 2).await;
    assert_eq!(page_ids(&read(&stage, from, 100).await), later);
}

/// A48: a queue is read before any consumer exists, from the earliest message, the latest, a time, an id and a position.
pub async fn a48_a_queue_without_consumers_is_read_from_anywhere(h: &dyn Harness) {
    let stage = Stage::bare(h, 1).await;
    let first = stage.send(0, 3).await;
    stage.pass_seconds(60);
    let now = stage.store.now().await.unwrap();
    let second = stage.send(0, 2).await;
    let all = [first.clone(), second.clone()].concat();
    let page = read(&stage, Start::Earliest, 100).await;
    assert_eq!(page_ids(&page), all);
    assert_eq!(page_ids(&read(&stage, Start::At(now), 100).await), second);
    assert_eq!(page_ids(&read(&stage, Start::AfterId(first[1].get()), 100).await), all[2..]);
    assert_eq!(page_ids(&read(&stage, Start::After(page.messages[3].position.into()), 100).await), all[4..]);
    let end = read(&stage, Start::Latest, 100).await;
    assert_eq!(end.messages, []);
    let third = stage.send(0, 1).await;
    assert_eq!(page_ids(&read(&stage, Start::After(end.next), 100).await), third);
}

/// A read shows messages as they were sent, whoever has handled them, and disturbs nobody.
pub async fn a_read_shows_every_message_as_it_was_sent(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let key = stage.keys(0, 1).remove(0);
    let sent_at = stage.store.now().await.unwrap();
    let message = text("x").key(key.clone()).header("name", "value").unwrap();
    let id = stage.put(message.clone()).await;
    let dead = stage.bury(0, 1).await;
    let open = stage.send(0, 1).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let batch = stage.receive(&token, 100).await;
    stage.nack(&token, &batch, open[0], 0).await;
    let before = stage.status(0).await;
    let page = writes_nothing(h, "a read", read(&stage, Start::Earliest, 100)).await;
    assert_eq!(page_ids(&page), [vec![id], dead, open].concat());
    let expected = Message {
        id,
        position: page.messages[0].position,
        key: Some(key),
        kind: message.get_kind().clone(),
        payload: message.payload().to_vec(),
        headers: message.headers().clone(),
        attempt: 1,
        deliveries: 1,
        created_at: sent_at,
    };
    assert_eq!(page.messages[0], expected);
    assert!(page.messages.iter().all(|message| (message.attempt, message.deliveries) == (1, 1)));
    assert_eq!(stage.status(0).await, before);
}

/// What was removed is gone: a read from before it says so with the first position there is, and earliest begins there.
pub async fn a_read_from_before_what_was_removed_is_refused(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.send(0, 5).await;
    let page = read(&stage, Start::Earliest, 2).await;
    let all = read(&stage, Start::Earliest, 100).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let batch = stage.receive(&token, 3).await;
    stage.ack(&token, &batch).await;
    stage.maintain().await;
    for from in [Start::After(page.next.clone()), Start::AfterId(0)] {
        let call = stage.store.read(stage.queue(), from, size(2));
        let error = refused(writes_nothing(h, "a refused read", call).await, Kind::PositionGone);
        let first = all.messages[3].position.to_string();
        assert_eq!((error.fact("first_position"), error.operation()), (Some(first.as_str()), Some("read")));
    }
    assert_eq!(page_ids(&read(&stage, Start::Earliest, 100).await), sent[3..]);
    assert_eq!(page_ids(&read(&stage, Start::After(all.messages[2].position.into()), 100).await), sent[3..]);
    let rest = stage.receive(&token, 100).await;
    stage.ack(&token, &rest).await;
    stage.maintain().await;
    let error = refused(stage.store.read(stage.queue(), Start::After(page.next), size(2)).await, Kind::PositionGone);
    assert_eq!(error.fact("first_position"), Some("none"), "nothing is there");
    assert_eq!(read(&stage, Start::After(all.next), 100).await.messages, []);
}

/// Expired messages are left out, and only the end makes an empty page; delayed ones come once they are due.
pub async fn a_read_leaves_out_what_expired_and_waits_for_what_is_due(h: &dyn Harness) {
    let stage = Stage::bare(h, 1).await;
    let mut sent = Vec::new();
    let delayed = stage.put(text("later").delay(delay(60))).await;
    for n in 0..6 {
        let message = text("x");
        let message = if n % 2 == 0 { message.expires_in(delay(10)) } else { message };
        sent.push(stage.put(message).await);
    }
    assert_eq!(page_ids(&read(&stage, Start::Earliest, 100).await), sent);
    stage.pass_seconds(10);
    let (mut from, mut seen) = (Start::Earliest, Vec::new());
    loop {
        let page = read(&stage, from, 1).await;
        from = Start::After(page.next.clone());
        if page.messages.is_empty() {
            break;
        }
        seen.extend(page_ids(&page));
    }
    assert_eq!(seen, [sent[1], sent[3], sent[5]]);
    stage.pass(Duration::from_secs(50));
    stage.maintain().await;
    assert_eq!(page_ids(&read(&stage, from, 100).await), [delayed]);
}

/// A read by id shows nothing with that id or a lower one, also not what became due later.
pub async fn a_read_from_an_id_shows_higher_ids_only(h: &dyn Harness) {
    let stage = Stage::bare(h, 1).await;
    let delayed = stage.put(text("later").delay(delay(60))).await;
    let sent = stage.send(0, 2).await;
    stage.pass_seconds(60);
    stage.maintain().await;
    assert_eq!(page_ids(&read(&stage, Start::AfterId(sent[0].get()), 100).await), sent[1..]);
    assert_eq!(page_ids(&read(&stage, Start::AfterId(0), 100).await), [sent, vec![delayed]].concat());
}

/// Pages from the beginning come to their end also when one slot is far ahead of another and what it consumed is to be removed; a
/// drained queue has an empty page from the beginning, and a place to go on from.
pub async fn reading_on_from_the_beginning_is_never_refused(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let mut sent = Vec::new();
    for _ in 0..3 {
        sent.extend(stage.send(0, 1).await);
        sent.extend(stage.send(1, 1).await);
    }
    stage.drain(0, 100).await;
    stage.maintain().await;
    let (mut from, mut seen) = (Start::Earliest, Vec::new());
    loop {
        let page = read(&stage, from, 2).await;
        if page.messages.is_empty() {
            break;
        }
        seen.extend(page_ids(&page));
        from = Start::After(page.next.clone());
    }
    assert_eq!(seen, sent[1..], "what all have consumed at the beginning is gone, and nothing in between");
    stage.drain(1, 100).await;
    stage.maintain().await;
    let end = read(&stage, Start::Earliest, 2).await;
    assert_eq!(end.messages, []);
    let later = stage.send(0, 1).await;
    assert_eq!(page_ids(&read(&stage, Start::After(end.next), 2).await), later);
}

/// A read from an id passes over lower ids that became due later, however many pages of them there are.
pub async fn a_read_from_an_id_passes_over_pages_of_lower_ids(h: &dyn Harness) {
    let stage = Stage::bare(h, 1).await;
    let minute = delay(60);
    for _ in 0..6 {
        stage.store.send(stage.queue(), text("held back").delay(minute)).await.unwrap();
    }
    let last = stage.send(0, 1).await[0];
    stage.pass_seconds(60);
    stage.maintain().await;
    assert_eq!(read(&stage, Start::AfterId(last.get()), 2).await.messages, []);
    let later = stage.send(0, 1).await;
    assert_eq!(page_ids(&read(&stage, Start::AfterId(last.get()), 2).await), later);
}
