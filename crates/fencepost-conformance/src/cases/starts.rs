//! Where a consumer begins: exactly where it was asked to, with all its slots at one position, or not at all.

use std::time::Duration;

use fencepost_core::{CreateConsumer, Kind, MessageId, Position, Start};

use crate::Harness;
use crate::stage::{Stage, count, delay, ids, path, refused, size, text, writes_nothing};

/// Makes a consumer of four slots that begins so, checks that its slots are at one position, and returns all that it gets, by id.
async fn gets(stage: &Stage, name: &str, start: Start) -> Vec<MessageId> {
    let late = stage.consumer(name, 4, start.clone()).await;
    let mut cursors = Vec::new();
    for slot in 0..4 {
        cursors.push(late.state(slot).await.cursor);
    }
    assert!(cursors.iter().all(|cursor| *cursor == cursors[0]), "{cursors:?} from {start:?}");
    let mut seen = Vec::new();
    for slot in 0..4 {
        seen.extend(late.drain(slot, 3).await.iter().flat_map(ids));
    }
    seen.sort_unstable();
    seen
}

/// Three messages to each of two slots, and all of it once more an hour later.
async fn two_hours(stage: &Stage) -> Vec<MessageId> {
    let mut sent = stage.send(0, 3).await;
    sent.extend(stage.send(1, 3).await);
    stage.pass_seconds(3_600);
    sent.extend(stage.send(0, 3).await);
    sent.extend(stage.send(1, 3).await);
    sent
}

/// A39: from a time a consumer gets what was sent then or later.
pub async fn a39_a_consumer_from_a_time_gets_what_was_sent_since(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let begun = stage.store.now().await.unwrap();
    let sent = two_hours(&stage).await;
    let hour = Duration::from_secs(3_600);
    assert_eq!(gets(&stage, "all", Start::At(begun)).await, sent);
    assert_eq!(gets(&stage, "second", Start::At(begun + hour)).await, sent[6..]);
    assert_eq!(gets(&stage, "between", Start::At(begun + hour / 2)).await, sent[6..]);
    let future = stage.consumer("future", 4, Start::At(begun + 2 * hour)).await;
    assert_eq!(future.status(0).await.lag + future.status(1).await.lag, 0);
    assert_eq!(stage.status(0).await.lag, 6, "the other consumer is where it was");
}

/// A39: from an id a consumer gets the messages of higher ids, and nothing with this one or a lower one, also not when it becomes
/// due later.
pub async fn a39_a_consumer_from_an_id_gets_higher_ids_only(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let delayed = stage.put(text("x").delay(delay(7_200))).await;
    let sent = two_hours(&stage).await;
    assert_eq!(gets(&stage, "all", Start::AfterId(0)).await, sent);
    let late = stage.consumer("late", 1, Start::AfterId(sent[3].get())).await;
    assert_eq!(late.drain(0, 100).await.iter().flat_map(ids).collect::<Vec<_>>(), sent[4..]);
    stage.pass_seconds(7_200);
    stage.maintain().await;
    let fresh = stage.send(0, 1).await;
    assert_eq!(late.drain(0, 100).await.iter().flat_map(ids).collect::<Vec<_>>(), fresh, "`{delayed}` is a lower id");
    assert_eq!(late.status(0).await.lag, 0);
    assert_eq!(gets(&stage, "again", Start::AfterId(0)).await.len(), 14);
}

/// A39: from an id that no message has yet a consumer gets what comes after that id.
pub async fn a39_a_consumer_from_an_id_to_come_waits_for_it(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.send(0, 3).await;
    let late = stage.consumer("late", 1, Start::AfterId(sent[2].get() + 2)).await;
    let mut higher = Vec::new();
    while higher.len() < 3 {
        let id = stage.put(text("x")).await;
        higher.extend((id.get() > sent[2].get() + 2).then_some(id));
    }
    assert_eq!(late.drain(0, 100).await.iter().flat_map(ids).collect::<Vec<_>>(), higher);
}

/// A39: from a position that a message told a consumer gets what comes after it.
pub async fn a39_a_consumer_from_a_position_gets_what_comes_after(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let sent = two_hours(&stage).await;
    let page = stage.store.read(stage.queue(), Start::Earliest, size(100)).await.unwrap();
    assert_eq!(page.messages.len(), 12);
    let told = page.messages[4].position;
    assert_eq!(gets(&stage, "late", Start::After(told.into())).await, sent[5..]);
    assert_eq!(gets(&stage, "end", Start::After(page.next)).await, []);
    let text = told.to_string();
    assert_eq!(gets(&stage, "parsed", Start::After(text.parse().unwrap())).await, sent[5..]);
    assert_eq!(text.parse::<Start>().unwrap(), Start::After(told.into()), "a position is written as it is shown");
}

/// A39: a start before what was removed is refused with the first position there is, and makes nothing; earliest takes what is there.
pub async fn a39_a_start_before_what_was_removed_is_refused(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.send(0, 6).await;
    let page = stage.store.read(stage.queue(), Start::Earliest, size(100)).await.unwrap();
    let token = stage.claim("w1", 0, 600).await.token;
    let batch = stage.receive(&token, 4).await;
    stage.ack(&token, &batch).await;
    stage.maintain().await;
    assert_eq!(stage.queue_status().await.stored, 2);
    let positions: Vec<Position> = page.messages.iter().map(|message| message.position).collect();

    for start in [Start::AfterId(0), Start::AfterId(sent[1].get()), Start::After(positions[2].into())] {
        let request = CreateConsumer::ordered(path("orders", "late"), count(2)).start(start);
        let create = writes_nothing(h, "a refused create", stage.store.create_consumer(&request)).await;
        let error = refused(create, Kind::PositionGone);
        assert_eq!(error.fact("first_position"), Some(positions[4].to_string().as_str()), "{error:?}");
        assert_eq!(error.operation(), Some("create_consumer"));
    }
    assert_eq!(stage.store.consumer_status(None).await.unwrap().len(), 1);
    assert_eq!(gets(&stage, "earliest", Start::Earliest).await, sent[4..]);
    assert_eq!(gets(&stage, "first", Start::After(positions[3].into())).await, sent[4..]);
    assert_eq!(gets(&stage, "id", Start::AfterId(sent[3].get())).await, sent[4..]);
}

/// A consumer that exists is the same wherever it is asked to begin: where it begins is no setting.
pub async fn a_start_is_no_setting_of_a_consumer(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    stage.send(0, 2).await;
    let before = stage.status(0).await;
    for start in [Start::Latest, Start::AfterId(1), Start::At(stage.store.now().await.unwrap())] {
        let again = writes_nothing(h, "a create of what exists", stage.create(start)).await;
        assert_eq!(again, fencepost_core::Created::Existed);
    }
    assert_eq!(stage.status(0).await, before);
}
